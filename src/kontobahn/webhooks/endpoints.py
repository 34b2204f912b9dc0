"""The endpoints of an organisation: the contract's one URL, which is a receiver with an id of its own, and further ones beside it."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, in_scope
from kontobahn.db import Rounds, Tx, short_read
from kontobahn.errors import Conflict
from kontobahn.ids import new_id
from kontobahn.sentences import said
from kontobahn.vault import Vault
from kontobahn.webhooks import outbox, receiver
from kontobahn.webhooks.outbox import WEBHOOK_URL, EventName
from kontobahn.webhooks.receiver import RECEIVERS, Receiver, new_secret

# The contract's one URL of an organisation: set and cleared. It is a receiver with an id of its own.


@short_read
def find_url(organization_id: str) -> Rounds[Receiver | None]:
    """Returns the receiver; its URL is None after it was cleared. None if there never was one."""
    return receiver.find.rounds(organization_id, WEBHOOK_URL)


def set_url(tx: Tx, vault: Vault, organization_id: str, url: str | None, actor: Actor) -> tuple[Receiver, str | None]:
    """Saves the URL, or clears it with None. Returns the secret too if this made one.

    Setting a URL that was stopped resumes it, even if it is the same one.
    """
    outbox.lock_event_log(tx, organization_id)
    before = find_url(tx, organization_id)
    if before is None:
        before = _never_set(tx, organization_id)
        RECEIVERS.insert(tx, before)
    if url is None:
        outbox.cancel_pending(tx, organization_id, WEBHOOK_URL)
        now = _write_url(tx, before, None, None)
        receiver.record(tx, now, actor, "webhook_url.clear", old=before.url)
        return now, None
    secret = None
    if before.url is None:
        # Choice 28: the secret is shown once, by the call that makes it.
        secret = new_secret()
        now = _write_url(tx, before, url, receiver.seal(vault, organization_id, WEBHOOK_URL, secret))
    elif before.state != "active" or before.url != url:
        now = receiver.activate(tx, before, url=url)
    else:
        # Set again: it has another chance, and what is pending waits for its own time.
        now = RECEIVERS.update(tx, before, failing_since=None, updated_at=tx.now)
    receiver.record(tx, now, actor, "webhook_url.set", old=before.url, new=url)
    return now, secret


def rotate_secret_of_url(
    tx: Tx, vault: Vault, organization_id: str, *, overlap_hours: int, actor: Actor
) -> tuple[Receiver, str]:
    """Makes a new secret of the URL."""
    outbox.lock_event_log(tx, organization_id)
    found = find_url(tx, organization_id)
    if found is None or found.url is None:
        raise Conflict("There is no webhook URL, and so no secret: set one with PUT /v2/banking/webhook-url.")
    return receiver.rotate_secret(tx, vault, found, overlap_hours=overlap_hours, actor=actor)


def _never_set(tx: Tx, organization_id: str) -> Receiver:
    return Receiver(
        organization_id=organization_id, id=WEBHOOK_URL, url=None, state="none", events=None, description=None,
        previous_until=None, failing_since=None, stopped_at=None, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip


def _write_url(tx: Tx, before: Receiver, url: str | None, secret: bytes | None) -> Receiver:
    state: receiver.State = "none" if url is None else "active"
    tx.run(
        "UPDATE webhook_receivers SET url = ?, state = ?, secret = ?, previous_secret = NULL, previous_until = NULL,"
        " failing_since = NULL, stopped_at = NULL, updated_at = ? WHERE organization_id = ? AND id = ?",
        url, state, secret, tx.now, before.organization_id, before.id,
    )  # fmt: skip
    return before._replace(
        url=url, state=state, previous_until=None, failing_since=None, stopped_at=None, updated_at=tx.now
    )


# Further endpoints of an organisation, beside the contract's one URL: each with a filter of events, a secret and a log
# of its own.


MAX_ENDPOINTS = 20


class Wanted(NamedTuple):
    """An endpoint as its owner wants it."""

    url: str
    # None: all events.
    events: tuple[EventName, ...] | None = None
    description: str | None = None

    @property
    def events_text(self) -> str | None:
        return None if self.events is None else " ".join(dict.fromkeys(self.events))


def create(tx: Tx, vault: Vault, organization_id: str, wanted: Wanted, actor: Actor) -> tuple[Receiver, str]:
    """Makes an endpoint. Returns its secret too, which is never shown again."""
    outbox.lock_event_log(tx, organization_id)
    if len(listing(tx, (organization_id,))) >= MAX_ENDPOINTS:
        raise Conflict(said("There are {count} webhook endpoints. Delete one first.", count=MAX_ENDPOINTS))
    secret = new_secret()
    made = Receiver(
        organization_id=organization_id, id=new_id(), url=wanted.url, state="active", events=wanted.events_text,
        description=wanted.description, previous_until=None, failing_since=None, stopped_at=None,
        created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip
    RECEIVERS.insert(tx, made, secret=receiver.seal(vault, organization_id, made.id, secret))
    receiver.record(tx, made, actor, "webhook_endpoint.create", url=made.url, events=made.events)
    return made, secret


@short_read
def listing(organizations: tuple[str, ...]) -> Rounds[list[Receiver]]:
    return RECEIVERS.ask_all(
        f"{in_scope(len(organizations))} AND id <> ? ORDER BY created_at, id", *organizations, WEBHOOK_URL
    )


@short_read
def find(principal: Principal, endpoint_id: str) -> Rounds[Receiver]:
    scope = principal.scope
    found = yield from RECEIVERS.ask_one(
        f"{in_scope(len(scope))} AND id = ? AND id <> ?", *scope, endpoint_id, WEBHOOK_URL
    )
    if found is None:
        raise principal.missing("Webhook endpoint")
    return found


def change(tx: Tx, principal: Principal, endpoint_id: str, wanted: Wanted, actor: Actor) -> Receiver:
    """Replaces URL, filter and description. What is pending goes to the new URL; whether it is paused stays as it is."""
    before = _lock(tx, principal, endpoint_id)
    values = {"url": wanted.url, "events": wanted.events_text, "description": wanted.description}
    if before.url != wanted.url and before.state == "active":
        now = receiver.activate(tx, before, **values)
    else:
        now = RECEIVERS.update(tx, before, updated_at=tx.now, **values)
    receiver.record(tx, now, actor, "webhook_endpoint.change", old=before.url, new=now.url, events=now.events)
    return now


def pause(tx: Tx, principal: Principal, endpoint_id: str, actor: Actor) -> Receiver:
    """Sends nothing until it is resumed; events wait. Pausing again changes nothing."""
    before = _lock(tx, principal, endpoint_id)
    if before.state != "active":
        return before
    receiver.record(tx, before, actor, "webhook_endpoint.pause")
    return RECEIVERS.update(tx, before, state="paused", stopped_at=tx.now, updated_at=tx.now)


def resume(tx: Tx, principal: Principal, endpoint_id: str, actor: Actor) -> Receiver:
    """Sends again, what has been waiting first. Resuming one that is active changes nothing."""
    before = _lock(tx, principal, endpoint_id)
    if before.state == "active":
        return before
    receiver.record(tx, before, actor, "webhook_endpoint.resume", was=before.state)
    return receiver.activate(tx, before)


def rotate_secret(
    tx: Tx, vault: Vault, principal: Principal, endpoint_id: str, *, overlap_hours: int, actor: Actor
) -> tuple[Receiver, str]:
    found = _lock(tx, principal, endpoint_id)
    return receiver.rotate_secret(tx, vault, found, overlap_hours=overlap_hours, actor=actor)


def delete(tx: Tx, principal: Principal, endpoint_id: str, actor: Actor) -> None:
    """Deletes it with its secret; nothing more is sent. What was recorded of its deliveries goes with the events."""
    found = _lock(tx, principal, endpoint_id)
    outbox.cancel_pending(tx, found.organization_id, found.id)
    tx.run("DELETE FROM webhook_receivers WHERE organization_id = ? AND id = ?", found.organization_id, found.id)
    receiver.record(tx, found, actor, "webhook_endpoint.delete", url=found.url)


def _lock(tx: Tx, principal: Principal, endpoint_id: str) -> Receiver:
    """The endpoint, as it is while nobody else can change it or emit to it."""
    outbox.lock_event_log(tx, find(tx, principal, endpoint_id).organization_id)
    return find(tx, principal, endpoint_id)
