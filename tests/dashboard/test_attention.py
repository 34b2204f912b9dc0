"""What needs a person stands above every page, and nothing else does."""

from __future__ import annotations

import re

from kontobahn.banking.connections import store
from kontobahn.banking.provider import BankConnectionFacts
from kontobahn.clock import DAY
from kontobahn.db import Tx
from tests.dashboard.browsing import Browser
from tests.harness import Service

EMAIL = "erika@muster.example"


def connect(tx: Tx, organization_id: str, name: str, status: str, ends_at: int | None) -> None:
    facts = BankConnectionFacts(name, "bank", name, "DE", "", (), ends_at, tx.now, automatic_refresh=False)
    row = store.create(tx, organization_id, provider="files", api="partner", owner_user_id=None, facts=facts)
    store.CONNECTIONS.update(tx, row, status=status)


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
        r"(\w+) (?:needs you to sign in|has switched off)|The consent at (\w+) ends on", browser.get("/dashboard").text
    )
    assert [reconnect or ends for reconnect, ends in said] == ["Signbank", "Offbank", "Endbank", "Pastbank"]
