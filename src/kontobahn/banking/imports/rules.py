"""Overlaps of statements: which bookings are known from statements imported before, and what is missing between them. Pure.

What is known of an account is a number of spans: stretches from one balance to another whose bookings make exactly the difference.
Where a statement meets a span, what both cover must be the same bookings, and the balances show how much that is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from kontobahn.money import amount_text
from kontobahn.sentences import joined, said

# The relation of a statement to a span whose days it meets. apart: they share no booking, but may border on each other.
Relation: TypeAlias = Literal["inside", "contains", "extends_end", "extends_start", "apart"]


class Booking(NamedTuple):
    """The features that identify a booking. `number` is its place in the statement, or the id of its row."""

    number: int
    booked_on: str
    amount_minor: int
    fingerprint: str
    reference: str | None
    end_to_end_id: str | None
    # The account's balance after it.
    balance_minor: int | None
    # The same for all parts of one batch, which others have as one sum; 0 for all else.
    batch: int = 0
    # Of a row: the number of its span.
    span: int = 0


class Stretch(NamedTuple):
    """A time that is known without a gap. `begins_on` and `ends_on` are the days of its bookings, or of its closing balance."""

    opens_minor: int
    opens_on: str
    closes_minor: int
    closes_on: str
    begins_on: str
    ends_on: str
    # Numbers of the first and the last statement, if the bank counts them; what it calls the last one.
    first_number: int | None
    last_number: int | None
    last_id: str


class Span(NamedTuple):
    number: int
    known: Stretch


class Plan(NamedTuple):
    """`shared` are the places in the statement of bookings that have a row; `relations` are by span number."""

    shared: dict[int, Booking]
    relations: dict[int, Relation]
    in_other_words: int = 0
    # By the number of a row that is a batch in one sum: the places of its parts in the statement.
    parts: Mapping[int, list[int]] = MappingProxyType({})


_OWN = -1  # the statement's own number among spans
_Key: TypeAlias = Callable[[Booking], Hashable | None]


def _by_reference(booking: Booking) -> Hashable | None:
    return (booking.reference, booking.booked_on, booking.amount_minor) if booking.reference else None


def _by_balance(booking: Booking) -> Hashable | None:
    return booking.fingerprint, booking.booked_on, booking.balance_minor


def _by_text(booking: Booking) -> Hashable | None:
    return booking.fingerprint, booking.booked_on


def _by_end_to_end_id(booking: Booking) -> Hashable | None:
    return (booking.end_to_end_id, booking.booked_on, booking.amount_minor) if booking.end_to_end_id else None


def _by_figures(booking: Booking) -> Hashable | None:
    return booking.booked_on, booking.amount_minor


# Choice 41: how bookings are recognised, one way after the other until the result agrees with the balances. Two equal coffees of a
# day differ in the balance after them. Within a day one file may order bookings differently than another, so their number decides
# next. Day and amount alone find the same bookings in other words, which the importer warns about.
_EXACT: tuple[_Key, ...] = (_by_reference, _by_balance)
_TEXT: tuple[_Key, ...] = (_by_text, _by_end_to_end_id)
_FIGURES: tuple[_Key, ...] = (_by_figures,)


def compare(
    stated: Stretch, bookings: Sequence[Booking], spans: Sequence[Span], rows: Sequence[Booking]
) -> Plan | None:
    """Returns which bookings are known, or None if the statement contradicts what is known.

    `spans` and `rows` are those of its days; for a statement without bookings, rows of the last day before it will do.
    """
    sequels = {span.number for span in spans if _is_sequel(span.known, stated) or _is_sequel(stated, span.known)}
    rows = [row for row in rows if row.span not in sequels]
    in_sums, in_parts = _folded(bookings, rows), _folded(rows, bookings)
    plan = _compare(stated, in_sums.bookings, spans, in_parts.bookings)
    if plan is None or not (in_sums.members or in_parts.members):
        return plan
    shared = dict(plan.shared)
    for number, numbers in in_sums.members.items():
        if number in shared:
            shared |= dict.fromkeys(numbers, shared[number])
    parts = {shared[number].number: numbers for number, numbers in in_sums.members.items() if number in shared}
    known = sum(number in shared for number in in_sums.members)
    known += sum(row.number in in_parts.members for row in plan.shared.values())
    return Plan(shared, plan.relations, max(plan.in_other_words - known, 0), parts)


def _compare(
    stated: Stretch, bookings: Sequence[Booking], spans: Sequence[Span], rows: Sequence[Booking]
) -> Plan | None:
    reissued = match(bookings, rows, ignoring_references=True)
    if _is_repeated(stated, bookings, spans, rows, reissued):
        return Plan(reissued, dict.fromkeys((span.number for span in spans), "inside"))
    exact = match(bookings, rows, _EXACT)
    by_text = match(bookings, rows, _TEXT, exact)
    judge = _Judge(stated, bookings, spans, rows, {row.span for row in reissued.values()})
    by_balance = match(bookings, rows, _EXACT, ignoring_references=True)
    for shared in filter(None, (exact, by_balance)):
        relations = judge.relations(shared, in_any_order=False)
        if relations is not None:
            return Plan(shared, relations)
    # Then the most that agrees: overlaps are common, and equal bookings that happen to cancel each other out are not.
    for before, ignoring in ((reissued, True), (by_text, False)):
        by_figures = match(bookings, rows, _FIGURES, before, ignoring_references=ignoring)
        relations = judge.relations(by_figures, in_any_order=False)
        if relations is not None:
            return Plan(by_figures, relations, len(by_figures) - len(before))
    for shared, in_any_order in ((reissued, False), (by_text, False), (exact, False), (exact, True)):
        relations = judge.relations(shared, in_any_order=in_any_order)
        if relations is not None:
            return Plan(shared, relations)
    return None


def _is_repeated(
    stated: Stretch,
    bookings: Sequence[Booking],
    spans: Sequence[Span],
    rows: Sequence[Booking],
    shared: dict[int, Booking],
) -> bool:
    """Returns whether the statement is all of the one span that it meets: it leads from the same balance to the same one."""
    if len(spans) != 1 or not bookings or not len(shared) == len(bookings) == len(rows):
        return False
    known = spans[0].known
    return (known.opens_minor, known.closes_minor) == (stated.opens_minor, stated.closes_minor)


class _Folded(NamedTuple):
    bookings: list[Booking]
    # The numbers of the parts, by the number that stands for their sum.
    members: dict[int, list[int]]


def _folded(bookings: Sequence[Booking], others: Sequence[Booking]) -> _Folded:
    """Replaces the parts of a batch by their sum where the others have a booking of that day and amount, and not its parts."""
    sums = Counter(_by_figures(booking) for booking in others if not booking.batch)
    parts_of_others = {_by_figures(booking) for booking in others if booking.batch}
    found = list[Booking]()
    members: dict[int, list[int]] = {}
    for batch, group in groupby(bookings, key=lambda booking: booking.batch):
        parts = list(group)
        first, total = parts[0], (parts[0].booked_on, sum(part.amount_minor for part in parts))
        if not batch or len(parts) == 1 or not sums[total] or _by_figures(first) in parts_of_others:
            found += parts
            continue
        sums[total] -= 1
        members[first.number] = [part.number for part in parts]
        found.append(
            first._replace(
                amount_minor=total[1], fingerprint="", reference=None, end_to_end_id=None, batch=0,
                balance_minor=parts[-1].balance_minor,
            )
        )  # fmt: skip
    return _Folded(found, members)


def match(
    bookings: Sequence[Booking],
    rows: Sequence[Booking],
    keys: Iterable[_Key] = (*_EXACT, *_TEXT),
    before: dict[int, Booking] | None = None,
    *,
    ignoring_references: bool = False,
) -> dict[int, Booking]:
    """Pairs bookings with rows, each with one at most.

    Two different references are not one booking, unless they are ignored: then the bank may have issued others since.
    """
    found = dict(before or {})
    taken = {row.number for row in found.values()}
    for key in keys if rows else ():
        free: dict[tuple[Hashable, bool], list[Booking]] = defaultdict(list)
        for row in reversed(rows):
            if row.number not in taken and (value := key(row)) is not None:
                free[value, row.reference is None].append(row)
        for booking in bookings:
            if booking.number in found or (value := key(booking)) is None:
                continue
            # After the first pass, a row with a reference cannot be a booking that has one: it would be the same.
            with_reference = key is _by_reference or booking.reference is None or ignoring_references
            candidates = free.get((value, True)) or (with_reference and free.get((value, False)))
            if candidates:
                row = candidates.pop()
                found[booking.number] = row
                taken.add(row.number)
    return found


def _is_sequel(earlier: Stretch, later: Stretch) -> bool:
    """Returns whether the bank's own numbers say that one follows on the other: then nothing in them is the same."""
    numbered = bool(earlier.last_number) and later.first_number == (earlier.last_number or 0) + 1
    return numbered and earlier.closes_minor == later.opens_minor and earlier.ends_on <= later.begins_on


