"""A file of statements as it is read, before the transaction that imports it: others wait for the transaction only.

Its entries wait in a file without a name, with the slow part of each already done, so that memory does not grow with them,
and the transaction may run again.
"""

from __future__ import annotations

import hashlib
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from datetime import date
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

import msgspec

from kontobahn.banking.connections import accounts
from kontobahn.banking.imports.rules import Booking
from kontobahn.banking.imports.store import Judged, identity_of, stated_ends
from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions import arrivals
from kontobahn.banking.transactions.wire import Reported, fingerprint, reported, texts_of
from kontobahn.db import Tx
from kontobahn.formats.statements import Closing, Entry, Item, Opening, StatementWarning, StatusReport
from kontobahn.money import from_minor

CHUNK = 2000
_SPOOL_BYTES = 4 * 1024 * 1024
_decode = msgspec.json.Decoder(Entry).decode
_encode = msgspec.json.Encoder().encode
_Spool: TypeAlias = "tempfile.SpooledTemporaryFile[bytes]"


class RenderContext(NamedTuple):
    """Everything that the text of a booking depends on beside its entry."""

    # Of the organisation's accounts: between them it is a transfer.
    own_ibans: Set[str]
    # Of a booked statement: its identity, and the balance before its first booking, if it states one.
    identity: str | None
    opens_minor: int | None


class ReadStatement(NamedTuple):
    """A statement that was read to its end. Only what is asked for is taken from the file in which it waits."""

    opening: Opening
    closing: Closing
    entry_count: int
    # Of the content of the entries.
    sha256: str
    # The first and the last value date of its bookings.
    value_dates: tuple[date, date] | None
    # The number of its bookings, and the first and the last day on which it has them.
    booking_count: int
    booked_days: tuple[str, str] | None
    # References that identify none of its entries, because several have them.
    shared_references: frozenset[str]
    spool: _Spool
    entries_at: int
    bookings_at: int
    # The context that the bookings were rendered for beforehand, and the place where they are.
    rendered_for: RenderContext | None = None
    rendered_at: int = 0

    @property
    def identity(self) -> str:
        return identity_of(self.opening, self.sha256)

    def entries(self) -> Iterator[tuple[int, Entry]]:
        """Yields the entries with their numbers."""
        for number, _, entry in self._entries():
            yield number, entry

    def _entries(self) -> Iterator[tuple[int, int, Entry]]:
        at = self.entries_at
        for number in range(1, self.entry_count + 1):
            self.spool.seek(at)
            line = self.spool.readline()
            yield number, at, _decode(line)
            at += len(line)

    def bookings(self) -> list[Booking]:
        """Returns the bookings of a booked statement's entries; the balance of each is the sum of those up to it."""
        self.spool.seek(self.bookings_at)
        # Only this process has ever seen the file, so what comes out of it is what went in.
        found: list[Booking] = pickle.load(self.spool)
        return found

    def reported(self, context: RenderContext) -> Iterator[tuple[int, Reported]]:
        """Yields the entries as bookings, with their numbers: as they were rendered beforehand, if nothing has changed since."""
        if context != self.rendered_for:
            for number, _, facts in self._facts(context):
                yield number, reported(facts)
            return
        at, number = self.rendered_at, 0
        while number < self.entry_count:
            self.spool.seek(at)
            chunk = pickle.load(self.spool)
            at = self.spool.tell()
            for entry_at, balance, *fields in chunk:
                number += 1
                yield number, Reported._make((*fields, partial(self._facts_at, entry_at, context, balance)))

    def render(self, context: RenderContext) -> Self:
        """Writes the entries as bookings behind what is in the file already."""
        rendered_at = at = self.spool.seek(0, 2)
        found = self._facts(context)
        while chunk := [
            (entry_at, facts.balance_minor, *reported(facts)._replace(texts=texts_of(facts))[:-1])
            for _, entry_at, facts in islice(found, CHUNK)
        ]:
            self.spool.seek(at)
            pickle.dump(chunk, self.spool, pickle.HIGHEST_PROTOCOL)
            at = self.spool.tell()
        return self._replace(rendered_for=context, rendered_at=rendered_at)

    def _facts(self, context: RenderContext) -> Iterator[tuple[int, int, TransactionFacts]]:
        balance = context.opens_minor
        for number, at, entry in self._entries():
            if balance is not None and entry.status == "posted":
                balance += entry.amount_minor
            yield number, at, self._facts_of(entry, context, balance)

    def _facts_at(self, at: int, context: RenderContext, balance: int | None) -> TransactionFacts:
        self.spool.seek(at)
        return self._facts_of(_decode(self.spool.readline()), context, balance)

    def _facts_of(self, entry: Entry, context: RenderContext, balance: int | None) -> TransactionFacts:
        is_booked = context.identity is not None and entry.status == "posted"
        reference = reference_of(entry)
        return entry_facts(
            entry, self.opening.account.iban, context.own_ibans,
            reference=None if reference in self.shared_references else reference,
            statement=context.identity if is_booked else None, balance=balance if is_booked else None,
        )  # fmt: skip


