"""docs/sandbox.md names what the sandbox has: banks, users, plans and commands, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

from kontobahn.bank_providers.sandbox.rules import BANKS, PAYEE_PLANS, PEOPLE, PLANS, amount_of
from kontobahn.cli.sandbox import app
from kontobahn.money import amount_text

PAGE = (Path(__file__).parents[3] / "docs" / "sandbox.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in lines]


def test_banks() -> None:
    documented = [(code, api, country, payments) for code, api, country, payments, _ in rows("Banks")]
    assert documented == [
        (bank.code, bank.api, bank.country_code, ", ".join(bank.templates) or "none") for bank in BANKS.values()
    ]


def test_users() -> None:
    assert [row[0] for row in rows("User names")] == list(PEOPLE)


def test_plans() -> None:
    documented = [(creditor, amount) for creditor, amount, _ in rows("Payments")[1:]]
    names = [name for name in PLANS if name != "usual"]
    assert documented == [(f"Sandbox {name.replace('_', ' ')}", amount_text(amount_of(name))) for name in names]


def test_payees() -> None:
    assert [row[0] for row in rows("Payees")] == [f"Sandbox payee {name.replace('_', ' ')}" for name in PAYEE_PLANS]


def test_commands() -> None:
    named = set()
    for command, _ in rows("Commands"):
        named.add(re.match(r"kontobahn sandbox (\S+?)`?,? |kontobahn sandbox (\S+)", command + " "))
    first = {match[1] or match[2] for match in named if match}
    assert first | {"users", "plans"} == {command.name for command in app.registered_commands}
