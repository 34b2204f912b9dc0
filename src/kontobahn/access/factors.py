"""Second factors: codes from an authenticator app, passkeys, and recovery codes for the day both are out of reach.

A challenge is a row that is used once: the step between the password and the code, the way to an identity provider and back,
or what a passkey signs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import struct
from typing import Literal, NamedTuple

from kontobahn.access import audit, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.clock import MINUTE, SECOND
from kontobahn.db import Table, Tx
from kontobahn.errors import Conflict, Unauthorized
from kontobahn.ids import CHALLENGE_PREFIX, new_id, new_token
from kontobahn.sentences import said
from kontobahn.vault import Vault

Kind = Literal["totp", "passkey"]
ChallengeKind = Literal["second step", "passkey sign-in", "passkey", "identity provider"]
STEP_SECONDS = 30
DIGITS = 6
# A phone's clock may be off by one step.
TOLERATED_STEPS = 1
CHALLENGE_LIFE = 5 * MINUTE
# At the provider a person may have to find a phone, or to choose a new password.
PROVIDER_LIFE = 15 * MINUTE
RECOVERY_CODES = 10
MAX_FACTORS = 10


class Factor(NamedTuple):
    organization_id: str
    id: str
    user_id: str
    kind: Kind
    name: str
    created_at: int
    last_used_at: int | None
    # Of a passkey: its id and public key, and how often it says it was used. Of an app: the last step that was used.
    credential_id: str | None
    public_key: bytes | None
    counter: int
    # Of an app: its secret, sealed.
    secret: bytes | None


_FACTORS = Table("user_factors", Factor)


class Challenge(NamedTuple):
    kind: ChallengeKind
    organization_id: str | None
    user_id: str | None
    value: bytes
    expires_at: int


def of_user(tx: Tx, organization_id: str, user_id: str) -> list[Factor]:
    return _FACTORS.all(
        tx, "organization_id = ? AND user_id = ? ORDER BY created_at, id", organization_id, user_id
    )  # fmt: skip


def by_credential(tx: Tx, credential_id: str) -> Factor | None:
    return _FACTORS.one(tx, "credential_id = ?", credential_id)


# --- Codes from an app


def new_secret() -> bytes:
    return secrets.token_bytes(20)


def totp(secret: bytes, step: int) -> str:
    """RFC 6238 with SHA-1 and six digits, as every app understands it."""
    digest = hmac.digest(secret, struct.pack(">Q", step), hashlib.sha1)
    start = digest[-1] & 0x0F
    number = int.from_bytes(digest[start : start + 4], "big") & 0x7FFFFFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def step_of(secret: bytes, code: str, now: int) -> int | None:
    """The step that a code belongs to; None if it is wrong or too old."""
    typed = "".join(code.split())
    current = now // SECOND // STEP_SECONDS
    for step in range(current - TOLERATED_STEPS, current + TOLERATED_STEPS + 1):
        if hmac.compare_digest(totp(secret, step).encode(), typed.encode()):
            return step
    return None


def add_totp(tx: Tx, vault: Vault, principal: Principal, secret: bytes, code: str, name: str, actor: Actor) -> Factor:
    """Adds an app that has just shown a right code. Raises Unauthorized if the code is wrong."""
    step = step_of(secret, code, tx.now)
    if step is None:
        raise Unauthorized("This code is wrong or too old. Enter the one that the app shows now.")
    factor = _new(principal, "totp", name, tx.now, counter=step)
    return _add(tx, factor._replace(secret=vault.seal(secret, _context(factor))), actor)


def add_passkey(
    tx: Tx, principal: Principal, name: str, actor: Actor, *, credential_id: str, public_key: bytes, counter: int
) -> Factor:
    factor = _new(principal, "passkey", name, tx.now, counter=counter)
    if by_credential(tx, credential_id) is not None:
        raise Conflict("This passkey is already registered.")
    return _add(tx, factor._replace(credential_id=credential_id, public_key=public_key), actor)


def _new(principal: Principal, kind: Kind, name: str, now: int, *, counter: int) -> Factor:
    assert principal.user_id is not None, "only a person has factors"
    return Factor(
        organization_id=principal.organization_id,
        id=new_id(),
        user_id=principal.user_id,
        kind=kind,
        name=name,
        created_at=now,
        last_used_at=None,
        credential_id=None,
        public_key=None,
        counter=counter,
        secret=None,
    )


def _add(tx: Tx, factor: Factor, actor: Actor) -> Factor:
    tx.lock("user_factors", factor.organization_id, factor.user_id)
    if len(of_user(tx, factor.organization_id, factor.user_id)) >= MAX_FACTORS:
        raise Conflict(said("There are {count} second factors. Remove one first.", count=MAX_FACTORS))
    _FACTORS.insert(tx, factor)
    audit.record(
        tx, factor.organization_id, actor, "factor.add", factor.id, kind=factor.kind, user_id=factor.user_id
    )  # fmt: skip
    return factor


def remove(tx: Tx, principal: Principal, factor_id: str, actor: Actor, *, issuer: str = "") -> Factor:
    """Removes one of the caller's own factors; with the last one the recovery codes go too. `issuer` is the identity provider's."""
    user_id = principal.user_id or ""
    tx.lock("user_factors", principal.organization_id, user_id)
    mine = of_user(tx, principal.organization_id, user_id)
    found = next((factor for factor in mine if factor.id == factor_id), None)
    if found is None:
        raise principal.missing("Second factor")
    if len(mine) == 1 and is_required(tx, principal.organization_id):
        raise Conflict("Your organisation requires a second factor. Add another one before you remove this one.")
    if found.kind == "passkey" and users.ways_in(tx, principal.organization_id, user_id, issuer) == 1:
        raise Conflict("You could not sign in any more without this passkey. Set a password first.")
    tx.run("DELETE FROM user_factors WHERE organization_id = ? AND id = ?", principal.organization_id, factor_id)
    if len(mine) == 1:
        tx.run(
            "DELETE FROM recovery_codes WHERE organization_id = ? AND user_id = ?", principal.organization_id, user_id
        )
    users.note_ways_changed(tx, principal.organization_id, user_id)
    audit.record(tx, principal.organization_id, actor, "factor.remove", factor_id, kind=found.kind)
    return found


# --- Recovery codes


def make_recovery_codes(tx: Tx, vault: Vault, principal: Principal, actor: Actor) -> list[str]:
    """Makes ten new ones; the old ones no longer work. They are shown once."""
    owner = (principal.organization_id, principal.user_id or "")
    codes = [base64.b32encode(secrets.token_bytes(10)).decode()[:12] for _ in range(RECOVERY_CODES)]
    tx.run("DELETE FROM recovery_codes WHERE organization_id = ? AND user_id = ?", *owner)
    tx.many(
        "INSERT INTO recovery_codes (organization_id, user_id, code_hash) VALUES (?, ?, ?)",
        [(*owner, vault.token_hash(_of_recovery(owner[1], code))) for code in codes],
    )
    audit.record(tx, principal.organization_id, actor, "recovery_codes.make", owner[1])
    return [f"{code[:4]}-{code[4:8]}-{code[8:]}" for code in codes]


def recovery_codes_left(tx: Tx, organization_id: str, user_id: str) -> int:
    row = tx.one(
        "SELECT COUNT(*) FROM recovery_codes WHERE organization_id = ? AND user_id = ?", organization_id, user_id
    )
    return int(row[0]) if row else 0


def _of_recovery(user_id: str, typed: str) -> str:
    plain = "".join(character for character in typed.upper() if character.isalnum())
    return f"recovery {user_id} {plain}"


# --- Using one


def use_code(tx: Tx, vault: Vault, user: User, code: str, actor: Actor) -> None:
    """Takes the code of an app or a recovery code, each only once. Raises Unauthorized if it is wrong."""
    tx.lock("user_factors", user.organization_id, user.id)
    for factor in of_user(tx, user.organization_id, user.id):
        if factor.secret is None:
            continue
        step = step_of(vault.open(factor.secret, _context(factor)), code, tx.now)
        if step is not None and step > factor.counter:
            _FACTORS.update(tx, factor, counter=step, last_used_at=tx.now)
            return
    used = tx.run(
        "DELETE FROM recovery_codes WHERE organization_id = ? AND user_id = ? AND code_hash = ?",
        user.organization_id, user.id, vault.token_hash(_of_recovery(user.id, code)),
    )  # fmt: skip
    if not used:
        raise Unauthorized("This code is wrong, too old or already used.")
    audit.record(tx, user.organization_id, actor, "recovery_code.use", user.id)


def note_passkey_use(tx: Tx, factor: Factor, counter: int) -> None:
    _FACTORS.update(tx, factor, counter=counter, last_used_at=tx.now)


# --- Required for everybody


def is_required(tx: Tx, organization_id: str) -> bool:
    row = tx.one("SELECT second_factor_required FROM organizations WHERE id = ?", organization_id)
    return bool(row and row[0])


def require(tx: Tx, principal: Principal, required: bool, actor: Actor) -> None:
    """Returns whether everybody of the organisation needs one. Whoever has none is asked to add one before anything else."""
    if required and not of_user(tx, principal.organization_id, principal.user_id or ""):
        raise Conflict("Add a second factor of your own first: otherwise you would lock yourself out.")
    tx.run("UPDATE organizations SET second_factor_required = ? WHERE id = ?", int(required), principal.organization_id)
    audit.record(
        tx, principal.organization_id, actor, "second_factor.require", principal.organization_id, required=required
    )


# --- Challenges


def begin(tx: Tx, vault: Vault, kind: ChallengeKind, value: bytes, user: User | None = None) -> str:
    """Returns the secret under which the next step finds this challenge."""
    secret = new_token(CHALLENGE_PREFIX)
    life = PROVIDER_LIFE if kind == "identity provider" else CHALLENGE_LIFE
    tx.run(
        "INSERT INTO sign_in_challenges (token_hash, kind, organization_id, user_id, value, expires_at)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        vault.token_hash(secret), kind, user and user.organization_id, user and user.id, value, tx.now + life,
    )  # fmt: skip
    return secret


def look_up(tx: Tx, vault: Vault, kind: ChallengeKind, secret: str) -> Challenge:
    """Raises Unauthorized if there is no such challenge, or no longer."""
    row = tx.one(
        "SELECT kind, organization_id, user_id, value, expires_at FROM sign_in_challenges WHERE token_hash = ?",
        vault.token_hash(secret),
    )
    if row is None or row[0] != kind or row[4] <= tx.now:
        raise Unauthorized("This took too long. Start again.")
    return Challenge(row[0], row[1], row[2], bytes(row[3]), row[4])


def take(tx: Tx, vault: Vault, kind: ChallengeKind, secret: str) -> Challenge:
    """Uses a challenge up. Raises Unauthorized if somebody was quicker."""
    found = look_up(tx, vault, kind, secret)
    if not tx.run("DELETE FROM sign_in_challenges WHERE token_hash = ?", vault.token_hash(secret)):
        raise Unauthorized("This took too long. Start again.")
    return found


def purge_challenges(tx: Tx) -> int:
    return tx.run("DELETE FROM sign_in_challenges WHERE expires_at <= ?", tx.now)


def _context(factor: Factor) -> str:
    return f"user_factors {factor.organization_id} {factor.id}"
