"""Order data on its way: compressed (zlib), encrypted (AES-128-CBC under a key of its own), in base64, cut into segments.

All of it in streams: a year of statements is never in memory as a whole.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from kontobahn.formats.ebics.documents import EbicsError
from kontobahn.sentences import said

KEY_BYTES = BLOCK = 16
# Of base64; the protocol allows one megabyte.
SEGMENT_CHARACTERS = 1_000_000
# The most that an order's data may unpack to.
MAX_BYTES = 4 * 1024 * 1024 * 1024
_CHUNK = 256 * 1024
_NO_IV = bytes(BLOCK)


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def digest_of(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decoded(text: str) -> bytes:
    """Raises EbicsError unless it is base64; line breaks may stand anywhere in it."""
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise EbicsError("A part of the document is not in base64.") from None


def packed(data: bytes, key: bytes) -> bytes:
    """Compresses and encrypts."""
    compressed = zlib.compress(data)
    # ANSI X9.23: zeros, and the number of bytes that were added.
    missing = BLOCK - len(compressed) % BLOCK
    encryptor = Cipher(algorithms.AES(key), modes.CBC(_NO_IV)).encryptor()
    return encryptor.update(compressed + bytes(missing - 1) + bytes([missing])) + encryptor.finalize()


def segments(data: bytes, key: bytes, size: int = SEGMENT_CHARACTERS) -> list[str]:
    text = encoded(packed(data, key))
    return [text[start : start + size] for start in range(0, len(text), size)]


def unpacked(parts: Iterable[bytes], key: bytes, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
    """Yields the plain data of what was encrypted, whose pieces may be cut anywhere. Raises EbicsError if it is not whole."""
    inflater, size = zlib.decompressobj(), 0
    for piece in _decrypted(parts, key):
        rest = piece
        while rest:
            try:
                plain = inflater.decompress(rest, _CHUNK)
            except zlib.error:
                raise EbicsError("The order data cannot be unpacked.") from None
            size += len(plain)
            if size > max_bytes:
                raise EbicsError(said("The order data unpacks to more than {most} bytes.", most=f"{max_bytes:,}"))
            if plain:
                yield plain
            rest = inflater.unconsumed_tail
    if not inflater.eof:
        raise EbicsError("The order data ends too early.")


def _decrypted(parts: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    if len(key) != KEY_BYTES:
        raise EbicsError("The key of the data has another length than EBICS uses.")
    decryptor = Cipher(algorithms.AES(key), modes.CBC(_NO_IV)).decryptor()
    kept, total = b"", 0
    for part in parts:
        total += len(part)
        # The last block tells how much of it counts.
        plain = kept + decryptor.update(part)
        kept = plain[-BLOCK:]
        yield plain[:-BLOCK]
    if not total or total % BLOCK:
        raise EbicsError("The order data ends within a block.")
    added = kept[-1]
    if not 1 <= added <= BLOCK:
        raise EbicsError("The order data cannot be decrypted.")
    yield kept[:-added]


def unpack(data: bytes, key: bytes, max_bytes: int) -> bytes:
    return b"".join(unpacked([data], key, max_bytes))


def inflate(data: bytes, max_bytes: int) -> bytes:
    """Unpacks what was only compressed."""
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, max_bytes)
    except zlib.error:
        raise EbicsError("The order data cannot be unpacked.") from None
    if not inflater.eof:
        raise EbicsError("The order data cannot be unpacked as a whole.")
    return plain


class Base64Reader:
    """Decodes base64 whose pieces may be cut anywhere, also within a group of four."""

    def __init__(self) -> None:
        self._rest = ""

    def decode(self, text: str) -> bytes:
        whole = self._rest + "".join(text.split())
        cut = len(whole) - len(whole) % 4
        self._rest = whole[cut:]
        return decoded(whole[:cut])

    def finish(self) -> None:
        if self._rest:
            raise EbicsError("The order data ends within a group of base64.")


def write_to(file: IO[bytes], parts: Iterable[bytes], key: bytes, max_bytes: int = MAX_BYTES) -> int:
    """Writes the plain data to a file, and returns its size."""
    size = 0
    for piece in unpacked(parts, key, max_bytes):
        size += file.write(piece)
    return size