class Forecast(NamedTuple):
    """A booked statement as it was judged before the transaction; None if it is one that was imported before."""

    judged: Judged | None


# By the place of the statement.
Forecasts: TypeAlias = dict[int, Forecast]
NO_FORECASTS: Forecasts = {}


class ReadFile:
    """All of a file, in order. Raises StatementError if it cannot be read or does not add up.

    `own_ibans` are those of the organisation's accounts; if they change before the import, it takes longer.
    """

    def __init__(
        self, items: Iterable[Item], own_ibans: Iterable[str] = (), progress: Callable[[], None] = lambda: None
    ) -> None:
        self.parts: list[ReadStatement | StatementWarning | StatusReport] = []
        # The entries of new accounts that are written already, by the place of their statement.
        self.arrivals = arrivals.NONE
        self.forecasts = NO_FORECASTS
        self._own_ibans = frozenset(own_ibans)
        self._spool: _Spool = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115 - closed by `close`
        try:
            self._read(items, progress)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._spool.close()

    def _read(self, items: Iterable[Item], progress: Callable[[], None]) -> None:
        statement: _Reading | None = None
        for item in items:
            match item:
                case Opening():
                    statement = _Reading(item, self._spool)
                case Entry():
                    assert statement is not None
                    statement.add(item)
                case Closing():
                    assert statement is not None
                    self.parts.append(self._rendered(statement.close(item)))
                    progress()
                case _:
                    self.parts.append(item)

    def _rendered(self, statement: ReadStatement) -> ReadStatement:
        if statement.opening.account.iban not in self._own_ibans:
            self._own_ibans |= {statement.opening.account.iban}
        if statement.opening.kind != "booked":
            return statement.render(RenderContext(self._own_ibans, None, None))
        ends = stated_ends(statement.closing)
        # Its other balances depend on the statements before it.
        return (
            statement
            if ends is None
            else statement.render(RenderContext(self._own_ibans, statement.identity, ends.opens_minor))
        )


