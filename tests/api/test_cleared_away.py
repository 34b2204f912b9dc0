"""Everything that lets somebody in is cleared away at the moment it ends, and not before."""

from __future__ import annotations

from kontobahn.access import factors, sessions, users
from kontobahn.clock import HOUR, SECOND
from tests.harness import ACTOR, Service

TABLES = ("sessions", "password_resets", "sign_in_challenges", "sign_in_attempts", "sign_in_places")


def test_what_has_ended_goes_and_nothing_else(service: Service) -> None:
    db, vault = service.db, service.vault
    user = service.user(service.organization(), "erika@muster.example")
    start = service.clock.now()
    lives: dict[str, list[int]] = {}
    db.write_now(sessions.create, vault, user, hours=2, actor=ACTOR)
    db.write_now(sessions.create, vault, user, hours=1, actor=ACTOR)
    db.write_now(sessions.create, vault, user, hours=12, actor=ACTOR, in_browser=True)
    lives["sessions"] = [2 * HOUR, HOUR, sessions.IDLE]
    db.write_now(users.create_reset, vault, user, hours=3, actor=ACTOR)
    lives["password_resets"] = [3 * HOUR]
    db.write_now(factors.begin, vault, "second step", b"x", user)
    lives["sign_in_challenges"] = [factors.CHALLENGE_LIFE]
    service.session(user.email)
    assert service.post("/v2/auth/sessions", json={"email": user.email, "password": "wrong"}).status_code == 401
    [(session_end,)] = db.read_now(lambda tx: tx.all("SELECT MAX(expires_at) FROM sessions WHERE idle_until IS NULL"))
    lives["sessions"].append(session_end - start)
    attempts = db.read_now(lambda tx: tx.all("SELECT expires_at FROM sign_in_attempts"))
    lives["sign_in_attempts"] = [end - start for (end,) in attempts]
    lives["sign_in_places"] = [sessions.PLACE_LIFETIME]
    assert all(lives.values())
    for end in sorted({end for ends in lives.values() for end in ends}):
        for moment in (start + end - 1, start + end):
            service.clock.advance(seconds=(moment - service.clock.now()) / SECOND)
            for purge in (
                sessions.purge_expired,
                users.purge_expired_resets,
                factors.purge_challenges,
                sessions.purge_attempts,
            ):
                db.write_now(purge)
            for table in TABLES:
                [(left,)] = db.read_now(lambda tx: tx.all(f"SELECT COUNT(*) FROM {table}"))  # noqa: B023
                assert left == sum(start + one > moment for one in lives[table]), (table, end)
