"""`kontobahn import statements`: account statements and payment status reports from files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.banking.imports.importer import Taken, Taker
from kontobahn.cli.common import (
    DataOption,
    JsonOption,
    OrganizationOption,
    choose_organization,
    installation,
    progress_bar,
    say,
)  # fmt: skip
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, Refusal
from kontobahn.formats.bank_files import read


def import_statements(
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="camt, MT940, pain.002 or ZIP files.")
    ],
    organization: OrganizationOption = None,
    iban: Annotated[
        list[str] | None,
        typer.Option("--iban", metavar="ACCOUNT=IBAN", help="Whose IBAN an account is that a file names otherwise."),
    ] = None,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Take statements though others between are missing.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take account statements (camt.052, .053, .054, MT940, also zipped) and payment status reports (pain.002) in.

    Accounts are made by IBAN. A file is taken whole or not at all: its balances must add up, and statements must follow one
    another without a gap. The same file twice does no harm. Files that others must come before may be given in any order.
    Exit code 1 when a file was refused.

    Example: kontobahn import statements 2026-*.xml
    """
    ibans = dict(_pair(item) for item in iban or [])
    outcomes: dict[Path, dict[str, Any]] = {}
    with installation(data) as here:
        owner = here.db.read_now(choose_organization, organization, here.demo_organization_id)
        waiting = list(files)
        while waiting:
            refused = []
            for file in waiting:
                outcomes[file] = _take(here.db, owner.id, file, ibans, allow_gaps=allow_gaps)
                if outcomes[file]["error"]:
                    refused.append(file)
            # What was refused may have lacked what another file has brought since.
            waiting = refused if len(refused) < len(waiting) else []
    told = [outcomes[file] for file in files]
    say(told, "\n".join(map(_sentence, told)), as_json=as_json)
    if any(outcome["error"] for outcome in told):
        raise typer.Exit(1)


def _take(db: Database, organization_id: str, file: Path, ibans: dict[str, str], *, allow_gaps: bool) -> dict[str, Any]:
    none: dict[str, Any] = dict.fromkeys(Taken._fields, 0)

    def unit(tx: Tx) -> Taken:
        size = file.stat().st_size
        with file.open("rb") as content, progress_bar(file.name) as progress:
            taker = Taker(
                tx, organization_id, file.name, allow_gaps=allow_gaps, progress=lambda: progress(content.tell(), size)
            )
            return taker.take(read(content, file.name, ibans=ibans, allow_gaps=allow_gaps))

    try:
        taken = db.write_now(unit)
    except Refusal as error:
        return {"file": str(file), **none, "error": str(error)}
    return {"file": str(file), **taken._asdict(), "error": None}


def _sentence(outcome: dict[str, Any]) -> str:
    if outcome["error"]:
        return f"{outcome['file']}: refused. {outcome['error']}"
    parts = [
        f"{outcome['statements']} statements of {outcome['accounts']} accounts",
        f"{outcome['added']} transactions added",
    ]
    parts += [f"{outcome[name]} {words}" for name, words in _WORDS.items() if outcome[name]]
    return f"{outcome['file']}: {', '.join(parts)}."


_WORDS = {
    "repeated": "statements known already",
    "modified": "transactions changed",
    "removed": "transactions withdrawn",
    "left_out": "entries left to the account's statements",
    "payments": "reports on payments",
}


def _pair(given: str) -> tuple[str, str]:
    account, equals, iban = given.partition("=")
    if not equals or not account or not iban:
        raise BadRequest(f"--iban takes ACCOUNT=IBAN, not “{given}”.")
    return account.strip(), iban.strip()
