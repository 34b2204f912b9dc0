"""Copies the read models that a client has into the edition that a large file is written to, in slices.

Whoever posts meanwhile changes the old edition only: what those bookings touched is copied again, in the last slice.
"""

from __future__ import annotations

from typing import Any

from kontobahn.db import Database, Tx
from kontobahn.ledger.books import models, preparing
from kontobahn.ledger.books.answers import each_portion
from kontobahn.ledger.books.posting import Satz
from kontobahn.ledger.books.preparing import ROWS_AT_ONCE, TABLES, Claim
from kontobahn.ledger.books.splitting import legs_of
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.konto import is_personenkonto


def copy_edition(db: Database, client: Client, claimed: Claim) -> None:
    carried = db.read_now(models.carried_years, client.mandant)
    for table in TABLES:
        after: tuple[Any, ...] | None = ()
        while after is not None:
            after = db.write_now(_copy_some, claimed, table, after)
    db.write_now(_finish, client, claimed, carried)


def _copy_some(tx: Tx, claimed: Claim, table: str, after: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Copies some rows, and returns the key of the last; None if there are no more."""
    _, edition = preparing.renew(tx, claimed)
    keys, values = TABLES[table]
    width = keys.count(",") + 1
    beyond = f" AND ({keys}) > ({', '.join('?' * width)})" if after else ""
    rows = tx.all(
        f"SELECT {keys}, {values} FROM {table} WHERE edition = ?{beyond} ORDER BY {keys} LIMIT ?",
        edition, *after, ROWS_AT_ONCE,
    )  # fmt: skip
    marks = ", ".join("?" * (1 + width + values.count(",") + 1))
    tx.many(
        f"INSERT INTO {table} (edition, {keys}, {values}) VALUES ({marks})", [(claimed.edition, *row) for row in rows]
    )
    return rows[-1][:width] if len(rows) == ROWS_AT_ONCE else None


def _finish(tx: Tx, client: Client, claimed: Claim, carried: list[str]) -> None:
    last, edition = preparing.renew(tx, claimed, is_copied=1)
    konten, items = _touched_since(tx, client, claimed.before, last)
    if not konten:
        return
    for some, is_one in each_portion(filter(is_personenkonto, konten.copy())):
        # A pair that was decided about again changed the other account of the opening too.
        for (gegenkonto,) in tx.all(
            f"SELECT DISTINCT gegenkonto FROM books_openings WHERE edition = ? AND konto {is_one}", edition, *some
        ):
            konten.add(gegenkonto)
    touched: list[tuple[str, ...]]
    for table in TABLES:
        condition, touched = "konto = ?", [(konto,) for konto in sorted(konten)]
        if table == "books_items":
            condition, touched = "konto = ? AND beleg = ?", sorted(items)
        columns = ", ".join(TABLES[table])
        tx.many(f"DELETE FROM {table} WHERE edition = ? AND {condition}", [(claimed.edition, *key) for key in touched])
        tx.many(
            f"INSERT INTO {table} (edition, {columns}) SELECT CAST(? AS BIGINT), {columns} FROM {table}"
            f" WHERE edition = ? AND {condition}",
            [(claimed.edition, edition, *key) for key in touched],
        )
    now_carried = models.carried_years(tx, client.mandant)
    if now_carried != carried:
        models.settle_rests(tx, claimed.edition, now_carried, None)


def _touched_since(tx: Tx, client: Client, before: int, last: int) -> tuple[set[str], set[tuple[str, str]]]:
    """Returns the accounts and the documents that bookings after this one touched."""
    konten, items = set[str](), set[tuple[str, str]]()
    for aufteilung, *values in tx.all(
        f"SELECT aufteilung, {', '.join(Satz._fields)} FROM books_bookings WHERE mandant = ? AND id > ? AND id <= ?",
        client.mandant, before, last,
    ):  # fmt: skip
        satz = Satz._make(values)
        for konto, _ in legs_of(client.rahmen, satz, aufteilung):
            konten.add(konto)
            if is_personenkonto(konto):
                items.add((konto, satz.belegfeld1))
    return konten, items
