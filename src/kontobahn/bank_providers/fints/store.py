"""Logins, kept sealed; and claims on a login for a dialog with its bank: one dialog at a time, over all processes."""

from __future__ import annotations

import hashlib

import msgspec

from kontobahn.bank_providers.fints.wire import Login
from kontobahn.banking.connections.store import used_by_connection
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


def forget_pin(tx: Tx, vault: Vault, organization_id: str, login: Login, known: str | None = None) -> None:
    """Forgets the PIN that the organisation's connections keep for this login; one that is known to be right takes its place."""
    for ref, sealed in tx.all("SELECT ref, sealed FROM fints_logins WHERE organization_id = ?", organization_id):
        kept = _decode(vault.open(bytes(sealed), _context(ref)))
        if _name(organization_id, kept) == _name(organization_id, login) and kept.pin not in (None, known):
            kept.pin = known
            save(tx, vault, organization_id, ref, kept)


def remove(tx: Tx, ref: str) -> None:
    tx.run("DELETE FROM fints_logins WHERE ref = ?", ref)


def remove_orphans(tx: Tx) -> None:
    """Removes logins whose flow was never finished, and claims that have expired."""
    tx.run(
        f"DELETE FROM fints_logins WHERE created_at <= ? AND NOT {used_by_connection('fints_logins')}",
        tx.now - ORPHAN_TIME, "fints",
    )  # fmt: skip
    tx.run("DELETE FROM fints_dialogs WHERE until <= ?", tx.now)


def claim_dialog(tx: Tx, organization_id: str, login: Login, holder: str) -> bool:
    """Takes the organisation's login for one dialog. False if another one of the organisation is under way."""
    taken = tx.one(
        "INSERT INTO fints_dialogs (login, holder, until) VALUES (?, ?, ?)"
        " ON CONFLICT (login) DO UPDATE SET holder = excluded.holder, until = excluded.until"
        " WHERE fints_dialogs.until <= ? OR fints_dialogs.holder = excluded.holder RETURNING holder",
        _name(organization_id, login), holder, tx.now + DIALOG_TIME, tx.now,
    )  # fmt: skip
    return taken is not None


def release_dialog(tx: Tx, organization_id: str, login: Login, holder: str) -> None:
    tx.run("DELETE FROM fints_dialogs WHERE login = ? AND holder = ?", _name(organization_id, login), holder)


def _name(organization_id: str, login: Login) -> str:
    # With the organisation: whoever types somebody else's login name keeps nobody from using it.
    # A digest: nowhere else can it be read in clear whose login it is either.
    name = f"{organization_id}/{login.blz}/{login.user}/{login.customer or ''}"
    return hashlib.sha256(name.encode()).hexdigest()


def _context(ref: str) -> str:
    return f"fints_logins:{ref}"
