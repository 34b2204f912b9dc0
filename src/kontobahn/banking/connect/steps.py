"""Steps of a connect flow on our pages: the step that is shown and the provider's state, sealed and short-lived; and going on from it.

The provider is asked outside any transaction, and its answer is written in one. A person who clicks twice, two open windows, a page
that polls while the person types: one request at a time goes on, claimed for as long as the bank may take. A claim whose process died
expires.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import NamedTuple

import msgspec

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking.connections import flows
from kontobahn.banking.hosted import words
from kontobahn.banking.interaction import Given, Interaction, Language, Step, Words
from kontobahn.banking.provider import (
    CANCELLED,
    Banking,
    ConnectionFailed,
    ConnectRequest,
    ConnectStart,
    ProviderRefused,
)
from kontobahn.banking.reports import intake as reports
from kontobahn.banking.reports.intake import Prepared
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.db import Table, Tx, leases
from kontobahn.errors import Unavailable
from kontobahn.vault import Vault

# The time that a person may take to begin, or to try again; a step of the bank's may have less.
LIFETIME = HOUR
# Longer than any bank may take to answer.
CLAIM = 5 * MINUTE
PATH = "/banking/connect"


class Kept(NamedTuple):
    """The sealed part of an interaction."""

    request: ConnectRequest
    # The provider that goes on from here; empty while the bank has yet to be chosen.
    provider: str
    step: Step | None = None
    state: bytes = b""


class InteractionRow(NamedTuple):
    organization_id: str
    pending_token: str
    token_hash: str
    language: Language | None
    number: int
    sealed: bytes | None
    claimed_until: int | None
    next_poll_at: int | None
    polls: int
    outcome: str | None
    error_class: str | None
    error_message: str | None
    expires_at: int
    created_at: int


INTERACTIONS = Table("banking_interactions", InteractionRow, key=("organization_id", "pending_token"))
_LEASE = leases.Lease(
    "banking_interactions",
    key=("organization_id", "pending_token", "number"),
    seconds=CLAIM / SECOND,
    until="claimed_until",
)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


def new_token() -> str:
    return secrets.token_urlsafe(32)


def begin(tx: Tx, vault: Vault, token: str, organization_id: str, kept: Kept, expires_at: int) -> InteractionRow:
    row = InteractionRow(
        organization_id=organization_id, pending_token=kept.request.pending_token, token_hash=vault.token_hash(token),
        language=kept.request.language, number=1, sealed=_seal(vault, kept), claimed_until=None,
        next_poll_at=_first_poll(tx, kept.step), polls=0, outcome=None, error_class=None, error_message=None,
        expires_at=expires_at, created_at=tx.now,
    )  # fmt: skip
    INTERACTIONS.insert(tx, row)
    return row


def find(tx: Tx, token_hash: str) -> InteractionRow | None:
    return INTERACTIONS.one(tx, "token_hash = ? AND expires_at > ?", token_hash, tx.now)


def open_kept(vault: Vault, row: InteractionRow) -> Kept | None:
    """Returns what was sealed; None if the interaction is over."""
    return None if row.sealed is None else _decode(vault.open(row.sealed, _seal_context(row.pending_token)))


def claim(tx: Tx, row: InteractionRow) -> InteractionRow | None:
    """Takes the step for one request; None if another one has it, or has gone on from it."""
    taken = _LEASE.claim(tx, *_key(row), only_if="expires_at > ?", params=(tx.now,), returning="claimed_until")
    return None if taken is None else row._replace(claimed_until=taken[0])


def _key(row: InteractionRow) -> tuple[str, str, int]:
    return row.organization_id, row.pending_token, row.number


def renew(tx: Tx, row: InteractionRow) -> None:
    """Takes the step for longer: the bank is still being asked."""
    _LEASE.renew(tx, *_key(row))


def release(tx: Tx, row: InteractionRow) -> None:
    """Gives the step back as it was: the bank did not answer."""
    _change(tx, row, claimed_until=None)


def advance(tx: Tx, vault: Vault, row: InteractionRow, kept: Kept, interaction: Interaction) -> bool:
    """Shows the next step. Returns False if the interaction was ended meanwhile."""
    kept = kept._replace(step=interaction.step, state=interaction.state)
    is_poll_again = interaction.step.kind == "decoupled" and row.next_poll_at is not None
    polling = interaction.step.polling
    next_poll = (
        tx.now + polling.next_seconds * SECOND if polling and is_poll_again else _first_poll(tx, interaction.step)
    )
    return _change(
        tx, row, sealed=_seal(vault, kept), number=row.number + 1, claimed_until=None, outcome=None, error_class=None,
        error_message=None, next_poll_at=next_poll, polls=row.polls + 1 if is_poll_again else 0,
        expires_at=min(interaction.expires_at, tx.now + LIFETIME),
    )  # fmt: skip


def restart(tx: Tx, vault: Vault, row: InteractionRow, kept: Kept, interaction: Interaction) -> bool:
    return advance(tx, vault, row._replace(next_poll_at=None), kept, interaction)


def end(
    tx: Tx, vault: Vault, row: InteractionRow, kept: Kept | None, error_class: str | None = None, message: str = ""
) -> bool:
    """Ends an interaction. Of one that failed the request stays, so that the person may try again."""
    sealed = None if kept is None else _seal(vault, kept._replace(step=None, state=b""))
    return _change(
        tx, row, sealed=sealed, number=row.number + 1, claimed_until=None, next_poll_at=None,
        outcome="failed" if error_class else "done", error_class=error_class, error_message=message[:1000] or None,
        expires_at=tx.now + LIFETIME,
    )  # fmt: skip


def purge(tx: Tx) -> None:
    """Removes what has expired: first the secrets, which nobody may use now, a day later the rest."""
    tx.run("UPDATE banking_interactions SET sealed = NULL WHERE expires_at <= ? AND sealed IS NOT NULL", tx.now)
    tx.run("DELETE FROM banking_interactions WHERE expires_at <= ?", tx.now - DAY)


def _change(tx: Tx, row: InteractionRow, **values: object) -> bool:
    names = ", ".join(f"{name} = ?" for name in values)
    return bool(
        tx.run(
            f"UPDATE banking_interactions SET {names} WHERE organization_id = ? AND pending_token = ? AND number = ?",
            *values.values(), row.organization_id, row.pending_token, row.number,
        )
    )  # fmt: skip


def _first_poll(tx: Tx, step: Step | None) -> int | None:
    return None if step is None or step.polling is None else tx.now + step.polling.first_seconds * SECOND


def _seal(vault: Vault, kept: Kept) -> bytes:
    return vault.seal(_encode(kept), _seal_context(kept.request.pending_token))


def _seal_context(pending_token: str) -> str:
    return f"banking_interactions:{pending_token}"


# --- Going on


# A page waits this long for the bank before it says that the answer is still to come.
ANSWER_SECONDS = 15.0
RENEW_SECONDS = 100.0


class Steps:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def proceed(self, row: InteractionRow, kept: Kept, given: Given) -> Words | None:
        """Goes on with what was entered. Returns what the person has to know if that failed."""
        claimed = await self._context.db.write(claim, row)
        if claimed is None:
            return words.BUSY
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
        renewing = leases.renewing(self._context.db, RENEW_SECONDS, renew, claimed)
        try:
            answer = await self._context.part(Banking).provider(kept.provider).proceed(kept.state, given)
            if isinstance(answer, Interaction):
                await self._context.db.write(advance, self._context.vault, claimed, kept, answer)
                return None
            prepared = await reports.prepare(self._context, kept.provider, answer)
            await self._context.db.write(self._finish, claimed, kept, prepared)
        except ProviderRefused as error:
            await self._fail(claimed, kept, error.error_class, str(error))
        except Unavailable as error:
            log.warning("step_not_answered", provider=kept.provider, detail=str(error))
            await self._context.db.write(release, claimed)
            return words.DOWN
        finally:
            renewing.cancel()
        return None

    def _finish(self, tx: Tx, row: InteractionRow, kept: Kept, prepared: list[Prepared]) -> None:
        """Applies how the flow ended, and shows it: both or neither."""
        failed = next((one.report for one in prepared if isinstance(one.report, ConnectionFailed)), None)
        error_class, message = (failed.error_class, failed.error_message) if failed else (None, "")
        if end(tx, self._context.vault, row, kept if failed else None, error_class, message):
            reports.apply_all(tx, kept.provider, prepared)

    def begun(self, tx: Tx, row: InteractionRow, kept: Kept, started: ConnectStart) -> None:
        """Writes that the flow has begun at a provider: on our pages, or with a page of the provider to go to."""
        flows.set_provider(
            tx, row.organization_id, row.pending_token, kept.provider, kept.request.provider_code or "", started
        )
        interaction = started.interaction
        if interaction is None:
            step = Step("redirect", words.REDIRECT_TITLE, url=started.connect_url)
            interaction = Interaction(step, b"", started.expires_at)
        restart(tx, self._context.vault, row, kept, interaction)

    async def cancel(self, row: InteractionRow, kept: Kept) -> None:
        claimed = await self._context.db.write(claim, row)
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
