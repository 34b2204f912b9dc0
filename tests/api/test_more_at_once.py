"""Two transactions that decide at once about organisations, second factors, limits of keys, the sandbox bank and the schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kontobahn.access import factors, invitations, keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Limits, Principal
from kontobahn.bank_providers.sandbox import bank as sandbox
from kontobahn.bank_providers.sandbox import store
from kontobahn.bank_providers.sandbox import webhooks as sandbox_webhooks
from kontobahn.bank_providers.sandbox.rules import BANKS, PEOPLE
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.provider import Banking
from kontobahn.cli import organizations as removal
from kontobahn.clock import SECOND, SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.db.migrate import _apply_missing, known_migrations
from kontobahn.errors import Conflict, Forbidden, NotFound, Unauthorized
from kontobahn.settings import load
from tests.api.banking.test_key_limits import Payer
from tests.harness import Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.services import PostgresServer

pytestmark = on_postgres
ACTOR = Actor("test")


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


def person(service: Service, owner: Organization) -> tuple[users.User, Principal]:
    user = service.user(owner, "erika@muster.example")
    return user, Principal(owner.id, "owner", (owner.id,), user_id=user.id)


# --- Organisations


def test_an_organisation_that_is_being_deleted_is_not_renamed(service: Service) -> None:
    empty = service.db.write_now(organizations.create, "Leer GmbH", ACTOR)
    outcome = overlap(
        service.db,
        lambda tx: removal.delete_everything(tx, empty),
        lambda tx: organizations.rename(tx, empty.id, "Neu GmbH", ACTOR),
    )
    assert outcome.lock == "organization"
    assert isinstance(outcome.second, NotFound)


def test_an_organisation_is_deleted_once(service: Service) -> None:
    empty = service.db.write_now(organizations.create, "Leer GmbH", ACTOR)
    outcome = overlap(service.db, *(lambda tx: removal.delete_everything(tx, empty),) * 2)
    assert outcome.lock == "organization"
    assert not isinstance(outcome.first, Exception)


def test_an_installation_has_one_first_person(service: Service) -> None:
    def begin(name: str) -> object:
        email = f"{name}@muster.example"
        return lambda tx: organizations.create_first(
            tx, organization=name, email=email, name=name, password_hash="x", actor=ACTOR
        )  # fmt: skip

    outcome = overlap(service.db, begin("erika"), begin("max"))  # type: ignore[arg-type]
    assert outcome.lock == "first run"
    assert isinstance(outcome.second, Conflict)
    assert service.db.read_now(lambda tx: tx.all("SELECT email FROM users")) == [("erika@muster.example",)]


# --- Passwords and second factors


def test_a_password_is_changed_by_one_and_a_link_used_once(service: Service, mine: Organization) -> None:
    user, principal = person(service, mine)
    known = service.db.read_now(users.by_email, user.email)
    assert known is not None

    def change(tx: Tx) -> int:
        return users.change_password(tx, principal, old_hash=known[1], new_hash="new", actor=ACTOR)

    changed = overlap(service.db, change, change)
    assert changed.lock == "users"
    assert isinstance(changed.second, Conflict)
    link = service.db.write_now(users.create_reset, service.vault, user, hours=1, actor=ACTOR)

    def reset(tx: Tx) -> users.User:
        return users.reset_password(tx, service.vault, link.secret, password_hash="newer", actor=ACTOR)

    used = overlap(service.db, reset, reset)
    assert used.lock == "users"
    assert isinstance(used.second, NotFound)


def test_a_code_is_used_once(service: Service, mine: Organization) -> None:
    user, principal = person(service, mine)
    secret = factors.new_secret()
    step = service.clock.now() // SECOND // factors.STEP_SECONDS
    service.db.write_now(
        factors.add_totp, service.vault, principal, secret, factors.totp(secret, step), "Telefon", ACTOR
    )
    service.clock.advance(seconds=factors.STEP_SECONDS)
    code = factors.totp(secret, step + 1)
    outcome = overlap(service.db, *(lambda tx: factors.use_code(tx, service.vault, user, code, ACTOR),) * 2)
    assert outcome.lock == "user_factors"
    assert outcome.first is None
    assert isinstance(outcome.second, Unauthorized)


def test_there_are_no_more_factors_than_may_be_and_never_none_where_one_is_required(
    service: Service, mine: Organization
) -> None:
    user, principal = person(service, mine)

    def add(tx: Tx, name: str) -> factors.Factor:
        return factors.add_passkey(
            tx, principal, name, ACTOR, credential_id=f"{mine.id} {name}", public_key=b"k", counter=0
        )

    made = [service.db.write_now(add, f"key {number}") for number in range(factors.MAX_FACTORS - 1)]
    added = overlap(service.db, lambda tx: add(tx, "one"), lambda tx: add(tx, "another"))
    assert added.lock == "user_factors"
    assert isinstance(added.second, Conflict)

    def remove(factor: factors.Factor) -> object:
        return lambda tx: factors.remove(tx, principal, factor.id, ACTOR)

    for factor in made[1:]:
        service.db.write_now(remove(factor))  # type: ignore[arg-type]
    service.db.write_now(factors.require, principal, True, ACTOR)
    removed = overlap(service.db, remove(made[0]), remove(added.first))  # type: ignore[arg-type]
    assert removed.lock == "user_factors"
    assert isinstance(removed.second, Conflict)
    assert len(service.db.read_now(factors.of_user, mine.id, user.id)) == 1


def test_who_leaves_takes_along_the_invitation_that_is_just_being_sent(service: Service, mine: Organization) -> None:
    _, owner = person(service, mine)
    admin = service.user(mine, "admin@muster.example", "admin")
    inviting = Principal(mine.id, "admin", (mine.id,), user_id=admin.id)
    outcome = overlap(
        service.db,
        lambda tx: invitations.create(
            tx, service.vault, inviting, email="max@muster.example", role="member", days=7, actor=ACTOR
        ),
        lambda tx: users.delete(tx, owner, admin.id, ACTOR),
    )
    assert outcome.lock == "invitations"
    assert [item.status for item in service.db.read_now(invitations.listing, mine.id)] == ["revoked"]


# --- Limits of keys


def test_two_payments_at_once_do_not_exceed_the_limit_of_a_day_together(service: Service) -> None:
    payer = Payer(service, None, 100_00)
    assert payer.pay("60.00").status_code == 201
    [payment] = service.get("/v2/banking/payments", payer.owner.key).json()["data"]
    principal = service.db.read_now(keys.authenticate, service.vault.token_hash(payer.key.secret), service.clock.now())
    assert principal.limits == Limits(None, 100_00)

    def pay(tx: Tx) -> None:
        payment_routes.check_key_limits(tx, principal, 40_00, "EUR", service.application.context.part(Banking))
        tx.run("UPDATE banking_payments SET amount_minor = amount_minor + 4000 WHERE id = ?", int(payment["id"]))

    outcome = overlap(service.db, pay, pay)
    assert outcome.lock == "key_payments"
    assert outcome.first is None
    assert isinstance(outcome.second, Forbidden)


# --- The sandbox bank


def test_what_happens_at_the_sandbox_bank_happens_one_after_the_other(service: Service) -> None:
    def connect(tx: Tx) -> store.SandboxConnection:
        return sandbox.connect(tx, next(iter(BANKS.values())), PEOPLE["demo"], "accounts", {0}, None)

    outcome = overlap(service.db, connect, connect)
    assert outcome.lock == "sandbox_bank"
    assert outcome.first.ref != outcome.second.ref
    numbers = service.db.read_now(lambda tx: tx.all("SELECT number FROM sandbox_deliveries ORDER BY number"))
    assert numbers == [(1,), (2,)]


def test_a_report_of_the_sandbox_bank_is_sent_by_one_process(service: Service) -> None:
    service.db.write_now(sandbox_webhooks.queue, "con_1", {"stage": "finish"})
    outcome = overlap(service.db, sandbox_webhooks._claim, sandbox_webhooks._claim)
    assert outcome.lock == "sandbox_deliveries"
    assert (len(outcome.first), outcome.second) == (1, [])


# --- The schema


@pytest.fixture
def empty_url(postgres: PostgresServer) -> Iterator[str]:
    yield postgres.create_database("migrated_at_once")
    postgres.drop_database("migrated_at_once")


def test_the_schema_is_made_by_one_process(engine: str, empty_url: str, tmp_path: Path) -> None:
    db = open_database(load({}, data=str(tmp_path), database_url=empty_url), SystemClock())
    known = known_migrations("postgres")
    outcome = overlap(db, *(lambda tx: _apply_missing(tx, "postgres", known),) * 2)
    db.close()
    assert outcome.lock == "schema_migrations"
    assert (outcome.first, outcome.second) == (["base_line", *(step.name for step in known)], [])
