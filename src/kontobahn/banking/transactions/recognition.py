"""Recognition: which row a reported booking already has, whichever way it comes by and in whatever words.

The ways of recognising are tried one after the other for all bookings of a delivery, the surest first. A row is one booking of a
delivery at most, so that equal bookings of a day stay as many as the bank reports at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from datetime import date, timedelta
from itertools import groupby
from typing import NamedTuple

import msgspec

from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.transactions.wire import Reported, Transaction, fingerprint_of, parse_description
from kontobahn.days import days_later
from kontobahn.db import Table, Tx, chunked

# The day of a booking may move this far between two reports of it.
MAX_SHIFT = timedelta(days=7)
# An announced payment is booked on its day or later; its value date may be the day before.
_MAX_BACK = 1
_SHORTEST_PART = 6
_decode = msgspec.json.Decoder(Transaction).decode


class KnownRow(NamedTuple):
    """A stored row: the columns needed to recognise its booking."""

    id: int
    made_on: str
    amount_minor: int
    status: str
    provider_ref: str | None
    fingerprint: str
    statement: str | None
    end_to_end_id: str | None
    source: str | None
    booked_on: str | None
    # The first of the rows that are parts of one batch, which other files have as one sum.
    batch: int | None


KNOWN = Table("banking_transactions", KnownRow)


class Found(NamedTuple):
    booking: Reported
    known: KnownRow
    # Recognised by the bank's reference or by the same content: then what is reported now may replace what is stored.
    is_exact: bool


class Parts(NamedTuple):
    """A batch that is one sum here, and its parts there: bookings in a delivery, or rows."""

    known: list[KnownRow]
    reported: list[Reported]


class Outcome(NamedTuple):
    found: list[Found]
    batches: list[Parts]
    # Those without a row; True if the bank seems to have reported one twice.
    new: list[tuple[Reported, bool]]
    # Those that cannot be: the statements of their days have other bookings.
    left_out: int


class Delivery(NamedTuple):
    """A delivery as a whole."""

    # The connection that it comes by.
    source: str
    # It has all bookings of its days, so a reference that it lacks is one that the bank uses no more.
    is_whole: bool = False
    # The references are the bank's own, so two of them are never one booking reported twice.
    ids_are_firm: bool = False
    references: Callable[[], Container[str]] = frozenset


class Seen(NamedTuple):
    """The rows that bookings of a delivery have, which may come in several transactions."""

    # Found, or written for it.
    matched: set[int]
    written: set[int]

    def joined(self, more: Seen) -> Seen:
        return Seen(self.matched | more.matched, self.written | more.written)


class Recognition:
    """Finds the rows of one delivery's bookings, of which some may have been seen before."""

    def __init__(self, tx: Tx, account: AccountRow, delivery: Delivery, seen: Seen | None = None) -> None:
        self._tx = tx
        self._account = account
        self._delivery = delivery
        self._references: Container[str] | None = None
        self._was_empty = not (account.posted or account.pending)
        self._loaded: tuple[date, date] | None = None
        self._by_ref: dict[str, list[KnownRow]] = {}
        self._by_content: dict[tuple[int, str], list[KnownRow]] = {}
        self._by_amount: dict[int, list[KnownRow]] = {}
        self._by_end_to_end: dict[tuple[int, str], list[KnownRow]] = {}
        self._batches: dict[int, list[KnownRow]] = {}
        self._pending_by_ref: dict[str | None, list[KnownRow]] | None = None
        self._words: dict[int, _Words] = {}
        self._closed: list[_Closed] | None = None
        self._kept: dict[tuple[int, str], list[KnownRow]] = {}
        self.matched: set[int] = set(seen.matched) if seen else set()
        self.written: set[int] = set(seen.written) if seen else set()

    def recognise(self, bookings: list[Reported]) -> Outcome:
        if self._was_empty:
            return Outcome([], [], [(booking, False) for booking in bookings], 0)
        self._load(
            days_later(min(booking.made_on for booking in bookings), -MAX_SHIFT.days),
            days_later(max(booking.made_on for booking in bookings), MAX_SHIFT.days),
        )
        found: list[Found] = []
        rest = self._try(bookings, self._same_reference, found, is_exact=True)
        rest = self._try(rest, self._same_content, found, is_exact=True)
        rest = self._try(rest, self._same_payment, found)
        rest = self._try(rest, self._announced, found)
        batches: list[Parts] = []
        rest = self._parts_of_sums(rest, batches)
        rest = self._sums_of_parts(rest, batches)
        if rest:
            self._load_words(rest)
        rest = self._try(rest, self._same_words, found)
        rest = self._try(rest, self._same_figures, found)
        new = [booking for booking in rest if not self.denies(booking)]
        return Outcome(
            found, batches, [(booking, self._looks_repeated(booking)) for booking in new], len(rest) - len(new)
        )

    def _try(
        self,
        bookings: list[Reported],
        find: Callable[[Reported], KnownRow | None],
        found: list[Found],
        *,
        is_exact: bool = False,
    ) -> list[Reported]:
        rest = []
        for booking in bookings:
            known = find(booking)
            if known is None:
                rest.append(booking)
            else:
                self.matched.add(known.id)
                found.append(Found(booking, known, is_exact))
        return rest

    # --- Rows of the days that are asked about

    def _load(self, first: date, last: date) -> None:
        """Loads the rows of these days that are not loaded yet."""
        if self._loaded is None:
            ranges, self._loaded = [(first, last)], (first, last)
        else:
            low, high = self._loaded
            ranges = [(first, days_later(low, -1))] if first < low else []
            ranges += [(days_later(high, 1), last)] if last > high else []
            self._loaded = min(first, low), max(last, high)
        if ranges:
            self._kept.clear()
        for start, end in ranges:
            for known in KNOWN.all(
                self._tx, "account_id = ? AND made_on >= ? AND made_on <= ? ORDER BY id",
                self._account.id, start.isoformat(), end.isoformat(),
            ):  # fmt: skip
                self._remember(known)

    def _remember(self, known: KnownRow) -> None:
        if known.id in self.written:
            return
        if known.provider_ref is not None:
            self._by_ref.setdefault(known.provider_ref, []).append(known)
        self._by_content.setdefault((known.amount_minor, known.fingerprint), []).append(known)
        self._by_amount.setdefault(known.amount_minor, []).append(known)
        if known.end_to_end_id is not None:
            self._by_end_to_end.setdefault((known.amount_minor, known.end_to_end_id), []).append(known)
        if known.batch is not None:
            self._batches.setdefault(known.batch, []).append(known)

    def _load_words(self, bookings: list[Reported]) -> None:
        """Reads what the rows say that might be these bookings, all at once."""
        wanted = {
            known.id
            for booking in bookings
            for known in self._possible(self._by_amount.get(booking.amount_minor, ()), booking)
            if known.id not in self.matched and known.id not in self._words
        }
        for some, is_one in chunked(sorted(wanted)):
            for number, wire in self._tx.all(
                f"SELECT id, wire FROM banking_transactions WHERE account_id = ? AND id {is_one}",
                self._account.id,
                *some,
            ):
                self._words[number] = _words_of_row(_decode(wire))

    # --- Ways of recognising

    def _possible(self, found: Sequence[KnownRow], booking: Reported) -> Sequence[KnownRow]:
        """Leaves out what another statement contains: it cannot belong to this one, and of some amounts there are thousands."""
        if booking.statement is None or not found:
            return found
        key = id(found), booking.statement
        if key not in self._kept:
            self._kept[key] = [known for known in found if known.statement in (None, booking.statement)]
        return self._kept[key]

    def _is_free(self, known: KnownRow, booking: Reported) -> bool:
        """Returns whether nothing speaks against the row being this booking, but for what both say."""
        if known.id in self.matched:
            return False
        if known.statement and booking.statement and known.statement != booking.statement:
            return False
        if not known.provider_ref or not booking.provider_ref or known.provider_ref == booking.provider_ref:
            return True
        if known.source != self._delivery.source:
            # The reference of another connection says nothing here.
            return True
        is_unconfirmed = not known.statement and not booking.statement and known.status == booking.status
        if is_unconfirmed and not self._delivery.is_whole:
            return False
        if self._references is None:
            self._references = self._delivery.references()
        # The bank has given it another one, unless the delivery has both.
        return known.provider_ref not in self._references

    def _same_reference(self, booking: Reported) -> KnownRow | None:
        for known in self._with_reference(booking):
            if known.id in self.matched or (
                known.statement and booking.statement and known.statement != booking.statement
            ):
                continue
            is_announced = known.status == "pending" and known.source == self._delivery.source
            if is_announced or known.amount_minor == booking.amount_minor:
                return known
        return None

    def _with_reference(self, booking: Reported) -> list[KnownRow]:
        if booking.provider_ref is None:
            return []
        found = self._by_ref.get(booking.provider_ref)
        if found is not None:
            return [known for known in found if known.status == "pending" or _shift(known, booking) <= MAX_SHIFT.days]
        # A pending row may be posted on a day outside the loaded range.
        if self._pending_by_ref is None:
            self._pending_by_ref = {}
            # All at once: asked for each new booking, a long history would be searched each time.
            for known in KNOWN.all(self._tx, "account_id = ? AND status = 'pending'", self._account.id):
                self._pending_by_ref.setdefault(known.provider_ref, []).append(known)
        return self._pending_by_ref.get(booking.provider_ref, [])

    def _same_content(self, booking: Reported) -> KnownRow | None:
        same = self._by_content.get((booking.amount_minor, booking.fingerprint), ())
        for known in self._possible(same, booking):
            if self._is_free(known, booking):
                return known
        return None

    def _same_payment(self, booking: Reported) -> KnownRow | None:
        """The payer's own id of the payment: on the same day, or within a week of what was announced or reported during the day."""
        if booking.end_to_end_id is None:
            return None
        same = self._by_end_to_end.get((booking.amount_minor, booking.end_to_end_id), ())
        found = self._possible(same, booking)
        near = [known for known in found if self._is_free(known, booking) and self._is_near(known, booking)]
        return min(near, key=lambda known: _shift(known, booking), default=None)

    def _is_near(self, known: KnownRow, booking: Reported) -> bool:
        if "pending" in (known.status, booking.status):
            return _may_become(known, booking)
        if bool(known.statement) != bool(booking.statement):
            return _shift(known, booking) <= MAX_SHIFT.days
        return booking.made_on.isoformat() in (known.made_on, known.booked_on)

    def _announced(self, booking: Reported) -> KnownRow | None:
        """An announcement that is booked now, or one of a booking that is there, in the same words on another day."""
        near = [
            known
            for known in self._possible(self._by_amount.get(booking.amount_minor, ()), booking)
            if known.status != booking.status
            and self._is_free(known, booking)
            and _may_become(known, booking)
            and known.fingerprint == fingerprint_of(booking.facts()._replace(made_on=date.fromisoformat(known.made_on)))
        ]
        return min(near, key=lambda known: _shift(known, booking), default=None)

    def _same_words(self, booking: Reported) -> KnownRow | None:
        """The same day, amount, text and parties, as another format or another bank's interface writes them."""
        said = None
        for known in self._possible(self._by_amount.get(booking.amount_minor, ()), booking):
            if known.batch is not None or booking.batch is not None or not self._is_free(known, booking):
                continue
            said = said or _words_of(booking)
            words = self._words[known.id]
            is_pending = "pending" in (known.status, booking.status)
            near = _may_become(known, booking) if is_pending else bool(said.days & words.days)
            if near and _is_one_payment(known, booking) and said.agrees(words):
                return known
        return None

    def _same_figures(self, booking: Reported) -> KnownRow | None:
        """Day and amount alone, where both sides have all bookings of the day: one of them is the other in its own words."""
        candidates = self._possible(self._by_amount.get(booking.amount_minor, ()), booking)
        if booking.status == "pending" or not candidates:
            return None
        said = _words_of(booking)
        is_inside = not booking.statement and self._closed_around(said.days) is not None
        for known in candidates:
            if known.status == "pending" or not self._is_free(known, booking):
                continue
            is_covered = bool(booking.statement) or (is_inside and known.statement is not None)
            is_other_source = known.source != self._delivery.source and self._delivery.is_whole
            words = self._words[known.id]
            is_same_day = bool(said.days & words.days)
            is_possible = _is_one_payment(known, booking) and not said.contradicts(words)
            if (is_covered or is_other_source) and is_same_day and is_possible:
                return known
        return None

    def _looks_repeated(self, booking: Reported) -> bool:
        """Two references mean two bookings. One booking reported under two looks the same, so it is only marked."""
        return not self._delivery.ids_are_firm and any(
            known.status == booking.status == "posted"
            and known.source == self._delivery.source
            and bool(known.provider_ref and booking.provider_ref)
            and known.provider_ref != booking.provider_ref
            for known in self._by_content.get((booking.amount_minor, booking.fingerprint), ())
        )

    # --- Batches: one sum here, its parts there

    def _parts_of_sums(self, bookings: list[Reported], batches: list[Parts]) -> list[Reported]:
        rest: list[Reported] = []
        for key, group in groupby(bookings, key=lambda booking: booking.batch):
            parts = list(group)
            known = self._sum_of(parts) if key is not None and len(parts) > 1 else None
            if known is None:
                rest += parts
            else:
                self.matched.add(known.id)
                batches.append(Parts([known], parts))
        return rest

    def _sum_of(self, parts: list[Reported]) -> KnownRow | None:
        days = {part.made_on.isoformat() for part in parts} | {part.booked_on for part in parts}
        for known in self._by_amount.get(sum(part.amount_minor for part in parts), ()):
            is_same_day = known.made_on in days or known.booked_on in days
            is_free = known.id not in self.matched and known.batch is None
            if is_free and is_same_day and not (known.statement and parts[0].statement):
                return known
        return None

    def _sums_of_parts(self, bookings: list[Reported], batches: list[Parts]) -> list[Reported]:
        if not self._batches:
            return bookings
        totals: dict[int, list[list[KnownRow]]] = {}
        for rows in self._batches.values():
            totals.setdefault(sum(row.amount_minor for row in rows), []).append(rows)
        rest = []
        for booking in bookings:
            same = [rows for rows in totals.get(booking.amount_minor, ()) if self._is_sum(booking, rows)]
            if same:
                self.matched.update(row.id for row in same[0])
                batches.append(Parts(same[0], [booking]))
            else:
                rest.append(booking)
        return rest

    def _is_sum(self, booking: Reported, rows: list[KnownRow]) -> bool:
        days = {booking.made_on.isoformat(), booking.booked_on}
        is_free = not any(row.id in self.matched or (row.statement and booking.statement) for row in rows)
        return booking.batch is None and is_free and any(row.made_on in days or row.booked_on in days for row in rows)

    # --- Days of which statements have all bookings

    def denies(self, booking: Reported) -> bool:
        """Returns whether the statements of its days show that there is no such booking."""
        if booking.statement is not None or booking.status == "pending" or not self._closed_times():
            return False
        closed = self._closed_around(_words_of(booking).days)
        return closed is not None and self._is_proven(closed)

    def _closed_around(self, days: set[str]) -> _Closed | None:
        """Returns the time without a gap that the days lie inside. At its ends a day may have bookings outside it."""
        for closed in self._closed_times():
            if closed.begins_on < min(days) and max(days) < closed.closes_on:
                return closed
        return None

    def _closed_times(self) -> list[_Closed]:
        if self._closed is None:
            self._closed = _closed_times(self._tx, self._account.id)
        return self._closed

    def _is_proven(self, closed: _Closed) -> bool:
        """Returns whether the bookings of the statements make up the balances: they may have been imported unbalanced."""
        row = self._tx.one(
            "SELECT SUM(amount_minor) FROM banking_transactions"
            " WHERE account_id = ? AND statement IS NOT NULL AND booked_on >= ? AND booked_on <= ?",
            self._account.id, closed.begins_on, closed.closes_on,
        )  # fmt: skip
        return row is not None and row[0] is not None and int(row[0]) == closed.closes_minor - closed.opens_minor


