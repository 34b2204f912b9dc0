"""`kontobahn import` and `kontobahn export`: files in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.access import audit
from kontobahn.books import store
from kontobahn.books.duplicates import LooksBooked
from kontobahn.books.export import Export, Folder, Note
from kontobahn.books.imports import ImportRefused, Job, client_of, run_import
from kontobahn.books.store import Client, FiscalYear
from kontobahn.cli.books import parse_day
from kontobahn.cli.common import DataOption, Installation, counted, installation, progress_bar, say_table
from kontobahn.cli.mobility import import_tickets
from kontobahn.cli.output import JsonOption, say
from kontobahn.cli.statements import import_statements
from kontobahn.clock import SystemClock
from kontobahn.db import Tx
from kontobahn.errors import Refusal
from kontobahn.formats.extf import ExtfError, RowError, RowWarning, open_extf
from kontobahn.ledger.connections import find_for_operator
from kontobahn.payables.adviser_documents import documents as payable_documents

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
        told = _told(refusal.protocol.refused, refusal.protocol.warnings)
        return {**outcome, **told, "refused_count": refusal.protocol.refused_count, "error": str(refusal)}
    except (ExtfError, Refusal) as error:
        return {**outcome, "error": str(error)}
    return {
        **outcome,
        **_told(report.refused, report.warnings),
        "batch": None if outcome["error"] else report.batch,
        "kategorie": report.category,
        "client_id": report.client_id,
        "imported": report.imported,
        "known": report.known,
        "refused_count": report.refused_count,
        "warning_count": report.warning_count,
    }


def _told(refused: list[RowError], warnings: list[RowWarning]) -> dict[str, Any]:
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
