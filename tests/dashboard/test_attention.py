"""Everything that needs a person stands above every page, and nothing else does."""

from __future__ import annotations

import re

from kontobahn.banking.connections import store
from kontobahn.banking.provider import BankConnectionFacts
from kontobahn.clock import DAY
from kontobahn.db import Tx
from tests.dashboard.browsing import Browser
from tests.harness import Service

EMAIL = "erika@muster.example"


def connect(
    tx: Tx,
    organization_id: str,
    name: str,
    status: str,
    ends_at: int | None,
    error_class: str | None = None,
    *,
    provider: str = "files",
) -> None:
    facts = BankConnectionFacts(name, "bank", name, "DE", "", (), ends_at, tx.now, automatic_refresh=False)
    row = store.create(tx, organization_id, provider=provider, api="partner", owner_user_id=None, facts=facts)
    store.CONNECTIONS.update(tx, row, status=status, error_class=error_class)


def test_banks_that_need_a_person_are_named_and_the_others_are_not(service: Service) -> None:
    owner, now = service.organization(), service.clock.now()
    for name, status, ends_at in (
        ("Signbank", "inactive", now + 90 * DAY), ("Offbank", "disabled", None), ("Endbank", "active", now + 14 * DAY - 1),
        ("Pastbank", "active", now - DAY), ("Laterbank", "active", now + 14 * DAY), ("Untoldbank", "active", None),
        ("Waitbank", "pending", now + DAY),
    ):  # fmt: skip
        service.db.write_now(connect, owner.id, name, status, ends_at)
    service.db.write_now(connect, service.organization().id, "Strangebank", "inactive", now)
    service.user(owner, EMAIL, "admin")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    said = re.findall(
        r"(\w+) (needs you to sign in|has switched off)|The consent at (\w+) (ends|ended) on",
        browser.get("/dashboard").text,
    )
    assert {(name or consent, does or ends) for name, does, consent, ends in said} == {
        ("Signbank", "needs you to sign in"), ("Waitbank", "needs you to sign in"), ("Offbank", "has switched off"),
        ("Endbank", "ends"), ("Pastbank", "ended"),
    }  # fmt: skip


def test_a_consent_that_is_over_is_said_to_have_ended_above_every_page(service: Service) -> None:
    owner = service.organization()
    service.db.write_now(connect, owner.id, "Pastbank", "active", service.clock.now())
    service.user(owner, EMAIL)
    browser = Browser(service)
    browser.sign_in(EMAIL)
    for page in ("/dashboard", "/dashboard/payments"):
        assert "The consent at Pastbank ended on" in browser.get(page).text


def test_a_consent_that_is_over_has_no_days_left(service: Service) -> None:
    owner, now = service.organization(), service.clock.now()
    for name, status in (("Signbank", "inactive"), ("Waitbank", "pending")):
        service.db.write_now(connect, owner.id, name, status, now + 179 * DAY, "AispConsentExpired", provider="sandbox")
    service.db.write_now(connect, owner.id, "Goodbank", "active", now + 100 * DAY, provider="sandbox")
    service.user(owner, EMAIL, "admin")
    browser = Browser(service)
    browser.sign_in(EMAIL)
    page = browser.get("/dashboard/connections").text
    assert "179 more days" not in page
    assert "100 more days" in page
    assert page.count(">ended<") == 2
