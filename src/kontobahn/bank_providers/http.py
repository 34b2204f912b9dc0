"""Shared by adapters that reach a provider over HTTP: the way out, what is certain when it fails, and keys."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

from kontobahn.banking.provider import ProviderDown
from kontobahn.errors import SetupError
from kontobahn.outbound import Refused, Reply, Unreached
from kontobahn.sentences import said

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey


MAX_KEY_BYTES = 64 * 1024
# Nothing was sent, so nothing was done.
_NOT_SENT = frozenset({"dns", "connect", "tls"})


class Network(Protocol):
    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float, max_bytes: int, whole: bool
    ) -> Reply: ...  # fmt: skip

    async def close(self) -> None: ...


class NotSent(ProviderDown):
    """Nothing has reached the provider: it is certain that nothing was done."""


def not_reached(name: str, error: Refused | Unreached) -> ProviderDown:
    """Returns what to raise: NotSent if that is certain, otherwise the outcome is unknown."""
    is_unsent = isinstance(error, Refused) or error.kind in _NOT_SENT
    return (NotSent if is_unsent else ProviderDown)(
        said("{provider} cannot be reached: {reason}", provider=name, reason=error)
    )


def retry_after(headers: Mapping[str, str], max_seconds: int) -> int | None:
    """For how many seconds the provider wants no more requests, if it says so in seconds."""
    said = headers.get("Retry-After", "").strip()
    return min(int(said), max_seconds) if said.isascii() and said.isdigit() and len(said) < 10 else None


def path_part(text: str) -> str:
    """An id as a part of a path."""
    return quote(text, safe="")


def read_key_file(path: Path, setting: str) -> bytes:
    """Raises SetupError if the file of the setting cannot be read, or is too large for a key."""
    try:
        if path.stat().st_size > MAX_KEY_BYTES:
            raise SetupError(f"The file {setting} ({path}) is larger than {MAX_KEY_BYTES:,} bytes.")
        return path.read_bytes()
    except OSError as error:
        raise SetupError(f"The file {setting} ({path}) cannot be read: {error.strerror}.") from None


def read_private_key(path: Path, setting: str) -> RSAPrivateKey:
    """Raises SetupError, without a word of the content, if the file is not an unencrypted RSA key in PEM."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = read_key_file(path, setting)
    try:
        key = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SetupError(f"The file {setting} ({path}) is not a PEM private key without a password.") from None
    if not isinstance(key, RSAPrivateKey):
        raise SetupError(f"The file {setting} ({path}) is not an RSA key.")
    return key
