"""Interactions under way: a row each, with the step that is shown and the provider's state, sealed and short-lived.

One request at a time goes on from a step, claimed for as long as the bank may take. A claim whose process died expires.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import msgspec

from kontobahn.banking.interaction import Interaction, Language, Step
from kontobahn.banking.provider import ConnectRequest
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND
from kontobahn.db import Table, Tx
from kontobahn.vault import Vault

# How long a person may take to begin, or to try again; a step of the bank's may have less.
LIFETIME = HOUR
# Longer than any bank may take to answer.
CLAIM = 5 * MINUTE
PATH = "/banking/connect"


class Kept(NamedTuple):
    """What is sealed."""

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
    taken = tx.run(
        "UPDATE banking_interactions SET claimed_until = ? WHERE organization_id = ? AND pending_token = ? AND number = ?"
        " AND (claimed_until IS NULL OR claimed_until <= ?) AND expires_at > ?",
        tx.now + CLAIM, row.organization_id, row.pending_token, row.number, tx.now, tx.now,
    )  # fmt: skip
    return row._replace(claimed_until=tx.now + CLAIM) if taken else None


def renew(tx: Tx, row: InteractionRow) -> None:
    """Takes the step for longer: the bank is still being asked."""
    tx.run(
        "UPDATE banking_interactions SET claimed_until = ? WHERE organization_id = ? AND pending_token = ? AND number = ?"
        " AND claimed_until IS NOT NULL",
        tx.now + CLAIM, row.organization_id, row.pending_token, row.number,
    )  # fmt: skip


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
    """Removes what has expired: first the secrets, which nobody may use any more, a day later the rest."""
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
