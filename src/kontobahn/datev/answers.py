"""Answers about bookings, accounts and documents, from postings at hand. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from kontobahn import money
from kontobahn.datev import postings, rows
from kontobahn.datev.open_items import OpenItems, foreign_currency
from kontobahn.datev.postings import JobKey, KeptYear
from kontobahn.datev.rows import BETWEEN_PERSONS, OPENINGS, PERSON_SHARES, SHARES, Part, Posting, share_of
from kontobahn.db import Database
from kontobahn.errors import BadRequest
from kontobahn.ledger import buchungen
from kontobahn.ledger.buchungen import AccountBooking, DocumentBookings
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.faelligkeiten import is_money
from kontobahn.ledger.konto import Kontenrahmen, is_personenkonto
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.ledger.wire import AccountSheet, SheetLine, SheetSelection
from kontobahn.threads import Pool

# Reading the postings that are kept: share by share, so that what is in memory at once follows the largest share and
# not the books.


# Shares that have no more than this together are read at once: the books of most clients.
BYTES_AT_ONCE = 6 * 1024 * 1024


class Numbered(NamedTuple):
    jahr: str
    posting: Posting


class Kept:
    """The postings of some fiscal years, the first one first."""

    def __init__(self, db: Database, pool: Pool, years: list[KeptYear]) -> None:
        self._db, self._pool, self._years = db, pool, years

    def names(self) -> dict[str, str]:
        """Returns the labels of accounts, those of the last year before older ones."""
        return {konto: text for year in self._years for konto, text in year.names().items()}

    async def open_items(self, found: OpenItems, konto: str | None) -> None:
        """Has all postings counted that are asked for; `konto` is the only account, if there is one."""
        for year in self._years:
            openings = await self._contents(year, OPENINGS, OPENINGS + 1)
            await self._pool.run(_add, found.add_openings, year.key.jahr, openings)
        for year in self._years:
            between = await self._contents(year, BETWEEN_PERSONS, BETWEEN_PERSONS + 1)
            await self._pool.run(_add, found.add_between_persons, year.key.jahr, between)
        for group in self._groups() if konto is None else [_share_of(konto)]:
            for year in self._years:
                content = await self._contents(year, group.start, group.stop)
                await self._pool.run(_add, found.add, year.key.jahr, content)
            await self._pool.run(found.calculate, group)

    async def of_account(self, konto: str) -> list[Numbered]:
        """Returns the postings of a person account in their order. Raises ProviderError if one is in another currency."""
        found: list[Numbered] = []
        for year in self._years:
            for shares in (_share_of(konto), range(OPENINGS, BETWEEN_PERSONS + 1)):
                content = await self._contents(year, shares.start, shares.stop)
                found += await self._pool.run(_of_account, content, year.key.jahr, konto)
        found.sort(key=lambda one: (one.jahr, one.posting.number))
        return found

    async def of_persons(self) -> AsyncIterator[tuple[range, list[Numbered]]]:
        """Yields shares of person accounts with their postings, in no order, without opening balances.

        Postings between two persons come with the shares of either; the other leg is not for those.
        """
        for group in self._groups():
            found: list[Numbered] = []
            for year in self._years:
                for shares in (group, range(BETWEEN_PERSONS, BETWEEN_PERSONS + 1)):
                    content = await self._contents(year, shares.start, shares.stop)
                    found += await self._pool.run(_unpacked, content, year.key.jahr)
            yield group, found

    async def in_order(self, after: int) -> AsyncIterator[list[Numbered]]:
        """Yields the postings of all accounts after this number, some at a time; for one year."""
        [year] = self._years
        starts = sorted({rows.place_of(part)[1] for part in year.sizes})
        for start, end in zip(starts, [*starts[1:], None], strict=True):
            if end is not None and end <= after + 1:
                continue
            content: list[bytes] = []
            for share in range(SHARES):
                part = rows.part_numbers(share)[0] + start
                if part in year.sizes:
                    content += await self._checked(year, part, part + 1)
            found = await self._pool.run(_unpacked, content, year.key.jahr)
            yield sorted((one for one in found if one.posting.number > after), key=lambda one: one.posting.number)

    def _groups(self) -> list[range]:
        """Returns the shares of person accounts, in ranges that are read at once."""
        found: list[range] = []
        size = 0
        for share in range(PERSON_SHARES):
            first, end = rows.part_numbers(share)
            own = sum(size for year in self._years for part, size in year.sizes.items() if first <= part < end)
            if found and size + own <= BYTES_AT_ONCE:
                found[-1] = range(found[-1].start, share + 1)
                size += own
            else:
                found.append(range(share, share + 1))
                size = own
        return found

    async def _contents(self, year: KeptYear, first_share: int, end_share: int) -> list[bytes]:
        return await self._checked(year, rows.part_numbers(first_share)[0], rows.part_numbers(end_share)[0])

    async def _checked(self, year: KeptYear, first: int, end: int) -> list[bytes]:
        found = await self._db.read(postings.contents, year, first, end)
        if len(found) != sum(first <= part < end for part in year.sizes):
            # Newer rows have taken their place meanwhile.
            raise ProviderError(
                503, "the postings have just been read anew: ask again", type="pending", retry_after_seconds=1
            )
        return found


def _share_of(konto: str) -> range:
    share = rows.share_of(int(konto))
    return range(share, share + 1)


async def kept_years(db: Database, pool: Pool, keys: Sequence[JobKey]) -> Kept:
    found = [await db.read(postings.kept_year, key) for key in keys]
    if None in found:
        raise ProviderError(
            503, "the postings are just being read anew: ask again", type="pending", retry_after_seconds=1
        )
    return Kept(db, pool, [year for year in found if year is not None])


def _add(add: Callable[[str, Part], None], jahr: str, contents: Iterable[bytes]) -> None:
    for content in contents:
        add(jahr, rows.unpack(content))


def _of_account(contents: Iterable[bytes], jahr: str, konto: str) -> list[Numbered]:
    found = [one for one in _unpacked(contents, jahr) if konto in (one.posting.konto, one.posting.gegenkonto)]
    for one in found:
        if one.posting.waehrung:
            raise foreign_currency({int(konto): one.posting.waehrung})
    return found


def _unpacked(contents: Iterable[bytes], jahr: str) -> list[Numbered]:
    return [Numbered(jahr, posting) for content in contents for posting in rows.postings(rows.unpack(content))]


# Of a document: day, place in the order of all postings, posting, other account, cents.
Leg = tuple[str, str, Posting, str, int]
# Day and place before it, by which the latest comes first.
Movement = tuple[str, str, Belegbewegung]


def period_of(one: Numbered) -> int:
    """Returns the month of the fiscal year, 1 to 12; 0 for an opening balance."""
    if one.posting.is_opening:
        return 0
    day = one.posting.belegdatum
    months = (int(day[:4]) - int(one.jahr[:4])) * 12 + int(day[5:7]) - int(one.jahr[5:7])
    return min(months + 1, 12)


def buchung(one: Numbered) -> buchungen.Buchung:
    posting = one.posting
    lines = [
        buchungen.Buchungszeile(
            kontonummer=konto,
            kostenstellen=buchungen.Kostenstellen(kost1=posting.kost1 or None, kost2=posting.kost2 or None),
            buSchluessel=posting.bu_schluessel or None,
            umsatz=money.to_wire(abs(posting.betrag)),
            belegfeld1=posting.belegfeld1,
            belegdatum=datetime.combine(date.fromisoformat(posting.belegdatum), datetime.min.time(), UTC),
        )
        for konto in (posting.konto, posting.gegenkonto)
        if konto
    ]
    return buchungen.Buchung(
        id=str(posting.number),
        waehrung=posting.waehrung or buchungen.EUR,
        sollHabenKennzeichen="HABEN" if posting.betrag < 0 else "SOLL",
        buchungstext=posting.buchungstext,
        buchungszeilen=lines,
        generalumkehr=posting.is_reversal,
    )


def sheet(moved: list[Numbered], selection: SheetSelection) -> AccountSheet:
    """Returns a page of a person account's sheet, by period, day and posting."""
    after = _place_of(selection.after)
    legs = [((period_of(one), one.posting.belegdatum, one.posting.number), one.posting) for one in moved]
    legs.sort(key=lambda leg: leg[0])
    saldo = before = 0
    lines: list[SheetLine] = []
    for place, posting in legs:
        is_konto = posting.konto == selection.konto
        betrag = posting.betrag if is_konto else -posting.betrag
        saldo += betrag
        if place <= after or place[0] < (selection.periode or 0):
            before = saldo
        elif selection.periode not in (None, place[0]):
            break
        elif len(lines) == selection.limit:
            return AccountSheet(before, lines, lines[-1].place)
        else:
            on_debit = (betrag > 0) != posting.is_reversal
            lines.append(
                SheetLine(
                    f"{place[0]}.{place[1]}.{place[2]}", str(place[2]), place[0], date.fromisoformat(place[1]),
                    posting.belegfeld1, posting.buchungstext, posting.gegenkonto if is_konto else posting.konto,
                    posting.bu_schluessel, betrag if on_debit else 0, 0 if on_debit else -betrag, saldo,
                )
            )  # fmt: skip
    return AccountSheet(before, lines, None)


