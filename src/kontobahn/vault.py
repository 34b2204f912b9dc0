"""The installation's master key and what is derived from it: keyed hashes of tokens, and the sealing of stored secrets.

The key is a setting or DATA/secret.key. Without it no API key is recognised and no stored secret can be read, so back it up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
from pathlib import Path

from kontobahn.errors import SetupError
from kontobahn.settings import Settings

KEY_BYTES = 32
_SEAL_VERSION = b"\x01"


class Vault:
    def __init__(self, master_key: bytes) -> None:
        self._hash_key = hmac.digest(master_key, b"kontobahn token hash", "sha256")
        self._seal_key = hmac.digest(master_key, b"kontobahn sealed secrets", "sha256")
        self._derive_key = hmac.digest(master_key, b"kontobahn derived keys", "sha256")

    def token_hash(self, token: str) -> str:
        """Returns the form in which a token is stored. A copy of the database alone is not enough to check a guess."""
        return hmac.digest(self._hash_key, token.encode(), hashlib.sha256).hex()

    def derive(self, purpose: str) -> bytes:
        """Returns a key for one purpose, the same in every process of this installation."""
        return hmac.digest(self._derive_key, purpose.encode(), hashlib.sha256)

    def seal(self, secret: bytes, context: str) -> bytes:
        """Encrypts for storage. The context (table and row) must be the same when it is opened."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = os.urandom(12)
        return _SEAL_VERSION + nonce + AESGCM(self._seal_key).encrypt(nonce, secret, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        if sealed[:1] != _SEAL_VERSION:
            raise SetupError("A stored secret was sealed by a newer version of Kontobahn.")
        try:
            return AESGCM(self._seal_key).decrypt(sealed[1:13], sealed[13:], context.encode())
        except InvalidTag:
            raise SetupError(
                "A stored secret cannot be opened: the secret key is not the one it was sealed with."
            ) from None


def key_file(settings: Settings) -> Path:
    return settings.data_dir / "secret.key"


def open_vault(settings: Settings) -> Vault:
    """Opens the vault of this installation; creates the key file at the very first start."""
    if settings.secret_key:
        return Vault(_decode(settings.secret_key, "The setting secret_key"))
    path = key_file(settings)
    if not path.exists():
        _create_key_file(path)
    if path.stat().st_mode & 0o077:
        raise SetupError(f"The key file {path} can be read by others. Run: chmod 600 {path}")
    return Vault(_decode(path.read_text("ascii").strip(), f"The key file {path}"))


def _create_key_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
    # Written to a temporary file and linked into place: two first starts at once end with one key, never with half of one.
    aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            return
    finally:
        aside.unlink(missing_ok=True)


def _decode(text: str, what: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SetupError(f"{what} is not base64.") from None
    if len(key) != KEY_BYTES:
        raise SetupError(f"{what} must be {KEY_BYTES} bytes in base64, not {len(key)}.")
    return key
