"""Clients of the built-in books: fiscal years, accounts, folders and document types, subscriptions and rights."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple

import msgspec

from kontobahn.days import year_end
from kontobahn.db import Rounds, Statements, Table, Tx, chunked, short_read
from kontobahn.errors import BadRequest, Conflict, NotFound
from kontobahn.formats import extf
from kontobahn.json_text import encode
from kontobahn.ledger import connections
from kontobahn.ledger.errors import AREAS, Area, ProviderError
from kontobahn.ledger.faelligkeiten import as_row
from kontobahn.ledger.kassenbuch import Belegtyp, Ordnertyp, Rechnungsordner
from kontobahn.ledger.kontierung import full
from kontobahn.ledger.konto import (
    KONTENRAHMEN,
    PERSONENKONTO_DIGITS,
    SACHKONTO_DIGITS,
    Kontenrahmen,
    functional,
    readings,
)
from kontobahn.ledger.provider import Author, ConnectionRef, LedgerClient, Versteuerung
from kontobahn.ledger.wire import Kontozeile, Meldung, Zahlungsbedingung
from kontobahn.sentences import said

RECHNUNGSDATEN, BELEGBILDER = "Rechnungsdatenservice", "Belegbilderservice"
BUCHUNGSDATEN, EXPORT = "Buchungsdatenservice", "Exportdatenservice Rechnungswesen"
# The last booking of a client that counts: those after it are of a file that is being written. Compared with `+id`, or SQLite would
# rather read all bookings up to it than use the index of a year or an account.
LAST_BOOKING = "(SELECT last_buchung FROM books_clients WHERE mandant = ?)"
# The bookings of a large batch that was undone: their movements do not count, and are being deleted. Takes the client's number twice.
UNDONE = (
    "BETWEEN (SELECT undone_from FROM books_clients WHERE mandant = ?)"
    " AND (SELECT undone_to FROM books_clients WHERE mandant = ?)"
)
# Bookings that were not undone and undo no others. Takes the client's number.
STANDING = "batch NOT IN (SELECT id FROM books_batches WHERE mandant = ? AND (undone_by <> '' OR undoes <> ''))"
# The status of a write that was done.
SUCCESS = "SUCCESS"
SUBSCRIPTIONS = (RECHNUNGSDATEN, BELEGBILDER, BUCHUNGSDATEN, EXPORT)
_NEEDED: dict[Area, str] = {"personenkonten": BUCHUNGSDATEN, "kassenbuch": RECHNUNGSDATEN, "belege": BELEGBILDER}


class Client(NamedTuple):
    organization_id: str
    connection_id: str
    client_id: str
    mandant: int
    bezeichnung: str
    kontenrahmen: str
    konto_laenge: int
    is_default: int
    versteuerung: Versteuerung = "soll"

    @property
    def rahmen(self) -> Kontenrahmen:
        return KONTENRAHMEN[self.kontenrahmen]


_CLIENTS = Table("books_clients", Client, key=("mandant",))


def create_client(
    tx: Tx,
    connection: ConnectionRef,
    *,
    client_id: str,
    bezeichnung: str,
    kontenrahmen: str,
    konto_laenge: int,
    versteuerung: Versteuerung = "soll",
) -> Client:
    """Creates a client with our short chart of accounts; the first one of a connection is its default."""
    tx.lock("books", connection.id)
    others = clients(tx, connection)
    if any(other.client_id == client_id for other in others):
        raise Conflict(f"The connection already has a client {client_id}.")
    client = Client(
        connection.organization_id, connection.id, client_id, next_number(tx, "books_clients"), bezeichnung, kontenrahmen,
        konto_laenge, int(not others), versteuerung,
    )  # fmt: skip
    tx.run(
        f"INSERT INTO books_clients ({_CLIENTS.columns}, last_buchung, edition, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?)",
        *client, client.mandant, tx.now,
    )  # fmt: skip
    tx.many(
        "INSERT INTO books_accounts (mandant, konto, beschriftung) VALUES (?, ?, ?)",
        [(client.mandant, full(nummer), text) for nummer, text in client.rahmen.beschriftungen.items()],
    )
    return client


def rename_client(tx: Tx, connection: ConnectionRef, client_id: str, name: str) -> None:
    client = find_client(tx, connection, client_id)
    tx.run("UPDATE books_clients SET bezeichnung = ? WHERE mandant = ?", name, client.mandant)


# The clients of an organisation, to which the rows of books belong.
MANDANTEN = "SELECT mandant FROM books_clients WHERE organization_id = ?"
EDITIONS = "SELECT edition FROM books_clients WHERE organization_id = ?"


def next_number(tx: Tx, name: str) -> int:
    row = tx.one(
        "INSERT INTO counters (name, value) VALUES (?, 1)"
        " ON CONFLICT (name) DO UPDATE SET value = counters.value + 1 RETURNING value",
        name,
    )
    assert row is not None
    return int(row[0])


@short_read
def clients(connection: ConnectionRef) -> Rounds[list[Client]]:
    scope = (connection.organization_id, connection.id)
    return _CLIENTS.ask_all("organization_id = ? AND connection_id = ? ORDER BY mandant", *scope)


def listed_clients(tx: Tx, connections: Sequence[ConnectionRef]) -> list[LedgerClient]:
    """Returns the clients of these connections, the default ones first."""
    found: dict[tuple[str, str], LedgerClient] = {}
    for some, is_one in chunked(connection.id for connection in connections):
        for *facts, is_default in tx.all(
            "SELECT connection_id, client_id, bezeichnung, kontenrahmen, konto_laenge, last_buchung, is_default"
            f" FROM books_clients WHERE connection_id {is_one}",
            *some,
        ):
            client = LedgerClient._make((*facts, bool(is_default)))
            found[client.connection_id, client.client_id] = client
    return sorted(found.values(), key=lambda client: (not client.is_default, client.name, client.client_id))


@short_read
def find_client(connection: ConnectionRef, client_id: str | None) -> Rounds[Client]:
    """Returns the client with this id, or the default one."""
    for client in (yield from clients.rounds(connection)):
        if client.client_id == client_id or (client_id is None and client.is_default):
            return client
    if client_id is None:
        raise NotFound("The connection has no client yet.")
    raise BadRequest(
        said("The query parameter `clientId`: the connection has no client {client}.", client=client_id),
        field="clientId",
    )


def edition_of(tx: Tx, client: Client) -> int:
    """Returns the number of the client's read models. It holds for this transaction only."""
    row = tx.one("SELECT edition FROM books_clients WHERE mandant = ?", client.mandant)
    assert row is not None
    return int(row[0])


