"""Going on from a step: the provider is asked outside any transaction, and what it says is written in one.

A person who clicks twice, two open windows, a page that polls while the person types: one request at a time goes on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking import reports
from kontobahn.banking.connections import flows
from kontobahn.banking.hosted import interactions, wording
from kontobahn.banking.hosted.interactions import InteractionRow, Kept
from kontobahn.banking.interaction import Given, Interaction, Step, Words
from kontobahn.banking.provider import CANCELLED, Banking, ConnectionFailed, ConnectStart, ProviderRefused
from kontobahn.banking.reports import Prepared
from kontobahn.db import Tx
from kontobahn.errors import Unavailable

# How long a page waits for the bank before it says that the answer is still to come.
ANSWER_SECONDS = 15.0
RENEW_SECONDS = 100.0


class GoingOn:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def proceed(self, row: InteractionRow, kept: Kept, given: Given) -> Words | None:
        """Goes on with what was entered. Returns what the person has to know if nothing came of it."""
        claimed = await self._context.db.write(interactions.claim, row)
        if claimed is None:
            return wording.BUSY
        # Reading a long history takes minutes. A page that waited for it would be cut off by whatever is in between.
        asking = asyncio.create_task(self._ask(claimed, kept, given))
        running = self._context.part(Banking).running
        running.add(asking)
        asking.add_done_callback(running.discard)
        done, _ = await asyncio.wait({asking}, timeout=ANSWER_SECONDS)
        if done:
            return asking.result()
        asking.add_done_callback(_log_failure)
        return None

    async def _ask(self, claimed: InteractionRow, kept: Kept, given: Given) -> Words | None:
        if not given and kept.step is not None and kept.step.polling and claimed.polls >= kept.step.polling.max_polls:
            await self._abandon(kept)
            await self._fail(claimed, kept, "InteractiveTimeout", "It was not confirmed in time.")
            return None
        renewing = asyncio.create_task(self._renew(claimed))
        try:
            answer = await self._context.part(Banking).provider(kept.provider).proceed(kept.state, given)
            if isinstance(answer, Interaction):
                await self._context.db.write(interactions.advance, self._context.vault, claimed, kept, answer)
                return None
            prepared = await reports.prepare(self._context, kept.provider, answer)
            await self._context.db.write(self._finish, claimed, kept, prepared)
        except ProviderRefused as error:
            await self._fail(claimed, kept, error.error_class, str(error))
        except Unavailable as error:
            log.warning("step_not_answered", provider=kept.provider, detail=str(error))
            await self._context.db.write(interactions.release, claimed)
            return wording.DOWN
        finally:
            renewing.cancel()
        return None

    async def _renew(self, claimed: InteractionRow) -> None:
        """Keeps the step for as long as the bank is being asked."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(Unavailable):
                await self._context.db.write(interactions.renew, claimed)

    def _finish(self, tx: Tx, row: InteractionRow, kept: Kept, prepared: list[Prepared]) -> None:
        """Applies how the flow ended, and shows it: both or neither."""
        failed = next((one.report for one in prepared if isinstance(one.report, ConnectionFailed)), None)
        error_class, message = (failed.error_class, failed.error_message) if failed else (None, "")
        if interactions.end(tx, self._context.vault, row, kept if failed else None, error_class, message):
            reports.apply_all(tx, kept.provider, prepared)

    def begun(self, tx: Tx, row: InteractionRow, kept: Kept, started: ConnectStart) -> None:
        """Writes that the flow has begun at a provider: on our pages, or with a page of the provider to go to."""
        flows.set_provider(
            tx, row.organization_id, row.pending_token, kept.provider, kept.request.provider_code or "", started
        )
        interaction = started.interaction
        if interaction is None:
            step = Step("redirect", wording.REDIRECT_TITLE, url=started.connect_url)
            interaction = Interaction(step, b"", started.expires_at)
        interactions.restart(tx, self._context.vault, row, kept, interaction)

    async def cancel(self, row: InteractionRow, kept: Kept) -> None:
        claimed = await self._context.db.write(interactions.claim, row)
        if claimed is not None:
            await self._abandon(kept)
            await self._fail(claimed, kept, CANCELLED, "The person cancelled.")

    async def _abandon(self, kept: Kept) -> None:
        if kept.provider and kept.step is not None:
            try:
                await self._context.part(Banking).provider(kept.provider).abandon(kept.state)
            except (Unavailable, ProviderRefused) as error:
                log.warning("step_not_abandoned", provider=kept.provider, detail=str(error))

    async def _fail(self, row: InteractionRow, kept: Kept, error_class: str, message: str) -> None:
        request = kept.request
        report = ConnectionFailed(error_class, message, request.provider_ref, request.pending_token)
        await self._context.db.write(self._finish, row, kept, [Prepared(report, None)])


def _log_failure(asking: asyncio.Task[Words | None]) -> None:
    error = None if asking.cancelled() else asking.exception()
    if error is not None:
        log.exception("step_crashed", error)