class _Reading:
    """The statement that is being read."""

    def __init__(self, opening: Opening, spool: _Spool) -> None:
        self._opening = opening
        self._spool = spool
        self._at = spool.seek(0, 2)
        self._digest = hashlib.sha256()
        self._count = self._moved = 0
        self._bookings: list[Booking] = []
        self._references: Counter[str] = Counter()
        self._value_dates: tuple[date, date] | None = None
        self._booked_days: tuple[str, str] | None = None

    def add(self, entry: Entry) -> None:
        line = _encode(msgspec.structs.replace(entry, line=0))
        self._digest.update(line)
        self._spool.write(line)
        self._spool.write(b"\n")
        self._count += 1
        if (reference := reference_of(entry)) is not None:
            self._references[reference] += 1
        if self._opening.kind == "booked" and entry.status == "posted":
            self._moved += entry.amount_minor
            self._add_booking(entry, reference)

    def _add_booking(self, entry: Entry, reference: str | None) -> None:
        day, end_to_end_id = made_on(entry), entry.end_to_end_id
        low, high = self._value_dates or (day, day)
        self._value_dates = min(low, day), max(high, day)
        booked_on = entry.booking_date.isoformat()
        first, last = self._booked_days or (booked_on, booked_on)
        self._booked_days = min(first, booked_on), max(last, booked_on)
        content = fingerprint(day, entry.amount_minor, entry.currency, entry.description, end_to_end_id)
        self._bookings.append(
            Booking(
                self._count, booked_on, entry.amount_minor, content, reference, end_to_end_id,
                self._moved, batch=entry.number if entry.part else 0,
            )
        )  # fmt: skip

    def close(self, closing: Closing) -> ReadStatement:
        shared = frozenset(reference for reference, count in self._references.items() if count > 1)
        bookings_at = self._spool.tell()
        pickle.dump(
            [item._replace(reference=None) if item.reference in shared else item for item in self._bookings],
            self._spool,
            pickle.HIGHEST_PROTOCOL,
        )
        return ReadStatement(
            opening=self._opening,
            closing=closing,
            entry_count=self._count,
            sha256=self._digest.hexdigest(),
            value_dates=self._value_dates,
            booking_count=len(self._bookings),
            booked_days=self._booked_days,
            shared_references=shared,
            spool=self._spool,
            entries_at=self._at,
            bookings_at=bookings_at,
        )


def own_ibans(tx: Tx, organization_id: str) -> set[str]:
    return {row.iban for row in accounts.of_organization(tx, organization_id) if row.iban}


# --- From an entry of a statement to a transaction, whichever way the statement came: as a file, or from the bank directly


_FEES = ("CHRG", "COMM", "FEES")


def entry_facts(
    entry: Entry, account_ref: str, own_ibans: Collection[str | None], *, reference: str | None = None,
    statement: str | None = None, balance: int | None = None,
) -> TransactionFacts:  # fmt: skip
    payer, payee = entry.payer, entry.payee
    extra: dict[str, Any] = {
        "payer": payer.name,
        "payee": payee.name,
        "payer_information": payer.iban or payer.account,
        "payee_information": payee.iban or payee.account,
        "additional": " ".join(filter(None, (entry.booking_text, entry.purpose.additional))) or None,
        "posting_date": entry.booking_date,
        "bank_reference": entry.bank_reference,
        "gvc": entry.gvc,
        "primanota": entry.primanota,
        "return_reason": entry.return_reason,
    }
    if balance is not None:
        extra["account_balance_snapshot"] = from_minor(balance)
    return TransactionFacts(
        account_ref=account_ref,
        made_on=made_on(entry),
        amount_minor=entry.amount_minor,
        currency_code=entry.currency,
        description=entry.description,
        status=entry.status,
        provider_ref=reference,
        mode="fee" if _is_fee(entry) else "transfer" if entry.counterparty.iban in own_ibans else "normal",
        end_to_end_id=entry.end_to_end_id,
        parsed={name: value for name, value in msgspec.structs.asdict(entry.purpose).items() if value is not None},
        extra=extra,
        statement=statement,
        balance_minor=balance,
        batch=f"{entry.booking_date}/{entry.number}/{entry.bank_reference or ''}" if entry.part else None,
    )


def made_on(entry: Entry) -> date:
    return entry.value_date or entry.booking_date


def reference_of(entry: Entry) -> str | None:
    """Returns the bank's reference. The parts of a batch share that of the batch."""
    reference = entry.bank_reference
    return f"{reference}/{entry.part}" if reference and entry.part else reference


def _is_fee(entry: Entry) -> bool:
    return bool(
        (entry.gvc or "").startswith("8") or any(part in _FEES for part in (entry.transaction_code or "").split("-"))
    )