class _Judge:
    """Finds how the statement stands to each span if certain bookings are shared, by the balances."""

    def __init__(
        self,
        stated: Stretch,
        bookings: Sequence[Booking],
        spans: Sequence[Span],
        rows: Sequence[Booking],
        near: set[int],
    ) -> None:
        self._stated = stated
        self._bookings = bookings
        self._spans = spans
        # Spans with bookings of the same text: if these are not the same ones, there must be a reason.
        self._near = near
        self._rows: dict[int, list[Booking]] = defaultdict(list)
        for row in rows:
            self._rows[row.span].append(row)

    def relations(self, shared: dict[int, Booking], *, in_any_order: bool) -> dict[int, Relation] | None:
        """Returns None if a span contradicts. `in_any_order`: days need not rise from one to the other where they border."""
        by_span: dict[int, list[tuple[Booking, Booking]]] = defaultdict(list)
        for booking in self._bookings:
            if (row := shared.get(booking.number)) is not None:
                by_span[row.span].append((booking, row))
        found: dict[int, Relation] = {}
        for span in self._spans:
            if pairs := by_span.get(span.number):
                relation = self._overlapping(span, pairs)
                if relation is None:
                    return None
                found[span.number] = relation
        linked = self._linked(found)
        for span in self._spans:
            if span.number not in found:
                is_linked = span.number in linked or self._borders_on(span.known, in_any_order=in_any_order)
                relation = "apart" if is_linked else self._without_bookings(span)
                if relation is None:
                    return None
                found[span.number] = relation
        return found

    def _linked(self, overlapping: dict[int, Relation]) -> set[int]:
        """Returns the spans that follow on each other up to the statement, or from it."""
        together = [span for span in self._spans if span.number in overlapping]
        own = Span(_OWN, merged(self._stated, together, overlapping))
        others = [span for span in self._spans if span.number not in overlapping and self._is_beside(span.known)]
        [chain] = [chain for chain in chains([own, *others]) if own in chain]
        return {span.number for span in chain}

    def _is_beside(self, known: Stretch) -> bool:
        """Returns whether the two share one day at most."""
        return self._stated.ends_on <= known.begins_on or known.ends_on <= self._stated.begins_on

    def _borders_on(self, known: Stretch, *, in_any_order: bool) -> bool:
        stated = self._stated
        follows = known.closes_minor == stated.opens_minor and (in_any_order or known.ends_on <= stated.begins_on)
        precedes = known.opens_minor == stated.closes_minor and (in_any_order or stated.ends_on <= known.begins_on)
        return follows or precedes

    def _overlapping(self, span: Span, pairs: list[tuple[Booking, Booking]]) -> Relation | None:
        in_file = {booking.number for booking, _ in pairs}
        in_rows = {row.number for _, row in pairs}
        only_file = [booking for booking in self._bookings if booking.number not in in_file]
        only_rows = [row for row in self._rows[span.number] if row.number not in in_rows]
        stated, known = self._stated, span.known
        moved = sum(row.amount_minor for _, row in pairs)
        start, end, first, last = stated.begins_on, stated.ends_on, known.begins_on, known.ends_on
        aligned = any(booking.balance_minor == row.balance_minor for booking, row in pairs)
        starts_in_span = aligned or stated.opens_minor in _before(self._rows[span.number], start)
        if not only_file and starts_in_span and not any(start < row.booked_on < end for row in only_rows):
            return "inside"
        is_covered = not only_rows and start <= first and last <= end
        starts_in_file = is_covered and (aligned or known.opens_minor in _before(self._bookings, first))
        if starts_in_file and not any(first < booking.booked_on < last for booking in only_file):
            return "contains"
        in_order = first <= start and last <= end and _are_before(only_rows, start, stated.opens_minor)
        if in_order and moved == known.closes_minor - stated.opens_minor:
            return "extends_end" if all(booking.booked_on >= last for booking in only_file) else None
        in_order = start <= first and end <= last and _are_before(only_file, first, known.opens_minor)
        if in_order and moved == stated.closes_minor - known.opens_minor:
            return "extends_start" if all(row.booked_on >= end for row in only_rows) else None
        return None

    def _without_bookings(self, span: Span) -> Relation | None:
        """Judges a span with which nothing is shared, and which does not border on the statement."""
        stated, known, rows = self._stated, span.known, self._rows[span.number]
        if span.number in self._near:
            return None
        had, stated_had = _balances(rows), _balances(self._bookings)
        if not self._bookings and (not had or stated.opens_minor in had):
            return "inside"
        if not rows and known.opens_minor in stated_had:
            return "contains"
        # On the same day there may be a gap between them, unless one begins or ends with a balance that the other had.
        meet = {stated.opens_minor, stated.closes_minor} & had or {known.opens_minor, known.closes_minor} & stated_had
        return "apart" if self._is_beside(known) and not meet else None


