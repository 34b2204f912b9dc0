"""`kontobahn books`: connections of the built-in ledger, their clients, services and rights; batches, listed and undone."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import Annotated

import msgspec
import typer

from kontobahn import money
from kontobahn.access import audit
from kontobahn.api.wire import Name
from kontobahn.books import batches, cash_report, setup, store, tax_corrections
from kontobahn.books.batches import BatchRow
from kontobahn.books.cash_book import reverse_entry
from kontobahn.books.store import Client
from kontobahn.books.undo import Undo
from kontobahn.cli.common import DataOption, OrganizationOption, checked, installation, moment, one_of, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.days import year_end
from kontobahn.db import Database, Tx
from kontobahn.errors import NotFound
from kontobahn.ids import new_id
from kontobahn.ledger import connections
from kontobahn.ledger.connections import ConnectionStatus, find_for_operator
from kontobahn.ledger.errors import AREAS
from kontobahn.ledger.kassenbuch import CashReport, KassenbuchSelection

app = typer.Typer(no_args_is_help=True)
ConnectionArgument = Annotated[str, typer.Argument(metavar="CONNECTION_ID", help="Id of the connection.")]
ClientOption = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="Client; the default one when omitted.")
]


@app.command("create")
def create(
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the client.")],
    year_start: Annotated[str, typer.Option("--year-start", help="First day of the first fiscal year, 2024-01-01.")],
    client: Annotated[str, typer.Option("--client", metavar="ID", help="Adviser and client number, 1234-1.")],
    skr: Annotated[str, typer.Option("--skr", help="Chart of accounts: SKR03 or SKR04.")] = "SKR03",
    length: Annotated[int, typer.Option("--length", min=4, max=8, help="Digits of a ledger account number.")] = 4,
    connection: Annotated[
        str | None,
        typer.Option("--connection", metavar="ID", help="Add the client to this connection instead of a new one."),
    ] = None,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a connection with one client, empty and with all services.

    Example: kontobahn books create --name "Muster GmbH" --skr SKR03 --length 4 --client 1234-1 --year-start 2024-01-01
    """
    name, start = checked("--name", name, Name), parse_day(year_start)
    with installation(data) as here:
        owner = here.organization(organization)
        made = here.db.write_now(
            setup.create_books,
            owner.id,
            connection,
            name=name,
            skr=skr,
            length=length,
            client_id=client,
            year_start=start,
        )
    facts = {
        "connection_id": made.connection_id, "client_id": made.client_id, "organization_id": owner.id, "kontenrahmen": skr,
        "kontonummernLaenge": length, "geschaeftsjahrStartDatum": year_start, "kassenname": setup.CASH_BOOK,
    }  # fmt: skip
    say(
        facts,
        f"{made.connection_id}\n\nThe connection of “{name}” (client {client}) in “{owner.name}”.",
        as_json=as_json,
    )


def parse_day(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"“{text}” is not a date like 2024-01-01.") from None
    if not 1900 <= day.year < 2200:
        raise typer.BadParameter(f"“{text}” is not in this or the neighbouring centuries.")
    return day


