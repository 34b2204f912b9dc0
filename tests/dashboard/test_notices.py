"""Notices by mail: each matter once, to those who may see it and want to know, in their language."""

from __future__ import annotations

import re
from datetime import date, timedelta

import pytest

from kontobahn import mail
from kontobahn.banking.connections import store
from kontobahn.clock import DAY, HOUR, SECOND, berlin_date, berlin_datetime
from kontobahn.dashboard import notices
from kontobahn.db import Tx
from kontobahn.mail import find_server
from tests.bank_builder import Bank, account_id, order
from tests.dashboard.browsing import Browser
from tests.dashboard.test_attention import connect
from tests.harness import Organization, Service
from tests.post_office import PostOffice
from tests.reconciliation_desk import Clerk, paid

ERIKA, OTTO, LENA = "erika@muster.example", "otto@muster.example", "lena@muster.example"


@pytest.fixture
def mine(mailing: Service) -> Organization:
    found = mailing.organization("Müller & Söhne")
    mailing.user(found, ERIKA, "admin")
    return found


def told(service: Service, office: PostOffice) -> list[tuple[str, str]]:
    """Does what the jobs do, and returns the new mail: to whom, and what it says."""
    before = len(office.taken)
    service.run(notices.write_due(service.application.context))
    service.run(mail.send_due(service.db, service.vault, find_server(service.settings)))
    return [(message["to"], message.get_content()) for message in office.taken[before:]]


def recipients(service: Service, office: PostOffice) -> list[str]:
    return sorted(recipient for recipient, _ in told(service, office))


def advance(service: Service, microseconds: int) -> None:
    service.clock.advance(seconds=microseconds / SECOND)


def to_monday(service: Service, hour: int) -> None:
    """Goes on to the next Monday at this hour in Germany."""
    moment = berlin_datetime(service.clock.now())
    advance(service, ((7 - moment.weekday()) * 24 + hour - moment.hour) * HOUR)


def renew(tx: Tx, organization_id: str, status: str, ends_at: int) -> None:
    for row in store.CONNECTIONS.all(tx, "organization_id = ?", organization_id):
        store.CONNECTIONS.update(tx, row, status=status, consent_expires_at=ends_at)


