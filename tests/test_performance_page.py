"""docs/performance.md shows what bench/results has and nothing else, and shows a missed target as missed."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench import history, page, plot, report
from bench.measure import Row, at_least, at_most, not_run
from bench.report import Curve, Found, Run, Series, Table
from kontobahn.app import all_endpoints

SVG = "{http://www.w3.org/2000/svg}"
CURVE = Curve(
    "walk", "A walk & <more>", "transactions", [10_000, 100_000, 1_000_000],
    [Series("Kontobahn", [0.05, 0.4, 4.1]), Series("bare", [0.0003, 0.2, 2.5]), Series("hledger", [1.0, 9.0, None])],
)  # fmt: skip


def run_of(
    *rows: Row,
    date: str = "2026-01-01",
    busy: bool = False,
    short: bool = False,
    stolen: float = 0.0,
    **further: list[object],
) -> Run:
    found = Found(list(rows), **further)  # type: ignore[arg-type]
    return Run(date, "2 cores", 0.1, busy, short, 60, found, stolen)


def line_of(text: str, question: str) -> list[str]:
    [line] = [line for line in text.splitlines() if line.startswith(f"| {question} ")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_and_its_pictures_are_what_the_results_render_to() -> None:
    written = page.PAGE.read_text("utf-8")
    assert page.filled(written, report.RESULTS) == written, "edited by hand, or out of date: run `python -m bench.page`"
    drawn = page.pictures(report.RESULTS)
    assert {path.name: path.read_text("utf-8") for path in page.PICTURES.glob("growth-*.svg")} == drawn


def test_the_page_has_a_place_for_every_script_and_no_other() -> None:
    marks = re.findall(r"<!-- figures: ([\w]+)", page.PAGE.read_text("utf-8"))
    assert set(marks) == {"summary", *page.PARTS}
    scripts = {
        path.stem for path in Path(page.__file__).parent.glob("*.py") if "report.finish(" in path.read_text("utf-8")
    }
    assert scripts - {"report"} == set(page.PARTS)
    assert {path.stem for path in report.RESULTS.glob("*.json")} <= set(page.PARTS)


def test_every_call_that_reads_is_asked_with_a_longer_history_or_says_why_not() -> None:
    declared = {(endpoint.method, endpoint.path) for endpoint in all_endpoints()}
    asked = {(one.method, one.path) for one in history.calls(history.Known(), 1)}
    assert asked <= declared
    reads = {path for method, path in declared if method == "GET"}
    asked_reads = {path for method, path in asked if method == "GET"}
    assert asked_reads.isdisjoint(history.NOT_ASKED)
    assert asked_reads | history.NOT_ASKED.keys() == reads


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((5.0, 6.0), "met"),
        ((4.9, 6.0), "**MISSED** in one run"),
        ((6.0, 4.9), "**MISSED** in one run"),
        ((1.0, 2.0), "**MISSED**"),
    ],
)
def test_a_target_that_one_run_missed_is_shown_as_missed(ratios: tuple[float, float], verdict: str) -> None:
    runs = [run_of(at_least("rate", "10/s", "2/s", ratio, 5)) for ratio in ratios]
    assert line_of(page.part(runs), "rate")[:3] == ["rate", "≥\u00a05", verdict]
    told = page.summary({"credits": runs})
    assert ("MISSED" in verdict) == ("- credits: rate" in told)
    assert f"**{int(verdict == 'met')} of 1 targets are met**" in told


def test_both_runs_are_shown_with_date_and_state_and_what_did_not_run_says_why() -> None:
    runs = [
        run_of(
            at_most("rate", "3 ms", "1 ms", 3.0, 5),
            not_run("peer", "npm is missing", ">= 2"),
            date="2026-02-02",
            busy=True,
        ),
        run_of(at_most("rate", "4 ms", "1 ms", 4.0, 5)),
    ]
    text = page.part(runs)
    assert "2026-02-02, busy machine" in text
    assert "2026-01-01, idle machine" in text
    assert line_of(text, "rate")[3:] == ["**3.00**: 3 ms beside 1 ms", "**4.00**: 4 ms beside 1 ms"]
    assert line_of(text, "peer")[2:] == ["not judged", "not run: npm is missing", "not asked"]
    assert "1 of 1 targets" in page.summary({"credits": runs})


def test_a_machine_whose_host_took_its_time_is_shown_so() -> None:
    row = at_most("rate", "3 ms", "1 ms", 3.0, 5)
    told = page.part([run_of(row, busy=True, stolen=0.284), run_of(row, stolen=0.049)])
    assert "busy machine, whose host took 28% of its time" in told
    assert told.count("host took") == 1


def test_the_last_two_full_runs_are_kept_and_a_short_one_only_until_then(tmp_path: Path) -> None:
    def kept() -> list[str]:
        return [run.date for run in report.load_runs("credits", tmp_path)]

    missed = at_least("rate", "1/s", "1/s", 1.0, 5)
    report.add_run("credits", run_of(missed, date="short", short=True), tmp_path)
    assert line_of(page.part(report.load_runs("credits", tmp_path)), "rate")[2] == "not judged"
    report.add_run("credits", run_of(missed, date="a"), tmp_path)
    assert kept() == ["a", "short"]
    for date, expected in (("b", ["b", "a"]), ("c", ["c", "b"])):
        report.add_run("credits", run_of(missed, date=date), tmp_path)
        assert kept() == expected
    report.add_run("credits", run_of(missed, date="short", short=True), tmp_path)
    assert kept() == ["c", "b"]


def test_marks_are_filled_and_what_is_written_by_hand_stays(tmp_path: Path) -> None:
    table = Table("by class", ["class", "all"], [["A|1", "7"]])
    report.add_run("matching", run_of(tables=[table]), tmp_path)
    report.add_run("transactions", run_of(curves=[CURVE]), tmp_path)
    text = "by hand\n<!-- figures: {} -->\nold figures\n<!-- end of figures -->\nby hand too\n"
    filled = page.filled(text.format("matching: by class") + text.format("transactions"), tmp_path)
    assert filled.count("by hand") == 4
    assert "old figures" not in filled
    assert "| A\\|1  | 7   |" in filled
    assert "![A walk & <more>, as in the table below](pictures/growth-walk.svg)" in filled
    assert line_of(filled, "hledger")[2:] == ["1.00 s", "9.00 s", "not run"]
    assert page.filled(filled, tmp_path) == filled


@pytest.mark.parametrize("curve", [CURVE, Curve("flat", "Flat", "rows", [10], [Series("Kontobahn", [0.001])])])
def test_a_picture_is_well_formed_named_described_and_readable_in_both_themes(curve: Curve) -> None:
    drawn = plot.draw(curve)
    root = ElementTree.fromstring(drawn)
    assert root.findtext(f"{SVG}title") == curve.title
    assert root.findtext(f"{SVG}desc") == plot.in_words(curve)
    assert root.get("aria-labelledby") == "title description"
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {curve.what, *(series.name for series in curve.series)} <= set(texts)
    assert "prefers-color-scheme:dark" in (root.findtext(f"{SVG}style") or "")
    # Where a style is not allowed, what is drawn still has the colours of the light theme.
    assert all(element.get("fill") or element.get("stroke") for element in root.iter() if element.get("class"))
    ends = [
        float(element.get("y", 0))
        for element in root.iter(f"{SVG}text")
        if element.text in {s.name for s in curve.series}
    ]
    assert all(later - earlier >= 16 for earlier, later in zip(sorted(ends), sorted(ends)[1:], strict=False))
    assert all(0 <= y <= plot.HEIGHT for y in ends)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0.00002, "20.0 µs"), (0.0123, "12.3 ms"), (0.9, "900 ms"), (1.0, "1.00 s"), (54.02, "54.0 s"), (1234, "1,234 s")],
)
def test_a_duration_has_three_digits(seconds: float, told: str) -> None:
    assert plot.duration(seconds) == told
