"""Payment terms of a client: kept as the answer, and as the row of a file that they came from."""

from __future__ import annotations

from datetime import date

import msgspec

from kontobahn.books.store import Client, year_of_start
from kontobahn.db import Tx
from kontobahn.formats import extf
from kontobahn.json_text import encode
from kontobahn.ledger.wire import Zahlungsbedingung
from kontobahn.ledger.zahlungsbedingungen import as_row


def save(tx: Tx, client: Client, bedingung: Zahlungsbedingung, row: str = "") -> None:
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


def rows(tx: Tx, client: Client) -> list[tuple[int, extf.Zahlungsbedingung | None]]:
    """Returns the terms as a file has them, by number; None for those that cannot be written as a file has them."""
    return [
        (nummer, msgspec.json.decode(row, type=extf.Zahlungsbedingung) if row else as_row(_decode(wire)))
        for nummer, wire, row in tx.all(
            "SELECT nummer, wire, extf FROM books_payment_terms WHERE mandant = ? ORDER BY nummer", client.mandant
        )
    ]


_decode = msgspec.json.Decoder(Zahlungsbedingung).decode
