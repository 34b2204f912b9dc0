"""Two transactions that decide at once about keys, users, invitations, calls, customers and tickets, on PostgreSQL."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kontobahn.access import audit, client_access, invitations, keys, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ClientRole, Principal
from kontobahn.api import idempotency, tasks
from kontobahn.api.idempotency import Claim
from kontobahn.api.tasks import TaskRow
from kontobahn.banking import ids
from kontobahn.cli import mobility as commands
from kontobahn.clock import HOUR, SECOND
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound, TooManyRequests, Unauthorized
from kontobahn.mobility import customers, seller, tickets
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.invoices.store import issue
from kontobahn.mobility.tickets import NewTicket, TicketReport
from tests.harness import START, Organization, Service
from tests.interleaving import Overlap, on_postgres, overlap
from tests.mobility_builder import CUSTOMER, Shop, ticket

pytestmark = on_postgres
ACTOR = Actor("test")


@pytest.fixture
def mine(service: Service) -> Organization:
    return service.organization()


def principal(owner: Organization) -> Principal:
    return Principal(owner.id, "owner", (owner.id,))


def refused(lock: str, outcome: Overlap, kind: type[Exception] = Conflict) -> bool:
    """Tells whether the second waited for this lock and was refused by what it then found."""
    return outcome.lock == lock and not isinstance(outcome.first, Exception) and isinstance(outcome.second, kind)


# --- Access


def test_a_key_that_is_being_revoked_gets_no_successor(service: Service, mine: Organization) -> None:
    assert refused(
        "api_key",
        overlap(
            service.db,
            lambda tx: keys.revoke(tx, mine.id, mine.key_id, ACTOR),
            lambda tx: keys.rotate(tx, service.vault, mine.id, mine.key_id, ACTOR, overlap_seconds=60),
        ),
    )
    assert len(service.db.read_now(keys.listing, mine.id)) == 1


def test_a_key_is_rotated_once_and_its_end_told_once(service: Service, mine: Organization) -> None:
    rotate = lambda tx: keys.rotate(tx, service.vault, mine.id, mine.key_id, ACTOR, overlap_seconds=60)  # noqa: E731
    assert refused("api_key", overlap(service.db, rotate, rotate))
    revoke = lambda tx: keys.revoke(tx, mine.id, mine.key_id, ACTOR)  # noqa: E731
    assert overlap(service.db, revoke, revoke).lock == "api_key"
    log = [entry.action for entry in service.db.read_now(audit.entries, mine.id)]
    assert (log.count("api_key.rotate"), log.count("api_key.revoke")) == (1, 1)


def test_no_password_is_set_beside_the_end_of_the_key_of_its_link(service: Service, mine: Organization) -> None:
    person = service.user(mine, "max@muster.example", "member")
    caller = principal(mine)._replace(key_id=mine.key_id)
    made = service.db.write_now(
        lambda tx: users.create_reset(tx, service.vault, person, hours=1, actor=ACTOR, by=caller)
    )
    reset = lambda tx: users.reset_password(tx, service.vault, made.secret, password_hash="x", actor=ACTOR)  # noqa: E731
    revoke = lambda tx: keys.revoke(tx, mine.id, mine.key_id, ACTOR)  # noqa: E731
    assert refused("users", overlap(service.db, revoke, reset), NotFound)


def test_nobody_invites_beside_the_loss_of_their_role(service: Service, mine: Organization) -> None:
    admin = service.user(mine, "admin@muster.example", "admin")
    caller = Principal(mine.id, "admin", (mine.id,), user_id=admin.id, session_id="s")
    made = overlap(
        service.db,
        lambda tx: users.change_role(tx, principal(mine), admin.id, "member", ACTOR),
        lambda tx: users.check_maker(tx, caller, "admin", tx.now + 1),
    )
    assert refused("users", made, Unauthorized)


@pytest.mark.parametrize("side", ["client", "agency"])
def test_two_roles_in_a_client_are_given_one_after_the_other(service: Service, mine: Organization, side: str) -> None:
    agency = service.organization("Kanzlei")
    adviser, colleague = (service.user(agency, f"{name}@kanzlei.example") for name in ("a", "b"))
    service.give_access(adviser, mine, "admin")
    if side == "client":
        service.give_access(colleague, mine, "read_only")
    caller = principal(mine if side == "client" else agency)._replace(user_id=adviser.id, session_id="s")

    def give(role: ClientRole) -> Any:
        return lambda tx: client_access.give(tx, caller, colleague.id, mine.id, role, ACTOR)

    both = overlap(service.db, give("member"), give("bookkeeping"))
    assert (both.lock, both.first.role, both.second.role) == ("users", "member", "bookkeeping")
    assert service.db.read_now(client_access.of_user, agency.id, colleague.id)[0].role == "bookkeeping"


@pytest.mark.parametrize("how", ["demoted", "deleted"])
def test_two_owners_do_not_remove_each_other(service: Service, mine: Organization, how: str) -> None:
    one, other = (service.user(mine, f"{name}@muster.example").id for name in ("a", "b"))

    def remove(user_id: str) -> Any:
        if how == "demoted":
            return lambda tx: users.change_role(tx, principal(mine), user_id, "member", ACTOR)
        return lambda tx: users.delete(tx, principal(mine), user_id, ACTOR)

    assert refused("users", overlap(service.db, remove(one), remove(other)))
    assert [user.role for user in service.db.read_now(users.listing, mine.id)].count("owner") == 1


def test_a_person_has_one_open_invitation_and_uses_it_once(service: Service, mine: Organization) -> None:
    def invite(tx: Tx) -> invitations.NewInvitation:
        return invitations.create(
            tx, service.vault, principal(mine), email="max@muster.example", role="member", days=7, actor=ACTOR
        )

    invited = overlap(service.db, invite, invite)
    assert refused("invitations", invited)
    token, invitation_id = invited.first.secret, invited.first.invitation.id

    def accept(tx: Tx) -> users.User:
        return invitations.accept(tx, service.vault, token, name="Max", password_hash="x", actor=ACTOR)

    def revoke(tx: Tx) -> invitations.Invitation:
        return invitations.revoke(tx, principal(mine), invitation_id, ACTOR)

    assert refused("invitations", overlap(service.db, accept, revoke))
    assert [user.email for user in service.db.read_now(users.listing, mine.id)] == ["max@muster.example"]


def test_an_invitation_that_is_being_revoked_makes_no_user(service: Service, mine: Organization) -> None:
    new = service.db.write_now(
        invitations.create,
        service.vault,
        principal(mine),
        email="max@muster.example",
        role="member",
        days=7,
        actor=ACTOR,
    )
    assert refused(
        "invitations",
        overlap(
            service.db,
            lambda tx: invitations.revoke(tx, principal(mine), new.invitation.id, ACTOR),
            lambda tx: invitations.accept(tx, service.vault, new.secret, name="Max", password_hash="x", actor=ACTOR),
        ),
    )
    assert service.db.read_now(users.listing, mine.id) == []


# --- Calls


def test_an_expired_claim_is_taken_over_by_one(service: Service, mine: Organization) -> None:
    def claim(owner: str) -> Claim:
        return Claim(mine.id, "key", "fingerprint", mine.id, owner, 24 * HOUR, 60 * SECOND)

    def begin(owner: str) -> Any:
        return lambda tx: idempotency.begin(tx, service.vault, claim(owner))

    claimed = overlap(service.db, begin("first"), begin("second"))
    assert claimed.waited
    assert isinstance(claimed.second, Conflict)
    service.clock.advance(seconds=60)
    # One that takes it over holds this lock before it has written anything that the other would wait for.
    assert overlap(service.db, lambda tx: tx.lock("idempotency", mine.id, "key"), begin("third")).lock == "idempotency"
    with pytest.raises(Conflict):
        service.db.write_now(begin("fourth"))
    with pytest.raises(Conflict):
        service.db.write_now(idempotency.complete, service.vault, claim("fourth"), idempotency.StoredAnswer(200, b""))


def test_no_more_tasks_run_at_once_than_may(service: Service, mine: Organization) -> None:
    def begin(number: int) -> Any:
        row = TaskRow(mine.id, str(number), "import", "", "", "test", "running", "", START, None, START + HOUR)
        return lambda tx: tasks._begin(tx, row, lambda begun: begun)

    for number in range(tasks.RUNNING_AT_ONCE - 1):
        service.db.write_now(begin(number))
    assert refused("api_tasks", overlap(service.db, begin(100), begin(101)), TooManyRequests)


def test_new_organisations_get_different_numbers(service: Service, mine: Organization) -> None:
    other = service.organization("Zweite GmbH")
    outcome = overlap(service.db, *(lambda tx, id=item.id: ids.take(tx, id, "account") for item in (mine, other)))
    assert outcome.lock == "banking_counters"
    assert outcome.second - outcome.first == ids.SPAN


# --- Mobility


def new_customer(**more: Any) -> NewCustomer:
    return msgspec.convert({**CUSTOMER, **more}, NewCustomer)


def report(**more: Any) -> TicketReport:
    return TicketReport(msgspec.convert(ticket(**more), NewTicket), line=1)


def test_changes_of_the_seller_do_not_undo_each_other(service: Service) -> None:
    shop = Shop(service)
    outcome = overlap(
        service.db,
        lambda tx: commands._change(tx, shop.owner.id, {"website": "https://a.example"}),
        lambda tx: commands._change(tx, shop.owner.id, {"bank_name": "Andere Bank"}),
    )
    assert outcome.lock == "mobility_seller"
    now = service.db.read_now(seller.load, shop.owner.id)
    assert (now.website, now.bank_name) == ("https://a.example", "Andere Bank")


def test_a_number_of_the_platform_belongs_to_one_customer(service: Service) -> None:
    shop = Shop(service)
    other = shop.customer()
    wanted = new_customer(mobility_customer_id="M-1")
    create = lambda tx: customers.create(tx, shop.owner.id, wanted)  # noqa: E731
    update = lambda tx: customers._update(tx, principal(shop.owner), other, wanted)  # noqa: E731
    assert refused("mobility_customers", overlap(service.db, create, update))
    again = new_customer(mobility_customer_id="M-2")
    assert refused(
        "mobility_customers", overlap(service.db, *(lambda tx: customers.create(tx, shop.owner.id, again),) * 2)
    )


def test_tickets_are_added_cancelled_and_invoiced_one_after_the_other(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket())
    customer = service.db.read_now(customers.find_for_operator, customer_id)
    [first] = shop.tickets(customer_id)

    def bill(tx: Tx) -> Any:
        return issue(tx, customer, [])

    def add(tx: Tx) -> Any:
        return tickets.merge(tx, shop.owner.id, customer_id, [report(holder="PN-2")], repeats=True)

    assert refused("mobility_tickets", overlap(service.db, bill, bill)), "nothing is invoiced twice"
    cancelled = overlap(service.db, lambda tx: tickets._cancel(tx, principal(shop.owner), first["id"]), bill)
    assert cancelled.lock == "mobility_tickets"
    assert cancelled.second.invoice.amount_in_cents == -6300, "what was cancelled meanwhile is credited"
    added = overlap(service.db, add, add)
    assert added.lock == "mobility_tickets"
    assert (len(added.first.added), added.second.added, added.second.unchanged) == (1, [], 1)
    [second] = [one for one in shop.tickets(customer_id) if one["status"] == "open"]
    after = overlap(service.db, bill, lambda tx: tickets._cancel(tx, principal(shop.owner), second["id"]))
    assert after.lock == "mobility_tickets"
    assert (after.second.status, after.second.invoice_id) == ("cancelled", after.first.invoice.id)
