"""The organisations of the demo: one company whose bank, books, tickets and matching tell one story, and its adviser with six clients.

Each area adds its own data, and its own object to the facts.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from kontobahn import credits
from kontobahn.access import keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.api.call import Context
from kontobahn.app import make_context
from kontobahn.bank_providers.sandbox.rules import BANKS, COMPANY
from kontobahn.clock import Clock, SystemClock, berlin_date
from kontobahn.db import Database, Tx
from kontobahn.demo import clients, story, trade
from kontobahn.demo.banking import build_banking, next_ibans
from kontobahn.demo.clients import Made
from kontobahn.demo.facts import facts_path, read_facts, write_facts
from kontobahn.demo.ledger import CLIENT_ID, build_ledger
from kontobahn.demo.mobility import build_mobility
from kontobahn.demo.payables import receive_invoices
from kontobahn.demo.reconciliation import Books, Desk, add_rules, match_recent
from kontobahn.demo.story import Story
from kontobahn.ids import new_id
from kontobahn.reconciliation.store import Client
from kontobahn.settings import Settings
from kontobahn.vault import Vault
from kontobahn.webhooks import claims, further, outbox
from kontobahn.webhooks.claims import GONE, Capacity, Outcome

CREDITS = 10_000
EMAIL, ADVISER_EMAIL = "demo@kontobahn.example", "kanzlei@kontobahn.example"
REFUSED_FILE = "Kontoauszug_Musterbank.pdf"


class World(NamedTuple):
    """The demo as one transaction has written it, for the calls that follow."""

    facts: dict[str, Any]
    told: Story
    principal: Principal
    books: Books
    savings_id: str
    adviser_id: str
    clients: list[Made]


def ensure_demo(settings: Settings, db: Database, vault: Vault) -> dict[str, Any]:
    """Returns the demo's facts; makes the demo if this database has none."""
    known = read_facts(facts_path(settings))
    if known and db.read_now(organizations.exists, known["organization_id"]):
        return known
    facts = make(settings, db, vault, SystemClock(), secrets.token_urlsafe(12))
    write_facts(settings, facts)
    return facts


def make(settings: Settings, db: Database, vault: Vault, clock: Clock, password: str) -> dict[str, Any]:
    """Makes the demo as of the clock's day, and returns its facts."""
    context = make_context(settings, db, vault, clock)
    with ThreadPoolExecutor(1) as beside:
        # It takes as long as the books, which are written meanwhile.
        hashed = beside.submit(users.hash_password, password)
        world = db.write_now(build, context, password, hashed.result)
    asyncio.run(work(context, world))
    return world.facts


async def work(context: Context, world: World) -> None:
    """Does at the new desks what people have done there: accounts set up, payments matched, batches handed over, invoices received."""
    desk = Desk(context, world.principal)
    await match_recent(desk, world.books, world.savings_id, world.told)
    await receive_invoices(desk, world.books, world.told.today)
    await clients.match_clients(context, world.adviser_id, world.clients, world.told.today)


def build(tx: Tx, context: Context, password: str, hashed: Callable[[], str]) -> World:
    actor, vault, today = Actor("demo"), context.vault, berlin_date(tx.now)
    demo = organizations.create(tx, COMPANY, actor)
    told = story.tell(today, next_ibans(tx))
    ledger = build_ledger(tx, demo.id, told)
    add_rules(tx, Client(demo.id, ledger.connection_id, CLIENT_ID), actor)
    password_hash = hashed()
    user = users.create(
        tx, demo.id, email=EMAIL, name="Dana Demo", role="owner", password_hash=password_hash, actor=actor
    )
    key = keys.create(tx, vault, demo.id, "demo", actor, role="admin", created_by=user.id)
    second_id = clients.add_new_client(tx, today, actor)
    second_key = keys.create(tx, vault, second_id, "demo of another organisation", actor, role="admin")
    agency = organizations.create(tx, "Kanzlei Beispiel Steuerberatung", actor)
    agency_key = keys.create(tx, vault, agency.id, "demo of an agency", actor, clients=(demo.id,))
    for organization_id in (demo.id, second_id, agency.id):
        credits.grant(tx, organization_id, CREDITS, note="demo")
    principal = Principal(demo.id, "admin", (demo.id,), key_id=key.key.id, user_id=user.id)
    banking = build_banking(tx, context, principal, told)
    mobility = build_mobility(tx, demo.id, banking.iban, BANKS[trade.BANK])
    fail_event(tx, context, principal, actor)
    clients.refuse_file(tx, demo.id, REFUSED_FILE, actor)
    adviser = add_adviser(tx, agency.id, password_hash, (demo.id, second_id), actor)
    facts = {
        "base_url": "",
        "dashboard": {"url": ""},
        "api_key": key.secret,
        "second_api_key": second_key.secret,
        "agency_key": agency_key.secret,
        "organization_id": demo.id,
        "second_organization_id": second_id,
        "agency_organization_id": agency.id,
        "user": {"email": EMAIL, "password": password},
        "adviser": {"email": ADVISER_EMAIL, "password": password},
        "ledger": ledger.facts(),
        "banking": banking.facts(),
        "mobility": mobility.facts(),
    }
    made = clients.add_clients(tx, context, adviser, today, CREDITS, actor)
    books = Books(ledger.connection_id, CLIENT_ID, banking.account_id)
    return World(facts, told, principal, books, banking.second_account_id, adviser.id, made)


def add_adviser(tx: Tx, agency_id: str, password_hash: str, organization_ids: tuple[str, ...], actor: Actor) -> User:
    adviser = users.create(
        tx, agency_id, email=ADVISER_EMAIL, name="Katja Kanzlei", role="owner", password_hash=password_hash, actor=actor
    )
    for organization_id in organization_ids:
        clients.give_access(tx, adviser, organization_id, actor)
    return adviser


def fail_event(tx: Tx, context: Context, principal: Principal, actor: Actor) -> None:
    """A receiver answers its test with 410 and was switched on again since: one event that was given up."""
    wanted = further.Wanted("https://lager.demo-handel.example/kontobahn", ("connection_destroyed",), "Lagerverwaltung")
    receiver, _ = further.create(tx, context.vault, principal.organization_id, wanted, actor)
    data = {"message": "A test of this endpoint."}
    outbox.emit(tx, principal.organization_id, outbox.TEST_EVENT, f"test:{new_id()}", data, only=receiver.id)
    owner, everything = f"demo {new_id()}", Capacity(1_000, 1_000, 1_000, 1_000, {}, (), frozenset())
    cycle = claims.run_cycle(tx, owner, [], everything, claim_seconds=60, pause_days=5)
    ended = [Outcome(one, tx.now, 84, GONE, "Gone") for one in cycle.claimed if one.receiver_id == receiver.id]
    nothing = everything._replace(quick=0, failing_or_slow=0)
    claims.run_cycle(tx, owner, ended, nothing, claim_seconds=60, pause_days=5)
    claims.release(tx, owner)
    further.resume(tx, principal, receiver.id, actor)
