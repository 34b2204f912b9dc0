"""`kontobahn import` and `kontobahn export`: files in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.cli.books import parse_day
from kontobahn.cli.common import DataOption, Installation, JsonOption, installation, progress_bar, say, say_table
from kontobahn.cli.statements import import_statements
from kontobahn.clock import SystemClock
from kontobahn.db import Tx
from kontobahn.errors import Refusal
from kontobahn.formats.extf import ExtfError, open_extf
from kontobahn.ledger.books import exporting, store
from kontobahn.ledger.books.importing import ImportRefused, Report, hash_rows, import_file
from kontobahn.ledger.books.store import Client, FiscalYear
from kontobahn.ledger.connections import find_for_operator

imports = typer.Typer(no_args_is_help=True, help="Import files.")
exports = typer.Typer(no_args_is_help=True, help="Export files.")
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
        bool, typer.Option("--another", help="Rows that look like those of a partial import are other bookings.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import DATEV-format files into the books: bookings, person accounts, account labels, payment terms.

    A file is imported as a whole or not at all, unless --partial is given, and never twice. Every refused row is named; correct
    them and import the file again: rows imported before are left out. Exit code 1 if a file or a row was refused.

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
    here: Installation, file: Path, connection_id: str, client: str | None, *, partial: bool, another: bool
) -> dict[str, Any]:
    outcome: dict[str, Any] = {
        "file": str(file),
        "kategorie": None,
        "client_id": None,
        "taken": 0,
        "known": 0,
        "refused": [],
        "error": None,
    }
    try:
        rows_sha256 = hash_rows(file)
        with open_extf(file) as opened, progress_bar(file.name) as progress:

            def unit(tx: Tx) -> Report:
                return import_file(
                    tx, find_for_operator(tx, connection_id), client, opened, file.name,
                    rows_sha256=rows_sha256, partial=partial, progress=progress, another=another,
                )  # fmt: skip

            report = here.db.write_now(unit)
    except ImportRefused as refusal:
        report = refusal.report
        outcome["error"] = str(refusal)
    except (ExtfError, Refusal) as error:
        return {**outcome, "error": str(error)}
    rows = [{"zeile": row.line, "spalte": row.column, "grund": row.reason} for row in report.refused]
    return {
        **outcome,
        "kategorie": report.category,
        "client_id": report.client_id,
        "taken": report.imported,
        "known": report.known,
        "refused": rows,
    }


def _show(outcome: dict[str, Any]) -> None:
    if outcome["refused"]:
        rows = [(row["zeile"], row["spalte"], row["grund"]) for row in outcome["refused"]]
        say_table(("line", "column", "reason"), rows, as_json=False, empty="")
    if outcome["error"]:
        print(f"{outcome['file']}: {outcome['error']}")
    else:
        known = f" {outcome['known']} were imported before and left out." if outcome["known"] else ""
        imported = f"{outcome['taken']} records of {outcome['kategorie']} imported for {outcome['client_id']}."
        refused = f" {len(outcome['refused'])} rows were refused." if outcome["refused"] else ""
        print(f"{outcome['file']}: {imported}{known}{refused}")


imports.command("statements")(import_statements)


@exports.command("extf")
def export_extf(
    connection: ConnectionOption,
    year_start: Annotated[str, typer.Option("--year-start", help="First day of the fiscal year, 2024-01-01.")],
    folder: Annotated[Path, typer.Option("--to", file_okay=False, help="Folder to write into.")] = Path(),
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a fiscal year's bookings and the person accounts as DATEV-format files.

    Example: kontobahn export extf --connection 0193… --year-start 2024-01-01 --to ./export
    """
    start = parse_day(year_start)
    folder.mkdir(parents=True, exist_ok=True)

    def find(tx: Tx) -> tuple[Client, FiscalYear]:
        chosen = store.find_client(tx, find_for_operator(tx, connection), client)
        return chosen, store.year_of_start(tx, chosen, start)

    with installation(data) as here:
        chosen, jahr = here.db.read_now(find)
        now = SystemClock().now()
        written = [
            *exporting.export_bookings(here.db, chosen, jahr, folder, now),
            *exporting.export_persons(here.db, chosen, jahr, folder, now),
        ]
    say(
        {"files": [str(path) for path in written]},
        "\n".join(map(str, written)) or "There is nothing to write.",
        as_json=as_json,
    )
