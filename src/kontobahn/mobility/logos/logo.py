"""The logo in the letterhead of invoices: checked by what it is, not by what it is called; kept as long as an invoice shows it."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Literal, NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode
from kontobahn.mobility import seller

# Every invoice holds a copy.
MAX_BYTES = 256 * 1024
MAX_SIDE = 4_000
MAX_PIXELS = 4_000_000
_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG = b"\xff\xd8"
# Baseline, extended and progressive; what else there is, few programs show.
_FRAMES = (0xC0, 0xC1, 0xC2)
_BEFORE_FRAMES = (*range(0xC4, 0xC5), *range(0xDB, 0xDE), *range(0xE0, 0xF0), 0xFE)

MediaType = Literal["image/png", "image/jpeg"]


class Logo(NamedTuple):
    sha256: str
    media_type: MediaType
    # In pixels.
    width: int
    height: int
    content: bytes


_LOGOS = Table("mobility_logos", Logo, key=("organization_id", "sha256"))


# --- Checked


def check(content: bytes) -> Logo:
    """Returns what the file is. Raises BadRequest if it is not a PNG or JPEG picture within the limits."""
    if len(content) > MAX_BYTES:
        raise BadRequest(f"The logo may have at most {MAX_BYTES // 1024} KiB.", field="logo")
    try:
        if content.startswith(_PNG):
            media_type: MediaType = "image/png"
            width, height = _png_size(content)
        elif content.startswith(_JPEG):
            media_type = "image/jpeg"
            width, height = _jpeg_size(content)
        else:
            raise BadRequest("The logo must be a PNG or JPEG picture.", field="logo")
    except (struct.error, IndexError):
        raise BadRequest("This picture is damaged.", field="logo") from None
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE and width * height <= MAX_PIXELS):
        raise BadRequest("The logo may have at most 4,000 pixels on a side and 4 million in total.", field="logo")
    return Logo(hashlib.sha256(content).hexdigest(), media_type, width, height, content)


def _png_size(content: bytes) -> tuple[int, int]:
    """Walks all chunks: a file that ends early or was altered is not stored."""
    place, size, kind = len(_PNG), None, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", content, place)
        data = content[place + 8 : place + 8 + length]
        (checksum,) = struct.unpack_from(">I", content, place + 8 + length)
        if zlib.crc32(kind + data) != checksum or (size is None) != (kind == b"IHDR"):
            raise IndexError
        if kind == b"IHDR":
            size = struct.unpack_from(">II", data)
        place += 12 + length
    assert size is not None
    return size[0], size[1]


def _jpeg_size(content: bytes) -> tuple[int, int]:
    place = len(_JPEG)
    while True:
        mark, kind, length = struct.unpack_from(">BBH", content, place)
        if mark != 0xFF or length < 2:
            raise IndexError
        if kind in _FRAMES:
            _depth, height, width, components = struct.unpack_from(">BHHB", content, place + 4)
            if components not in (1, 3):
                # The colours of a printing press would need a profile that the PDF does not have.
                raise BadRequest("The logo must be in RGB or grey: save it without CMYK.", field="logo")
            return width, height
        if kind not in _BEFORE_FRAMES:
            raise IndexError
        place += 2 + length


# --- Kept


def find(tx: Tx, organization_id: str, sha256: str | None) -> Logo | None:
    if sha256 is None:
        return None
    found = _LOGOS.one(tx, "organization_id = ? AND sha256 = ?", organization_id, sha256)
    return None if found is None else found._replace(content=bytes(found.content))


def current(tx: Tx, organization_id: str) -> Logo | None:
    """The one that the next invoice will show."""
    row = tx.one("SELECT logo_sha256 FROM mobility_sellers WHERE organization_id = ?", organization_id)
    return find(tx, organization_id, row[0]) if row else None


def save(tx: Tx, organization_id: str, logo: Logo | None, actor: Actor) -> None:
    """Sets or removes it. Invoices that were issued keep theirs."""
    record = encode(seller.load_locked(tx, organization_id)).decode()
    before = current(tx, organization_id)
    if logo is not None:
        tx.run(
            "INSERT INTO mobility_logos (organization_id, sha256, media_type, width, height, content, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            organization_id, logo.sha256, logo.media_type, logo.width, logo.height, logo.content, tx.now,
        )  # fmt: skip
    sha256 = logo and logo.sha256
    tx.run(
        "INSERT INTO mobility_sellers (organization_id, record, logo_sha256, created_at, updated_at) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET logo_sha256 = excluded.logo_sha256, updated_at = excluded.updated_at",
        organization_id, record, sha256, tx.now, tx.now,
    )  # fmt: skip
    if before is not None and before.sha256 != sha256:
        # An invoice that is being issued holds the same lock until it names its logo.
        tx.run(
            "DELETE FROM mobility_logos WHERE organization_id = ? AND sha256 = ? AND NOT EXISTS"
            " (SELECT 1 FROM mobility_invoices i WHERE i.organization_id = ? AND i.logo_sha256 = ?)",
            organization_id, before.sha256, organization_id, before.sha256,
        )  # fmt: skip
    audit.record(tx, organization_id, actor, "mobility.logo", organization_id, sha256=sha256)
