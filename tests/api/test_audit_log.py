"""The log of changes shows what was asked for, of the own organisation alone, with the names behind its actors."""

from __future__ import annotations

from datetime import date
from itertools import product
from typing import Any
from zoneinfo import ZoneInfo

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.clock import to_datetime
from tests.harness import Organization, Service

BERLIN = ZoneInfo("Europe/Berlin")
DAYS = [None, date(2026, 3, 2), date(2026, 3, 3)]


def note(service: Service, owner: Organization, actor: str, action: str, subject: str) -> None:
    service.db.write_now(lambda tx: audit.record(tx, owner.id, Actor(actor), action, subject))


def day_of(entry: audit.AuditEntry) -> date:
    return to_datetime(entry.at).astimezone(BERLIN).date()


def test_every_choice_and_every_page_shows_exactly_what_fits(service: Service) -> None:
    mine, other = service.organization("Meine"), service.organization("Andere")
    for owner in (mine, other):
        for actor, action, subject in product(("user:1", "key:1"), ("x.add", "x.remove"), ("1", "2")):
            note(service, owner, actor, action, subject)
            service.clock.advance(seconds=3 * 3600)
    note(service, other, "user:1", "x.other", "1")
    everything = service.db.read_now(audit.entries, mine.id)[::-1]
    assert len({day_of(entry) for entry in everything}) == 2
    for since, until, actor, action, subject in product(
        DAYS, DAYS, ("", "user:1"), ("", "x.add"), ("", everything[0].subject)
    ):
        wanted = [
            entry
            for entry in everything
            if (not since or since <= day_of(entry))
            and (not until or day_of(entry) <= until)
            and (not actor or entry.actor == actor)
            and (not action or entry.action == action)
            and (not subject or entry.subject == subject)
        ]
        chosen: dict[str, Any] = {"since": since, "until": until, "actor": actor, "action": action, "subject": subject}
        found: list[audit.AuditEntry] = []
        while page := service.db.read_now(
            lambda tx: audit.latest(tx, mine.id, 3, **chosen, after=found[-1].id if found else "")  # noqa: B023
        ):
            assert len(page) <= 3
            found += page
        assert found == wanted
    assert "x.other" not in service.db.read_now(audit.actions, mine.id)
    assert "x.other" in service.db.read_now(audit.actions, other.id)


def test_an_actor_is_shown_by_name_if_it_is_ones_own(service: Service) -> None:
    mine, other = service.organization("Meine"), service.organization("Andere")
    service.user(other, "anna@andere.example")
    erika = service.user(mine, "erika@meine.example")

    def name_of(actor: str) -> str:
        return service.db.read_now(audit.name_of, mine.id, actor)

    assert name_of(f"user:{erika.id}") == erika.name
    assert name_of(f"key:{mine.key_id}") == "key of Meine"
    for actor in (f"key:{other.key_id}", f"key:{erika.id}", f"user:{mine.key_id}", "system"):
        assert name_of(actor) == actor
