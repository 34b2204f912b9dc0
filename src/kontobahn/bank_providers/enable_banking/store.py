"""Sessions at Enable Banking: whose they are, their accounts as the session began with them, and how long the bank wants a rest."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kontobahn.bank_providers.enable_banking.wire import Account, Named, NewSession
from kontobahn.banking.connections import flows
from kontobahn.banking.connections.store import end_access, used_by_connection
from kontobahn.clock import HOUR
from kontobahn.db import Tx

NAME = "enable_banking"
# Longer than a stored return is tried again: until then a session may still become a connection.
UNUSED_TIME = 3 * HOUR
_encode = msgspec.json.Encoder().encode
_decode_accounts = msgspec.json.Decoder(list[Account]).decode


class Kept(NamedTuple):
    ref: str
    bank: Named
    psu_type: str
    accounts: list[Account]
    # Until then the bank is not asked.
    rest_until: int


def save(tx: Tx, pending_token: str, session: NewSession) -> None:
    """Keeps a session as soon as it exists: its code can be used once, and what follows may fail."""
    flow = flows.find(tx, NAME, pending_token)
    if flow is not None:
        tx.run(
            "INSERT INTO enable_banking_sessions (organization_id, ref, pending_token, bank_name, bank_country, psu_type, accounts,"
            " rest_until, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
            flow.organization_id, session.session_id, pending_token, session.aspsp.name, session.aspsp.country,
            session.psu_type, _encode(session.accounts).decode(), tx.now,
        )  # fmt: skip


def find(tx: Tx, ref: str) -> Kept | None:
    return _found(tx, "ref = ?", ref)


def by_token(tx: Tx, pending_token: str) -> Kept | None:
    """The session that a flow has led to already."""
    return _found(tx, "pending_token = ?", pending_token)


def _found(tx: Tx, where: str, value: str) -> Kept | None:
    row = tx.one(
        f"SELECT ref, bank_name, bank_country, psu_type, accounts, rest_until FROM enable_banking_sessions WHERE {where}",
        value,
    )
    if row is None:
        return None
    return Kept(row[0], Named(row[1], row[2]), row[3], _decode_accounts(row[4]), row[5])


def rest(tx: Tx, ref: str, until: int) -> None:
    tx.run("UPDATE enable_banking_sessions SET rest_until = ? WHERE ref = ?", until, ref)


def remove(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM enable_banking_sessions WHERE ref = ?", ref)


def end_orphans(tx: Tx) -> None:
    """Has sessions ended at Enable Banking that no connection uses: replaced by a reconnect, or never finished."""
    unused = tx.all(
        f"SELECT s.ref FROM enable_banking_sessions s WHERE s.created_at <= ? AND NOT {used_by_connection('s')}",
        tx.now - UNUSED_TIME, NAME,
    )  # fmt: skip
    end_access(tx, NAME, [ref for (ref,) in unused])
