"""Open items: from documents and carry-overs to the list per person account. Pure; amounts in cents, SOLL positive.

An opening balance repeats what earlier years' documents come to. What it holds beyond them (the rest) is netted against
payments and credits that lack their document, the oldest first; what then remains is an item of its own.
"""

from __future__ import annotations

from datetime import date
from typing import NamedTuple, cast

from msgspec import Raw

from kontobahn.api.wire import encode
from kontobahn.ledger.konto import is_debitor
from kontobahn.ledger.model import Opos, OposKonto
from kontobahn.money import amount_text, to_wire

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


# A row of the answer: account, balance, and the item's text up to its balance. Rows of an account stand together, by size.
OpenRow = tuple[str, int, str]


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


def item_text(beleg: str, belegdatum: str, buchungstext: str) -> str:
    """An item of the answer in JSON, up to its balance."""
    return f'{{"beleg":{_quoted(beleg)},"belegdatum":"{belegdatum}","buchungstext":{_quoted(buchungstext)},"saldo":'


def _quoted(text: str) -> str:
    return encode(text).decode()


def rows_of(konto: str, items: list[Item]) -> list[OpenRow]:
    """The rows of one account, by size; what has no balance is no row."""
    by_size = sorted((item for item in items if item.saldo), key=lambda item: (-abs(item.saldo), item.beleg))
    return [(konto, item.saldo, item_text(item.beleg, item.belegdatum, item.buchungstext)) for item in by_size]


def assemble(stichtag: date, rows: list[OpenRow], names: dict[str, str]) -> Opos:
    """The answer: accounts by absolute balance, sums by side."""
    # Written as text, all items first: structs for each of many thousand would cost several times as much.
    texts = [f"{text}{amount_text(saldo)}}}" for _, saldo, text in rows]
    listed: list[tuple[int, str, str]] = []
    sums = {True: 0, False: 0}
    start = 0
    for end in range(1, len(rows) + 1):
        konto = rows[start][0]
        if end < len(rows) and rows[end][0] == konto:
            continue
        total = rows[start][1] if end == start + 1 else sum([row[1] for row in rows[start:end]])
        debitor = is_debitor(konto)
        sums[debitor] += total
        listed.append((
            -abs(total),
            konto,
            f'{{"kontonummer":"{konto}","bezeichnung":{_quoted(names.get(konto, ""))},"isDebitor":{"true" if debitor else "false"},'
            f'"totalSaldo":{amount_text(total)},"posten":[{",".join(texts[start:end])}]}}',
        ))  # fmt: skip
        start = end
    listed.sort()
    return Opos(
        stichtag=stichtag,
        konten=cast(list[OposKonto], Raw(f"[{','.join([text for _, _, text in listed])}]")),
        sumDebitoren=to_wire(sums[True]),
        sumKreditoren=to_wire(sums[False]),
    )