def _place_of(text: str) -> tuple[int, str, int]:
    period, _, rest = text.partition(".")
    day, _, number = rest.partition(".")
    if text and not (
        period.isascii() and period.isdigit() and number.isascii() and number.isdigit() and len(number) < 19
    ):
        raise BadRequest("The place in the sheet is not one that a page led to.", field="after")
    return (int(period), day, int(number)) if text else (-1, "", 0)


def of_document(moved: list[Numbered], konto: str, beleg: str, after: str, limit: int) -> DocumentBookings:
    soll = haben = 0
    found = []
    for jahr, posting in moved:
        if posting.belegfeld1 != beleg or posting.is_opening:
            continue
        betrag = posting.betrag if posting.konto == konto else -posting.betrag
        soll, haben = soll + max(betrag, 0), haben + max(-betrag, 0)
        found.append(
            AccountBooking(
                f"{jahr[:4]}{posting.number:09}", date.fromisoformat(posting.belegdatum), beleg, posting.buchungstext,
                posting.konto, posting.gegenkonto, posting.bu_schluessel, betrag,
            )
        )  # fmt: skip
    found.sort(key=lambda one: (one.belegdatum, one.id))
    shown = [one for one in found if f"{one.belegdatum} {one.id}" > after]
    return DocumentBookings(soll, haben, shown[:limit])


