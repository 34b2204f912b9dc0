"""Invoices by mail: what is new is read once, nothing is changed in the mailbox unless told, and what goes wrong is written down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from kontobahn.outbound import Rule
from kontobahn.payables import imap, mailbox, store
from kontobahn.payables.mailbox import Fetched, Mailboxes
from simulators.imap_server import Mailbox
from tests.api.payables.test_decisions import People
from tests.harness import Service
from tests.mailbox_builder import HOST, Reader, forwarded, mail, mail_server
from tests.received_invoices import OTHER_IBAN, Inbox, as_xml, paid_to

PDF = b"%PDF-1.4 nothing to read"


@pytest.fixture
def server(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mailbox]:
    with mail_server(service, monkeypatch, tmp_path) as made:
        yield made


@pytest.fixture
def inbox(service: Service) -> Inbox:
    return Inbox(service)


@pytest.fixture
def reader(service: Service, inbox: Inbox, server: Mailbox) -> Reader:
    return Reader(service, inbox.owner, server)


def test_an_invoice_comes_by_mail_once(reader: Reader, inbox: Inbox) -> None:
    reader.server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    assert reader.fetch() == Fetched(1, 1)
    (payable,) = reader.payables()
    assert (payable["number"], payable["status"]) == ("R-7", "to_release")
    assert inbox.service.get(f"/v2/payables/{payable['id']}/file", inbox.owner.key).content == as_xml()
    history = inbox.service.get(f"/v2/payables/{payable['id']}/history", inbox.owner.key).json()["data"]
    assert [(step["actor"], step["comment"]) for step in history] == [
        ("mailbox", "Rösterei Hafen <rechnung@roesterei.example> · Ihre Rechnung")
    ]
    assert reader.fetch() == Fetched(0, 0)
    assert len(reader.server.said("BODY.PEEK")) == 1
    assert inbox.send().status_code == 200
    # Nothing but reading: the folder was opened for reading only.
    assert not reader.server.said("SELECT")
    assert reader.server.uids() == [1]


@pytest.mark.either_engine
def test_an_attachment_is_an_invoice_by_its_type_or_by_its_name(reader: Reader) -> None:
    message = mail(("logo.png", b"png"))
    message.add_attachment(as_xml(), maintype="application", subtype="octet-stream", filename="rechnung.XML")
    message.add_attachment(as_xml(number="R-8"), maintype="application", subtype="xml")
    reader.server.deliver(bytes(message))
    assert reader.fetch() == Fetched(1, 2)
    assert sorted(one["number"] for one in reader.payables()) == ["R-7", "R-8"]


@pytest.mark.either_engine
def test_a_reader_that_is_killed_after_taking_a_file_reads_the_mail_again_and_has_one_invoice(
    reader: Reader, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.server.deliver(bytes(mail(("rechnung.xml", as_xml()))))

    def killed(*args: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(mailbox, "_remember", killed)
        patch.setattr(mailbox, "_finish", killed)
        with pytest.raises(RuntimeError, match="killed"):
            reader.fetch()
    assert reader.row.last_number == 0
    assert len(reader.payables()) == 1
    assert reader.fetch().trouble == "busy"
    service.clock.advance(seconds=600)
    assert reader.fetch() == Fetched(1, 0)
    assert len(reader.payables()) == 1
    assert reader.row.last_number == 1


@pytest.mark.either_engine
def test_the_same_mail_again_and_a_folder_with_new_numbers_give_one_invoice(reader: Reader) -> None:
    content = bytes(mail(("rechnung.xml", as_xml())))
    reader.server.deliver(content)
    reader.server.deliver(content)
    assert reader.fetch() == Fetched(2, 1)
    reader.server.validity += 1
    assert reader.fetch() == Fetched(2, 0)
    assert len(reader.payables()) == 1
    assert reader.row.validity == reader.server.validity


@pytest.mark.either_engine
def test_a_forwarded_mail_is_looked_into_and_a_pdf_beside_its_xml_stands_beside_the_invoice(
    reader: Reader, service: Service
) -> None:
    reader.server.deliver(bytes(forwarded(mail(("lesbar.pdf", PDF), ("rechnung.xml", as_xml()), ("bild.png", b"PNG")))))
    assert reader.fetch() == Fetched(1, 1)
    assert service.db.read_now(store.latest_unread, reader.owner.id, 10) == []
    (row,) = service.db.read_now(mailbox.mails, reader.owner.id, 10)
    assert (row.subject, row.invoices, row.unread, row.trouble) == ("WG: Rechnung", 1, 0, "")


@pytest.mark.either_engine
def test_a_pdf_alone_waits_for_a_person_once(reader: Reader, service: Service) -> None:
    content = bytes(mail(("scan.pdf", PDF)))
    reader.server.deliver(content)
    reader.server.deliver(content)
    assert reader.fetch() == Fetched(2, 0)
    (waiting,) = service.db.read_now(store.latest_unread, reader.owner.id, 10)
    assert waiting.file.file_name == "scan.pdf"
    assert "Ihre Rechnung" in waiting.row.note


@pytest.mark.either_engine
def test_only_mails_with_invoices_are_moved_or_deleted_and_only_if_told(reader: Reader) -> None:
    reader.set_up(afterwards="move", moved_to="Erledigt")
    first = reader.server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    letter = reader.server.deliver(bytes(mail(subject="Hallo")))
    assert reader.fetch() == Fetched(2, 1)
    assert (reader.server.uids(), reader.server.uids("Erledigt")) == ([letter], [first])
    reader.set_up(afterwards="delete")
    reader.server.deliver(bytes(mail(("zweite.xml", as_xml(number="R-8")))))
    assert reader.fetch() == Fetched(1, 1)
    assert reader.server.uids() == [letter]
    reader.set_up(afterwards="move", moved_to="Gibt es nicht")
    reader.server.deliver(bytes(mail(("dritte.xml", as_xml(number="R-9")))))
    assert reader.fetch() == Fetched(1, 1, "cannot_move")
    reader.server.trouble = "no capabilities"
    reader.set_up(afterwards="delete")
    assert reader.fetch() == Fetched(1, 0, "cannot_delete")
    assert len(reader.payables()) == 3


@pytest.mark.either_engine
def test_mails_from_before_the_day_are_left_alone(reader: Reader) -> None:
    reader.server.deliver(bytes(mail(("alt.xml", as_xml()))), came_on=date(2026, 2, 28))
    assert reader.fetch() == Fetched(0, 0)


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        ("half", "connect"),
        ("huge", "protocol"),
        ("nonsense", "protocol"),
        ("password", "sign_in"),
        ("folder", "folder"),
    ],
)
def test_what_goes_wrong_is_written_down_and_tried_again_later(reader: Reader, fault: str, trouble: str) -> None:
    number = reader.server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    if fault == "password":
        reader.set_up(password="falsch")
    elif fault == "folder":
        reader.set_up(folder="Päckchen & Co")
    else:
        reader.server.trouble = fault  # type: ignore[assignment]
    assert reader.fetch().trouble == trouble
    row = reader.row
    assert (row.trouble, row.failures, row.last_number) == (trouble, 1, 0)
    assert row.next_at - (row.checked_at or 0) == 2 * mailbox.EVERY
    assert reader.payables() == []
    if fault == "folder":
        assert 'EXAMINE "P&AOQ-ckchen &- Co"' in reader.server.commands
    reader.server.trouble = ""
    reader.set_up()
    assert reader.fetch() == Fetched(1, 1)
    assert (reader.row.trouble, reader.row.failures, reader.row.last_number) == ("", 0, number)


@pytest.mark.either_engine
def test_a_mailbox_is_read_when_its_time_has_come(reader: Reader, service: Service) -> None:
    reader.server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    service.run(mailbox.fetch_due(service.application.context))
    assert len(reader.payables()) == 1
    reader.server.deliver(bytes(mail(("zweite.xml", as_xml(number="R-8")))))
    service.run(mailbox.fetch_due(service.application.context))
    assert len(reader.payables()) == 1
    service.clock.advance(seconds=360)
    service.run(mailbox.fetch_due(service.application.context))
    assert len(reader.payables()) == 2


@pytest.mark.either_engine
def test_a_server_with_another_name_in_its_certificate_or_at_a_private_address_is_not_spoken_to(
    service: Service, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with mail_server(service, monkeypatch, tmp_path, name="other.example") as server:
        reader = Reader(service, inbox.owner, server)
        assert reader.fetch().trouble == "tls"
        monkeypatch.setattr(service.application.context.part(Mailboxes), "rule", Rule())
        assert reader.fetch().trouble == "address"
        reader.set_up(port=imap.PORT)
        assert reader.fetch().trouble == "address"
    assert server.commands == []


@pytest.mark.either_engine
def test_a_changed_iban_by_mail_stops_as_any_other(reader: Reader) -> None:
    reader.server.deliver(bytes(mail(("rechnung.xml", as_xml(paid_to(OTHER_IBAN))))))
    reader.fetch()
    (payable,) = reader.payables()
    assert (payable["status"], payable["stops"]) == ("needs_person", ["iban_changed"])


@pytest.mark.either_engine
def test_the_password_is_sealed_and_never_goes_to_another_server(reader: Reader, service: Service) -> None:
    assert reader.server.password.encode() not in bytes(reader.row.password)
    with pytest.raises(Exception, match="password of this mailbox"):
        reader.set_up(host="imap.other.example", password="")
    reader.set_up(password="")
    assert reader.fetch() == Fetched(0, 0)


@pytest.mark.either_engine
def test_by_call_a_mailbox_is_set_tried_read_and_removed_and_its_password_never_shown(
    service: Service, inbox: Inbox, server: Mailbox
) -> None:
    path, key = "/v2/payables/mailbox", inbox.owner.key
    assert service.get(path, key).status_code == 404
    assert service.post(f"{path}/readings", key, json={}).status_code == 404
    body = {
        "host": HOST,
        "port": server.port,
        "username": server.user,
        "password": server.password,
        "since": "2026-03-01",
    }
    answers = [service.request("PUT", path, key, json=body)]
    for field, value in (("host", "10.0.0.1"), ("username", "a\nb"), ("password", ""), ("moved_to", "")):
        changes = {field: value} | ({"username": "else"} if field == "password" else {})
        refused = service.request("PUT", path, key, json={**body, "afterwards": "move", "moved_to": "Alt", **changes})
        assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
    server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    answers.append(service.post(f"{path}/readings", key, json={"trial": True}))
    assert answers[-1].json()["data"] == {"trial": True, "messages": 0, "invoices": 0, "trouble": None}
    answers.append(service.post(f"{path}/readings", key, json={}))
    assert answers[-1].json()["data"] == {"trial": False, "messages": 1, "invoices": 1, "trouble": None}
    right, server.password = server.password, "another"
    answers.append(service.post(f"{path}/readings", key, json={"trial": True}))
    assert answers[-1].json()["data"]["trouble"] == "sign_in"
    assert service.get(path, key).json()["data"]["trouble"] is None, "a trial writes nothing down"
    answers += [service.get(path, key), service.request("DELETE", path, key)]
    assert [answer.status_code for answer in answers] == [200] * 6
    assert not [answer for answer in answers if right in answer.text or "another" in answer.text]
    assert service.get(path, key).status_code == 404
    assert service.request("DELETE", path, key).status_code == 404
    assert (
        service.request("PUT", path, People(service, inbox.owner).key_of("anna@muster.example"), json=body).status_code
        == 403
    )


def test_mails_that_are_made_to_harm_are_refused_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = mail(("rechnung.xml", as_xml()))
    assert [file.name for file in mailbox.read(bytes(inner)).files] == ["rechnung.xml"]
    many = mail(*[(f"{number}.xml", b"<a/>") for number in range(mailbox.MAX_FILES + 1)])
    with pytest.raises(mailbox.Unreadable):
        mailbox.read(bytes(many))
    depth = b"".join(
        b'Content-Type: multipart/mixed; boundary="%d"\r\n\r\n--%d\r\n' % (number, number) for number in range(51)
    )
    with pytest.raises(mailbox.Unreadable):
        mailbox.read(b"From: a@b.example\r\n" + depth)
    with pytest.raises(mailbox.Unreadable):
        mailbox.read(b"From: a@b.example\r\n\r\n" + b"\n" * 1_200_000)
    monkeypatch.setattr(mailbox, "MAX_FILE_BYTES", 1_000)
    large = mailbox.read(bytes(mail(("gross.xml", b"<a>" + b" " * 1_000 + b"</a>"))))
    assert (large.files, large.left_out) == ([], 1)
    assert mailbox.read(b"\xff\xfe\x00").files == []
    assert (
        mailbox.read(b"Content-Type: application/pdf; name=a.pdf\r\nContent-Transfer-Encoding: base64\r\n\r\n%%%").files
        == []
    )
