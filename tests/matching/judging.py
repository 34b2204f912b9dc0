"""Writes events to bank files, reads them back as the service does, matches them, and counts what was right."""

from __future__ import annotations

import io
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

import msgspec

from kontobahn import settings
from kontobahn.access import audit, organizations
from kontobahn.banking.imports.files import ReadFile
from kontobahn.banking.imports.importer import StatementImporter
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.clock import SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.db.migrate import migrate
from kontobahn.formats.bank_files import read
from kontobahn.reconciliation.core.matcher import Matcher, run
from kontobahn.reconciliation.core.model import Line, Movement, Proposal
from kontobahn.reconciliation.inputs import movement_of
from tests.matching.companies import TRADES, Company
from tests.matching.events import Event, Happenings
from tests.matching.everyday import Everyday
from tests.matching.hostile import Trap
from tests.matching.impostors import Impostors
from tests.matching.mixes import Mix
from tests.matching.world import World, iban, make_world
from tests.statement_builder import Sheet, camt, mt940

_decode = msgspec.json.Decoder(Transaction).decode
_FORMATS = ("camt", "mt940")
ReadBack = Callable[[Sequence[Event], str], dict[str, Movement]]


@contextmanager
def bank() -> Iterator[ReadBack]:
    """A database into which statements are imported; yields what takes events through a file and back, by reference."""
    with tempfile.TemporaryDirectory(prefix="kontobahn-matching-") as folder:
        db = open_database(settings.load({}, data=folder), SystemClock())
        migrate(db)
        owner = db.write_now(organizations.create, "Muster GmbH", audit.COMMAND_LINE)
        accounts = random.Random(1)

        def read_back(events: Sequence[Event], format: str) -> dict[str, Movement]:
            bookings = [event.booking for event in events]
            last = max(booking.booked for booking in bookings) + timedelta(1)
            sheet = Sheet(bookings, iban=iban(accounts), day=last, number=None)
            content = camt(sheet) if format == "camt" else mt940(sheet)
            return db.write_now(_through, owner.id, content)

        try:
            yield read_back
        finally:
            db.close()


def _through(tx: Tx, organization_id: str, content: bytes) -> dict[str, Movement]:
    before = tx.one("SELECT COALESCE(MAX(id), 0) FROM banking_transactions")
    with ReadFile(read(io.BytesIO(content), "matching", max_bytes=10**11)) as file:
        StatementImporter(tx, organization_id, "matching").import_file(file)
    rows = tx.all("SELECT wire FROM banking_transactions WHERE id > ?", before[0] if before else 0)
    movements = (movement_of(_decode(wire)) for (wire,) in rows)
    return {movement.bank_reference or "": movement for movement in movements}


class Verdict(NamedTuple):
    """One event, what was done, and where the truth stood among the proposals (0: nowhere)."""

    kind: str
    evidence: str
    acted: bool
    right: bool
    place: int
    has_counterpart: bool
    event: Event
    movement: Movement
    proposals: list[Proposal]


def judge_world(
    r: random.Random, mix: Mix, read_back: ReadBack, format: str, customers: int, count: int
) -> list[Verdict]:
    # More documents than movements: some are always open.
    world = make_world(r, mix, customers, count * 7 // 4)
    happenings = Happenings(r, world, mix)
    events = happenings.draw(count)
    movements = read_back(events, format)
    matcher = matcher_of(world, happenings)
    return judge(matcher, events, movements)


def judge_company(company: Company, events: Sequence[Event], read_back: ReadBack, format: str) -> list[Verdict]:
    """The events of one of the companies, against its documents and what it knows."""
    matcher = Matcher([*company.items, *company.settled], company.knowledge())
    return judge(matcher, events, read_back(events, format))


def judge_everyday(seed: int, count: int, read_back: ReadBack) -> list[Verdict]:
    """So many ordinary movements of each company."""
    verdicts = []
    for number, kind in enumerate(TRADES):
        drawn = Everyday(random.Random(seed * 100 + number), kind)
        verdicts += judge_company(drawn.company, drawn.draw(count), read_back, _FORMATS[number % 2])
    return verdicts


def judge_impostors(seed: int, count: int, read_back: ReadBack) -> list[Verdict]:
    """So many hostile payments of each company."""
    verdicts = []
    for number, kind in enumerate(TRADES):
        drawn = Impostors(random.Random(seed * 100 + number), kind)
        verdicts += judge_company(drawn.company, drawn.draw(count), read_back, _FORMATS[number % 2])
    return verdicts


def matcher_of(world: World, happenings: Happenings) -> Matcher:
    return Matcher([*world.items, *world.settled], happenings.knowledge())


def judge(matcher: Matcher, events: Sequence[Event], movements: dict[str, Movement]) -> list[Verdict]:
    """Runs all of them; then a person goes through the rest in order and always chooses the truth."""
    by_id = {movements[event.booking.reference or ""].id: event for event in events}
    outcomes = run(matcher, [movements[event.booking.reference or ""] for event in events])
    verdicts = []
    for outcome in outcomes:
        event = by_id[outcome.movement.id]
        truth = _plain(event.truth)
        if outcome.acted is not None:
            right = _plain(outcome.acted.lines) == truth
            place, proposals = int(right), [outcome.acted]
        else:
            proposals = matcher.match(outcome.movement)
            places = [number for number, it in enumerate(proposals, 1) if _plain(it.lines) == truth]
            right, place = False, places[0] if places and truth else 0
            if event.truth:
                matcher.settle(outcome.movement, Proposal("C", 0.0, event.truth, ()))
        evidence = proposals[0].evidence if proposals else "-"
        verdicts.append(
            Verdict(
                event.kind, evidence, outcome.acted is not None, right, place, event.has_counterpart, event, outcome.movement,
                proposals,
            )
        )  # fmt: skip
    return verdicts


def _plain(lines: tuple[Line, ...]) -> list[Line]:
    return sorted(line for line in lines if line.amount_minor)


class Figures(NamedTuple):
    acted: int
    wrong: int
    counterparts: int
    acted_of_counterparts: int
    first: int
    first_three: int
    all: int


def figures(verdicts: Sequence[Verdict]) -> Figures:
    real = [verdict for verdict in verdicts if verdict.has_counterpart]
    return Figures(
        acted=sum(verdict.acted for verdict in verdicts),
        wrong=sum(verdict.acted and not verdict.right for verdict in verdicts),
        counterparts=len(real),
        acted_of_counterparts=sum(verdict.acted for verdict in real),
        first=sum(verdict.place == 1 for verdict in real),
        first_three=sum(1 <= verdict.place <= 3 for verdict in real),
        all=len(verdicts),
    )


def by_class(verdicts: Sequence[Verdict]) -> dict[str, Counter[str]]:
    """For each class of the best proposal: how many, acted on, wrong, and at which place the truth stood."""
    table: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        counts = table.setdefault(verdict.evidence, Counter())
        counts["all"] += 1
        counts["acted"] += verdict.acted
        counts["wrong"] += verdict.acted and not verdict.right
        counts["first"] += verdict.place == 1
        counts["first three"] += 1 <= verdict.place <= 3
        counts["no counterpart"] += not verdict.has_counterpart
    return dict(sorted(table.items()))


def judge_traps(traps: Sequence[Trap], read_back: ReadBack) -> list[Verdict]:
    """Each against its own client, half of them by camt, half by MT940."""
    verdicts = []
    for format, half in (("camt", traps[::2]), ("mt940", traps[1::2])):
        movements = read_back([trap.event for trap in half], format)
        for trap in half:
            verdicts += judge(trap.matcher, [trap.event], movements)
    return verdicts
