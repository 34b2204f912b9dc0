"""Identifiers and tokens: time-ordered UUIDs for rows, base62 secrets with a checksum for API keys and sessions; networks."""

from __future__ import annotations

import os
import secrets
import threading
import time
import uuid
import zlib
from functools import lru_cache
from ipaddress import IPv6Address, ip_address

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
API_KEY_PREFIX = "kb_live_"
SESSION_PREFIX = "kb_sess_"
INVITATION_PREFIX = "kb_inv_"
PASSWORD_RESET_PREFIX = "kb_reset_"
CHALLENGE_PREFIX = "kb_chl_"
_SECRET_LENGTH = 30
_CHECKSUM_LENGTH = 6  # 62**6 exceeds 2**32, so every CRC-32 fits
# The block that one household or server gets: whoever has one IPv6 address has all of its block.
_IPV6_BLOCK_BITS = 64


class _Randomness:
    """Random bytes for ids, fetched from the system a few thousand at a time, because every fetch yields to other threads."""

    def __init__(self) -> None:
        self._forget()
        # A forked process must not continue with the same bytes.
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._bytes, self._used = b"", 0

    def take(self, count: int) -> bytes:
        with self._lock:
            start, end = self._used, self._used + count
            if end > len(self._bytes):
                self._bytes, start, end = os.urandom(4096), 0, count
            self._used = end
            return self._bytes[start:end]


_randomness = _Randomness()


class _Order:
    """Milliseconds and a count within them: strictly rising within a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def next(self) -> int:
        with self._lock:
            self._last = max(self._last + 1, (time.time_ns() // 1_000_000) << 12)
            return self._last


_order = _Order()


def new_id() -> str:
    """A UUID version 7 that rises within a process, so that rows written in sequence are neighbours in an index."""
    milliseconds, count = divmod(_order.next(), 1 << 12)
    value = milliseconds << 80 | 0x7 << 76 | count << 64 | int.from_bytes(_randomness.take(8), "big")
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def new_request_id() -> str:
    return "req_" + _randomness.take(10).hex()


def new_token(prefix: str) -> str:
    """``prefix`` + 30 random base62 characters + a checksum over both, so that a mistyped token is recognised without a query."""
    body = prefix + "".join(secrets.choice(BASE62) for _ in range(_SECRET_LENGTH))
    return body + _checksum(body)


def is_well_formed(token: str, prefix: str) -> bool:
    if not token.startswith(prefix) or len(token) != len(prefix) + _SECRET_LENGTH + _CHECKSUM_LENGTH:
        return False
    return token.isascii() and token[-_CHECKSUM_LENGTH:] == _checksum(token[:-_CHECKSUM_LENGTH])


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, 62)
        digits = BASE62[digit] + digits
    return digits


# --- Networks, as callers without a key are counted by them


@lru_cache(maxsize=4096)
def block_of(address: str) -> str:
    """Returns whom an address stands for: an IPv4 address itself, an IPv6 address its /64."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    host_bits = 128 - _IPV6_BLOCK_BITS
    return f"{IPv6Address(int(parsed) >> host_bits << host_bits)}/{_IPV6_BLOCK_BITS}"
