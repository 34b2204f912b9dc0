"""Payments that were matched with open items and that the books do not show yet: nobody is dunned, or paid, twice."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from kontobahn import money
from kontobahn.dashboard.books import ChosenBooks
from kontobahn.dashboard.visit import Visit
from kontobahn.db import Tx
from kontobahn.ledger.faelligkeiten import FaelligesKonto
from kontobahn.reconciliation import store
from kontobahn.reconciliation.store import Client, ItemMatch, Taken

Key = tuple[str, str]


class Settlement(NamedTuple):
    """The part of an open item that was matched, in the sign of the item, and what is left of it."""

    amount: Decimal
    left: Decimal
    matches: list[ItemMatch]

    @property
    def is_handed_over(self) -> bool:
        return bool(self.matches) and all(match.was_handed_over for match in self.matches)


Settlements = dict[Key, Settlement]


async def of_items(visit: Visit, chosen: ChosenBooks, konten: Iterable[FaelligesKonto]) -> Settlements:
    """Returns what was matched with these open items, by person account and document."""
    client = Client(visit.organization_id, chosen.connection.id, chosen.client_id or "")
    return await visit.read(_read, client, konten)


def _read(tx: Tx, client: Client, konten: Iterable[FaelligesKonto]) -> Settlements:
    amounts = {(konto.kontonummer, item.beleg): money.to_minor(item.saldo) for konto in konten for item in konto.posten}
    taken = {key: _pending(one, amounts[key]) for key, one in store.taken_from(tx, client).items() if key in amounts}
    keys = [key for key, pending in taken.items() if pending]
    matches = store.matches_of_items(tx, client, keys)
    return {
        key: Settlement(money.from_minor(taken[key]), money.from_minor(amounts[key] - taken[key]), matches.get(key, []))
        for key in keys
    }


def _pending(taken: Taken, open_minor: int) -> int:
    """Returns what is not in the books yet, as far as it has the sign of the item."""
    pending = taken.left_of(open_minor).pending_minor
    low, high = sorted((0, open_minor))
    return min(max(pending, low), high)
