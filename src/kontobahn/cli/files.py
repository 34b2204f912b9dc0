"""`kontobahn import` and `kontobahn export`: files in and out."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.access import audit
from kontobahn.banking.imports import store as statement_imports
from kontobahn.banking.imports.files import ReadFile, own_ibans
from kontobahn.banking.imports.importer import StatementImporter, accounts_named, arrive
from kontobahn.banking.imports.store import ImportResult
from kontobahn.banking.transactions import arrivals
from kontobahn.books import store
from kontobahn.books.duplicates import LooksBooked
from kontobahn.books.export import Export, Folder, Note
from kontobahn.books.imports import ImportRefused, Job, client_of, run_import
from kontobahn.books.store import Client, FiscalYear
from kontobahn.cli.books import parse_day
from kontobahn.cli.common import (
    DataOption,
    Installation,
    OrganizationOption,
    counted,
    installation,
    progress_bar,
    say_table,
)
from kontobahn.cli.mobility import import_tickets
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock
from kontobahn.db import Database, Tx
from kontobahn.errors import Refusal
from kontobahn.formats.bank_files import read
from kontobahn.formats.extf import ExtfError, RowError, RowWarning, open_extf
from kontobahn.formats.statements import StatementError
from kontobahn.ids import new_id
from kontobahn.ledger.connections import find_for_operator
from kontobahn.payables.handover import documents as payable_documents

# `kontobahn import statements`: account statements and payment status reports from files.


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
            db.write_now(statement_imports.record_refused, _described(organization_id, file), outcome["error"])
    return outcomes


def _import_file(
    db: Database, organization_id: str, file: Path, ibans: dict[str, str], *, allow_gaps: bool, unbalanced: bool
) -> dict[str, Any]:
    nothing = ImportResult()

    def unit(tx: Tx, found: ReadFile) -> ImportResult:
        importer = StatementImporter(tx, organization_id, file.name, allow_gaps=allow_gaps, unbalanced=unbalanced)
        result = importer.import_file(found)
        statement_imports.record_done(tx, _described(organization_id, file), result)
        return result

    try:
        own = db.read_now(own_ibans, organization_id)
        with _read_file(file, ibans, own, unbalanced=unbalanced) as found:
            try:
                arrive(db, organization_id, found, allow_gaps=allow_gaps, unbalanced=unbalanced)
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


def _described(organization_id: str, file: Path) -> statement_imports.File:
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    return statement_imports.File(organization_id, new_id(), file.name, sha256, audit.COMMAND_LINE.name)


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


imports = typer.Typer(no_args_is_help=True)
exports = typer.Typer(no_args_is_help=True)
ConnectionOption = Annotated[str, typer.Option("--connection", metavar="ID", help="The ledger connection.")]
ClientOption = Annotated[
    str | None,
    typer.Option("--client", metavar="ID", help="Whose books; the client of the file's header when omitted."),
]


@imports.command("extf")
def import_extf(
    files: Annotated[list[Path], typer.Argument(exists=True, dir_okay=False, help="EXTF files.")],
    connection: ConnectionOption,
    client: ClientOption = None,
    partial: Annotated[bool, typer.Option("--partial", help="Import a file without its refused rows.")] = False,
    another: Annotated[
        bool, typer.Option("--another", help="Rows that look booked already are other bookings.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import DATEV-format files into the books: bookings, person accounts, account labels, payment terms.

    A file is imported as a whole or not at all, unless --partial is given, and never twice: neither the same content nor, unless
    --another is given, rows that look booked already. Every refused row is named; correct them and import the file again: rows
    imported before are left out. Exit code 1 if a file or a row was refused.

    Example: kontobahn import extf EXTF_Buchungsstapel.csv --connection 0193…
    """
    outcomes: list[dict[str, Any]] = []
    with installation(data) as here:
        here.db.read_now(find_for_operator, connection)
        for file in files:
            outcomes.append(_import_one(here, file, connection, client, partial=partial, another=another))
    if as_json:
        say(outcomes, "", as_json=True)
    else:
        for outcome in outcomes:
            _show(outcome)
    if any(outcome["error"] or outcome["refused"] for outcome in outcomes):
        raise typer.Exit(1)


