"""Mail: written with its cause, sent once the server takes it, and nothing of it lies readable in the database."""

from __future__ import annotations

import re
from collections.abc import Callable
from email.message import EmailMessage
from typing import Any

import pytest

from kontobahn import mail
from kontobahn.clock import DAY, MINUTE
from kontobahn.errors import SetupError
from kontobahn.jobs import JobRunner
from kontobahn.mail import Mail, find_server
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings
from tests.dashboard.browsing import Browser
from tests.harness import PASSWORD, Organization, Service
from tests.post_office import PostOffice

ERIKA, OTTO = "erika@muster.example", "otto@muster.example"
NEW = "another horse battery"


@pytest.fixture
def mine(mailing: Service) -> Organization:
    found = mailing.organization("Müller & Söhne")
    mailing.user(found, ERIKA)
    return found


def send(service: Service) -> None:
    """Does what the job does when its turn has come."""
    job = next(job for job in scheduled_jobs(service.application.context) if job.name == "send mail")
    service.run(JobRunner(service.db, [job]).run_due())
    service.clock.advance(seconds=job.every_seconds)


def waiting(service: Service) -> list[tuple[Any, ...]]:
    return service.db.read_now(lambda tx: tx.all("SELECT attempts, given_up_at, last_error FROM mail_outbox"))


def test_whoever_is_invited_gets_the_link_by_mail(mailing: Service, mine: Organization, office: PostOffice) -> None:
    answer = mailing.post("/v2/auth/invitations", mine.key, json={"email": OTTO, "role": "bookkeeping"})
    token = answer.json()["data"]["token"]
    send(mailing)
    send(mailing)
    [message] = office.taken
    assert (message["to"], message["from"]) == (OTTO, "Kontobahn <kontobahn@muster.example>")
    assert message["subject"] == "Einladung zu Müller & Söhne / Invitation to Müller & Söhne"
    assert message.get_content().count(f"{mailing.base_url}/dashboard/invitation/{token}") == 2
    assert waiting(mailing) == []


def test_nothing_of_a_mail_can_be_read_in_the_database(mailing: Service, mine: Organization) -> None:
    token = mailing.post("/v2/auth/invitations", mine.key, json={"email": OTTO}).json()["data"]["token"]
    [(sealed,)] = mailing.db.read_now(lambda tx: tx.all("SELECT sealed FROM mail_outbox"))
    assert token.encode() not in bytes(sealed)
    assert OTTO.encode() not in bytes(sealed)


def test_what_is_refused_leaves_no_mail(mailing: Service, mine: Organization, office: PostOffice) -> None:
    assert mailing.post("/v2/auth/invitations", mine.key, json={"email": ERIKA}).status_code == 409
    send(mailing)
    assert office.taken == []


def test_a_link_that_is_asked_for_sets_a_new_password(mailing: Service, mine: Organization, office: PostOffice) -> None:
    browser = Browser(mailing)
    answers = [browser.post("/dashboard/forgotten-password", {"email": email}) for email in (ERIKA, OTTO)]
    assert {(answer.status_code, answer.headers["location"]) for answer in answers} == {(303, "/dashboard/sign-in")}
    assert "a link is on its way there" in browser.get("/dashboard/sign-in").text
    send(mailing)
    [message] = office.taken
    assert message["to"] == ERIKA
    link = re.search(r"/dashboard/password\?token=(\S+)", message.get_content())
    assert link is not None
    assert browser.post("/dashboard/password", {"token": link[1], "password": NEW}).status_code == 303
    assert browser.sign_in(ERIKA, PASSWORD).status_code != 303
    assert browser.sign_in(ERIKA, NEW).status_code == 303


