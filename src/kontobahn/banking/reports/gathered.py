"""The transactions of a fetch while they are gathered page by page: in memory while they are few, then in a file without a name.

They are stored in one transaction, which may have to run again, so they can be read more than once. Others wait for it, so the slow
part of each booking is done before, on the way into the file.
"""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions.wire import Reported, reported, texts_of

# At most this many are held in memory.
IN_MEMORY = 5_000


class Gathered(Collection[TransactionFacts]):
    def __init__(self, transactions: Iterable[TransactionFacts] = ()) -> None:
        self._file: BinaryIO | None = None
        # By account: where its blocks are in the file, and what is not in the file yet.
        self._blocks: dict[str, list[tuple[int, int]]] = {}
        self._waiting: dict[str, list[TransactionFacts]] = {}
        self._waiting_count = self._count = 0
        self._counts: Counter[str] = Counter()
        self.add(transactions)

    def add(self, transactions: Iterable[TransactionFacts]) -> None:
        for facts in transactions:
            self._waiting.setdefault(facts.account_ref, []).append(facts)
            self._count += 1
            self._counts[facts.account_ref] += 1
            self._waiting_count += 1
            if self._waiting_count >= IN_MEMORY:
                self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            weakref.finalize(self, self._file.close)
        at = self._file.seek(0, 2)
        for account_ref, waiting in self._waiting.items():
            # Only this process has ever seen the file, so what comes out of it is what went in.
            block = pickle.dumps([_with_texts(facts) for facts in waiting], pickle.HIGHEST_PROTOCOL)
            self._file.write(block)
            self._blocks.setdefault(account_ref, []).append((at, len(block)))
            at += len(block)
        self._waiting, self._waiting_count = {}, 0

    def of_account(self, account_ref: str) -> Iterator[Reported]:
        """The account's transactions in the order in which they came."""
        for at, length in self._blocks.get(account_ref, ()):
            assert self._file is not None
            self._file.seek(at)
            for facts, fields in pickle.loads(self._file.read(length)):
                yield Reported._make((*fields, partial(_same, facts)))
        yield from map(reported, self._waiting.get(account_ref, ()))

    def __iter__(self) -> Iterator[TransactionFacts]:
        for account_ref in dict.fromkeys((*self._blocks, *self._waiting)):
            for booking in self.of_account(account_ref):
                yield booking.facts()

    def count_of(self, account_ref: str) -> int:
        """The number of the account's transactions."""
        return self._counts[account_ref]

    def __len__(self) -> int:
        return self._count

    def __contains__(self, facts: object) -> bool:
        return any(facts == one for one in self)


def _with_texts(facts: TransactionFacts) -> tuple[TransactionFacts, tuple[Any, ...]]:
    return facts, reported(facts)._replace(texts=texts_of(facts))[:-1]


def _same(facts: TransactionFacts) -> TransactionFacts:
    return facts


def without_repeats(transactions: Collection[TransactionFacts]) -> Collection[TransactionFacts]:
    """Returns each booking once, where pages overlap or a booking is reported as pending as well.

    What has the bank's id is the same if the amount is; an id that different bookings share identifies none of them.
    """
    repeated = _repeated(transactions)
    if not repeated:
        return transactions
    places: dict[tuple[str, str], list[tuple[int, TransactionFacts]]] = {}
    for place, facts in enumerate(transactions):
        if facts.provider_ref is not None and _digest(facts) in repeated:
            places.setdefault((facts.account_ref, facts.provider_ref), []).append((place, facts))
    dropped: set[int] = set()
    shared: set[int] = set()
    for found in places.values():
        if len({(facts.amount_minor, facts.currency_code) for _, facts in found}) > 1:
            shared.update(place for place, _ in found)
        else:
            kept = next((place for place, facts in reversed(found) if facts.status == "posted"), found[-1][0])
            dropped.update(place for place, _ in found if place != kept)
    return Gathered(
        facts._replace(provider_ref=None) if place in shared else facts
        for place, facts in enumerate(transactions)
        if place not in dropped
    )


def _digest(facts: TransactionFacts) -> int:
    """Returns a short digest of an id: there may be hundreds of thousands, and few occur twice."""
    return hash((facts.account_ref, facts.provider_ref))


def _repeated(transactions: Iterable[TransactionFacts]) -> set[int]:
    seen: set[int] = set()
    repeated: set[int] = set()
    for facts in transactions:
        if facts.provider_ref is not None:
            digest = _digest(facts)
            (repeated if digest in seen else seen).add(digest)
    return repeated