def client_of_mandant(tx: Tx, mandant: int) -> Client:
    found = _CLIENTS.one(tx, "mandant = ?", mandant)
    assert found is not None
    return found


# --- Subscriptions and rights


def needed_subscription(area: Area) -> str:
    return _NEEDED.get(area, EXPORT)


def subscriptions(tx: Tx, client: Client) -> list[str]:
    return [
        name
        for (name,) in tx.all("SELECT name FROM books_subscriptions WHERE mandant = ? ORDER BY name", client.mandant)
    ]


def subscribe(tx: Tx, client: Client, *names: str) -> None:
    for name in names:
        tx.run(
            "INSERT INTO books_subscriptions (mandant, name) VALUES (?, ?) ON CONFLICT DO NOTHING", client.mandant, name
        )


def unsubscribe(tx: Tx, client: Client, name: str) -> None:
    tx.run("DELETE FROM books_subscriptions WHERE mandant = ? AND name = ?", client.mandant, name)


def deny(tx: Tx, client: Client, area: Area) -> None:
    assert area in AREAS
    tx.run(
        "INSERT INTO books_denied_rights (mandant, bereich) VALUES (?, ?) ON CONFLICT DO NOTHING",
        client.mandant,
        area,
    )


def allow(tx: Tx, client: Client, area: Area) -> None:
    tx.run("DELETE FROM books_denied_rights WHERE mandant = ? AND bereich = ?", client.mandant, area)


