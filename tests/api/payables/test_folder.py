"""Invoices from a folder: taken once when they are complete, moved, refused with the reason beside, and found again after a kill."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.payables import intake, store
from tests.harness import Service
from tests.received_invoices import Inbox, as_xml, plain_pdf

LONG_AGO = 1_000_000_000


class Watched:
    """The folder of an organisation, and a service that watches it."""

    def __init__(self, inbox: Inbox, root: Path) -> None:
        self.inbox = inbox
        self.path = root / inbox.owner.id
        self.path.mkdir()
        context = inbox.service.application.context
        settings = msgspec.structs.replace(context.settings, payables_folder=str(root))
        self._context = context._replace(settings=settings)

    def put(self, name: str, content: bytes, *, is_complete: bool = True) -> Path:
        file = self.path / name
        file.write_bytes(content)
        if is_complete:
            os.utime(file, (LONG_AGO, LONG_AGO))
        return file

    def look(self) -> None:
        self.inbox.service.run(intake.take_in(self._context))

    def names(self, below: str = "") -> list[str]:
        place = self.path / below
        return sorted(file.name for file in place.iterdir() if file.is_file()) if place.exists() else []

    def numbers(self) -> list[str]:
        answer = self.inbox.service.get("/v2/payables", self.inbox.owner.key)
        return [payable["number"] for payable in answer.json()["data"]]


@pytest.fixture
def watched(service: Service, tmp_path: Path) -> Watched:
    inbox = Inbox(service)
    service.organization("Zweite GmbH")
    return Watched(inbox, tmp_path)


def test_a_complete_file_is_taken_once_and_moved(watched: Watched) -> None:
    watched.put("rechnung.xml", as_xml())
    watched.put("neu.xml", as_xml(number="R-8"), is_complete=False)
    watched.put("wird.xml.part", as_xml(number="R-9"))
    (watched.path / "verweis.xml").symlink_to("/etc/passwd")
    watched.look()
    assert watched.numbers() == ["R-7"]
    assert (watched.names(), watched.names("done")) == (["neu.xml", "verweis.xml", "wird.xml.part"], ["rechnung.xml"])
    assert (watched.path / "done" / "rechnung.xml").read_bytes() == as_xml()
    os.utime(watched.path / "neu.xml", (LONG_AGO, LONG_AGO))
    watched.put("rechnung.xml", as_xml(number="R-10"))
    watched.look()
    assert sorted(watched.numbers()) == ["R-10", "R-7", "R-8"]
    assert len(watched.names("done")) == 3, "one of the same name replaces nothing"


@pytest.mark.either_engine
def test_what_is_refused_lies_beside_its_reason(watched: Watched, service: Service) -> None:
    watched.put("scan.pdf", plain_pdf("Guten Tag"))
    watched.put("liste.docx", b"PK")
    watched.put("gross.xml", b"<" + b" " * MAX_FILE_BYTES)
    watched.look()
    names = ["gross.xml", "liste.docx", "scan.pdf"]
    assert watched.names("refused") == sorted([*names, *(f"{name}.reason.txt" for name in names)])
    assert "XML" in (watched.path / "refused" / "scan.pdf.reason.txt").read_text("utf-8")
    assert (watched.names(), watched.numbers()) == ([], [])
    (waiting,) = service.db.read_now(store.latest_unread, watched.inbox.owner.id, 10)
    assert waiting.file.file_name == "scan.pdf"


@pytest.mark.either_engine
def test_a_service_killed_before_it_moves_a_file_has_one_invoice_and_moves_it_later(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched.put("rechnung.xml", as_xml())

    def killed(*args: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(intake, "_move", killed)
        with pytest.raises(RuntimeError, match="killed"):
            watched.look()
    assert (watched.names(), watched.numbers()) == (["rechnung.xml"], ["R-7"])
    watched.look()
    assert (watched.names(), watched.names("done"), watched.numbers()) == ([], ["rechnung.xml"], ["R-7"])


@pytest.mark.either_engine
def test_a_file_that_cannot_be_moved_holds_up_no_other(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.put("erste.xml", as_xml())
    watched.put("zweite.xml", as_xml(number="R-8"))
    moved = intake._move

    def refused(found: intake.Found, *more: str) -> None:
        if found.path.name == "erste.xml":
            raise PermissionError("read-only")
        moved(found, *more)

    monkeypatch.setattr(intake, "_move", refused)
    watched.look()
    assert (watched.names(), watched.names("done")) == (["erste.xml"], ["zweite.xml"])


@pytest.mark.either_engine
def test_the_only_organisation_needs_no_folder_of_its_own(service: Service, tmp_path: Path) -> None:
    inbox = Inbox(service)
    watched = Watched(inbox, tmp_path)
    watched.path.rmdir()
    watched.path = tmp_path
    watched.put("rechnung.xml", as_xml())
    watched.look()
    assert (watched.numbers(), watched.names("done")) == (["R-7"], ["rechnung.xml"])
