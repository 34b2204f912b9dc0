"""The sandbox bank checks payees before the payer authorises, by the payee's name; and what a person sees of it."""

from __future__ import annotations

import pytest

from kontobahn.bank_providers.sandbox.rules import PAYEE_PLANS
from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.sandbox_visitor import Visitor, words

EMAIL = "erika@muster.example"


@pytest.fixture
def owner(service: Service, visitor: Visitor) -> Organization:
    owner = service.organization()
    visitor.connect(owner)
    return owner


@pytest.mark.parametrize(
    ("name", "result", "later", "returned"),
    [
        ("exact", "match", "match", None),
        ("umlaut", "close_match", "close_match", "Sändbox payee umlaut"),
        ("legal_form", "close_match", "close_match", "Sandbox payee legal form GmbH"),
        ("other", "no_match", "no_match", None),
        ("unknown_iban", "not_possible", "not_possible", None),
        ("slow", "pending", "match", None),
    ],
)
@pytest.mark.either_engine
def test_a_payee_is_checked_before_the_payer_authorises(
    visitor: Visitor, owner: Organization, name: str, result: str, later: str, returned: str | None
) -> None:
    payment = visitor.order(owner, f"Sandbox payee {name.replace('_', ' ')}")
    assert payment["payee_check"]["result"] == "not_asked"
    visitor.sign_in(payment["payment_url"])
    assert "Empfängerprüfung" in words(visitor.browser.get(payment["payment_url"]))
    first = visitor.payment(owner, payment)
    assert (first["status"], first["payee_check"]["result"]) == ("authorizing", result)
    assert first["payee_check"]["returned_name"] == returned
    visitor.post(payment["payment_url"], "tan", tan="123456")
    second = visitor.payment(owner, payment)
    assert (second["status"], second["payee_check"]["result"]) == ("authorizing", later)


def test_all_plans_are_tried() -> None:
    assert len(PAYEE_PLANS) == 6


def test_a_released_close_match_settles_and_a_cancelled_one_fails(visitor: Visitor, owner: Organization) -> None:
    released, cancelled = (visitor.order(owner, "Sandbox payee umlaut") for _ in range(2))
    for payment in (released, cancelled):
        visitor.sign_in(payment["payment_url"])
        visitor.post(payment["payment_url"], "tan", tan="123456")
    visitor.post(released["payment_url"], "confirm")
    visitor.post(cancelled["payment_url"], "cancel")
    visitor.later(seconds=5)
    for payment, status in ((released, "settled"), (cancelled, "failed")):
        shown = visitor.payment(owner, payment)
        assert (shown["status"], shown["payee_check"]["result"]) == (status, "close_match")


def test_the_page_shows_both_names_and_the_banks_is_taken_over_once(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    service.user(owner, EMAIL, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    payment = visitor.order(owner, "Sandbox payee umlaut")
    page = f"/dashboard/payments/{payment['id']}"
    assert browser.post(f"{page}/payee-name").status_code == 303
    assert "Check of the payee" not in browser.get(page).text
    visitor.sign_in(payment["payment_url"])
    shown = browser.get(page).text
    assert "S<mark>a</mark>ndbox payee umlaut" in shown
    assert "S<mark>ä</mark>ndbox payee umlaut" in shown
    assert "name nearly fits" in shown
    browser.post(f"{page}/payee-name")
    shown = browser.get(page).text
    assert "payee-name" not in shown, "it is taken over"
    rows = service.db.read_now(
        lambda tx: tx.all("SELECT COUNT(*) FROM audit_log WHERE action = 'payment.take_payee_name'")
    )
    assert rows == [(1,)]
    visitor.post(payment["payment_url"], "cancel")
    assert "creditor_name=S%C3%A4ndbox" in browser.get(page).text, "for the next payment"


@pytest.mark.either_engine
def test_a_check_that_was_not_possible_is_shown_neutral(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    service.user(owner, EMAIL, "member")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    payment = visitor.order(owner, "Sandbox payee unknown iban")
    visitor.sign_in(payment["payment_url"])
    shown = browser.get(f"/dashboard/payments/{payment['id']}").text
    card = shown[shown.index("Check of the payee") :]
    assert '<span class="badge plain">could not be checked' in card
