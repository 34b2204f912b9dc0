"""Idempotency-Key: a call sent twice happens once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kontobahn.api import idempotency
from kontobahn.api.idempotency import Claim, StoredAnswer
from kontobahn.clock import HOUR, SECOND
from kontobahn.db import Tx
from kontobahn.errors import Conflict, KeyReused, StillRunning
from tests.harness import Organization, Service, ServiceFactory

INVITE = "/v2/auth/invitations"
PRICE = {"prices": {f"POST {INVITE}": 2}}


def invite(
    service: Service, who: Organization, email: str = "a@b.de", key: str = "order-1", **options: Any
) -> httpx.Response:
    return service.post(INVITE, who.key, json={"email": email}, headers={"idempotency-key": key}, **options)


def rows(service: Service, table: str) -> int:
    def count(tx: Tx) -> int:
        row = tx.one(f"SELECT COUNT(*) FROM {table}")
        assert row is not None
        return int(row[0])

    return service.db.read_now(count)


def test_the_same_call_is_answered_from_the_store(start_service: ServiceFactory) -> None:
    service = start_service(**PRICE)
    mine = service.organization()
    first, second = invite(service, mine), invite(service, mine)
    assert first.status_code == second.status_code == 201
    assert first.content == second.content
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"
    assert (first.headers["x-credits-charged"], second.headers["x-credits-charged"]) == ("2", "0")
    assert rows(service, "invitations") == 1
    assert service.balance(mine).spent == 2


def test_quotes_around_the_key_do_not_matter(service: Service) -> None:
    mine = service.organization()
    invite(service, mine, key="abc")
    assert invite(service, mine, key='"abc"').headers["idempotent-replayed"] == "true"


def test_another_body_query_or_path_under_the_same_key_is_422(service: Service) -> None:
    mine = service.organization()
    invite(service, mine)
    assert invite(service, mine, email="c@d.de").status_code == 422
    assert invite(service, mine, params={"quelle": "n8n"}).status_code == 422
    body = {"email": "a@b.de", "password": "x"}
    user = service.user(mine, "erika@muster.example")
    path = f"/v2/auth/users/{user.id}"
    other = service.request("PUT", path, mine.key, json={"role": "admin"}, headers={"idempotency-key": "order-1"})
    assert other.status_code == 422
    public = service.post("/v2/auth/sessions", json=body, headers={"idempotency-key": "order-1"})
    assert public.status_code == 401  # calls without a principal are a scope of their own
    assert rows(service, "invitations") == 1


def test_two_organisations_may_use_the_same_key(service: Service) -> None:
    mine, other = service.organization(), service.organization("Andere")
    first, second = invite(service, mine), invite(service, other)
    assert first.status_code == second.status_code == 201
    assert first.json()["data"]["id"] != second.json()["data"]["id"]


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "a\tb", "ü"])
def test_a_key_that_cannot_be_one_is_400(service: Service, key: str) -> None:
    mine = service.organization()
    answer = service.post(INVITE, mine.key, json={"email": "a@b.de"}, headers={"idempotency-key": key.encode()})
    assert answer.status_code == 400
    assert answer.json()["field"] == "Idempotency-Key"
    assert rows(service, "invitations") == 0


def test_what_the_caller_must_correct_is_not_stored(start_service: ServiceFactory) -> None:
    service = start_service(**PRICE)
    mine = service.organization(credits_granted=1)
    assert invite(service, mine, email="wrong").status_code == 400
    poor = invite(service, mine)
    assert poor.status_code == 402
    assert poor.json() | {"request_id": ""} == {
        "error": "Not enough credits: this call needs 2, 1 are available.",
        "benoetigt": 2,
        "verfuegbar": 1,
        "request_id": "",
    }
    assert rows(service, "idempotency_keys") == 0
    service.db.write_now(_grant, mine.id)
    assert invite(service, mine).status_code == 201


def _grant(tx: Tx, organization_id: str) -> None:
    from kontobahn import credits

    credits.grant(tx, organization_id, 10)


def test_a_refusal_by_the_present_state_is_stored(service: Service) -> None:
    mine = service.organization()
    invite(service, mine, key="first")
    refused = invite(service, mine, key="second")
    assert refused.status_code == 409
    again = invite(service, mine, key="second")
    assert again.status_code == 409
    assert again.content == refused.content
    assert again.headers["idempotent-replayed"] == "true"


def test_fifty_calls_at_once_happen_once(start_service: ServiceFactory) -> None:
    service = start_service(**PRICE)
    mine = service.organization()
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: invite(service, mine), range(50)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    bodies = {answer.content for answer in answers if answer.status_code == 201}
    assert len(bodies) == 1
    assert all("still running" in answer.json()["error"] for answer in answers if answer.status_code == 409)
    assert all("retry-after" in answer.headers for answer in answers if answer.status_code == 409)
    assert rows(service, "invitations") == 1
    assert service.balance(mine).spent == 2


def test_a_key_is_forgotten_after_a_day(service: Service) -> None:
    mine = service.organization()
    invite(service, mine)
    service.clock.advance(seconds=86399)
    assert invite(service, mine).headers["idempotent-replayed"] == "true"
    service.clock.advance(seconds=1)
    fresh = invite(service, mine)
    assert fresh.status_code == 409  # really carried out again, and the invitation is still open
    assert "idempotent-replayed" not in fresh.headers
    service.clock.advance(seconds=86400)
    service.db.write_now(idempotency.purge_expired)
    assert rows(service, "idempotency_keys") == 0


def test_a_claim_left_by_a_dead_process_is_free_again_and_its_late_effect_undone(service: Service) -> None:
    mine = service.organization()
    dead = idempotency.Claim(mine.id, "order-1", "f", mine.id, "dead process", 10**12, 60_000_000)
    assert service.db.write_now(idempotency.begin, service.vault, dead) is None
    assert invite(service, mine).status_code == 422  # its fingerprint was another one
    service.db.write_now(idempotency.abandon, dead)
    assert service.db.write_now(idempotency.begin, service.vault, dead) is None
    service.clock.advance(seconds=60)
    alive = dead._replace(owner="alive")
    assert service.db.write_now(idempotency.begin, service.vault, alive) is None
    with pytest.raises(Exception, match="taken over"):
        service.db.write_now(idempotency.complete, service.vault, dead, idempotency.StoredAnswer(201, b"late"))
    service.db.write_now(idempotency.complete, service.vault, alive, idempotency.StoredAnswer(201, b"{}"))
    # Another call of the same caller, begun anew after its process died too: what is stored for the first stays.
    other = dead._replace(key="order-2")
    assert service.db.write_now(idempotency.begin, service.vault, other) is None
    service.clock.advance(seconds=60)
    assert service.db.write_now(idempotency.begin, service.vault, other._replace(owner="alive")) is None
    stored = service.db.write_now(idempotency.begin, service.vault, dead)
    assert stored == idempotency.StoredAnswer(201, b"{}")


def test_a_stored_answer_with_a_secret_is_sealed(service: Service) -> None:
    mine = service.organization()
    token = invite(service, mine).json()["data"]["token"]

    def stored(tx: Tx) -> bytes:
        row = tx.one("SELECT answer FROM idempotency_keys")
        assert row is not None
        return bytes(row[0])

    assert token.encode() not in service.db.read_now(stored)


# --- The store, against a model of it

_CLAIMS = st.builds(
    lambda scope, key, text, wide, owner: Claim(
        scope, key, text, "a b" if wide else "a", owner, 24 * HOUR, 60 * SECOND
    ),
    st.sampled_from("st"), st.sampled_from("kl"), st.sampled_from("fg"), st.booleans(), st.sampled_from("op"),
)  # fmt: skip
_STEPS = st.one_of(
    st.tuples(st.sampled_from(["begin", "begin", "complete", "abandon", "release"]), _CLAIMS),
    st.tuples(st.just("wait"), st.sampled_from([1, 59, 60, 86_399, 86_400])),
    st.tuples(st.just("purge"), st.none()),
)


_ONE = Claim("s", "k", "f", "a", "o", 24 * HOUR, 60 * SECOND)
_TWO = _ONE._replace(key="l")


class Stored:
    """Everything that is known of a key, as the specification says it."""

    def __init__(self, now: int) -> None:
        self.now, self.rows = now, dict[tuple[str, str], dict[str, Any]]()

    def begin(self, claim: Claim) -> object:
        row = self.rows.get((claim.scope, claim.key))
        if row is not None and row["expires"] > self.now:
            if row["text"] != claim.fingerprint or not set(row["wide"]) <= set(claim.organizations):
                return KeyReused
            if row["answer"] is not None:
                return row["answer"]
            if row["lease"] > self.now:
                return StillRunning
        lease, expires = self.now + 60 * SECOND, self.now + 24 * HOUR
        self.rows[claim.scope, claim.key] = {
            "text": claim.fingerprint, "wide": claim.organizations, "owner": claim.owner, "answer": None, "lease": lease,
            "expires": expires,
        }  # fmt: skip
        return None

    def running(self, claim: Claim) -> dict[str, Any] | None:
        row = self.rows.get((claim.scope, claim.key))
        return row if row and row["owner"] == claim.owner and row["answer"] is None else None

    def complete(self, claim: Claim) -> object:
        if (row := self.running(claim)) is None:
            return Conflict
        row["answer"] = StoredAnswer(201, f"{claim.scope} {claim.key} {claim.owner}".encode())
        return None

    def abandon(self, claim: Claim) -> None:
        if self.running(claim):
            del self.rows[claim.scope, claim.key]

    def release(self, claim: Claim) -> None:
        if row := self.running(claim):
            row["lease"] = 0

    def purge(self) -> int:
        gone = [key for key, row in self.rows.items() if row["expires"] <= self.now]
        for key in gone:
            del self.rows[key]
        return len(gone)


def _done(service: Service, unit: Any, *args: Any) -> object:
    """Returns what the unit returns, or the kind of what it raises."""
    try:
        return service.db.write_now(unit, *args)
    except (Conflict, KeyReused) as error:
        return type(error)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(_STEPS, min_size=3, max_size=25))
@example([("begin", _ONE), ("complete", _ONE), ("abandon", _ONE), ("release", _ONE), ("begin", _ONE)])
@example([("begin", _ONE), ("begin", _TWO), ("release", _ONE), ("begin", _TWO), ("abandon", _ONE), ("begin", _TWO)])
def test_every_key_is_known_to_its_own_caller_only(service: Service, steps: list[tuple[str, Any]]) -> None:
    service.db.write_now(lambda tx: tx.run("DELETE FROM idempotency_keys WHERE scope <> ?", ""))
    stored = Stored(service.clock.now())
    for action, what in steps:
        if action == "wait":
            service.clock.advance(seconds=what)
            stored.now = service.clock.now()
        elif action == "purge":
            assert _done(service, idempotency.purge_expired) == stored.purge()
        elif action == "begin":
            assert _done(service, idempotency.begin, service.vault, what) == stored.begin(what)
        elif action == "complete":
            answer = StoredAnswer(201, f"{what.scope} {what.key} {what.owner}".encode())
            assert _done(service, idempotency.complete, service.vault, what, answer) == stored.complete(what)
        else:
            assert _done(service, getattr(idempotency, action), what) is None
            getattr(stored, action)(what)
    assert rows(service, "idempotency_keys") == len(stored.rows)
