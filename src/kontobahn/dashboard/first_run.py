"""The first person of an installation: let in by a code that `serve` prints, once, while there is no user."""

from __future__ import annotations

import base64
import hmac

from kontobahn import credits
from kontobahn.access import organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.users import User
from kontobahn.dashboard.declare import ROOT
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.vault import Vault

PATH = f"{ROOT}/first-run"
# The credits that the first organisation may spend to begin with: whoever runs the service grants more with `kontobahn credits grant`.
FIRST_CREDITS = 10_000


def is_due(tx: Tx) -> bool:
    return not users.any_exists(tx)


def code(vault: Vault) -> str:
    """The code of this installation: the same in every process and after a restart, and worth nothing once there is a user."""
    text = base64.b32encode(vault.derive("first run"))[:12].decode()
    return "-".join(text[start : start + 4] for start in range(0, 12, 4))


def is_code(vault: Vault, typed: str) -> bool:
    plain = "".join(character for character in typed.upper() if character.isalnum())
    return hmac.compare_digest(plain.encode(), code(vault).replace("-", "").encode())


def begin(tx: Tx, *, organization: str, email: str, name: str, password_hash: str, actor: Actor) -> User:
    """Makes the organisation and its owner."""
    tx.lock("first run")
    if not is_due(tx):
        raise Conflict("This installation has already been set up. Sign in.")
    made = organizations.create(tx, organization, actor)
    credits.grant(tx, made.id, FIRST_CREDITS, note="first run")
    return users.create(
        tx, made.id, email=email, name=name, role="owner", password_hash=password_hash, actor=actor
    )  # fmt: skip