def _import_one(
    here: Installation, file: Path, connection_id: str, client_id: str | None, *, partial: bool, another: bool
) -> dict[str, Any]:
    outcome: dict[str, Any] = {
        "file": str(file), "batch": None, "kategorie": None, "client_id": None, "imported": 0, "known": 0, "refused": [],
        "refused_count": 0, "warnings": [], "warning_count": 0, "error": None,
    }  # fmt: skip
    try:
        with open_extf(file) as opened, progress_bar(file.name) as progress:
            job = Job(file.name, audit.COMMAND_LINE.name, partial, another, progress=progress)

            def find(tx: Tx) -> Client:
                return client_of(tx, find_for_operator(tx, connection_id), client_id, opened)

            report = run_import(here.db, find, opened, job)
    except ImportRefused as refusal:
        report = refusal.report
        outcome["error"] = str(refusal)
    except LooksBooked as refusal:
        told = _findings(refusal.protocol.refused, refusal.protocol.warnings)
        return {**outcome, **told, "refused_count": refusal.protocol.refused_count, "error": str(refusal)}
    except (ExtfError, Refusal) as error:
        return {**outcome, "error": str(error)}
    return {
        **outcome,
        **_findings(report.refused, report.warnings),
        "batch": None if outcome["error"] else report.batch,
        "kategorie": report.category,
        "client_id": report.client_id,
        "imported": report.imported,
        "known": report.known,
        "refused_count": report.refused_count,
        "warning_count": report.warning_count,
    }


def _findings(refused: list[RowError], warnings: list[RowWarning]) -> dict[str, Any]:
    return {
        "refused": [{"zeile": row.line, "spalte": row.column, "grund": row.reason} for row in refused],
        "warnings": [
            {"zeile": row.line, "spalte": row.column, "gefunden": row.found, "getan": row.done} for row in warnings
        ],
    }


def _show(outcome: dict[str, Any]) -> None:
    if outcome["warnings"]:
        rows = [tuple(row.values()) for row in outcome["warnings"]]
        say_table(("line", "column", "found", "done"), rows, as_json=False, empty="")
    if outcome["refused"]:
        rows = [tuple(row.values()) for row in outcome["refused"]]
        say_table(("line", "column", "reason"), rows, as_json=False, empty="")
    if outcome["error"]:
        print(f"{outcome['file']}: {outcome['error']}")
    else:
        known = f" {outcome['known']} were imported before and left out." if outcome["known"] else ""
        imported = (
            f"{counted(outcome['imported'], 'record')} of {outcome['kategorie']} imported for {outcome['client_id']}."
        )
        were = "was" if outcome["refused_count"] == 1 else "were"
        refused = f" {counted(outcome['refused_count'], 'row')} {were} refused." if outcome["refused_count"] else ""
        warned = f" Warnings: {outcome['warning_count']}." if outcome["warning_count"] else ""
        print(f"{outcome['file']}: {imported}{known}{refused}{warned}")


imports.command("statements")(import_statements)
imports.command("tickets")(import_tickets)
_NOTE = ("datei", "satz", "feld", "gefunden", "getan")


@exports.command("extf")
def export_extf(
    connection: ConnectionOption,
    year_start: Annotated[str, typer.Option("--year-start", help="First day of the fiscal year, 2024-01-01.")],
    folder: Annotated[Path, typer.Option("--to", file_okay=False, help="Folder to write into.")] = Path(),
    receipts: Annotated[
        bool, typer.Option("--receipts/--no-receipts", help="With the receipts of cash entries.")
    ] = True,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a fiscal year's bookings, its receipts, person accounts, account labels and payment terms as DATEV-format files.

    What the format has no room for is named in a protocol: printed, and in a file beside the others. Exit code 1 if a record
    could not be written at all.

    Example: kontobahn export extf --connection 0193… --year-start 2024-01-01 --to ./export
    """
    start = parse_day(year_start)
    folder.mkdir(parents=True, exist_ok=True)

    def find(tx: Tx) -> tuple[Client, FiscalYear]:
        chosen = store.find_client(tx, find_for_operator(tx, connection), client)
        return chosen, store.year_of_start(tx, chosen, start)

    with installation(data) as here:
        chosen, jahr = here.db.read_now(find)
        work = Export(
            here.db, chosen, jahr, Folder(folder), SystemClock().now(), payable_documents if receipts else None
        )
        written, notes = work.run(with_receipts=receipts)
    files = [str(folder / name) for name in written]
    if as_json:
        protocol = [dict(zip(_NOTE, note, strict=True)) for note in notes.first]
        say({"files": files, "protocol": protocol, "protocol_count": notes.count}, "", as_json=True)
    else:
        if notes.first:
            say_table(Note._fields, notes.first, as_json=False, empty="")
        print("\n".join(files))
        if notes.count:
            print(f"Notes: {notes.count}, all of them in {files[-1]}.")
    if notes.left_out:
        raise typer.Exit(1)