def require(tx: Tx, client: Client, *areas: Area) -> None:
    """Refuses as an external provider would: 401 without a valid connection, 403 without the service or the right."""
    status = connections.status_of(tx, client.organization_id, client.connection_id)
    if status != "connected":
        raise ProviderError(401, f"the connection is {status or 'gone'}", type="connection")
    booked = subscriptions(tx, client)
    for area in areas:
        if needed_subscription(area) not in booked:
            raise ProviderError(403, f"{needed_subscription(area)} is not booked", type="subscription", area=area)
        denied = tx.one("SELECT 1 FROM books_denied_rights WHERE mandant = ? AND bereich = ?", client.mandant, area)
        if denied is not None:
            raise ProviderError(403, f"no right for {area}", type="right", area=area)


# --- Fiscal years


class FiscalYear(NamedTuple):
    start: str
    end: str
    has_eb: int


def years(tx: Statements, client: Client) -> list[FiscalYear]:
    return [
        FiscalYear(*row)
        for row in tx.all("SELECT jahr, ende, has_eb FROM books_years WHERE mandant = ? ORDER BY jahr", client.mandant)
    ]


def year_of_start(tx: Tx, client: Client, start: date) -> FiscalYear:
    known = years(tx, client)
    for jahr in known:
        if jahr.start == start.isoformat():
            return jahr
    starts = ", ".join(jahr.start for jahr in known) or "none"
    raise NotFound(
        said("The client has no fiscal year that starts on {day}. Known: {starts}.", day=start, starts=starts)
    )


def year_of_date(tx: Tx, client: Client, day: str) -> FiscalYear | None:
    return next((jahr for jahr in years(tx, client) if jahr.start <= day <= jahr.end), None)


def ensure_year(tx: Tx, client: Client, start: date, end: date | None = None) -> FiscalYear:
    """Returns the fiscal year of this start, and creates it if it is missing. Raises Conflict if it would overlap another.

    It has twelve months, or fewer if the next one begins earlier or `end` says so (Rumpfgeschäftsjahr).
    """
    lock_years(tx, client)
    year, last = _fit_year(tx, client, start, end)
    if year is None:
        year = FiscalYear(start.isoformat(), last, 0)
        tx.run("INSERT INTO books_years (mandant, jahr, ende, has_eb) VALUES (?, ?, ?, 0)", client.mandant, *year[:2])
    elif end is not None and last != year.end:
        year = _set_end(tx, client, year, last)
    return year


def coming_year(tx: Tx, client: Client, start: date) -> FiscalYear:
    """Returns the year that `ensure_year` would, and creates nothing."""
    found, last = _fit_year(tx, client, start, None)
    return found or FiscalYear(start.isoformat(), last, 0)


def _fit_year(tx: Tx, client: Client, start: date, end: date | None) -> tuple[FiscalYear | None, str]:
    """Returns the fiscal year of this start, if there is one, and the day on which it is to end."""
    start_text = start.isoformat()
    last = (end or year_end(start)).isoformat()
    found: FiscalYear | None = None
    for jahr in years(tx, client):
        if jahr.start == start_text:
            found = jahr
        elif jahr.start < start_text <= jahr.end:
            day_before = start - timedelta(days=1)
            raise Conflict(
                said(
                    "A fiscal year from {day} would overlap the one from {day_from} to {day_to}. If that"
                    " one is a short year, say so first: kontobahn books year … --start {start} --end"
                    " {end}.",
                    day=start_text,
                    day_from=jahr.start,
                    day_to=jahr.end,
                    start=jahr.start,
                    end=day_before,
                )
            )
        elif start_text < jahr.start <= last:
            if end is not None:
                raise Conflict(
                    f"A fiscal year from {start_text} to {last} would overlap the one from {jahr.start} to {jahr.end}."
                )
            last = (date.fromisoformat(jahr.start) - timedelta(days=1)).isoformat()
    return found, last


