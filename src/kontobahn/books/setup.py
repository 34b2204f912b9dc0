"""Sets up books: a connection, its client, and what every client starts with."""

from __future__ import annotations

import re
from datetime import date

from kontobahn.books import cash_book, store
from kontobahn.books.store import Client
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger import connections
from kontobahn.ledger.kontierung import full
from kontobahn.ledger.konto import KONTENRAHMEN
from kontobahn.ledger.provider import ConnectionRef, NewClient, OwnBooks, Versteuerung
from kontobahn.sentences import said

CASH_BOOK = "Kasse"
_CLIENT_ID = re.compile(r"^[1-9][0-9]{3,6}-[1-9][0-9]{0,4}$")
_FOLDERS = (("EINGANGSRECHNUNG", "Rechnungseingang"), ("AUSGANGSRECHNUNG", "Rechnungsausgang"))
_DOCUMENT_TYPES = (
    ("Rechnungseingang", "invoices_received"),
    ("Rechnungsausgang", "outgoing_invoices"),
    ("Kasse", "other_documents"),
    ("Reisekosten", "travel_expense_documents"),
    ("Personal", "personnel_documents"),
    ("Sonstige", "other_documents"),
)


def create_books(
    tx: Tx,
    organization_id: str,
    connection_id: str | None,
    *,
    name: str,
    skr: str,
    length: int,
    client_id: str,
    year_start: date,
    versteuerung: Versteuerung = "soll",
) -> Client:
    """Creates a client, empty, with all services and a cash book, and its connection unless there is one already."""
    if skr not in KONTENRAHMEN:
        raise BadRequest(
            f"The chart of accounts {skr} is not known here: {', '.join(KONTENRAHMEN)}.", field="kontenrahmen"
        )
    if not _CLIENT_ID.match(client_id):
        raise BadRequest(
            said("“{text}” is not an adviser number and a client number like 1234-1.", text=client_id),
            field="client_id",
        )
    if connection_id is None:
        connection_id = connections.create(tx, organization_id, bezeichnung=name, provider="books")
    connection = connections.find_for_operator(tx, connection_id)
    client = store.create_client(
        tx,
        connection,
        client_id=client_id,
        bezeichnung=name,
        kontenrahmen=skr,
        konto_laenge=length,
        versteuerung=versteuerung,
    )
    store.subscribe(tx, client, *store.SUBSCRIPTIONS)
    store.ensure_year(tx, client, year_start)
    cash_book.create_cash_book(tx, client, CASH_BOOK, full(client.rahmen.kasse))
    add_folders(tx, client, _FOLDERS)
    tx.many(
        "INSERT INTO books_document_types (mandant, bezeichnung, kategorie) VALUES (?, ?, ?)",
        [(client.mandant, bezeichnung, kategorie) for bezeichnung, kategorie in _DOCUMENT_TYPES],
    )
    return client


def add_folders(tx: Tx, client: Client, folders: tuple[tuple[str, str], ...]) -> None:
    tx.many(
        "INSERT INTO books_folders (mandant, ordnertyp, bezeichnung) VALUES (?, ?, ?)",
        [(client.mandant, ordnertyp, bezeichnung) for ordnertyp, bezeichnung in folders],
    )


# --- For pages


def own_books(provider: str) -> OwnBooks:
    return OwnBooks(provider, _create, store.rename_client, _versteuerungen)


def _create(tx: Tx, organization_id: str, connection_id: str | None, wanted: NewClient) -> str:
    made = create_books(
        tx, organization_id, connection_id,
        name=wanted.name, skr=wanted.kontenrahmen, length=wanted.konto_laenge, client_id=wanted.client_id,
        year_start=wanted.year_start, versteuerung=wanted.versteuerung,
    )  # fmt: skip
    return made.connection_id


def _versteuerungen(tx: Tx, connection: ConnectionRef) -> dict[str, Versteuerung]:
    return {client.client_id: client.versteuerung for client in store.clients(tx, connection)}
