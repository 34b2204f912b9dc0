"""Open items: from documents and carry-overs to the list per person account. Pure; amounts in cents, SOLL positive.

An opening balance repeats what earlier years' documents come to. What it holds beyond them (the rest) is netted against
payments and credits that lack their document, the oldest first; what then remains is an item of its own.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple, cast

from kontobahn.ledger.konto import is_debitor
from kontobahn.ledger.model import Opos, OposKonto, Posten
from kontobahn.money import to_wire

EB_RESIDUAL, EB_RESIDUAL_TEXT = "EB-RESIDUAL", "Saldovortrag"
RAW_EB_BELEG = "0"


class Item(NamedTuple):
    """A document: all legs of one person account under one document number, up to the cut-off."""

    beleg: str
    soll: int
    haben: int
    belegdatum: str
    buchungstext: str

    @property
    def saldo(self) -> int:
        return self.soll - self.haben


# A row of what is open: account, document number, debit, credit, date, text.
OpenRow = tuple[str, str, int, int, str, str]


class Rest(NamedTuple):
    """What an account's opening balance holds beyond the documents of the years before."""

    betrag: int
    # For an item of its own: the carried year's first day (reconcile) or the first opening balance there ever was (raw).
    belegdatum: str
    buchungstext: str


def reconcile(items: list[Item], rest: Rest) -> list[Item]:
    """Net the rest against one-sided documents of the opposite sign; the remainder becomes EB-RESIDUAL."""
    left = rest.betrag
    result = []
    for item in sorted(items, key=lambda item: (item.belegdatum, item.beleg)):
        one_sided = not item.soll or not item.haben
        step = 0
        if left and one_sided and item.saldo and (item.saldo < 0) == (left > 0):
            step = min(abs(left), abs(item.saldo)) * (1 if left > 0 else -1)
            left -= step
        result.append(item._replace(soll=item.soll + max(step, 0), haben=item.haben + max(-step, 0)))
    if left:
        result.append(Item(EB_RESIDUAL, max(left, 0), max(-left, 0), rest.belegdatum, EB_RESIDUAL_TEXT))
    return result


def raw(items: list[Item], rest: Rest) -> list[Item]:
    """Opening balances as an ordinary document “0”, together with whatever else carries that number."""
    opening = Item(RAW_EB_BELEG, max(rest.betrag, 0), max(-rest.betrag, 0), rest.belegdatum, rest.buchungstext)
    result = []
    for item in items:
        if item.beleg == RAW_EB_BELEG:
            first = min(item, opening, key=lambda leg: (leg.belegdatum, leg.buchungstext))
            opening = first._replace(soll=item.soll + opening.soll, haben=item.haben + opening.haben)
        else:
            result.append(item)
    return [*result, opening]


def assemble(stichtag: date, rows: list[OpenRow], names: dict[str, str]) -> Opos:
    """The answer: items and accounts by absolute balance, sums by side. Rows with a zero balance must not be among them."""
    posten: dict[str, list[tuple[int, str, int, OpenRow]]] = {}
    for row in rows:
        saldo = row[2] - row[3]
        entry = (-saldo if saldo > 0 else saldo, row[1], saldo, row)
        of_konto = posten.get(row[0])
        if of_konto is None:
            posten[row[0]] = [entry]
        else:
            of_konto.append(entry)
    listed: list[tuple[int, str, OposKonto]] = []
    sums = {True: 0, False: 0}
    for konto, entries in posten.items():
        if len(entries) > 1:
            entries.sort()
        total = sum([entry[2] for entry in entries])
        debitor = is_debitor(konto)
        sums[debitor] += total
        answer = OposKonto(
            kontonummer=konto,
            bezeichnung=names.get(konto, ""),
            isDebitor=debitor,
            totalSaldo=to_wire(total),
            posten=[
                # The date is an ISO text already, as the wire wants it.
                Posten(beleg=beleg, belegdatum=cast(date, row[4]), buchungstext=row[5], saldo=to_wire(saldo))
                for _, beleg, saldo, row in entries
            ],
        )
        listed.append((-abs(total), konto, answer))
    listed.sort(key=_by_size)
    return Opos(
        stichtag=stichtag,
        konten=[answer for _, _, answer in listed],
        sumDebitoren=to_wire(sums[True]),
        sumKreditoren=to_wire(sums[False]),
    )


def _by_size(entry: tuple[int, str, OposKonto]) -> tuple[int, str]:
    return entry[:2]