def _before(bookings: Iterable[Booking], day: str | None = None) -> set[int]:
    """Returns the balances that the account had before these bookings."""
    return {
        booking.balance_minor - booking.amount_minor
        for booking in bookings
        if booking.balance_minor is not None and day in (None, booking.booked_on)
    }


def _are_before(bookings: Sequence[Booking], day: str, balance_minor: int) -> bool:
    """Returns whether these bookings, none after the day, lead to the balance; only one on that day can show it."""
    on_that_day = [booking.balance_minor for booking in bookings if booking.booked_on == day]
    return all(booking.booked_on <= day for booking in bookings) and (not on_that_day or balance_minor in on_that_day)


def _balances(bookings: Sequence[Booking]) -> set[int]:
    """Returns the balances that the account had before and after these bookings."""
    return _before(bookings) | {item.balance_minor for item in bookings if item.balance_minor is not None}


def by_days(stated: Stretch, spans: Sequence[Span]) -> dict[int, Relation]:
    """Returns how a statement stands to each span by its days alone, for one whose balances are not to judge."""
    relations: dict[int, Relation] = {}
    for span in spans:
        known = span.known
        if known.begins_on <= stated.begins_on:
            relations[span.number] = "inside" if stated.ends_on <= known.ends_on else "extends_end"
        else:
            relations[span.number] = "extends_start" if stated.ends_on <= known.ends_on else "contains"
    return relations


