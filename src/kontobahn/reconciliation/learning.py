"""What confirmations teach: which IBAN and which name pays for which person account. Undoing a match takes its lesson back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from kontobahn.db import Tx
from kontobahn.ids import new_id
from kontobahn.reconciliation import store
from kontobahn.reconciliation.core import names
from kontobahn.reconciliation.core.model import Learned, Line
from kontobahn.reconciliation.store import Client, LearnedRow, MatchRow

# So many of the latest are looked at by a run.
MAX_LEARNED = 20_000
_LESSONS = ("posten", "akonto")


def learn(tx: Tx, client: Client, row: MatchRow, lines: Iterable[Line]) -> None:
    """Counts the payer for the person account, if the match has exactly one: whoever pays for two is neither."""
    for kind, value, konto in _lesson(row, lines):
        tx.run(
            "INSERT INTO recon_learned (organization_id, id, connection_id, client_id, kind, value, konto, times, first_at, last_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (organization_id, connection_id, client_id, kind, value, konto)"
            " DO UPDATE SET times = recon_learned.times + 1, last_at = excluded.last_at",
            client.organization_id, new_id(), client.connection_id, client.client_id, kind, value, konto, tx.now, tx.now,
        )  # fmt: skip


def forget(tx: Tx, client: Client, row: MatchRow, lines: Iterable[Line]) -> None:
    """Takes the lesson of a match back; what somebody deleted meanwhile stays deleted."""
    if row.made_by == "engine":
        return
    for kind, value, konto in _lesson(row, lines):
        known = store.LEARNED.one(
            tx, "organization_id = ? AND connection_id = ? AND client_id = ? AND kind = ? AND value = ? AND konto = ?",
            *client, kind, value, konto,
        )  # fmt: skip
        if known is None or known.first_at > row.made_at:
            continue
        if known.times > 1:
            store.LEARNED.update(tx, known, times=known.times - 1)
        else:
            delete(tx, known)


def delete(tx: Tx, known: LearnedRow) -> None:
    tx.run("DELETE FROM recon_learned WHERE organization_id = ? AND id = ?", known.organization_id, known.id)


def for_matcher(tx: Tx, client: Client) -> tuple[Learned, ...]:
    found = store.learned(tx, client, MAX_LEARNED)
    return tuple(
        Learned(row.konto, row.times, iban=row.value)
        if row.kind == "iban"
        else Learned(row.konto, row.times, name=row.value)
        for row in sorted(found, key=lambda row: row.id)
    )


def _lesson(row: MatchRow, lines: Iterable[Line]) -> list[tuple[Literal["iban", "name"], str, str]]:
    kontos = {line.konto for line in lines if line.kind in _LESSONS}
    if len(kontos) != 1:
        return []
    [konto] = kontos
    found: list[tuple[Literal["iban", "name"], str, str]] = []
    if row.iban:
        found.append(("iban", row.iban.replace(" ", "").upper(), konto))
    name = names.normal(row.payer)
    if name:
        found.append(("name", name, konto))
    return found
