"""docs/reference is what the code says, and complete. `make reference` writes it anew."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from kontobahn import errors
from kontobahn.app import EVENTS
from kontobahn.cli.entry import command_line
from kontobahn.settings import NAMES, PREFIX
from scripts import reference
from tests.tidy_rules import ROOT


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert page(name) == reference.PAGES[name](), "Run `make reference`."


def test_every_setting_is_there_with_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` `(\w+)` \| `.*?` \| (.+) \|$", page("settings"), re.MULTILINE)
    assert [(name, variable) for name, variable, _ in rows] == [(name, PREFIX + name.upper()) for name in NAMES]


def commands() -> Iterator[str]:
    """From what typer was told, not from what the page is made of."""

    def walk(group: object, name: str) -> Iterator[str]:
        for command in group.registered_commands:  # type: ignore[attr-defined]
            yield f"{name} {command.name or command.callback.__name__.replace('_', '-')}"
        for child in group.registered_groups:  # type: ignore[attr-defined]
            yield from walk(child.typer_instance, f"{name} {child.name}")

    yield from walk(command_line(), "kontobahn")


def test_every_command_is_there() -> None:
    assert sorted(re.findall(r"^### (.+)$", page("commands"), re.MULTILINE)) == sorted(commands())


def test_every_event_is_there() -> None:
    assert set(re.findall(r"^## ([\w.]+)$", page("events"), re.MULTILINE)) == set(EVENTS)


def test_every_status_that_an_error_can_have_is_there() -> None:
    def statuses(kind: type[errors.KontobahnError]) -> Iterator[int]:
        yield kind.status
        for below in kind.__subclasses__():
            yield from statuses(below)

    # 405 is no call's: it is for methods that a path does not take.
    shown = {int(status) for status in re.findall(r"^### (\d+)$", page("errors"), re.MULTILINE)}
    assert shown == set(statuses(errors.KontobahnError)) - {405}
