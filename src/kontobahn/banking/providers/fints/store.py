"""What is kept of logins, sealed; and who talks to a bank for a login now: one dialog at a time, over all processes."""

from __future__ import annotations

import hashlib

import msgspec

from kontobahn.banking.providers.fints.model import Login
from kontobahn.clock import MINUTE
from kontobahn.db import Tx
from kontobahn.vault import Vault

# Longer than a person may take for a TAN: then the bank has ended the dialog as well.
DIALOG_TIME = 10 * MINUTE
# A login is written right before its connection.
ORPHAN_TIME = 15 * MINUTE
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Login).decode


def save(tx: Tx, vault: Vault, organization_id: str, ref: str, login: Login) -> None:
    tx.run(
        "INSERT INTO fints_logins (organization_id, ref, sealed, created_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id, ref) DO UPDATE SET sealed = excluded.sealed",
        organization_id, ref, vault.seal(_encode(login), _context(ref)), tx.now,
    )  # fmt: skip


def find(tx: Tx, vault: Vault, ref: str) -> tuple[str, Login] | None:
    """Returns the organisation and its login."""
    row = tx.one("SELECT organization_id, sealed FROM fints_logins WHERE ref = ?", ref)
    return None if row is None else (str(row[0]), _decode(vault.open(bytes(row[1]), _context(ref))))


def remove(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM fints_logins WHERE ref = ?", ref)


def remove_orphans(tx: Tx) -> None:
    """Removes logins whose flow was never finished, and claims that have expired."""
    tx.run(
        "DELETE FROM fints_logins WHERE created_at <= ? AND NOT EXISTS (SELECT 1 FROM banking_connections c"
        " WHERE c.organization_id = fints_logins.organization_id AND c.provider = 'fints' AND c.provider_ref = fints_logins.ref)",
        tx.now - ORPHAN_TIME,
    )
    tx.run("DELETE FROM fints_dialogs WHERE until <= ?", tx.now)


def claim_dialog(tx: Tx, login: Login, holder: str) -> bool:
    """Takes the login for one dialog. False if another one is under way."""
    taken = tx.one(
        "INSERT INTO fints_dialogs (login, holder, until) VALUES (?, ?, ?)"
        " ON CONFLICT (login) DO UPDATE SET holder = excluded.holder, until = excluded.until"
        " WHERE fints_dialogs.until <= ? OR fints_dialogs.holder = excluded.holder RETURNING holder",
        _name(login), holder, tx.now + DIALOG_TIME, tx.now,
    )  # fmt: skip
    return taken is not None


def release_dialog(tx: Tx, login: Login, holder: str) -> None:
    tx.run("DELETE FROM fints_dialogs WHERE login = ? AND holder = ?", _name(login), holder)


def _name(login: Login) -> str:
    # Whose login it is can be read nowhere else in clear either.
    return hashlib.sha256(f"{login.blz}/{login.user}/{login.customer or ''}".encode()).hexdigest()


def _context(ref: str) -> str:
    return f"fints_logins:{ref}"