def test_each_matter_is_told_once_and_again_when_it_comes_again(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    [(recipient, text)] = told(mailing, office)
    assert recipient == ERIKA
    assert "Signbank" in text
    assert f"{mailing.base_url}/dashboard/connections/" in text
    assert told(mailing, office) == []
    mailing.db.write_now(connect, mine.id, "Offbank", "disabled", None)
    [(_, text)] = told(mailing, office)
    assert "Offbank" in text
    assert "Signbank" not in text
    mailing.db.write_now(renew, mine.id, "active", mailing.clock.now() + 90 * DAY)
    assert told(mailing, office) == []
    mailing.db.write_now(renew, mine.id, "inactive", mailing.clock.now() + 90 * DAY)
    [(_, text)] = told(mailing, office)
    assert "Signbank" in text
    assert "Offbank" in text


def test_people_are_told_what_their_role_lets_them_do_something_about(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    mailing.user(mine, OTTO, "read_only")
    mailing.user(mine, LENA, "bookkeeping")
    mailing.user(mailing.organization("Fremd AG"), "fremd@fremd.example", "owner")
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    assert recipients(mailing, office) == [ERIKA, LENA]


def test_an_adviser_is_told_about_a_client_with_the_role_there(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    practice = mailing.organization("Kanzlei")
    mailing.give_access(mailing.user(practice, OTTO, "owner"), mine, "bookkeeping")
    mailing.give_access(mailing.user(practice, LENA, "owner"), mine, "read_only")
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    assert recipients(mailing, office) == [ERIKA, OTTO]
    mailing.db.write_now(connect, practice.id, "Ownbank", "inactive", None)
    assert recipients(mailing, office) == [LENA, OTTO]


def test_money_is_told_when_it_has_waited_for_a_week_and_once_a_week(mailing: Service, office: PostOffice) -> None:
    clerk = Clerk(mailing, paid(119_00, "nothing that anybody knows", "Fremd"))
    mailing.user(clerk.owner, ERIKA, "admin")
    clerk.store_run()
    [(made_on,)] = mailing.db.read_now(lambda tx: tx.all("SELECT MIN(made_on) FROM banking_transactions"))
    first_day = berlin_date(mailing.clock.now()) - timedelta(days=notices.DAYS_UNMATCHED)
    assert date.fromisoformat(made_on) > first_day
    assert told(mailing, office) == []
    advance(mailing, (date.fromisoformat(made_on) - first_day).days * DAY)
    [(_, text)] = told(mailing, office)
    assert "/dashboard/reconciliation" in text
    assert told(mailing, office) == []
    to_monday(mailing, 0)
    assert recipients(mailing, office) == [ERIKA]
    assert told(mailing, office) == []


def test_the_week_is_summed_up_on_mondays_for_whoever_asks_for_it(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    browser = Browser(mailing)
    browser.sign_in(ERIKA)
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    assert browser.post("/dashboard/profile/notices", {"kind": "summary"}).status_code == 303
    to_monday(mailing, notices.SUMMARY_HOUR - 1)
    assert told(mailing, office) == [], "what was not chosen is not told by itself"
    advance(mailing, HOUR)
    [(_, text)] = told(mailing, office)
    assert "Signbank" in text
    advance(mailing, 12 * HOUR)
    assert told(mailing, office) == []
    to_monday(mailing, notices.SUMMARY_HOUR)
    assert recipients(mailing, office) == [ERIKA]


def test_a_notice_leads_to_a_page_that_ends_notices_without_signing_in(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    [(_, text)] = told(mailing, office)
    link = re.search(r"/dashboard/notices/\S+", text)
    assert link is not None
    assert office.taken[-1]["list-unsubscribe"] == f"<{mailing.base_url}{link[0]}>"
    stranger = Browser(mailing)
    assert ERIKA in stranger.get(link[0]).text
    assert stranger.get(link[0][:-1] + ("0" if link[0][-1] != "0" else "1")).status_code == 404
    assert stranger.post(link[0], {}).status_code == 303
    mailing.db.write_now(connect, mine.id, "Offbank", "disabled", None)
    assert told(mailing, office) == []


def test_a_notice_is_in_the_language_of_the_person(mailing: Service, mine: Organization, office: PostOffice) -> None:
    mailing.user(mine, LENA, "admin")
    browser = Browser(mailing)
    browser.sign_in(LENA)
    browser.post("/dashboard/look", {"language": "en", "next": "/dashboard"})
    mailing.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    texts = dict(told(mailing, office))
    assert "Signbank needs you to sign in again." in texts[LENA]
    assert "Guten Tag" in texts[ERIKA]


def test_without_a_mail_server_nobody_is_told(service: Service) -> None:
    mine = service.organization()
    service.user(mine, ERIKA, "admin")
    service.db.write_now(connect, mine.id, "Signbank", "inactive", None)
    service.run(notices.write_due(service.application.context))
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM mail_outbox")) == []
    assert service.db.read_now(lambda tx: tx.all("SELECT 1 FROM dashboard_notices_told")) == []


def test_a_payment_that_waits_is_told_to_those_who_may_release_it(
    mailing: Service, mine: Organization, office: PostOffice
) -> None:
    mailing.user(mine, OTTO, "member")
    mailing.user(mine, LENA, "bookkeeping")
    bank = Bank(mailing)
    bank.connected(mine)
    limited = mailing.request("PUT", "/v2/banking/payment-limit", mine.key, json={"amount": "100.00"})
    assert limited.status_code == 200
    small, large = (order(account_id(mailing, mine), amount=amount) for amount in ("100.00", "100.01"))
    assert mailing.post("/v2/banking/payments", mine.key, json=small).status_code == 201
    assert told(mailing, office) == [], "within the limit"
    paid_to = mailing.post("/v2/banking/payments", mine.key, json=large).json()["data"]
    # Made by Otto: whoever made it does not release it.
    [otto] = mailing.db.read_now(lambda tx: tx.one("SELECT id FROM users WHERE email = ?", OTTO) or ())
    mailing.db.write_now(
        lambda tx: tx.run("UPDATE banking_payments SET maker_user_id = ? WHERE release_state = 'waiting'", otto)
    )
    [(recipient, text)] = told(mailing, office)
    assert recipient == ERIKA
    assert "100.01" in text or "100,01" in text
    assert f"/dashboard/payments/{paid_to['id']}" in text
    assert told(mailing, office) == [], "once"
