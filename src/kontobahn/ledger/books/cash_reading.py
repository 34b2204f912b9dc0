"""The entries of a cash book as a call lists them, with their receipts and the balance after each."""

from __future__ import annotations

from datetime import date

from kontobahn import money
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.ledger.books import cash_days, receipts
from kontobahn.ledger.books.cash import ENTRIES, EntryRow, decode_record, find_cash_book
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kassenbuch import Belegbild, KassenbuchSelection, Kassenbuchzeile, Kostenstelle

_NO_LIMIT = 1_000_000_000


def zeilen(tx: Tx, client: Client, selection: KassenbuchSelection) -> list[Kassenbuchzeile]:
    """Returns entries by number."""
    find_cash_book(tx, client, selection.kassenname)
    rows = ENTRIES.all(
        tx, "mandant = ? AND kassenname = ? AND nummer > ? AND datum >= ? AND datum <= ? ORDER BY nummer LIMIT ?",
        client.mandant, selection.kassenname, selection.from_id, (selection.from_date or date.min).isoformat(),
        (selection.to_date or date.max).isoformat(), selection.limit or _NO_LIMIT,
    )  # fmt: skip
    return _answered(tx, client, selection.kassenname, rows)


def zeile(tx: Tx, client: Client, kassenname: str, nummer: int) -> Kassenbuchzeile:
    rows = ENTRIES.all(tx, "mandant = ? AND kassenname = ? AND nummer = ?", client.mandant, kassenname, nummer)
    return _answered(tx, client, kassenname, rows)[0]


def _answered(tx: Tx, client: Client, kassenname: str, rows: list[EntryRow]) -> list[Kassenbuchzeile]:
    if not rows:
        return []
    span = (client.mandant, kassenname, rows[0].nummer, rows[-1].nummer)
    images = receipts.filings(tx, client, kassenname, *span[2:])
    reversed_by: dict[int, int] = dict(
        tx.all(
            "SELECT storno_von, nummer FROM books_cash_entries WHERE mandant = ? AND kassenname = ?"
            " AND storno_von BETWEEN ? AND ?",
            *span,
        )
    )
    balance = _Balances(tx, *span, of_days=cash_days.days(tx, client, kassenname))
    found = []
    for row in rows:
        record = decode_record(row.record)
        found.append(
            Kassenbuchzeile(
                nummer=row.nummer,
                datum=date.fromisoformat(row.datum),
                betrag=money.to_wire(row.betrag),
                saldo=money.to_wire(balance.after(row, record.saldo)),
                belegtext=record.belegtext,
                gegenkonto=record.gegenkonto,
                belegnummer=record.belegnummer,
                buSchluessel=record.bu_schluessel,
                kostenstellen=[Kostenstelle(name=name) for name in (record.kost1, record.kost2) if name],
                belegbilder=[
                    Belegbild(
                        id=image.id, dateiname=image.dateiname, groesse=image.groesse, mimeTyp=image.mime_typ, sha256=image.sha256
                    )
                    for image in images.get(row.task, [])
                ],
                gebuchtAm=to_datetime(record.gebucht_am),
                stornoVon=row.storno_von,
                storniertDurch=reversed_by.get(row.nummer),
            )
        )  # fmt: skip
    return found


class _Balances:
    """What was in the cash book after an entry: entries up to it in the order of their numbers, all else up to its day."""

    def __init__(
        self, tx: Tx, mandant: int, kassenname: str, first: int, last: int, *, of_days: list[cash_days.CashDay]
    ) -> None:
        own: dict[str, int] = dict(
            tx.all(
                "SELECT datum, SUM(betrag) FROM books_cash_entries WHERE mandant = ? AND kassenname = ? GROUP BY datum",
                mandant, kassenname,
            )
        )  # fmt: skip
        # Day → what came from elsewhere since the last opening balance, and that day.
        self._others: list[tuple[str, int, str]] = []
        since, others = "", 0
        for day in of_days:
            if day.eb is not None:
                since, others = day.datum, day.eb
            others += day.bewegung - int(own.get(day.datum, 0))
            self._others.append((day.datum, others, since))
        # Opening day → entries of other spans between openings: their sum below the first number, and the others.
        self._elsewhere: dict[str, list[tuple[int, int]]] = {}
        openings = ["", *sorted({since for _, _, since in self._others if since})]
        for opening, following in zip(openings, [*openings[1:], "9999"], strict=True):
            self._elsewhere[opening] = tx.all(
                "SELECT MAX(nummer), SUM(betrag) FROM books_cash_entries WHERE mandant = ? AND kassenname = ?"
                " AND (datum < ? OR datum >= ?) AND nummer <= ? GROUP BY CASE WHEN nummer < ? THEN 0 ELSE nummer END",
                mandant, kassenname, opening, following, last, first,
            )  # fmt: skip

    def after(self, row: EntryRow, own: int) -> int:
        """`own` is the sum of all entries up to this one."""
        others, since = 0, ""
        for datum, amount, opening in self._others:
            if datum > row.datum:
                break
            others, since = amount, opening
        elsewhere = sum(int(betrag) for nummer, betrag in self._elsewhere[since] if nummer <= row.nummer)
        return others + own - elsewhere
