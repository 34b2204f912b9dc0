"""The profit and loss of a fiscal year up to a period, from the turnover that is kept by account and period."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from kontobahn import money
from kontobahn.db import Tx
from kontobahn.ledger.auswertung import Bwa, BwaKonto, BwaZeile
from kontobahn.ledger.books.answers import EB_PERIOD
from kontobahn.ledger.books.store import Client, edition_of, year_of_start
from kontobahn.ledger.bwa import LINES, RESULT, UNASSIGNED, Subtotal, group_of, is_profit_and_loss


def bwa(tx: Tx, client: Client, jahr: date, bis_periode: int) -> Bwa:
    year = year_of_start(tx, client, jahr)
    rows = tx.all(
        "SELECT konto, periode, haben - soll FROM books_periods WHERE edition = ? AND jahr = ? AND periode > ? AND periode <= ?"
        " ORDER BY konto, periode",
        edition_of(tx, client), year.start, EB_PERIOD, bis_periode,
    )  # fmt: skip
    groups: dict[str, list[int]] = defaultdict(lambda: [0] * bis_periode)
    unassigned: dict[str, int] = defaultdict(int)
    for konto, periode, betrag in rows:
        if not is_profit_and_loss(client.kontenrahmen, konto):
            continue
        group = group_of(client.kontenrahmen, konto)
        groups[group][periode - 1] += betrag
        if group == UNASSIGNED:
            unassigned[konto] += betrag
    zeilen = _lines(groups, bis_periode)
    return Bwa(
        geschaeftsjahrStartDatum=jahr,
        bisPeriode=bis_periode,
        zeilen=zeilen,
        nichtZugeordnet=[
            BwaKonto(konto, _label(tx, client, konto), money.to_wire(betrag)) for konto, betrag in unassigned.items()
        ],
        ergebnis=zeilen[-1].kumuliert,
    )


def _lines(groups: dict[str, list[int]], periods: int) -> list[BwaZeile]:
    """Every line of the scheme, and last what fits none of them and the result."""
    running = [0] * periods
    zeilen = []
    for name, is_sum in [
        *((line.bezeichnung, isinstance(line, Subtotal)) for line in LINES),
        (UNASSIGNED, False),
        (RESULT, True),
    ]:
        values = list(running) if is_sum else groups[name]
        if not is_sum:
            running = [before + value for before, value in zip(running, values, strict=True)]
        zeilen.append(
            BwaZeile(
                bezeichnung=name,
                istSumme=is_sum,
                perioden=[money.to_wire(value) for value in values],
                kumuliert=money.to_wire(sum(values)),
            )
        )
    return zeilen


def _label(tx: Tx, client: Client, konto: str) -> str:
    row = tx.one("SELECT beschriftung FROM books_accounts WHERE mandant = ? AND konto = ?", client.mandant, konto)
    return row[0] if row else ""