def lock_years(tx: Tx, client: Client) -> None:
    """Keeps others from creating or shortening a fiscal year of the client until the end of the transaction."""
    tx.lock("books_years", str(client.mandant))


def _set_end(tx: Tx, client: Client, jahr: FiscalYear, last: str) -> FiscalYear:
    row = tx.one(
        f"SELECT MAX(belegdatum) FROM books_bookings WHERE mandant = ? AND jahr = ? AND +id <= {LAST_BOOKING}",
        client.mandant, jahr.start, client.mandant,
    )  # fmt: skip
    if row is not None and row[0] is not None and row[0] > last:
        raise Conflict(f"The fiscal year from {jahr.start} cannot end on {last}: it has bookings up to {row[0]}.")
    tx.run("UPDATE books_years SET ende = ? WHERE mandant = ? AND jahr = ?", last, client.mandant, jahr.start)
    return jahr._replace(end=last)


# --- Accounts


def is_known(tx: Tx, client: Client, konto: str) -> bool:
    """Returns whether the account has a label or bookings."""
    if tx.one("SELECT 1 FROM books_accounts WHERE mandant = ? AND konto = ?", client.mandant, konto) is not None:
        return True
    found = tx.one(
        "SELECT 1 FROM books_balances WHERE edition = ? AND jahr IN (SELECT jahr FROM books_years WHERE mandant = ?) AND konto = ?"
        " LIMIT 1",
        edition_of(tx, client), client.mandant, konto,
    )  # fmt: skip
    return found is not None


def label_accounts(tx: Tx, client: Client, labels: list[tuple[str, str]]) -> None:
    tx.many(
        "INSERT INTO books_accounts (mandant, konto, beschriftung) VALUES (?, ?, ?)"
        " ON CONFLICT (mandant, konto) DO UPDATE SET beschriftung = excluded.beschriftung",
        [(client.mandant, konto, text) for konto, text in labels],
    )


def find_konto(tx: Tx, client: Client, nummer: str, path: str) -> str:
    """Returns the technical number. Raises BadRequest that names the field if it may mean nothing, or two accounts."""
    try:
        found = readings(nummer, client.konto_laenge)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=error), field=path) from None
    if len(found) > 1:
        # A ledger account in full or a person account: prefer the one that exists.
        found = [konto for konto in found if is_known(tx, client, konto)] or found
    if len(found) > 1:
        raise BadRequest(
            said(
                "The field `{path}` may be the ledger account {first} or the person account {second}:"
                " write it one of these ways.",
                path=path,
                first=functional(found[0], client.konto_laenge),
                second=found[1],
            ),
            field=path,
        )
    return found[0]


def kontonummer(client: Client, text: str, field: str = "kontonummer") -> str:
    """Returns the technical number of a query parameter. Raises BadRequest that names it if it can be no account."""
    return konto_readings(client, text, field)[-1]


def konto_readings(client: Client, text: str, field: str = "kontonummer") -> list[str]:
    """Returns the accounts that a query parameter may mean."""
    try:
        return readings(text, client.konto_laenge)
    except ValueError as error:
        raise BadRequest(
            said("The query parameter `{field}` {reason}.", field=field, reason=error), field=field
        ) from None


def labels(tx: Tx, client: Client, low: str, high: str) -> dict[str, str]:
    rows = tx.all(
        "SELECT konto, beschriftung FROM books_accounts WHERE mandant = ? AND konto BETWEEN ? AND ?",
        client.mandant,
        low,
        high,
    )
    return dict(rows)