@app.command("list")
def show(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the connections of an organisation with their clients."""
    with installation(data) as here:
        owner = here.organization(organization)
        rows = here.db.read_now(_rows, owner.id)
    columns = ("connection_id", "status", "client_id", "name", "skr", "default", "years", "services", "connected_since")
    say_table(columns, rows, as_json=as_json, empty=f"“{owner.name}” has no books yet.")


def _rows(tx: Tx, organization_id: str) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for connection, since in connections.of_organization(tx, organization_id):
        for client in store.clients(tx, connection):
            rows.append((
                connection.id, connection.status, client.client_id, client.bezeichnung, client.kontenrahmen, bool(client.is_default),
                [jahr.start for jahr in store.years(tx, client)], store.subscriptions(tx, client), moment(since),
            ))  # fmt: skip
    return rows


@app.command("year")
def year(
    connection_id: ConnectionArgument,
    start: Annotated[str, typer.Option("--start", help="First day, 2027-01-01.")],
    end: Annotated[
        str | None, typer.Option("--end", help="Last day, for a short fiscal year; otherwise twelve months.")
    ] = None,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a fiscal year for cash book entries, or declare one a short year with --end.

    Example: kontobahn books year 0193… --start 2024-01-01 --end 2024-06-30
    """
    first, last = parse_day(start), parse_day(end) if end else None
    if last is not None and not first < last <= year_end(first):
        raise typer.BadParameter("A fiscal year ends after it begins, and at most twelve months on.")
    with installation(data) as here:
        made = here.db.write_now(lambda tx: store.ensure_year(tx, _client(tx, connection_id, client), first, last))
    say(
        {"start": made.start, "end": made.end},
        f"The fiscal year from {made.start} to {made.end} is open.",
        as_json=as_json,
    )


@app.command("entries")
def entries(
    connection_id: ConnectionArgument,
    cash_book: Annotated[str, typer.Argument(help="Name of the cash book.")],
    month: Annotated[
        str | None, typer.Option("--month", help="This month alone, 2026-02, with its opening and closing balance.")
    ] = None,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the entries of a cash book, and other bookings on its account, by day, with the balance after each.

    Example: kontobahn books entries 0193… Kasse --month 2026-02
    """
    span = _month(month) if month else (None, None)
    selection = KassenbuchSelection(cash_book, *span)
    with installation(data) as here:
        read = here.db.read_now(lambda tx: cash_report.report(tx, _client(tx, connection_id, client), selection))
    # Amounts of an answer are texts that will be encoded.
    found = msgspec.json.decode(msgspec.json.encode(read), type=CashReport)
    rows = [
        (
            row.nummer, row.datum, row.betrag, row.saldo, row.gegenkonto, row.belegnummer, row.belegtext, row.stornoVon
        )
        for row in found.zeilen
    ]  # fmt: skip
    columns = ("nummer", "datum", "betrag", "saldo", "gegenkonto", "belegnummer", "belegtext", "storno_von")
    if month is None:
        say_table(columns, rows, as_json=as_json, empty="The cash book has no entry yet.")
        return
    balances = {"anfangsbestand": found.anfangsbestand, "endbestand": found.endbestand}
    if as_json:
        say({**balances, "rows": [dict(zip(columns, row, strict=True)) for row in rows]}, "", as_json=True)
        return
    print(f"Opening balance: {found.anfangsbestand:.2f}")
    say_table(columns, rows, as_json=False, empty="There is nothing on the account in this month.")
    print(f"Closing balance: {found.endbestand:.2f}")


def _month(text: str) -> tuple[date, date]:
    """Returns the first and the last day of a month like 2026-02."""
    first = parse_day(f"{text}-01")
    return first, first.replace(day=monthrange(first.year, first.month)[1])


def _set_status(connection_id: str, status: ConnectionStatus, data: str | None, as_json: bool) -> None:
    def change(tx: Tx) -> None:
        connection = find_for_operator(tx, connection_id)
        connections.set_status(tx, connection, status)
        audit.record(tx, connection.organization_id, audit.COMMAND_LINE, f"ledger_connection.{status}", connection_id)

    with installation(data) as here:
        here.db.write_now(change)
    say({"connection_id": connection_id, "status": status}, f"The connection is {status}.", as_json=as_json)


@app.command("reconnect")
def reconnect(connection_id: ConnectionArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Renew a connection that has expired, was revoked or is pending."""
    _set_status(connection_id, "connected", data, as_json)


@app.command("expire")
def expire(connection_id: ConnectionArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make a connection expire, as an external provider's may."""
    _set_status(connection_id, "expired", data, as_json)


@app.command("revoke")
def revoke(connection_id: ConnectionArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Revoke a connection."""
    _set_status(connection_id, "revoked", data, as_json)


@app.command("service")
def service(
    connection_id: ConnectionArgument,
    name: Annotated[
        str,
        typer.Argument(help=f"One of: {', '.join(store.SUBSCRIPTIONS)}.", autocompletion=one_of(*store.SUBSCRIPTIONS)),
    ],
    off: Annotated[bool, typer.Option("--off", help="End it instead of booking it.")] = False,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Book or end a client's service."""
    if name not in store.SUBSCRIPTIONS:
        raise typer.BadParameter(f"“{name}” is not a service; choose one of {', '.join(store.SUBSCRIPTIONS)}.")

    def change(tx: Tx) -> list[str]:
        chosen = _client(tx, connection_id, client)
        (store.unsubscribe if off else store.subscribe)(tx, chosen, name)
        _record(tx, chosen, "service", name=name, booked=not off)
        return store.subscriptions(tx, chosen)

    with installation(data) as here:
        booked = here.db.write_now(change)
    say({"services": booked}, f"Booked: {', '.join(booked) or 'nothing'}.", as_json=as_json)


@app.command("right")
def right(
    connection_id: ConnectionArgument,
    area: Annotated[str, typer.Argument(help=f"One of: {', '.join(AREAS)}.", autocompletion=one_of(*AREAS))],
    off: Annotated[bool, typer.Option("--off", help="Revoke it instead of granting it.")] = False,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Grant or revoke the right to an area of a client's books."""
    if area not in AREAS:
        raise typer.BadParameter(f"“{area}” is not an area; choose one of {', '.join(AREAS)}.")

    def change(tx: Tx) -> None:
        chosen = _client(tx, connection_id, client)
        (store.deny if off else store.allow)(tx, chosen, area)
        _record(tx, chosen, "right", area=area, granted=not off)

    with installation(data) as here:
        here.db.write_now(change)
    say(
        {"area": area, "granted": not off},
        f"The right to {area} is {'revoked' if off else 'granted'}.",
        as_json=as_json,
    )


@app.command("reverse")
def reverse(
    connection_id: ConnectionArgument,
    cash_book: Annotated[str, typer.Argument(help="Name of the cash book.")],
    number: Annotated[int, typer.Argument(min=1, max=10**12, help="Number of the entry.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; recorded with the reversal.")],
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Reverse a cash book entry by an opposite one; entries are never changed."""
    with installation(data) as here:
        made = here.db.write_now(_reverse, connection_id, client, cash_book, number, reason)
    say({"number": made, "reverses": number}, f"Entry {made} reverses entry {number}.", as_json=as_json)


def _reverse(tx: Tx, connection_id: str, client_id: str | None, cash_book: str, number: int, reason: str) -> int:
    chosen = _client(tx, connection_id, client_id)
    made = reverse_entry(tx, chosen, cash_book, number, reason)
    _record(tx, chosen, "reverse", cash_book=cash_book, number=number, by=made, reason=reason)
    return made


@app.command("retax")
def retax(
    connection_id: ConnectionArgument,
    year_start: Annotated[
        str, typer.Option("--year", metavar="START", help="First day of the fiscal year, 2024-01-01.")
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Book the difference instead of only showing it.")] = False,
    client: ClientOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which bookings today's tax rules would split differently, by key or account; with --apply, correct them.

    Bookings are never changed: each one is reversed by Generalumkehr and booked again, on its own day.
    """
    start = parse_day(year_start)
    with installation(data) as here:
        unit = here.db.write_now if apply else here.db.read_now
        found = unit(_retax, connection_id, client, start, apply=apply)
    rows = [
        (
            item.change.schluessel, item.change.konto, item.change.before, item.change.after, item.bookings,
            money.from_minor(item.umsatzsteuer), money.from_minor(item.vorsteuer),
        )
        for item in found
    ]  # fmt: skip
    columns = ("buSchluessel", "konto", "vorher", "jetzt", "buchungen", "umsatzsteuer", "vorsteuer")
    say_table(columns, rows, as_json=as_json, empty="Every booking is split as today's rules would split it.")
    if found and not as_json:
        print("Corrected." if apply else "Nothing was changed. --apply books the difference.")


def _retax(
    tx: Tx, connection_id: str, client_id: str | None, start: date, *, apply: bool
) -> list[tax_corrections.Difference]:
    chosen = _client(tx, connection_id, client_id)
    if not apply:
        return tax_corrections.differences(tx, chosen, start)
    found = tax_corrections.apply(tx, chosen, start)
    _record(tx, chosen, "retax", year=start.isoformat(), bookings=sum(item.bookings for item in found))
    return found


def _record(tx: Tx, client: Client, action: str, **details: object) -> None:
    subject = f"{client.connection_id}/{client.client_id}"
    audit.record(tx, client.organization_id, audit.COMMAND_LINE, f"books.{action}", subject, **details)


def _client(tx: Tx, connection_id: str, client_id: str | None) -> Client:
    return store.find_client(tx, find_for_operator(tx, connection_id), client_id)


# --- Batches


@app.command("batches")
def list_batches(
    connection_id: Annotated[str, typer.Argument(metavar="CONNECTION_ID", help="Id of the connection.")],
    client: Annotated[
        str | None, typer.Option("--client", metavar="ID", help="Client; the default one when omitted.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1_000_000, help="How many, the latest first.")] = 100,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was brought into the books, batch by batch: by whom, when, how much, undone or not.

    Example: kontobahn books batches 0193…
    """

    def read(tx: Tx) -> list[BatchRow]:
        return batches.listing(tx, store.find_client(tx, find_for_operator(tx, connection_id), client), None, limit)

    with installation(data) as here:
        found = here.db.read_now(read)
    columns = (
        "batch",
        "kind",
        "source",
        "year",
        "records",
        "known",
        "refused",
        "warnings",
        "by",
        "at",
        "undone_by",
        "undoes",
    )
    rows = [
        (
            row.id, row.kind, row.source, row.jahr, row.records, row.known, row.refused, row.warnings, row.author,
            moment(row.created_at), row.undone_by or None, row.undoes or None,
        )
        for row in found
    ]  # fmt: skip
    say_table(columns, rows, as_json=as_json, empty="Nothing was brought in yet.")


@app.command("undo")
def undo_batch(
    batch: Annotated[str, typer.Argument(metavar="BATCH", help="Id of the batch, from `kontobahn books batches`.")],
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Undo an import of bookings by Generalumkehr; nothing is deleted. After that the file may be imported again.

    Example: kontobahn books undo 0193…
    """
    with installation(data) as here:
        made = _undo(here.db, batch)
    say(
        {"batch": made.id, "undoes": batch, "records": made.records},
        f"Batch {made.id} undoes batch {batch}: {made.records} bookings were reversed.",
        as_json=as_json,
    )


def _undo(db: Database, batch_id: str) -> BatchRow:
    def find(tx: Tx) -> Client:
        for mandant in batches.mandanten_of(tx, batch_id):
            return store.client_of_mandant(tx, mandant)
        raise NotFound(f"There is no batch {batch_id}. `kontobahn books batches` lists them.")

    def commit(tx: Tx) -> BatchRow:
        made, client = work.commit(tx, undo_id), find(tx)
        assert made is not None
        subject = f"{client.connection_id}/{client.client_id}"
        audit.record(tx, client.organization_id, audit.COMMAND_LINE, "books.undo", subject, batch=batch_id, by=made.id)
        return made

    work, undo_id = Undo(db, find, batch_id, audit.COMMAND_LINE.name), new_id()
    try:
        work.prepare(undo_id)
        return db.write_now(commit)
    finally:
        work.tidy(undo_id)