def merged(stated: Stretch, spans: Sequence[Span], relations: dict[int, Relation]) -> Stretch:
    """Returns the stretch that the statement makes together with the spans it overlaps."""
    result = stated
    for span in spans:
        known, relation = span.known, relations[span.number]
        if relation == "apart":
            continue
        if relation in ("inside", "extends_end"):
            result = result._replace(
                opens_minor=known.opens_minor, opens_on=known.opens_on, first_number=known.first_number
            )
        if relation in ("inside", "extends_start"):
            result = result._replace(
                closes_minor=known.closes_minor, closes_on=known.closes_on, last_number=known.last_number,
                last_id=known.last_id,
            )  # fmt: skip
        result = result._replace(
            begins_on=min(result.begins_on, known.begins_on), ends_on=max(result.ends_on, known.ends_on)
        )
    return result


def chains(spans: Iterable[Span]) -> list[list[Span]]:
    """Returns the spans in time, those together that follow on each other without a gap."""
    found: list[list[Span]] = []
    in_time = sorted(
        spans, key=lambda span: (span.known.begins_on, span.known.ends_on, span.known.closes_on, span.number)
    )
    for _, group in groupby(in_time, key=lambda span: span.known.begins_on):
        today = list(group)
        while today:
            span, chain = _next(today, found)
            if chain is None:
                found.append([span])
            else:
                chain.append(span)
            today.remove(span)
    return found


def _next(today: list[Span], found: list[list[Span]]) -> tuple[Span, list[Span] | None]:
    """Several spans of one day may stand in any order: returns one that continues what is there, or else one that begins."""
    for span in today:
        for chain in reversed(found):
            if _continues(chain[-1].known, span.known):
                return span, chain
    ends = {
        span.known.closes_minor for span in today
        # A span that ends later is followed by nothing of today.
        if span.known.closes_minor != span.known.opens_minor and span.known.ends_on == span.known.begins_on
    }  # fmt: skip
    return next((span for span in today if span.known.opens_minor not in ends), today[0]), None


def _continues(earlier: Stretch, later: Stretch) -> bool:
    """Numbers restart each year, and are always 0 or the same at banks that do not count."""
    left_out = earlier.last_number and later.first_number and later.first_number > earlier.last_number + 1
    return earlier.closes_minor == later.opens_minor and not left_out