def konten(tx: Tx, client: Client, jahr: date, from_id: str | None, limit: int | None) -> list[Kontozeile]:
    year = year_of_start(tx, client, jahr)
    last = from_id or ""
    if last and len(last) not in (SACHKONTO_DIGITS, PERSONENKONTO_DIGITS):
        last = kontonummer(client, last, "from_id")
    # A posting may name an account that no file has labelled.
    rows = tx.all(
        "SELECT k.konto, a.beschriftung FROM ("
        " SELECT konto FROM books_accounts WHERE mandant = ?"
        " UNION SELECT konto FROM books_balances WHERE edition = ? AND jahr = ?"
        ") k LEFT JOIN books_accounts a ON a.mandant = ? AND a.konto = k.konto"
        " WHERE (LENGTH(k.konto), k.konto) > (?, ?) ORDER BY LENGTH(k.konto), k.konto LIMIT ?",
        client.mandant, edition_of(tx, client), year.start, client.mandant, len(last), last, limit or 1_000_000_000,
    )  # fmt: skip
    return [Kontozeile(kontonummer=konto, kontobeschriftung=text or "") for konto, text in rows]


# --- Folders, document types, and the messages of writes


def rechnungsordner(tx: Tx, client: Client, ordnertyp: Ordnertyp | None) -> list[Rechnungsordner]:
    rows = tx.all(
        "SELECT bezeichnung, ordnertyp FROM books_folders WHERE mandant = ? ORDER BY ordnertyp, bezeichnung",
        client.mandant,
    )
    return [Rechnungsordner(bezeichnung=name, ordnertyp=typ) for name, typ in rows if ordnertyp in (None, typ)]


def belegtypen(tx: Tx, client: Client) -> list[Belegtyp]:
    rows = tx.all(
        "SELECT bezeichnung, kategorie FROM books_document_types WHERE mandant = ? ORDER BY bezeichnung", client.mandant
    )
    return [Belegtyp(bezeichnung=name, kategorie=kategorie) for name, kategorie in rows]


def save_task(
    tx: Tx, client: Client, task: str, kind: str, status: str, meldungen: list[Meldung], author: Author
) -> None:
    """Logs the messages that a write was answered with."""
    tx.run(
        "INSERT INTO books_tasks (mandant, id, kind, status, meldungen, request_id, quelle, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        client.mandant, task, kind, status, encode(meldungen).decode(), author.request_id, author.quelle, tx.now,
    )  # fmt: skip


# Payment terms of a client: kept as the answer, and as the row of a file that they came from.


def save_payment_terms(tx: Tx, client: Client, bedingung: Zahlungsbedingung, row: str = "") -> None:
    """Writes terms; those of a file with its row, which says more than the API does."""
    tx.run(
        "INSERT INTO books_payment_terms (mandant, nummer, wire, extf) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (mandant, nummer) DO UPDATE SET wire = excluded.wire, extf = excluded.extf",
        client.mandant, int(bedingung.id), encode(bedingung).decode(), row,
    )  # fmt: skip


def zahlungsbedingungen(tx: Tx, client: Client, jahr: date) -> list[Zahlungsbedingung]:
    year_of_start(tx, client, jahr)
    rows = tx.all("SELECT wire FROM books_payment_terms WHERE mandant = ? ORDER BY nummer", client.mandant)
    return [msgspec.json.decode(text, type=Zahlungsbedingung) for (text,) in rows]


def payment_term_rows(tx: Tx, client: Client) -> list[tuple[int, extf.Zahlungsbedingung | None]]:
    """Returns the terms as a file has them, by number; None for those that cannot be written as a file has them."""
    return [
        (nummer, msgspec.json.decode(row, type=extf.Zahlungsbedingung) if row else as_row(_decode(wire)))
        for nummer, wire, row in tx.all(
            "SELECT nummer, wire, extf FROM books_payment_terms WHERE mandant = ? ORDER BY nummer", client.mandant
        )
    ]


_decode = msgspec.json.Decoder(Zahlungsbedingung).decode
