"""Reading the postings that are kept: share by share, so that what is in memory at once follows the largest share and not the books."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import NamedTuple

from kontobahn.datev import postings, rows
from kontobahn.datev.open_items import OpenItems, foreign_currency
from kontobahn.datev.postings import JobKey, KeptYear
from kontobahn.datev.rows import BETWEEN_PERSONS, OPENINGS, PERSON_SHARES, SHARES, Part, Posting
from kontobahn.db import Database
from kontobahn.ledger.errors import ProviderError
from kontobahn.threads import Pool

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
