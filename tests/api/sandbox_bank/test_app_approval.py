"""Approval in the banking app: the page that waits for it, and what becomes of a login or a payment that is approved there."""

from __future__ import annotations

import re

import pytest

from tests.harness import Organization, Service
from tests.sandbox_visitor import RETURN_TO, Visitor, query_of, words

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
ASKS = "In der App bestätigen"


def waiting(visitor: Visitor, owner: Organization, user: str) -> tuple[str, str]:
    """Starts a flow and signs in. Returns the page's address and the pending token."""
    started = visitor.start(owner, provider_code="musterbank", return_to=RETURN_TO)
    visitor.sign_in(started["connect_url"], user)
    return started["connect_url"], started["pending_token"]


def connected(visitor: Visitor, owner: Organization, user: str) -> None:
    """Connects as someone who confirms logins elsewhere, and is that user from then on."""
    visitor.connect(owner)
    visitor.service.db.write_now(lambda tx: tx.run("UPDATE sandbox_connections SET user_name = ?", user))


def test_a_login_and_a_payment_wait_until_the_app_has_confirmed(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    url, pending_token = waiting(visitor, owner, "app")
    page = visitor.browser.get(url)
    assert (page.status_code, page.headers["refresh"]) == (200, "3")
    assert all(text in words(page) for text in (ASKS, "Anmeldung von app", "Ich habe bestätigt", "Abbrechen"))
    assert "confirm there" in words(page)
    assert "<script" not in page.text
    assert "script-src" not in page.headers["content-security-policy"]

    # The app has not answered yet, and a TAN is not what the bank asked for.
    early = visitor.post(url, "wait")
    assert (early.status_code, early.headers["refresh"]) == (422, "3")
    assert "noch keine Antwort" in words(early)
    assert visitor.post(url, "tan", tan="123456").status_code == 303
    visitor.later(seconds=9)
    assert ASKS in words(visitor.browser.get(url))

    visitor.later(seconds=1)
    page = visitor.browser.get(url)
    assert "Welche Konten?" in words(page)
    assert "refresh" not in page.headers
    assert query_of(visitor.consent(url))["connection_id"] == visitor.shown(owner, pending_token)["id"]

    payment = visitor.order(owner, "Sandbox tan")
    visitor.sign_in(payment["payment_url"], "app")
    page = visitor.browser.get(payment["payment_url"])
    assert page.headers["refresh"] == "3"
    assert all(text in words(page) for text in (ASKS, "Zahlung über 12,34 EUR"))
    assert visitor.payment(owner, payment)["status"] == "initiated_info_required"
    visitor.later(seconds=10)
    assert visitor.payment(owner, payment)["status"] == "authorizing"
    assert "refresh" not in visitor.browser.get(payment["payment_url"]).headers
    visitor.post(payment["payment_url"], "confirm")
    visitor.later(seconds=5)
    assert visitor.payment(owner, payment)["status"] == "settled"


@one_engine
def test_the_page_asks_the_bank_itself_and_needs_no_other_process(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    (url, _), (other, _) = waiting(visitor, owner, "app"), waiting(visitor, owner, "app")
    service.clock.advance(seconds=10)
    assert "Welche Konten?" in words(visitor.browser.get(url))
    # So does the button.
    assert visitor.post(other, "wait").status_code == 303
    assert "Welche Konten?" in words(visitor.browser.get(other))


@one_engine
@pytest.mark.parametrize(
    ("user", "seconds", "error_class", "text"),
    [("declines", 10, "ApprovalDeclined", "in der App abgelehnt"),
     ("ignores", 300, "ApprovalExpired", "nicht rechtzeitig bestätigt")],
)  # fmt: skip
def test_declining_and_not_answering_end_a_login_and_a_payment(
    service: Service, visitor: Visitor, owner: Organization, user: str, seconds: int, error_class: str, text: str
) -> None:
    url, pending_token = waiting(visitor, owner, user)
    connected(visitor, owner, user)
    payment = visitor.order(owner)
    visitor.sign_in(payment["payment_url"], user)
    visitor.later(seconds=seconds - 1)
    assert all(ASKS in words(visitor.browser.get(page)) for page in (url, payment["payment_url"]))
    visitor.later(seconds=1)
    for page in (url, payment["payment_url"]):
        shown = visitor.browser.get(page)
        assert text in words(shown)
        assert "refresh" not in shown.headers
    placeholder = visitor.shown(owner, pending_token)
    assert (placeholder["status"], placeholder["error_class"]) == ("pending_connect", error_class)
    assert (visitor.payment(owner, payment)["status"], visitor.reason(owner, payment)) == ("failed", error_class)
    assert service.balance(owner).reserved == 0

    visitor.post(url, "again")
    visitor.finish(url, "demo")
    assert visitor.shown(owner, pending_token)["status"] == "active"


@one_engine
def test_who_gives_up_waiting_is_not_connected_by_a_later_answer(visitor: Visitor, owner: Organization) -> None:
    url, pending_token = waiting(visitor, owner, "app")
    back = visitor.browser.post(url, data={"action": ["wait", "cancel"]})
    assert query_of(back)["error_class"] == "Cancelled"
    visitor.post(url, "again")
    visitor.later(seconds=10)
    assert re.search("Benutzername", words(visitor.browser.get(url)))
    assert visitor.shown(owner, pending_token)["error_class"] == "Cancelled"


@one_engine
def test_an_answer_after_the_page_has_expired_changes_nothing(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    connected(visitor, owner, "ignores")
    payment = visitor.order(owner)
    url, pending_token = waiting(visitor, owner, "ignores")
    visitor.sign_in(payment["payment_url"], "ignores")
    service.clock.advance(seconds=3600)
    visitor.deliver()
    assert [visitor.browser.get(page).status_code for page in (url, payment["payment_url"])] == [404, 404]
    assert visitor.shown(owner, pending_token)["error_class"] is None
    assert visitor.payment(owner, payment)["status"] == "authorizing"
