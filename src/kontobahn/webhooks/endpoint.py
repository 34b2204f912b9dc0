"""The contract's one URL of an organisation: set and cleared. It is a receiver with an id of its own."""

from __future__ import annotations

from kontobahn.access.audit import Actor
from kontobahn.db import Rounds, Tx, short_read
from kontobahn.errors import Conflict
from kontobahn.vault import Vault
from kontobahn.webhooks import outbox, receiver
from kontobahn.webhooks.outbox import WEBHOOK_URL
from kontobahn.webhooks.receiver import RECEIVERS, Receiver
from kontobahn.webhooks.signatures import new_secret


@short_read
def find(organization_id: str) -> Rounds[Receiver | None]:
    """Returns the receiver; its URL is None after it was cleared. None if there never was one."""
    return receiver.find.rounds(organization_id, WEBHOOK_URL)


def set_url(tx: Tx, vault: Vault, organization_id: str, url: str | None, actor: Actor) -> tuple[Receiver, str | None]:
    """Saves the URL, or clears it with None. Returns the secret too if this made one.

    Setting a URL that was stopped resumes it, even if it is the same one.
    """
    outbox.lock_event_log(tx, organization_id)
    before = find(tx, organization_id)
    if before is None:
        before = _never_set(tx, organization_id)
        RECEIVERS.insert(tx, before)
    if url is None:
        outbox.cancel_pending(tx, organization_id, WEBHOOK_URL)
        now = _write(tx, before, None, None)
        receiver.record(tx, now, actor, "webhook_url.clear", old=before.url)
        return now, None
    secret = None
    if before.url is None:
        # Choice 28: the secret is shown once, by the call that makes it.
        secret = new_secret()
        now = _write(tx, before, url, receiver.seal(vault, organization_id, WEBHOOK_URL, secret))
    elif before.state != "active" or before.url != url:
        now = receiver.activate(tx, before, url=url)
    else:
        # Set again: it has another chance, and what is pending waits for its own time.
        now = RECEIVERS.update(tx, before, failing_since=None, updated_at=tx.now)
    receiver.record(tx, now, actor, "webhook_url.set", old=before.url, new=url)
    return now, secret


def rotate_secret(
    tx: Tx, vault: Vault, organization_id: str, *, overlap_hours: int, actor: Actor
) -> tuple[Receiver, str]:
    """Makes a new secret of the URL."""
    outbox.lock_event_log(tx, organization_id)
    found = find(tx, organization_id)
    if found is None or found.url is None:
        raise Conflict("There is no webhook URL, and so no secret: set one with PUT /v2/banking/webhook-url.")
    return receiver.rotate_secret(tx, vault, found, overlap_hours=overlap_hours, actor=actor)


def _never_set(tx: Tx, organization_id: str) -> Receiver:
    return Receiver(
        organization_id=organization_id, id=WEBHOOK_URL, url=None, state="none", events=None, description=None,
        previous_until=None, failing_since=None, stopped_at=None, created_at=tx.now, updated_at=tx.now,
    )  # fmt: skip


def _write(tx: Tx, before: Receiver, url: str | None, secret: bytes | None) -> Receiver:
    state: receiver.State = "none" if url is None else "active"
    tx.run(
        "UPDATE webhook_receivers SET url = ?, state = ?, secret = ?, previous_secret = NULL, previous_until = NULL,"
        " failing_since = NULL, stopped_at = NULL, updated_at = ? WHERE organization_id = ? AND id = ?",
        url, state, secret, tx.now, before.organization_id, before.id,
    )  # fmt: skip
    return before._replace(
        url=url, state=state, previous_until=None, failing_since=None, stopped_at=None, updated_at=tx.now
    )
