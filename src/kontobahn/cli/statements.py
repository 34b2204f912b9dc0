"""`kontobahn import statements`: account statements and payment status reports from files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.access import audit
from kontobahn.banking.imports import store as imports
from kontobahn.banking.imports.files import ReadFile, own_ibans
from kontobahn.banking.imports.importer import StatementImporter, accounts_named, arrive
from kontobahn.banking.imports.store import ImportResult
from kontobahn.banking.transactions import arrivals
from kontobahn.cli.common import DataOption, OrganizationOption, installation, progress_bar
from kontobahn.cli.output import JsonOption, say
from kontobahn.db import Database, Tx
from kontobahn.errors import Refusal
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import StatementError
from kontobahn.ids import new_id


def import_statements(
    files: Annotated[
        list[Path], typer.Argument(exists=True, dir_okay=False, help="camt, MT940, pain.002 or ZIP files.")
    ],
    organization: OrganizationOption = None,
    iban: Annotated[
        list[str] | None,
        typer.Option(
            "--iban", metavar="ACCOUNT=IBAN", help="The IBAN of an account that a file identifies in another way."
        ),
    ] = None,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Import statements even if others between them are missing.")
    ] = False,
    unbalanced: Annotated[
        bool,
        typer.Option("--unbalanced", help="Import statements even if their bookings do not lead to their balances."),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import account statements (camt.052, .053, .054, MT940, also zipped) and payment status reports (pain.002).

    Accounts are created by IBAN. A file is imported as a whole or not at all: its balances must add up, and there must be no
    gap between statements. They may overlap, and come in any order: what is already known is not imported again. Exit code 1
    if a file was refused.

    Example: kontobahn import statements 2026-*.xml
    """
    ibans = accounts_named(iban or [])
    with installation(data) as here:
        owner = here.organization(organization)
        outcomes = _import_files(here.db, owner.id, files, ibans, allow_gaps=allow_gaps, unbalanced=unbalanced)
    results = [outcomes[file] for file in files]
    say(results, "\n".join(map(_sentence, results)), as_json=as_json)
    if any(outcome["error"] for outcome in results):
        raise typer.Exit(1)


def _import_files(
    db: Database, organization_id: str, files: list[Path], ibans: dict[str, str], *, allow_gaps: bool, unbalanced: bool
) -> dict[Path, dict[str, Any]]:
    outcomes: dict[Path, dict[str, Any]] = {}
    waiting = list(files)
    while waiting:
        for file in waiting:
            outcomes[file] = _import_file(
                db, organization_id, file, ibans, allow_gaps=allow_gaps, unbalanced=unbalanced
            )
        refused = [file for file in waiting if outcomes[file]["error"]]
        # A file may have been refused because it depends on one imported after it.
        waiting = refused if len(refused) < len(waiting) else []
    for file, outcome in outcomes.items():
        if outcome["error"]:
            db.write_now(imports.record_refused, _described(organization_id, file), outcome["error"])
    return outcomes


def _import_file(
    db: Database, organization_id: str, file: Path, ibans: dict[str, str], *, allow_gaps: bool, unbalanced: bool
) -> dict[str, Any]:
    nothing = ImportResult()

    def unit(tx: Tx, found: ReadFile) -> ImportResult:
        importer = StatementImporter(tx, organization_id, file.name, allow_gaps=allow_gaps, unbalanced=unbalanced)
        result = importer.import_file(found)
        imports.record_done(tx, _described(organization_id, file), result)
        return result

    try:
        own = db.read_now(own_ibans, organization_id)
        with _read_file(file, ibans, own, unbalanced=unbalanced) as found:
            arrive(db, organization_id, found)
            try:
                result = db.write_now(unit, found)
            finally:
                arrivals.give_up(db, found.arrivals)
    except StatementError as error:
        # The caller names the file already.
        return _outcome(file, nothing, error.without_file(file.name))
    except Refusal as error:
        return _outcome(file, nothing, str(error))
    return _outcome(file, result, None)


def _read_file(file: Path, ibans: dict[str, str], own: set[str], *, unbalanced: bool) -> ReadFile:
    size = file.stat().st_size
    with file.open("rb") as content, progress_bar(file.name) as progress:
        items = read(content, file.name, ibans=ibans, unbalanced=unbalanced)
        return ReadFile(items, own, lambda: progress(content.tell(), size))


def _described(organization_id: str, file: Path) -> imports.File:
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return imports.File(organization_id, new_id(), file.name, sha256, audit.COMMAND_LINE.name)


def _outcome(file: Path, result: ImportResult, error: str | None) -> dict[str, Any]:
    warnings = [warning._asdict() for warning in result.warnings]
    return {"file": str(file), **result._asdict(), "warnings": warnings, "error": error}


def _sentence(outcome: dict[str, Any]) -> str:
    if outcome["error"]:
        return f"{outcome['file']}: refused. {outcome['error']}"
    parts = [
        f"{outcome['statements']} statements of {outcome['accounts']} accounts",
        f"{outcome['added']} transactions added",
    ]
    parts += [f"{outcome[name]} {words}" for name, words in _WORDS.items() if outcome[name]]
    lines = [f"{outcome['file']}: {', '.join(parts)}."]
    lines += [f"  {item['place']}: {item['found']} {item['done']}" for item in outcome["warnings"]]
    return "\n".join(lines)


_WORDS = {
    "repeated": "statements already known",
    "modified": "transactions changed",
    "removed": "transactions withdrawn",
    "left_out": "entries left to the account's statements",
    "payments": "reports on payments",
}
