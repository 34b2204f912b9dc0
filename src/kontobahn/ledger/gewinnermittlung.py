"""Profit and loss: the answer, from the turnover of accounts by period."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import date

from kontobahn import money
from kontobahn.ledger.bwa import LINES, RESULT, UNASSIGNED, Subtotal, group_of, is_profit_and_loss
from kontobahn.ledger.wire import Bwa, BwaKonto, BwaZeile


def profit_and_loss(
    skr: str, jahr: date, bis_periode: int, rows: Iterable[tuple[str, int, int]], label: Callable[[str], str]
) -> Bwa:
    """Returns the profit and loss up to a period. `rows` are account, period and cents, HABEN positive, by account and period."""
    groups: dict[str, list[int]] = defaultdict(lambda: [0] * bis_periode)
    unassigned: dict[str, int] = defaultdict(int)
    for konto, periode, betrag in rows:
        if not is_profit_and_loss(skr, konto):
            continue
        group = group_of(skr, konto)
        groups[group][periode - 1] += betrag
        if group == UNASSIGNED:
            unassigned[konto] += betrag
    zeilen = _lines(groups, bis_periode)
    return Bwa(
        geschaeftsjahrStartDatum=jahr,
        bisPeriode=bis_periode,
        zeilen=zeilen,
        nichtZugeordnet=[BwaKonto(konto, label(konto), money.to_wire(betrag)) for konto, betrag in unassigned.items()],
        ergebnis=zeilen[-1].kumuliert,
    )


def _lines(groups: dict[str, list[int]], periods: int) -> list[BwaZeile]:
    """Returns every line of the scheme, then accounts that fit none of them, and the result."""
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
