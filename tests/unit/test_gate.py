"""Letting callers in, for how long that is remembered, and what a caller may do: every edge, without a database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kontobahn.access import principal
from kontobahn.access.principal import NO_LIMITS, Principal, Role, in_scope
from kontobahn.access.sessions import CACHE_SECONDS, MAX_CACHED, Authenticator
from kontobahn.clock import ManualClock
from kontobahn.errors import BadRequest, Forbidden, NotFound, Unauthorized
from kontobahn.ids import API_KEY_PREFIX, SESSION_PREFIX, new_token
from tests.harness import START

ME = Principal("mine", "admin", ("mine",), key_id="k")


class Door:
    """An authenticator whose database answers what the test says, and counts how often it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: Principal | Unauthorized = ME
        self.asked, self.seconds, self.clock = 0, 1_000.0, ManualClock(START)
        monkeypatch.setattr("kontobahn.access.sessions.time.monotonic", lambda: self.seconds)
        self.authenticator = Authenticator(self, self, self.clock)  # type: ignore[arg-type]

    async def read_inline(self, *_: Any) -> Principal | Unauthorized:
        self.asked += 1
        return self.answer

    def token_hash(self, token: str) -> str:
        return token

    def enter(self, token: str, how: str = "by_key") -> Principal:
        found: Principal = asyncio.run(getattr(self.authenticator, how)(token))
        return found


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    return Door(monkeypatch)


def test_who_was_let_in_or_refused_is_remembered_for_a_second(door: Door) -> None:
    key = new_token(API_KEY_PREFIX)
    assert door.enter(key) == door.enter(key) == ME
    door.seconds += CACHE_SECONDS
    door.enter(key)
    assert door.asked == 1
    door.seconds += 0.01
    door.answer = Unauthorized("revoked")
    for _ in range(2):
        with pytest.raises(Unauthorized, match="revoked"):
            door.enter(key)
    assert door.asked == 2
    assert CACHE_SECONDS <= 1, "a revoked key is refused within a second"


def test_what_is_not_a_token_is_refused_without_asking(door: Door) -> None:
    key, session = new_token(API_KEY_PREFIX), new_token(SESSION_PREFIX)
    for token, how in ((key[:-1], "by_key"), ("", "by_key"), (session, "by_key"), (key, "by_session")):
        with pytest.raises(Unauthorized, match="mistyped"):
            door.enter(token, how)
    assert door.asked == 0
    assert door.enter(session, "by_session") == ME
    with pytest.raises(Unauthorized, match="mistyped"):
        door.enter(session, "by_key")


def test_a_token_ends_at_its_instant(door: Door) -> None:
    key = new_token(API_KEY_PREFIX)
    door.answer = ME._replace(valid_until=START + 1)
    door.enter(key)
    door.clock.advance(seconds=0.000001)
    with pytest.raises(Unauthorized, match="API key has expired"):
        door.enter(key)
    door.answer = ME._replace(key_id=None, user_id="u", valid_until=START)
    with pytest.raises(Unauthorized, match="session has ended"):
        door.enter(key)
    assert door.asked == 2, "one that has ended is looked up again: it may have been prolonged"


def test_no_more_is_remembered_than_there_is_room_for(door: Door) -> None:
    first = new_token(API_KEY_PREFIX)
    door.authenticator._cached = {str(number): (0.0, ME) for number in range(MAX_CACHED - 1)}
    door.enter(first)
    assert len(door.authenticator._cached) == MAX_CACHED
    door.enter(new_token(API_KEY_PREFIX))
    assert len(door.authenticator._cached) == 1


def test_what_a_role_may() -> None:
    roles: tuple[Role, ...] = ("member", "admin", "owner")
    may = {role: [wanted for wanted in roles if Principal("o", role, ("o",)).may(wanted)] for role in roles}
    assert may == {"member": ["member"], "admin": ["member", "admin"], "owner": ["member", "admin", "owner"]}


def test_a_key_with_a_list_may_what_is_on_it() -> None:
    listed = ME._replace(scopes=("payments", "banking:read"))
    assert ME.has_scope(())
    assert ME.has_scope(("admin",))
    assert not listed.has_scope(())
    assert listed.has_scope(("admin", "payments"))
    assert not listed.has_scope(("admin",))
    assert not ME._replace(scopes=()).has_scope(("payments",))


def test_whoever_is_restricted_to_books_opens_those_and_names_the_client() -> None:
    restricted = ME._replace(clients=(("books", "1001-1"), ("other", "1001-2")))
    for connection_id, client_id in (("books", "1001-1"), ("other", "1001-2"), ("other", "1001-1"), ("books", None)):
        assert ME.may_open(connection_id, client_id)
        assert restricted.may_open(connection_id, client_id) is (
            (connection_id, client_id) in (restricted.clients or ())
        )
    assert not ME._replace(clients=()).may_open("books", "1001-1")


def test_of_a_caller_nothing_is_taken_for_granted() -> None:
    """A key has confirmed nothing and lacks nothing, unless it is said."""
    assert (ME.confirmed_at, ME.must_add_factor, ME.is_agency) == (0, False, False)
    assert (ME.scopes, ME.clients, ME.limits) == (None, None, NO_LIMITS)


def test_a_caller_acts_for_those_in_its_scope_and_is_told_nothing_of_others() -> None:
    agency = Principal("mine", "admin", ("mine", "a", "b"), is_agency=True, key_id="k")
    assert (ME.organizations(None), agency.organizations(None)) == (("mine",), ("mine", "a", "b"))
    assert (agency.organizations("b"), agency.organization("a"), agency.organization(None)) == (("b",), "a", "mine")
    with pytest.raises(NotFound):
        ME.organizations("a")
    with pytest.raises(Forbidden):
        agency.organizations("c")
    assert (ME.actor, ME._replace(key_id=None, user_id="u").actor) == ("key:k", "user:u")
    assert [in_scope(count) for count in (1, 2, 3)] == [
        "organization_id = ?", "organization_id IN (?, ?)", "organization_id IN (?, ?, ?)",
    ]  # fmt: skip


def test_scopes_are_known_by_name_and_kept_in_their_order() -> None:
    assert principal.parse_scopes([" payments ", "ledger:read", "payments"]) == ("ledger:read", "payments")
    for given, word in ((["payment"], "Did you mean `payments`"), (["x" * 100], "The scopes are"), ([], "empty list")):
        with pytest.raises(BadRequest, match=word) as refused:
            principal.parse_scopes(given, field="scope")
        assert refused.value.extra["field"] == "scope"
        assert "x" * 41 not in str(refused.value)
    assert principal.scopes_from_text(principal.scopes_to_text(("ledger:read", "admin"))) == ("ledger:read", "admin")
    assert principal.scopes_from_text("admin gone ledger:read") == ("ledger:read", "admin")
    assert principal.scopes_from_text(principal.scopes_to_text(None)) is None
