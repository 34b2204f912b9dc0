"""The banks that Salt Edge reaches: read page by page, kept for some hours, and handed out as they were if it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kontobahn import log
from kontobahn.banking.provider import ListedBank, ProviderDown, ProviderRefused
from kontobahn.banking.providers.reaching import path_part
from kontobahn.banking.providers.salt_edge.client import Answered, SaltEdgeClient, translated
from kontobahn.banking.providers.salt_edge.snapshot import code_at_salt_edge, listed_bank
from kontobahn.banking.providers.salt_edge.wire import One, Page, Provider
from kontobahn.clock import HOUR, MINUTE, Clock

KEPT_FOR = 6 * HOUR
# After a failure the old list is used for this long before Salt Edge is asked again.
FAILED_FOR = 5 * MINUTE
ROWS, MAX_PAGES = 1000, 100


class Directory:
    def __init__(self, client: SaltEdgeClient, clock: Clock, *, sandboxes: bool) -> None:
        self._client, self._clock, self._sandboxes = client, clock, sandboxes
        self._lock = asyncio.Lock()
        self._listed: list[ListedBank] | None = None
        # Each with the instant until which it is believed.
        self._by_code: dict[str, tuple[Provider, int]] = {}
        self._read_until = 0

    def forget(self) -> None:
        """Has the list read again: something changed."""
        self._read_until = 0
        self._by_code = {code: (provider, 0) for code, (provider, _) in self._by_code.items()}

    async def banks(self) -> Sequence[ListedBank]:
        async with self._lock:
            if self._listed is None or self._read_until <= self._clock.now():
                try:
                    found = await self._read()
                except (ProviderDown, Answered) as error:
                    if self._listed is None:
                        raise translated(error) if isinstance(error, Answered) else error from None
                    log.warning("salt_edge_banks_not_read", detail=str(error))
                    self._read_until = self._clock.now() + FAILED_FOR
                else:
                    self._read_until = self._clock.now() + KEPT_FOR
                    self._by_code = {provider.code: (provider, self._read_until) for provider in found}
                    self._listed = [listed_bank(provider) for provider in found]
            return self._listed

    async def _read(self) -> list[Provider]:
        found: dict[str, Provider] = {}
        next_id: str | int | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.get(
                Page[Provider], "/providers", include_sandboxes=self._sandboxes, include_ais_fields=True,
                include_pis_fields=True, exclude_inactive=True, from_id=next_id, per_page=ROWS,
            )  # fmt: skip
            # Banks by file are statement files, which need nobody in between.
            found |= {one.code: one for one in page.data if one.mode != "file" and one.status in (None, "active")}
            if page.meta is None or page.meta.next_id is None or page.meta.next_id == next_id:
                return list(found.values())
            next_id = page.meta.next_id
        raise ProviderDown("Salt Edge's list of banks does not end.")

    async def bank(self, code: str) -> Provider:
        """Returns the bank with our code. Raises ProviderRefused if there is none."""
        theirs = code_at_salt_edge(code)
        found = None if theirs is None else await self.bank_or_none(theirs)
        if found is None:
            raise ProviderRefused("ProviderNotFound", "Salt Edge has no such bank")
        return found

    async def bank_or_none(self, code: str) -> Provider | None:
        """Returns the bank with Salt Edge's code."""
        known, until = self._by_code.get(code, (None, 0))
        if known is not None and until > self._clock.now():
            return known
        try:
            found = await self._client.get(
                One[Provider], f"/providers/{path_part(code)}", include_ais_fields=True, include_pis_fields=True
            )
        except (ProviderDown, Answered) as error:
            if isinstance(error, Answered) and (error.status == 404 or error.error_class == "ProviderNotFound"):
                return None
            if known is not None:
                return known
            raise translated(error) if isinstance(error, Answered) else error from None
        self._by_code[code] = found.data, self._clock.now() + KEPT_FOR
        return found.data
