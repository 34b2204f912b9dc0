"""Writes the results of the trials into docs/reliability.md, between its marks. What stands outside the marks is written by hand."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from bench.page import BLOCK
from bench.report import aligned
from torture.trials import TRIALS, Trial

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reliability.md"
RESULTS = ROOT / "torture" / "results"
_KILLS = re.compile(r"^(?:holds|FAILS) +(\d+) kills on ", re.MULTILINE)


class Result(msgspec.Struct):
    """The output of a trial, and when and where it was run."""

    date: str
    machine: str
    load: float
    seconds: int
    code: int
    command: str
    output: str

    @property
    def verdict(self) -> str:
        if self.code:
            return "**FAILS**"
        return "left out" if self.output.startswith("left out") else "holds"


def path_of(trial: Trial) -> Path:
    return RESULTS / f"{re.sub('[^a-z]+', '-', trial.name.lower())}.json"


def keep(trial: Trial, result: Result) -> None:
    RESULTS.mkdir(exist_ok=True)
    path_of(trial).write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


def results() -> list[tuple[Trial, Result | None]]:
    found = []
    for trial in TRIALS:
        path = path_of(trial)
        found.append((trial, msgspec.json.decode(path.read_bytes(), type=Result) if path.exists() else None))
    return found


def write() -> None:
    PAGE.write_text(filled(PAGE.read_text("utf-8"), results()), "utf-8")


def filled(page: str, found: list[tuple[Trial, Result | None]]) -> str:
    texts = {"summary": summary(found), "trials": "\n\n".join(section(*item) for item in found)}
    return BLOCK.sub(lambda match: f"{match[1]}\n{texts[match[2]]}\n\n{match[3]}", page)


def summary(found: list[tuple[Trial, Result | None]]) -> str:
    kills = sum(int(number) for _, result in found if result for number in _KILLS.findall(result.output))
    rows = [
        [trial.name, result.verdict if result else "not run yet", result.date if result else "", _minutes(result)]
        for trial, result in found
    ]
    told = f"kill -9 under mixed load in these runs: **{kills:,}** times (the aim is 1,000)."
    return f"{told}\n\n{aligned(['trial', 'result', 'day', 'minutes'], rows)}"


def _minutes(result: Result | None) -> str:
    return f"{max(1, round(result.seconds / 60))}" if result else ""


def section(trial: Trial, result: Result | None) -> str:
    told = [f"### {trial.name[0].upper()}{trial.name[1:]}", "", trial.done, "", f"*Must hold:* {trial.holds}", ""]
    if result is None:
        return "\n".join([*told, f"Not run yet: `{trial.command()}`"])
    return "\n".join([*told, f"`{result.command}`: {result.verdict}, {result.date}, on {result.machine}."])


if __name__ == "__main__":
    write()
