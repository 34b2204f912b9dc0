"""Writes the figures of bench/results into docs/performance.md, between its marks, and draws the curves into docs/pictures.

What stands outside the marks is written by hand and stays. `python -m bench.page` writes the page anew, without measuring.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from bench import machine, plot
from bench.measure import NOT_RUN, ROOT, Row
from bench.report import RESULTS, Curve, Run, Table, aligned, load_runs

PAGE = ROOT / "docs" / "performance.md"
PICTURES = ROOT / "docs" / "pictures"
# In the order of `make bench`: what takes long comes late.
PARTS = (
    "credits", "transactions", "workers", "webhooks", "enable_banking", "salt_edge", "fints", "ebics", "statements", "invoice",
    "datev", "received_invoices", "matching", "extf", "import_wait", "opos", "history", "dashboard_lists",
)  # fmt: skip
BLOCK = re.compile(r"(<!-- figures: ([^>]+?) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
_NOTHING = "Not measured yet."


def main() -> None:
    write(RESULTS)


def write(results: Path) -> None:
    PAGE.write_text(filled(PAGE.read_text("utf-8"), results), "utf-8")
    for name, picture in pictures(results).items():
        (PICTURES / name).write_text(picture, "utf-8")


def filled(page: str, results: Path) -> str:
    """The page with what its marks ask for: `summary`, the name of a script, or `script: name of a table`."""

    def block(match: re.Match[str]) -> str:
        wanted, _, table = match[2].partition(": ")
        if wanted == "summary":
            text = summary({name: load_runs(name, results) for name in PARTS})
        else:
            runs = load_runs(wanted, results)
            text = _further(runs, table) if table else part(runs)
        return f"{match[1]}\n{text}\n\n{match[3]}"

    return BLOCK.sub(block, page)


def pictures(results: Path) -> dict[str, str]:
    return {
        f"growth-{curve.name}.svg": plot.draw(curve)
        for name in PARTS
        for curve in _newest_curves(load_runs(name, results))
    }


def summary(runs: dict[str, list[Run]]) -> str:
    """The number of targets that are met, those that are missed, and the machines."""
    lines = [(name, row) for name, found in runs.items() for row in _questions(found)]
    verdicts = [(name, row, _verdict(row, runs[name])) for name, row in lines]
    missed = [(name, row) for name, row, verdict in verdicts if "MISSED" in verdict]
    met = [row for _, row, verdict in verdicts if verdict == "met"]
    told = [f"**{len(met)} of {len(met) + len(missed)} targets are met** in every full run shown here."]
    if missed:
        told += ["", f"Missed ({len(missed)}):", ""]
        told += [
            f"- {name}: {row.question} ({_ratios(row, runs[name])}, target {_target(row)})" for name, row in missed
        ]
    machines = {run.machine for found in runs.values() for run in found}
    return "\n".join([*told, "", "Measured on:", "", *(f"- {machine}" for machine in sorted(machines))])


def part(runs: Sequence[Run]) -> str:
    if not runs:
        return _NOTHING
    lines = [
        [row.question, _target(row), _verdict(row, runs), *(_cell(row.question, run) for run in runs)]
        for row in _questions(runs)
    ]
    head = ["Question", "Target", "Met?", *(_title(run) for run in runs)]
    return "\n\n".join([aligned(head, lines), *(_growth(curve, runs) for curve in _newest_curves(runs))])


def _questions(runs: Sequence[Run]) -> list[Row]:
    """Each question once, as the newest run asked it."""
    found: dict[str, Row] = {}
    for run in runs:
        for row in run.found.rows:
            found.setdefault(row.question, row)
    return list(found.values())


def _answers(question: str, runs: Sequence[Run]) -> list[Row]:
    return [row for run in runs for row in run.found.rows if row.question == question]


def _verdict(row: Row, runs: Sequence[Run]) -> str:
    """One run that missed is enough to say so. A short one is not judged: it asks at sizes that the target is not for."""
    full = [run for run in runs if not run.short]
    verdicts = [answer.met for answer in _answers(row.question, full) if answer.met is not None]
    if not verdicts:
        return "not judged" if row.target else ""
    if all(verdicts):
        return "met"
    return "**MISSED**" if not any(verdicts) else "**MISSED** in one run"


def _target(row: Row) -> str:
    """As it is set in print; the sign and its figure stay on one line."""
    return row.target.replace(">= ", "≥\u00a0").replace("<= ", "≤\u00a0").replace("< ", "<\u00a0")


def _cell(question: str, run: Run) -> str:
    for row in _answers(question, [run]):
        if row.ours == NOT_RUN:
            return f"{NOT_RUN}: {row.beside}"
        beside = f" beside {row.beside}" if row.beside else ""
        return f"{row.ours}{beside}" if row.ratio is None else f"**{row.ratio:.2f}**: {row.ours}{beside}"
    return "not asked"


def _ratios(row: Row, runs: Sequence[Run]) -> str:
    answers = _answers(row.question, [run for run in runs if not run.short])
    return ", ".join(answer.ours if answer.ratio is None else f"{answer.ratio:.2f}" for answer in answers)


def _title(run: Run) -> str:
    return f"{run.date}, {_state(run)}"


def _state(run: Run) -> str:
    state = "busy machine" if run.busy else "idle machine"
    if run.stolen >= machine.BUSY_STOLEN:
        state += f", whose host took {run.stolen:.0%} of its time"
    return f"{state}, short run" if run.short else state


def _newest_curves(runs: Sequence[Run]) -> list[Curve]:
    """Of each name the newest, of a full run if there is one, in the order of the script."""
    found: dict[str, Curve] = {}
    for run in _full_first(runs):
        for curve in run.found.curves:
            found.setdefault(curve.name, curve)
    return list(found.values())


def _full_first(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: run.short)


def _growth(curve: Curve, runs: Sequence[Run]) -> str:
    """The picture of the newest run, and beside it the figures of every run."""
    lines: list[list[str]] = []
    for run in runs:
        for other in run.found.curves:
            if other.name == curve.name:
                lines += [[series.name, _title(run), *_values(curve, other, series.seconds)] for series in other.series]
    in_order = sorted(lines, key=_order(curve))
    head = [curve.title, "run", *(f"{size:,} {curve.what}" for size in curve.sizes)]
    picture = f"![{curve.title}, as in the table below](pictures/growth-{curve.name}.svg)"
    return f"{picture}\n\n{aligned(head, in_order)}"


def _values(curve: Curve, other: Curve, seconds: list[float | None]) -> list[str]:
    by_size = dict(zip(other.sizes, seconds, strict=True))
    return [plot.duration(value) if (value := by_size.get(size)) else NOT_RUN for size in curve.sizes]


def _order(curve: Curve) -> Callable[[list[str]], int]:
    """Runs of the same thing stand below each other."""
    names = [series.name for series in curve.series]
    return lambda line: names.index(line[0]) if line[0] in names else len(names)


def _further(runs: Sequence[Run], name: str) -> str:
    """One of the further tables, of the newest full run that has it."""
    tables: list[Table] = [table for run in _full_first(runs) for table in run.found.tables if table.name == name]
    return aligned(tables[0].head, tables[0].lines) if tables else _NOTHING


if __name__ == "__main__":
    main()