class _Closed(NamedTuple):
    begins_on: str
    closes_on: str
    opens_minor: int
    closes_minor: int


def _closed_times(tx: Tx, account_id: int) -> list[_Closed]:
    """Returns the times that statements cover without a gap, those together that follow on each other."""
    found: list[_Closed] = []
    for row in tx.all(
        "SELECT begins_on, CASE WHEN closes_on > ends_on THEN closes_on ELSE ends_on END, opens_minor, closes_minor"
        " FROM banking_statement_spans WHERE account_id = ? ORDER BY begins_on, ends_on, closes_on, number",
        account_id,
    ):
        span = _Closed(*row)
        if found and found[-1].closes_minor == span.opens_minor:
            last = found[-1]
            found[-1] = last._replace(closes_on=max(last.closes_on, span.closes_on), closes_minor=span.closes_minor)
        else:
            found.append(span)
    return found


def _shift(known: KnownRow, booking: Reported) -> int:
    return abs((date.fromisoformat(known.made_on) - booking.made_on).days)


def _may_become(known: KnownRow, booking: Reported) -> bool:
    """Returns whether one may be the announcement and the other its booking, by their days."""
    if known.status == "posted" and (booking.made_on - date.fromisoformat(known.made_on)).days > _MAX_BACK:
        return False
    return _shift(known, booking) <= MAX_SHIFT.days