class Gap(NamedTuple):
    """Two stretches that do not follow on each other, with nothing known between them."""

    before: Span
    after: Span

    def is_same(self, other: Gap) -> bool:
        one, two = (self.before.known, self.after.known), (other.before.known, other.after.known)
        return (one[0].closes_minor, one[1].opens_minor) == (two[0].closes_minor, two[1].opens_minor)

    def sentence(self, *, about_later: bool, currency: str) -> str:
        """Says what is missing, about a statement of the later stretch or of the earlier one."""
        before, after = self.before.known, self.after.known
        if not about_later:
            return said(
                "It closes with {amount} {currency} ({day}), but what was imported after it opens"
                " with {amount_next} {other} ({day_next}): a statement between the two is missing.",
                amount=amount_text(before.closes_minor),
                currency=currency,
                day=before.closes_on,
                amount_next=amount_text(after.opens_minor),
                other=currency,
                day_next=after.opens_on,
            )
        if before.closes_minor == after.opens_minor:
            first, last = (before.last_number or 0) + 1, (after.first_number or 0) - 1
            missing = f"number {first} is" if first == last else f"numbers {first} to {last} are"
            return said(
                "Its number is {number}, the one before it {before}: {missing} missing.",
                number=after.first_number,
                before=before.last_number,
                missing=missing,
            )
        return said(
            "It opens with {amount} {currency} ({day}), but statement {id} before it closed with"
            " {amount_before} {other} ({day_before}): a statement between the two is missing.",
            amount=amount_text(after.opens_minor),
            currency=currency,
            day=after.opens_on,
            id=before.last_id,
            amount_before=amount_text(before.closes_minor),
            other=currency,
            day_before=before.closes_on,
        )


def gaps(spans: Iterable[Span]) -> list[Gap]:
    return [Gap(earlier[-1], later[0]) for earlier, later in pairwise(chains(spans))]


# --- Sentences about a statement that contradicts those imported before it: balances, sums, bookings


_SHOWN = 3


def contradiction(
    stated: Stretch,
    bookings: Sequence[Booking],
    spans: Sequence[Span],
    rows: Sequence[Booking],
    currency: str,
    texts: Callable[[set[int]], dict[int, str]],
    text_of: Callable[[int], str],
) -> str:
    """Returns the sentences, with the figures. `texts` finds the texts of the statement's bookings by their numbers, `text_of` that of a
    row."""
    shared = match(bookings, rows)
    span = _most_involved(stated, spans, shared)
    known = span.known
    from_minor, from_on = max(
        (known.begins_on, known.opens_minor, known.opens_on), (stated.begins_on, stated.opens_minor, stated.opens_on)
    )[1:]
    to_minor, to_on = min(
        (known.ends_on, known.closes_minor, known.closes_on), (stated.ends_on, stated.closes_minor, stated.closes_on)
    )[1:]
    first, last = max(known.begins_on, stated.begins_on), min(known.ends_on, stated.ends_on)
    both = [row for row in shared.values() if row.span == span.number]
    in_rows = {row.number for row in both}
    only_file = [item for item in bookings if first <= item.booked_on <= last and item.number not in shared]
    only_rows = [row for row in rows if row.span == span.number and row.number not in in_rows]
    moved, expected = sum(row.amount_minor for row in both), to_minor - from_minor
    wire = {row.number: text_of(row.number) for row in only_rows[:_SHOWN]}
    found = [
        said(
            "It contradicts statements imported before. Both cover the time from the balance {amount}"
            " {currency} ({day}) to the balance {amount_to} {other} ({day_to}), a difference of"
            " {amount_wanted}; but the {count} bookings that are in both make {amount_moved}, which is"
            " {amount_difference} {more}.",
            amount=amount_text(from_minor),
            currency=currency,
            day=from_on,
            amount_to=amount_text(to_minor),
            other=currency,
            day_to=to_on,
            amount_wanted=amount_text(expected),
            count=len(both),
            amount_moved=amount_text(moved),
            amount_difference=amount_text(abs(expected - moved)),
            more="less" if moved < expected else "more",
        ),
        _listed("Only in this file", only_file, texts({item.number for item in only_file[:_SHOWN]})),
        _listed("Only in those imported before", only_rows, wire),
    ]
    return joined(" ", filter(None, found))


def _most_involved(stated: Stretch, spans: Sequence[Span], shared: dict[int, Booking]) -> Span:
    counts = {span.number: 0 for span in spans}
    for row in shared.values():
        counts[row.span] = counts.get(row.span, 0) + 1

    def involvement(span: Span) -> tuple[bool, int, str]:
        meets = span.known.begins_on <= stated.ends_on and stated.begins_on <= span.known.ends_on
        return meets, counts[span.number], span.known.closes_on

    return max(spans, key=involvement)


def _listed(title: str, bookings: Sequence[Booking], texts: dict[int, str]) -> str:
    if not bookings:
        return ""
    shown = [
        f"{item.booked_on} {amount_text(item.amount_minor)} “{texts.get(item.number, '')[:40]}”"
        for item in bookings[:_SHOWN]
    ]
    if len(bookings) > _SHOWN:
        shown[-1] = said("{last} and {count} more", last=shown[-1], count=len(bookings) - _SHOWN)
    return said("{title}: {rows}.", title=title, rows=joined("; ", shown))