def test_a_mailbox_is_not_flooded_by_whoever_asks_for_links(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    def ask() -> int:
        for _ in range(3):
            Browser(mailing).post("/dashboard/forgotten-password", {"email": ERIKA})
        send(mailing)
        return len(office.taken)

    assert ask() == 1
    mailing.clock.advance(seconds=9 * 60)
    assert ask() == 1
    mailing.clock.advance(seconds=2 * 60)
    assert ask() == 2


def test_an_administrator_makes_a_link_for_somebody_on_the_page_of_the_team(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    otto = mailing.user(mine, OTTO, "bookkeeping")
    browser = Browser(mailing)
    browser.sign_in(ERIKA)
    page = browser.post(f"/dashboard/team/{otto.id}/password-link")
    link = re.search(r"/dashboard/password\?token=(kb_\w+)", page.text)
    assert link is not None, page.text
    send(mailing)
    [message] = office.taken
    assert message["to"] == OTTO
    assert link[1] in message.get_content()


def test_without_a_mail_server_links_are_handed_over_by_people(service: Service) -> None:
    mine = service.organization()
    otto = service.user(mine, OTTO, "bookkeeping")
    service.user(mine, ERIKA)
    browser = Browser(service)
    assert "sends no e-mail" in browser.get("/dashboard/forgotten-password").text
    assert "sends no e-mail" in browser.post("/dashboard/forgotten-password", {"email": ERIKA}).text
    browser.sign_in(ERIKA)
    assert "/dashboard/password?token=kb_" in browser.post(f"/dashboard/team/{otto.id}/password-link").text
    assert service.post("/v2/auth/invitations", mine.key, json={"email": "neu@muster.example"}).status_code == 201
    assert waiting(service) == []


Put = Callable[[str], None]


@pytest.fixture
def put(mailing: Service, mine: Organization) -> Put:
    def put_one(recipient: str) -> None:
        mailing.db.write_now(mail.put, mailing.vault, mine.id, Mail(recipient, "Betreff", "Text"))

    return put_one


def test_a_server_that_does_not_answer_well_is_tried_again_for_three_days(
    mailing: Service, office: PostOffice, put: Put
) -> None:
    office.refuses = lambda verb, rest: "451 later" if verb == "DATA" else None
    put(ERIKA)
    put(OTTO)
    began = mailing.clock.now()
    for _ in range(24):
        send(mailing)
        mailing.clock.advance(seconds=DAY / 1_000_000)
    assert sorted(attempts for attempts, _, _ in waiting(mailing)) == [9, 9]
    assert all(given_up - began >= 3 * DAY and "451" in reason for _, given_up, reason in waiting(mailing))
    office.refuses = lambda verb, rest: None
    send(mailing)
    assert office.taken == [], "what was given up is not sent later"
    last = max(given_up for _, given_up, _ in waiting(mailing))
    mailing.clock.advance(seconds=(last + 30 * DAY - mailing.clock.now()) / 1_000_000 - 1)
    for seconds, kept in ((0, 1), (1, 0)):
        mailing.clock.advance(seconds=seconds)
        mailing.db.write_now(mail.purge)
        assert len(waiting(mailing)) >= kept
    assert waiting(mailing) == []


def test_an_address_that_is_refused_holds_up_no_other(mailing: Service, office: PostOffice, put: Put) -> None:
    office.refuses = lambda verb, rest: "550 nobody here" if verb == "RCPT" and "otto" in rest else None
    put(OTTO)
    put(ERIKA)
    send(mailing)
    assert [message["to"] for message in office.taken] == [ERIKA]
    [(attempts, given_up_at, reason)] = waiting(mailing)
    assert (attempts, reason) == (1, "550 nobody here")
    assert given_up_at is not None
    mailing.clock.advance(seconds=(given_up_at + 7 * DAY - mailing.clock.now()) / 1_000_000 - 1)
    assert mailing.db.read_now(mail.state) == (0, 1, reason)
    mailing.clock.advance(seconds=1)
    assert mailing.db.read_now(mail.state) == (0, 0, None), "it is told for a week"


def test_a_mail_that_was_being_sent_when_the_process_died_is_sent_again(
    mailing: Service, mine: Organization, office: PostOffice, put: Put
) -> None:
    put(ERIKA)
    [(organization_id, mail_id)] = mailing.db.read_now(mail._due)
    assert mailing.db.write_now(mail._claim, mailing.vault, organization_id, mail_id)
    send(mailing)
    assert office.taken == [], "another process may be sending it"
    mailing.clock.advance(seconds=mail._LEASE.seconds)
    send(mailing)
    [message] = office.taken
    assert message["message-id"] == f"<{mail_id}@muster.example>"


@pytest.mark.parametrize(
    ("url", "sender", "named"),
    [
        ("https://mail.muster.example", "a@muster.example", "smtp://"),
        ("smtp://", "a@muster.example", "smtp_url"),
        ("smtp://mail.muster.example:viel", "a@muster.example", "smtp_url"),
        ("smtp://mail.muster.example", "", "mail_from"),
        ("smtps://mail.muster.example", "Kontobahn", "mail_from"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(url: str, sender: str, named: str) -> None:
    with pytest.raises(SetupError, match=named):
        find_server(Settings(smtp_url=url, mail_from=sender))


def test_the_parts_of_the_server_are_read_from_its_address() -> None:
    found = find_server(Settings(smtp_url="smtps://a%40b:p%3Aw@mail.muster.example", mail_from="a@muster.example"))
    assert found == ("mail.muster.example", 465, "a@b", "p:w", True, "a@muster.example")
    assert find_server(Settings()) is None


def test_a_password_is_not_sent_to_a_server_without_tls(office: PostOffice, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    office.refuses = lambda verb, rest: said.append(verb)
    server = find_server(Settings(smtp_url=office.url.replace("//", "//erika:geheim@"), mail_from="a@muster.example"))
    assert server is not None
    monkeypatch.setattr("kontobahn.mail._is_here", lambda host: False)
    with pytest.raises(mail.NotTaken):
        mail.check_server(server)
    assert "AUTH" not in said


def test_a_server_is_checked_without_sending_anything(office: PostOffice) -> None:
    said: list[str] = []
    office.refuses = lambda verb, rest: said.append(verb)
    server = find_server(Settings(smtp_url=office.url, mail_from="a@muster.example"))
    assert server is not None
    mail.check_server(server)
    assert [verb for verb in said if verb != "EHLO"] == ["NOOP", "QUIT"]


@pytest.mark.parametrize(
    ("refused", "answer", "for_good"),
    [
        ("AUTH", "535 wrong password", False),
        ("MAIL", "550 no", True),
        ("MAIL", "450 later", False),
        ("DATA", "554 no", True),
    ],
)
def test_what_is_refused_for_good_is_told_from_what_may_be_taken_later(
    office: PostOffice, refused: str, answer: str, for_good: bool
) -> None:
    answers = {"EHLO": "250-post office\r\n250 AUTH PLAIN", "AUTH": "235 welcome", refused: answer}
    office.refuses = lambda verb, rest: answers.get(verb)
    server = find_server(Settings(smtp_url=office.url.replace("//", "//erika:geheim@"), mail_from="a@muster.example"))
    assert server is not None
    message = EmailMessage()
    message["From"], message["To"] = "a@muster.example", ERIKA
    with pytest.raises(mail.NotTaken, match=answer) as caught:
        mail.hand_over(server, message)
    assert caught.value.for_good is for_good


def test_a_message_is_late_only_after_a_while(mailing: Service, mine: Organization, put: Put) -> None:
    put(ERIKA)
    assert mailing.db.read_now(mail.state).late == 0
    mailing.clock.advance(seconds=11 * MINUTE / 1_000_000)
    assert mailing.db.read_now(mail.state).late == 1
