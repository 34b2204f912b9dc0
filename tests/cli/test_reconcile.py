"""`kontobahn reconcile --backtest`: a history whose truth is hidden and found again. Only counts are printed."""

from __future__ import annotations

import random
from datetime import date, datetime
from pathlib import Path

from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    PERSONENKONTEN,
    Buchungssatz,
    make_header,
    write_buchungsstapel,
    write_personenkonten,
)
from tests.command_line import CommandLine
from tests.matching.events import Event, Happenings
from tests.matching.mixes import VERDICT
from tests.matching.world import World, make_world
from tests.statement_builder import Sheet, camt

JAHR = date(2026, 1, 1)
BANK, ERLOESE = "1200", "8400"


def satz(umsatz: int, konto: str, gegenkonto: str, day: date, beleg: str, **changes: object) -> Buchungssatz:
    soll = umsatz > 0
    made = Buchungssatz(
        1,
        abs(umsatz),
        soll,
        "EUR",
        "",
        None,
        konto,
        gegenkonto,
        "",
        day.isoformat(),
        beleg,
        "",
        0,
        "",
        "",
        "",
        False,
        "",
    )
    return made._replace(**changes)  # type: ignore[arg-type]


def booked(event: Event) -> list[Buchungssatz]:
    """Rows as an office books them: a row for each document, with Skonto in its column."""
    rows = []
    skonto = {line.beleg: abs(line.amount_minor) for line in event.truth if line.kind == "skonto"}
    for line in event.truth:
        if line.kind in ("item", "on_account"):
            less = skonto.get(line.beleg, 0) * (1 if line.amount_minor > 0 else -1)
            rows.append(
                satz(
                    line.amount_minor - less, BANK, line.konto[:5], event.booking.booked, line.beleg, skonto=abs(less),
                    buchungstext=(event.booking.name or "")[:60], belegfeld2=(event.booking.reference or "")[-12:],
                )
            )  # fmt: skip
    return rows


def history(tmp_path: Path) -> tuple[Path, Path, World, int]:
    r = random.Random(5)
    kept = dict.fromkeys(("full", "skonto", "several", "part", "over", "supplier"), 1)
    mix = {**VERDICT, "events": {kind: weight for kind, weight in VERDICT["events"].items() if kind in kept}}
    world = make_world(r, mix, 40, 350)
    events = Happenings(r, world, mix).draw(200)
    invoices = [satz(item.open_minor, item.konto[:5], ERLOESE, item.day, item.beleg) for item in world.items]
    payments = [row for event in events for row in booked(event)]
    header = make_header(
        BUCHUNGSSTAPEL, erzeugt_am=datetime(2026, 12, 1), berater=29098, mandant=55003, wj_beginn=JAHR, sachkontenlaenge=4,
        datum_von=JAHR, datum_bis=date(2026, 12, 31), bezeichnung="Historie", skr="03",
    )  # fmt: skip
    file, statement = tmp_path / "EXTF_Buchungsstapel.csv", tmp_path / "2026.xml"
    write_buchungsstapel(file, header, [*invoices, *payments])
    statement.write_bytes(camt(Sheet([event.booking for event in events], day=date(2026, 12, 31))))
    return file, statement, world, len(events)


def test_a_history_is_matched_again_and_only_counts_are_printed(cli: CommandLine, tmp_path: Path) -> None:
    file, statement, world, count = history(tmp_path)
    facts = cli.facts("reconcile", "--backtest", str(file), "--statements", str(statement))
    assert facts["payments"] == count
    assert facts["with_statement"] > 0.9 * count
    assert facts["unknown"] == 0
    everything = facts["classes"][-1]
    assert everything["payments"] == count
    assert everything["wrong"] == 0
    assert facts["precision"] == 1.0
    assert facts["recall"] > 0.4
    # Terms of payment are not in the files, so Skonto is a part payment at best.
    assert everything["first"] > 0.8 * count
    shown = cli.ok("reconcile", "--backtest", str(file), "-s", str(statement)).out
    assert "Right when acting alone: 100.00% of" in shown
    for payer in world.payers.values():
        assert payer.person.name not in shown
        assert payer.iban not in shown


def test_without_statements_the_name_is_all_there_is(cli: CommandLine, tmp_path: Path) -> None:
    file, _, _, count = history(tmp_path)
    facts = cli.facts("reconcile", "--backtest", str(file))
    assert (facts["payments"], facts["with_statement"]) == (count, 0)
    assert facts["classes"][-1]["wrong"] == 0
    assert facts["classes"][-1]["would_act"] == 0


def test_what_cannot_be_judged_is_refused(cli: CommandLine, tmp_path: Path) -> None:
    file, _, _, _ = history(tmp_path)
    assert "--backtest" in cli.refused("reconcile", str(file), code=1)
    assert "no payments" in cli.refused("reconcile", "--backtest", str(file), "--bank", "1300", code=1)
    assert "digits" in cli.refused("reconcile", "--backtest", str(file), "--bank", "Bank", code=1)
    broken = tmp_path / "other.csv"
    broken.write_text("name;amount\n")
    assert "other.csv" in cli.refused("reconcile", "--backtest", str(broken), code=1)


def test_master_data_alone_holds_no_payments(cli: CommandLine, tmp_path: Path) -> None:
    header = make_header(
        PERSONENKONTEN,
        erzeugt_am=datetime(2026, 12, 1),
        berater=29098,
        mandant=55003,
        wj_beginn=JAHR,
        sachkontenlaenge=4,
    )
    write_personenkonten(tmp_path / "d.csv", header, [])
    assert "no payments" in cli.refused("reconcile", "--backtest", str(tmp_path / "d.csv"), code=1)
