"""Deliveries of providers: checked over the raw body, stored, then applied, each delivery once.

Applying may have to ask the provider first; that happens outside any transaction, and the effect with the mark “applied” in one.
A delivery that cannot be applied yet is retried by a job.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

import msgspec

from kontobahn import log
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import JSON_BODY, post
from kontobahn.api.wire import Answer, RawBody, form
from kontobahn.banking.payments.rules import FINAL
from kontobahn.banking.provider import (
    BadSignature,
    Banking,
    BankProvider,
    Delivery,
    PaymentReported,
    PersonHere,
    ProviderRefused,
    Report,
)
from kontobahn.banking.reports.intake import NotKnownYet, apply_all, prepare
from kontobahn.clock import DAY, MINUTE, SECOND
from kontobahn.db import Row, Tx, leases
from kontobahn.errors import NotFound, Unauthorized, Unavailable
from kontobahn.json_text import encode

# After this long without a result, another process may take the delivery over.
ATTEMPT_TIMEOUT = MINUTE
_LEASE = leases.Lease(
    "banking_inbox", key=("provider", "delivery_id"), seconds=ATTEMPT_TIMEOUT / SECOND, until="next_attempt_at",
    while_open="state = 'received'",
)  # fmt: skip
# The sender of a delivery waits this long for it to be applied.
ANSWER_SECONDS = 10.0
RETRY_AFTER = (2 * SECOND, 5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 120 * MINUTE)
RETENTION = 30 * DAY
BATCH = 100
# The kind of a person's return; providers cannot send it.
RETURN = "return"
DeliveryKind = Annotated[str, form("a word", r"^[a-z0-9_-]{1,40}$", examples=["success"])]


class Received(Answer):
    """A provider's delivery was received."""

    received: bool


@post("/v2/banking/webhooks/{provider}", caller="anybody", statuses=(200,), max_body_bytes=JSON_BODY, errors=(401, 404))
async def receive_webhook(call: Call, provider: str, body: RawBody) -> Received:
    """Receive a delivery of a provider, signed over its raw body.

    It is stored before it is applied, and applied once; a repeat is answered as the first one was.
    """
    return await _receive(call, provider, "", body)


@post(
    "/v2/banking/webhooks/{provider}/{kind}",
    caller="anybody",
    statuses=(200,),
    max_body_bytes=JSON_BODY,
    errors=(401, 404),
)
async def receive_webhook_of_kind(call: Call, provider: str, kind: DeliveryKind, body: RawBody) -> Received:
    """Receive a delivery of a provider that has an address for each kind of news.

    The signature is checked against the address as it is configured: `base_url` and this path.
    """
    return await _receive(call, provider, kind, body)


async def _receive(call: Call, provider: str, kind: str, body: RawBody) -> Received:
    sender = call.context.part(Banking).providers.get(provider)
    if sender is None or kind == RETURN:
        raise NotFound("There is no such provider.")
    try:
        url = f"{call.context.settings.base_url}/v2/banking/webhooks/{provider}{kind and '/'}{kind}"
        delivery_id = sender.read_webhook(Delivery(url, kind, body.headers, body.content))
    except BadSignature as error:
        raise Unauthorized("The signature of this delivery is wrong.", operator=str(error)) from None
    await call.context.db.write(_store, provider, delivery_id, kind, body.content)
    await _apply_soon(call.context, provider, delivery_id)
    return Received(received=True)


async def take_return(context: Context, provider: str, fields: Mapping[str, str], person: PersonHere) -> bool:
    """Takes a person's return from a bank's page: stored and applied once, like a delivery. Returns whether it is applied."""
    content = encode(dict(sorted(fields.items())))
    delivery_id = f"return-{hashlib.sha256(content).hexdigest()}"
    # The fields of a return may be exchanged for access to the accounts.
    sealed = context.vault.seal(content, f"banking_inbox:{delivery_id}")
    await context.db.write(_store, provider, delivery_id, RETURN, sealed)
    await _apply_soon(context, provider, delivery_id, person)
    return await context.db.read(_is_applied, provider, delivery_id)


async def _apply_soon(context: Context, provider: str, delivery_id: str, person: PersonHere | None = None) -> None:
    """Applies a delivery, and waits for that a little: its sender does not wait until a long history is read."""
    applying = asyncio.create_task(apply_delivery(context, provider, delivery_id, person))
    running = context.part(Banking).running
    running.add(applying)
    applying.add_done_callback(running.discard)
    done, _ = await asyncio.wait({applying}, timeout=ANSWER_SECONDS)
    if done:
        applying.result()
    else:
        applying.add_done_callback(_log_failure)


def _log_failure(applying: asyncio.Task[bool]) -> None:
    error = None if applying.cancelled() else applying.exception()
    if error is not None:
        log.warning("inbound_delivery_not_applied", detail=str(error))


def _is_applied(tx: Tx, provider: str, delivery_id: str) -> bool:
    row = tx.one("SELECT state FROM banking_inbox WHERE provider = ? AND delivery_id = ?", provider, delivery_id)
    return row is not None and row[0] != "received"


def _store(tx: Tx, provider: str, delivery_id: str, kind: str, body: bytes) -> None:
    # Choice 30: stored first, applied once.
    tx.run(
        "INSERT INTO banking_inbox (provider, delivery_id, kind, body, state, attempts, next_attempt_at, received_at)"
        " VALUES (?, ?, ?, ?, 'received', 0, ?, ?) ON CONFLICT DO NOTHING",
        provider, delivery_id, kind, body, tx.now, tx.now,
    )  # fmt: skip