def movements(some: list[Numbered], shares: range, seit: str, rahmen: Kontenrahmen) -> list[Movement]:
    """Returns the movements of documents of these shares' accounts, without those that a Generalumkehr took back."""
    legs: dict[tuple[str, str], list[Leg]] = defaultdict(list)
    for jahr, posting in some:
        for konto, other, betrag in posting.legs if posting.belegfeld1 else ():
            if is_personenkonto(konto) and share_of(int(konto)) in shares:
                if posting.waehrung:
                    raise foreign_currency({int(konto): posting.waehrung})
                order = f"{jahr}{posting.number:012}"
                legs[konto, posting.belegfeld1].append((posting.belegdatum, order, posting, other, betrag))
    found = []
    for (konto, beleg), moved in legs.items():
        moved.sort(key=lambda leg: leg[:2])
        is_cleared = sum(leg[4] for leg in moved) == 0
        beginn, text = min((leg[0], leg[2].buchungstext) for leg in moved)
        for day, place, posting, other, betrag in _standing(moved):
            if day >= seit:
                paid = not is_personenkonto(other) and is_money(rahmen, other)
                is_cash = paid and rahmen.bargeld[0] <= other[:4] <= rahmen.bargeld[1]
                movement = Belegbewegung(
                    konto, beleg, date.fromisoformat(day), betrag, 0, paid, date.fromisoformat(beginn), text, is_cleared,
                    None, other, is_cash, posting.belegfeld2,
                )  # fmt: skip
                found.append((day, place, movement))
    return found


def _standing(moved: list[Leg]) -> list[Leg]:
    standing: list[Leg] = []
    for leg in moved:
        if leg[2].is_reversal:
            taken = next((one for one in reversed(standing) if one[4] == -leg[4]), None)
            if taken is not None:
                standing.remove(taken)
        else:
            standing.append(leg)
    return standing
