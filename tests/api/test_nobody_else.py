"""A change to one person, key or organisation changes no row of another, and is in the log of that organisation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kontobahn.access import audit, client_access, clients, factors, keys, organizations, sessions, users
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound, Unauthorized
from kontobahn.ids import API_KEY_PREFIX
from tests.harness import ACTOR, Organization, Service

TABLES = (
    "organizations", "users", "sessions", "password_resets", "recovery_codes", "user_factors", "api_keys", "agency_clients",
    "client_access",
)  # fmt: skip
HASH = "of the same password"
UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"


class Person(NamedTuple):
    user: users.User
    principal: Principal
    factor: factors.Factor
    codes: list[str]
    link: str


class World(NamedTuple):
    """Two organisations of two people each, who all have the same password and all that a person can have."""

    service: Service
    mine: Organization
    other: Organization
    me: Person
    client: Organization


@pytest.fixture
def world(service: Service) -> World:
    mine, other, client = (service.organization(name) for name in ("Meine GmbH", "Andere GmbH", "Klient GmbH"))
    people = [
        service.db.write_now(equip, service, owner, f"{name}@{owner.id}.example", client)
        for owner in (other, mine)
        for name in ("a", "b")
    ]
    service.agency(mine, other, client)
    for one in people:  # making something for the next must not have taken it from the one before
        service.db.read_now(users.check_reset, service.vault, one.link)
        assert len(service.db.read_now(sessions.of_user, one.user.organization_id, one.user.id)) == 2
        assert service.db.read_now(factors.recovery_codes_left, one.user.organization_id, one.user.id) == len(one.codes)
    return World(service, mine, other, people[-1], client)


def equip(tx: Tx, service: Service, owner: Organization, email: str, client: Organization) -> Person:
    user = users.create(tx, owner.id, email=email, name=email, role="owner", password_hash=HASH, actor=ACTOR)
    opened = [sessions.create(tx, service.vault, user, hours=1, actor=ACTOR).session for _ in range(2)]
    principal = Principal(owner.id, "owner", (owner.id,), user_id=user.id, session_id=opened[0].id)
    code = factors.totp(b"secret of an app", tx.now // SECOND // factors.STEP_SECONDS)
    factor = factors.add_totp(tx, service.vault, principal, b"secret of an app", code, "App", ACTOR)
    codes = factors.make_recovery_codes(tx, service.vault, principal, ACTOR)
    link = users.create_reset(tx, service.vault, user, hours=1, actor=ACTOR)
    client_access.give_by_operator(tx, user, client.id, "member", ACTOR)
    return Person(user, principal, factor, codes, link.secret)


def snapshot(tx: Tx) -> set[tuple[Any, ...]]:
    return {(table, *row) for table in TABLES for row in tx.all(f"SELECT * FROM {table}")}


def change_password(tx: Tx, world: World) -> None:
    users.change_password(tx, world.me.principal, old_hash=HASH, new_hash="new", actor=ACTOR)


def use_link(tx: Tx, world: World) -> None:
    users.reset_password(tx, world.service.vault, world.me.link, password_hash="new", actor=ACTOR)


def make_link(tx: Tx, world: World) -> None:
    users.create_reset(tx, world.service.vault, world.me.user, hours=1, actor=ACTOR)
    with pytest.raises(NotFound):
        users.check_reset(tx, world.service.vault, world.me.link)


def end_other_sessions(tx: Tx, world: World) -> None:
    assert sessions.end_others(tx, world.me.principal, ACTOR) == 1


def end_session(tx: Tx, world: World) -> None:
    sessions.end(tx, world.me.principal, world.me.principal.session_id or "", ACTOR)
    with pytest.raises(Unauthorized):
        sessions.get(tx, world.me.principal)


def confirm_session(tx: Tx, world: World) -> None:
    sessions.confirm(tx, world.service.vault, sessions.get(tx, world.me.principal), ACTOR)


def use_recovery_code(tx: Tx, world: World) -> None:
    factors.use_code(tx, world.service.vault, world.me.user, world.me.codes[0], ACTOR)
    assert factors.recovery_codes_left(tx, world.mine.id, world.me.user.id) == factors.RECOVERY_CODES - 1


def make_recovery_codes(tx: Tx, world: World) -> None:
    factors.make_recovery_codes(tx, world.service.vault, world.me.principal, ACTOR)
    assert factors.recovery_codes_left(tx, world.mine.id, world.me.user.id) == factors.RECOVERY_CODES


def remove_factor(tx: Tx, world: World) -> None:
    factors.remove(tx, world.me.principal, world.me.factor.id, ACTOR)


def withdraw_access(tx: Tx, world: World) -> None:
    client_access.withdraw(tx, world.me.principal, world.me.user.id, world.client.id, ACTOR)


def change_role(tx: Tx, world: World) -> None:
    users.change_role(tx, world.me.principal, world.me.user.id, "member", ACTOR)


def delete_person(tx: Tx, world: World) -> None:
    users.delete(tx, world.me.principal, world.me.user.id, ACTOR)


OF_PERSON = (
    change_password, use_link, make_link, end_other_sessions, end_session, confirm_session, use_recovery_code,
    make_recovery_codes, remove_factor, withdraw_access, change_role, delete_person,
)  # fmt: skip


def check(world: World, act: Callable[[Tx, World], None], subject: str, *, logged: bool = True) -> None:
    db = world.service.db
    before, log = db.read_now(snapshot), db.read_now(audit.entries, world.mine.id)
    db.write_now(act, world)
    changed = before ^ db.read_now(snapshot)
    assert changed
    assert [row for row in changed if subject not in row] == []
    assert (len(db.read_now(audit.entries, world.mine.id)) > len(log)) is logged


@pytest.mark.parametrize("act", OF_PERSON)
def test_nothing_of_another_person_changes(world: World, act: Callable[[Tx, World], None]) -> None:
    check(world, act, world.me.user.id)


def test_a_session_that_is_used_lasts_longer_alone_and_not_once_it_has_ended(world: World) -> None:
    service, me = world.service, world.me

    def open_two(tx: Tx) -> list[sessions.Session]:
        return [
            sessions.create(tx, service.vault, me.user, hours=12, actor=ACTOR, in_browser=True).session
            for _ in range(2)
        ]

    used, left = service.db.write_now(open_two)
    ends_at = used.idle_until or 0
    service.clock.advance(seconds=(ends_at - service.clock.now()) / SECOND - 1)
    check(world, lambda tx, _: sessions.touch(tx, used), used.id, logged=False)
    listed = {one.id: one for one in service.db.read_now(sessions.of_user, world.mine.id, me.user.id)}
    assert listed[used.id].idle_until == service.clock.now() + sessions.IDLE
    service.clock.advance(seconds=1)
    before = service.db.read_now(snapshot)
    service.db.write_now(sessions.touch, left)
    assert service.db.read_now(snapshot) == before


def test_nothing_of_another_key_changes(world: World) -> None:
    key_id, now = world.mine.key_id, world.service.clock.now()
    second = world.service.db.write_now(keys.create, world.service.vault, world.mine.id, "second", ACTOR)
    assert second.key.hint == second.secret[: len(API_KEY_PREFIX) + 4], "it shows which key, and too little to guess it"
    assert world.service.db.read_now(keys.is_used, world.mine.id) == (True, False)
    check(world, lambda tx, _: keys.note_use(tx, world.mine.id, key_id, now), key_id, logged=False)
    assert world.service.db.read_now(keys.is_used, world.mine.id) == (True, True)
    assert world.service.db.read_now(keys.is_used, world.other.id) == (True, False)
    keyless = world.service.db.write_now(organizations.create, "Ohne Schlüssel GmbH", ACTOR)
    assert world.service.db.read_now(keys.is_used, keyless.id) == (False, False)
    check(world, lambda tx, _: keys.revoke(tx, world.mine.id, key_id, ACTOR) and None, key_id)


def test_nothing_of_another_organisation_changes(world: World) -> None:
    db, mine = world.service.db, world.mine.id
    check(world, lambda tx, _: organizations.rename(tx, mine, "Neu GmbH", ACTOR) and None, mine)
    assert db.read_now(organizations.get, mine).name == "Neu GmbH"
    check(world, lambda tx, _: factors.require(tx, world.me.principal, True, ACTOR), mine)
    for at in (world.service.clock.now(), None):
        check(world, lambda tx, _, at=at: organizations.set_closed(tx, mine, at), mine, logged=False)  # type: ignore[misc]
    assert db.read_now(organizations.exists, mine)
    assert not db.read_now(organizations.exists, UNKNOWN)
    with pytest.raises(NotFound):
        db.read_now(organizations.get, UNKNOWN)
    with pytest.raises(NotFound):
        db.read_now(keys.find, UNKNOWN)


def test_what_is_listed_for_a_person_or_an_organisation_is_theirs(world: World) -> None:
    db, me = world.service.db, world.me.user
    assert [one.id for one in db.read_now(client_access.of_user, me.organization_id, me.id)] == [world.client.id]
    assert [one.id for one in db.read_now(clients.listing, world.me.principal)] == [world.client.id]
    for owner, count in ((world.mine, 2), (world.other, 2), (world.client, 4)):
        listed = db.read_now(client_access.listing, owner.id)
        assert len(listed) == count
        assert all(owner.id in (one.access.organization_id, one.access.client_organization_id) for one in listed)
        assert db.read_now(client_access.any_to, owner.id) is (owner == world.client)


def test_a_person_is_found_in_their_own_organisation_alone(world: World) -> None:
    db, me = world.service.db, world.me.user
    assert db.read_now(users.by_id, me.organization_id, me.id) == db.read_now(users.find, me.id) == me
    for organization_id, user_id in ((world.other.id, me.id), (me.organization_id, UNKNOWN)):
        with pytest.raises(NotFound):
            db.read_now(users.by_id, organization_id, user_id)


def test_an_owner_elsewhere_is_no_owner_here(world: World) -> None:
    db, me = world.service.db, world.me
    [colleague] = [one for one in db.read_now(users.listing, world.mine.id) if one.id != me.user.id]
    db.write_now(users.delete, me.principal, colleague.id, ACTOR)
    with pytest.raises(Conflict, match="last owner"):
        db.write_now(users.delete, me.principal, me.user.id, ACTOR)
    assert db.read_now(users.exists, me.user.id)
    assert not db.read_now(users.exists, colleague.id)