async def apply_waiting(context: Context) -> None:
    for provider, delivery_id in await context.db.read(_due):
        await apply_delivery(context, provider, delivery_id)


def _due(tx: Tx) -> list[tuple[str, str]]:
    return [
        (provider, delivery_id)
        for provider, delivery_id in tx.all(
            "SELECT provider, delivery_id FROM banking_inbox WHERE state = 'received' AND next_attempt_at <= ?"
            " ORDER BY next_attempt_at, received_at LIMIT ?",
            tx.now, BATCH,
        )
    ]  # fmt: skip


def purge(tx: Tx) -> int:
    return tx.run("DELETE FROM banking_inbox WHERE received_at <= ? AND state <> 'received'", tx.now - RETENTION)


async def apply_delivery(
    context: Context, provider_name: str, delivery_id: str, person: PersonHere | None = None
) -> bool:
    """Applies a stored delivery unless another process does; a failure is recorded for the next attempt.

    `person` is who brought it and waits; a later attempt has nobody who does.
    """
    banking = context.part(Banking)
    provider = banking.providers.get(provider_name)
    claimed = await context.db.write(_claim, provider_name, delivery_id)
    if claimed is None or provider is None:
        return False
    kind, body, attempts = claimed
    held = leases.renewing(context.db, _LEASE.seconds / 3, _LEASE.renew, provider_name, delivery_id)
    try:
        if kind == RETURN:
            content = context.vault.open(body, f"banking_inbox:{delivery_id}")
            reported: Sequence[Report] = await provider.returned(msgspec.json.decode(content, type=dict[str, str]))
        else:
            reported = provider.reports(kind, body)
            await _wait_for_earlier(context, provider, delivery_id, reported)
        prepared = await prepare(context, provider_name, reported, person)
        await context.db.write(
            apply_all, provider_name, prepared, lambda tx: _mark_applied(tx, provider_name, delivery_id)
        )
        return True
    except ProviderRefused as error:
        # Its subject no longer exists; retrying would not help.
        await context.db.write(_give_up, provider_name, delivery_id, str(error))
    except (NotKnownYet, Unavailable) as error:
        await context.db.write(_postpone, provider_name, delivery_id, attempts, str(error))
    except Exception as error:
        log.exception("inbound_delivery_failed", error, provider=provider_name, delivery_id=delivery_id)
        await context.db.write(_postpone, provider_name, delivery_id, attempts, f"{type(error).__name__}: {error}")
    finally:
        held.cancel()
    return False


async def _wait_for_earlier(
    context: Context, provider: BankProvider, delivery_id: str, reported: Sequence[Report]
) -> None:
    """Raises NotKnownYet if the delivery ends a payment and an earlier one about it waits, because whoever applied that has died:
    nothing follows an end, so the two must not change places."""
    ended = {ref for ref, report in _of_payments(reported) if report.status in FINAL}
    for kind, body in await context.db.read(_earlier, provider.name, delivery_id) if ended else ():
        earlier: Sequence[Report] = ()
        with suppress(Exception):  # one that cannot be read is logged when its own turn comes
            earlier = provider.reports(kind or "", bytes(body))
        if any(ref in ended for ref, _ in _of_payments(earlier)):
            raise NotKnownYet("An earlier delivery about the payment is not applied yet.")


def _of_payments(reports: Sequence[Report]) -> list[PaymentReported]:
    return [report for report in reports if isinstance(report, PaymentReported)]


def _earlier(tx: Tx, provider: str, delivery_id: str) -> list[Row]:
    """Returns kind and body of what the provider sent before and is not applied, the latest of them."""
    return tx.all(
        "SELECT e.kind, e.body FROM banking_inbox d JOIN banking_inbox e ON e.provider = d.provider"
        " AND e.received_at < d.received_at AND e.state = 'received' AND COALESCE(e.kind, '') <> ?"
        " WHERE d.provider = ? AND d.delivery_id = ? ORDER BY e.received_at DESC LIMIT ?",
        RETURN, provider, delivery_id, BATCH,
    )  # fmt: skip


def _claim(tx: Tx, provider: str, delivery_id: str) -> tuple[str, bytes, int] | None:
    row = _LEASE.claim(tx, provider, delivery_id, setting="attempts = attempts + 1", returning="kind, body, attempts")
    return None if row is None else (row[0] or "", bytes(row[1]), row[2])


def _mark_applied(tx: Tx, provider: str, delivery_id: str) -> bool:
    return bool(
        tx.run(
            "UPDATE banking_inbox SET state = 'applied', applied_at = ?, last_error = NULL"
            " WHERE provider = ? AND delivery_id = ? AND state = 'received'",
            tx.now, provider, delivery_id,
        )
    )  # fmt: skip


def _give_up(tx: Tx, provider: str, delivery_id: str, error: str) -> None:
    tx.run(
        "UPDATE banking_inbox SET state = 'failed', last_error = ? WHERE provider = ? AND delivery_id = ? AND state = 'received'",
        error[:500], provider, delivery_id,
    )  # fmt: skip


def _postpone(tx: Tx, provider: str, delivery_id: str, attempts: int, error: str) -> None:
    given_up = attempts > len(RETRY_AFTER)
    wait = RETRY_AFTER[min(attempts, len(RETRY_AFTER)) - 1]
    tx.run(
        "UPDATE banking_inbox SET state = ?, next_attempt_at = ?, last_error = ?"
        " WHERE provider = ? AND delivery_id = ? AND state = 'received'",
        "failed" if given_up else "received", tx.now + wait, error[:500], provider, delivery_id,
    )  # fmt: skip
