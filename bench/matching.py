"""Measures how well and how fast payments are matched to open items: a made-up client's statements, written as camt and MT940, read back
as the service reads them, matched, and compared with the truth.

Tuned with one mix (`--mix tuning`), judged with another. Everything follows from the seeds, so a run can be repeated.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench import measure, report
from bench.measure import Row
from kontobahn.reconciliation.core.matcher import Matcher, run
from kontobahn.reconciliation.core.model import ENGINE_VERSION, Movement
from tests.matching import mixes
from tests.matching.events import Happenings
from tests.matching.hostile import make_traps
from tests.matching.judging import (
    Figures,
    ReadBack,
    Verdict,
    bank,
    by_class,
    figures,
    judge_everyday,
    judge_impostors,
    judge_traps,
    judge_world,
    matcher_of,
)
from tests.matching.world import make_world

FORMATS = ("camt", "mt940")
MIN_ACTED, MIN_PRECISION, MIN_SHARE, MIN_FIRST, MIN_THREE = 10_000, 0.999, 0.70, 0.92, 0.97
MIN_COMPANY_SHARE, MIN_HOSTILE = 0.75, 2_000
MAX_SECONDS, MAX_MILLISECONDS = 10.0, 20.0


def answer(question: str, found: str, target: str, met: bool) -> Row:
    """A figure that is compared with nothing but its target."""
    return Row(question, found, "", None, target, met)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few worlds; the number acted on is then not judged")
    parser.add_argument("--mix", choices=("verdict", "tuning"), default="verdict")
    parser.add_argument("--seed", type=int, default=2026)
    options = parser.parse_args()
    mix = mixes.VERDICT if options.mix == "verdict" else mixes.TUNING
    worlds, traps, sets = (2, 360, 1) if options.quick else (16, 3_600, 4)
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as folder:
        print(measure.describe_machine(Path(folder)), flush=True)
    print(f"engine {ENGINE_VERSION}, mix {options.mix}, seed {options.seed}, {worlds} clients of 1,000 movements each")
    with bank() as read_back:
        verdicts: list[Verdict] = []
        for number in range(worlds):
            r = random.Random(options.seed * 1_000 + number)
            verdicts += judge_world(r, mix, read_back, FORMATS[number % 2], 120, 1_000)
        hostile = judge_traps(make_traps(options.seed, traps), read_back)
        everyday = [v for n in range(sets) for v in judge_everyday(options.seed + n, 600, read_back)]
        impostors = judge_impostors(options.seed, 60 if options.quick else 400, read_back)
        speed = _speed(read_back, mix, options.seed, 1_000 if options.quick else 10_000)
    tables = [
        _counts("by class", "class of the best proposal", by_class(verdicts)),
        _counts("by what happened", "what happened", _by_kind(verdicts)),
        _counts("traps", "trap", _by_kind(hostile)),
        _counts("an ordinary day", "what happened", _by_kind(everyday)),
        _counts("impostors", "family", _by_kind(impostors)),
    ]
    judged = _judged(figures(verdicts), figures(hostile), quick=options.quick)
    judged += _judged_companies(figures(everyday), figures(impostors), quick=options.quick)
    return report.finish([*judged, *speed], tables=tables)


def _judged(found: Figures, hostile: Figures, *, quick: bool) -> list[Row]:
    precision = 1 - found.wrong / max(found.acted, 1)
    share = found.acted_of_counterparts / found.counterparts
    of_all = found.acted / found.all
    first, three = found.first / found.counterparts, found.first_three / found.counterparts
    least = 0 if quick else MIN_ACTED
    return [
        answer("acted on alone", f"{found.acted:,}", f">= {least:,}", found.acted >= least),
        answer("of these right", f"{precision:.3%} ({found.wrong} wrong)", ">= 99.9 %", precision >= MIN_PRECISION),
        answer("wrong in the hostile set", f"{hostile.wrong} of {hostile.all:,}", "0", hostile.wrong == 0),
        answer("share acted on, of those with a counterpart", f"{share:.1%}", ">= 70 %", share >= MIN_SHARE),
        answer("share acted on, of all movements", f"{of_all:.1%}", ">= 70 %", of_all >= MIN_SHARE),
        answer("right at first place", f"{first:.1%}", ">= 92 %", first >= MIN_FIRST),
        answer("right in the first three", f"{three:.1%}", ">= 97 %", three >= MIN_THREE),
    ]


def _judged_companies(everyday: Figures, impostors: Figures, *, quick: bool) -> list[Row]:
    """The same questions to the six companies: an ordinary day, and payments made to mislead."""
    share, first = everyday.acted / everyday.all, everyday.first / everyday.counterparts
    least = 0 if quick else MIN_HOSTILE
    return [
        answer("six companies: acted on alone and wrong", f"{everyday.wrong} of {everyday.acted:,}", "0", everyday.wrong == 0),
        answer("six companies: share acted on, of all movements", f"{share:.1%}", ">= 75 %", share >= MIN_COMPANY_SHARE),
        answer("six companies: right at first place", f"{first:.1%}", ">= 92 %", first >= MIN_FIRST),
        answer(
            "impostors: acted on alone and wrong", f"{impostors.wrong} of {impostors.all:,}", "0",
            impostors.wrong == 0 and impostors.all >= least,
        ),
    ]  # fmt: skip


def _speed(read_back: ReadBack, mix: mixes.Mix, seed: int, count: int) -> list[Row]:
    """A run over so many movements against half as many open items, and each movement on its own."""
    r = random.Random(seed)
    world = make_world(r, mix, count // 20, count * 3 // 5)
    happenings = Happenings(r, world, mix)
    events = happenings.draw(count // 2)
    movements = list(read_back(events, "camt").values())
    # The same movements once more, a day later: as much to look at, and nothing left to pay.
    movements += [movement._replace(id=f"{movement.id}-again") for movement in movements]
    items = len(world.items)
    started = time.process_time()
    run(matcher_of(world, happenings), movements[:count])
    seconds = time.process_time() - started
    single = _singles(matcher_of(world, happenings), movements[:2_000])
    worst = max(single)
    return [
        answer(f"{len(movements[:count]):,} movements against {items:,} items", f"{seconds:.1f} s", "< 10 s", seconds < MAX_SECONDS),
        answer(
            "one movement", f"{sorted(single)[len(single) // 2]:.2f} ms, at most {worst:.1f} ms", "< 20 ms", worst < MAX_MILLISECONDS
        ),
    ]  # fmt: skip


def _singles(matcher: Matcher, movements: Sequence[Movement]) -> list[float]:
    found = []
    for movement in movements:
        started = time.process_time()
        matcher.match(movement)
        found.append((time.process_time() - started) * 1_000)
    return found


def _by_kind(verdicts: Sequence[Verdict]) -> dict[str, Counter[str]]:
    return by_class([verdict._replace(evidence=verdict.kind) for verdict in verdicts])


def _counts(name: str, title: str, table: dict[str, Counter[str]]) -> report.Table:
    columns = ("all", "acted", "wrong", "first", "first three", "no counterpart")
    lines = [[kind, *(f"{counts[column]:,}" for column in columns)] for kind, counts in table.items()]
    return report.Table(name, [title, *columns], lines)


if __name__ == "__main__":
    sys.exit(main())
