"""The organisations of the demo, and their rules of reconciliation. Each area adds its own data, and its own object to the facts."""

from __future__ import annotations

import secrets
from datetime import date
from typing import Any

from kontobahn import credits
from kontobahn.access import audit, keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.app import make_context
from kontobahn.bank_providers.sandbox.rules import BANKS, COMPANY
from kontobahn.books import setup
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx
from kontobahn.demo import trade
from kontobahn.demo.banking import build_banking
from kontobahn.demo.facts import facts_path, read_facts, write_facts
from kontobahn.demo.ledger import CLIENT_ID, LENGTH, build_ledger
from kontobahn.demo.mobility import build_mobility
from kontobahn.ids import new_id
from kontobahn.ledger.konto import technical
from kontobahn.reconciliation import knowledge
from kontobahn.reconciliation.store import Client, RuleRow
from kontobahn.settings import Settings
from kontobahn.vault import Vault

CREDITS = 10_000
EMAIL = "demo@kontobahn.example"
# Name, text of the movement, ledger account.
_RULES = (
    ("Kontoführung", "Entgelte vom", "4970"),
    ("Löhne und Gehälter", "Lohn/Gehalt", "1740"),
    ("Miete", "Miete", "4210"),
)


def ensure_demo(settings: Settings, db: Database, vault: Vault) -> dict[str, Any]:
    """Returns the demo's facts; makes the demo if this database has none."""
    known = read_facts(facts_path(settings))
    if known and db.read_now(organizations.exists, known["organization_id"]):
        return known
    password = secrets.token_urlsafe(12)
    context = make_context(settings, db, vault, SystemClock())
    facts = db.write_now(build, context, password, users.hash_password(password))
    write_facts(settings, facts)
    return facts


def build(tx: Tx, context: Context, password: str, password_hash: str) -> dict[str, Any]:
    actor, vault = audit.Actor("demo"), context.vault
    demo = organizations.create(tx, COMPANY, actor)
    second = organizations.create(tx, "Zweite Muster UG", actor)
    agency = organizations.create(tx, "Kanzlei Beispiel Steuerberatung", actor)
    for organization in (demo, second, agency):
        credits.grant(tx, organization.id, CREDITS, note="demo")
    user = users.create(
        tx, demo.id, email=EMAIL, name="Dana Demo", role="owner", password_hash=password_hash, actor=actor
    )
    key = keys.create(tx, vault, demo.id, "demo", actor, role="admin", created_by=user.id)
    second_key = keys.create(tx, vault, second.id, "demo of another organisation", actor, role="admin")
    setup.create_books(
        tx,
        second.id,
        None,
        name="Zweite Muster UG",
        skr="SKR04",
        length=4,
        client_id="29098-55005",
        year_start=date(2026, 1, 1),
    )
    agency_key = keys.create(tx, vault, agency.id, "demo of an agency", actor, clients=(demo.id,))
    principal = Principal(demo.id, "admin", (demo.id,), key_id=key.key.id, user_id=user.id)
    ledger = build_ledger(tx, demo.id)
    add_rules(tx, demo.id, ledger.connection_id, actor)
    banking = build_banking(tx, context, principal, ledger.paid)
    return {
        "base_url": "",
        "dashboard": {"url": ""},
        "api_key": key.secret,
        "second_api_key": second_key.secret,
        "agency_key": agency_key.secret,
        "organization_id": demo.id,
        "second_organization_id": second.id,
        "agency_organization_id": agency.id,
        "user": {"email": EMAIL, "password": password},
        "ledger": ledger.facts(),
        "banking": banking.facts(),
        "mobility": build_mobility(tx, demo.id, banking.iban, BANKS[trade.BANK]).facts(),
    }


def add_rules(tx: Tx, organization_id: str, connection_id: str, actor: Actor) -> None:
    client = Client(organization_id, connection_id, CLIENT_ID)
    rows = [
        RuleRow(*client, place, new_id(), name, text, "", "out", None, None, technical(konto, LENGTH))
        for place, (name, text, konto) in enumerate(_RULES)
    ]
    knowledge.replace_rules(tx, client, rows, actor)