def _is_one_payment(known: KnownRow, booking: Reported) -> bool:
    ids = {known.end_to_end_id, booking.end_to_end_id} - {None}
    return len(ids) < 2


# --- Words


_NO_LETTERS = re.compile(r"[\W_]+")
_SPELLED = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_IBAN = re.compile(r"[a-z]{2}[0-9]{2}[0-9a-z]{8,30}")


class _Words(NamedTuple):
    """The words of a booking, as far as formats agree on them."""

    days: set[str]
    text: str
    party: str
    account: str

    def agrees(self, other: _Words) -> bool:
        if self.contradicts(other):
            return False
        same_party = bool(self.account and self.account == other.account) or _alike(self.party, other.party)
        if self.party and other.party and not same_party:
            return False
        if self.text and other.text:
            return _alike(self.text, other.text)
        return same_party or (self.text, self.party) == (other.text, other.party)

    def contradicts(self, other: _Words) -> bool:
        """Returns whether the other side has another IBAN."""
        accounts = {self.account, other.account}
        return len(accounts) > 1 and all(map(_IBAN.fullmatch, accounts))


def _alike(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return one == other or (len(shorter) >= _SHORTEST_PART and shorter in longer)


def _plain(text: str | None) -> str:
    return _NO_LETTERS.sub("", (text or "").casefold().translate(_SPELLED))


def _words_of(booking: Reported) -> _Words:
    facts = booking.facts()
    _, parsed, extra = parse_description(facts)
    days = {facts.made_on.isoformat()} | ({extra.posting_date.isoformat()} if extra.posting_date else set())
    party, account = (
        (extra.payer, extra.payer_information) if facts.amount_minor >= 0 else (extra.payee, extra.payee_information)
    )
    return _Words(days, _plain(parsed.svwz or facts.description), _plain(party), _plain(account))


def _words_of_row(row: Transaction) -> _Words:
    extra = row.extra
    days = {row.made_on.isoformat()} | ({extra.posting_date.isoformat()} if extra.posting_date else set())
    party, account = (
        (extra.payer, extra.payer_information) if row.amount >= 0 else (extra.payee, extra.payee_information)
    )
    return _Words(days, _plain(row.description_parsed.svwz or row.description), _plain(party), _plain(account))


def references_of(bookings: Iterable[Reported]) -> frozenset[str]:
    return frozenset(booking.provider_ref for booking in bookings if booking.provider_ref is not None)
