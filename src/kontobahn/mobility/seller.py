"""The seller: who an organisation is on its invoices, where it is paid, how it numbers, and its logo. One record an organisation."""

from __future__ import annotations

import asyncio
import hashlib
import re
import struct
import zlib
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.api.answers import Error
from kontobahn.api.call import Call
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, OrganizationQuery, form
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest
from kontobahn.json_text import encode
from kontobahn.mobility import wire
from kontobahn.mobility.wire import (
    City,
    Country,
    Email,
    Line70,
    Line100,
    Line200,
    Phone,
    PostalCode,
    Street,
    VatId,
    check_codes,
    one_line,
)
from kontobahn.sentences import said

_ERRORS = (403, 404)


class Seller(Body):
    """The organisation as it stands on its invoices. What is left out is gone, not kept."""

    name: Line70 | None = None
    street: Street | None = None
    postal_code: PostalCode | None = None
    city: City | None = None
    country_code: Country = "DE"
    vat_id: VatId | None = None
    tax_number: Annotated[str, form("a tax number", r"^[0-9][0-9 /]{5,18}[0-9]$", examples=["37/123/45678"])] | None = (
        None
    )
    iban: Annotated[str, one_line, Meta(max_length=42, examples=["DE02120300000000202051"])] | None = None
    bic: Annotated[str, one_line, Meta(max_length=14, examples=["BYLADEM1001"])] | None = None
    bank_name: Line70 | None = None
    contact_name: Line70 | None = None
    contact_phone: Phone | None = None
    contact_email: Email | None = None
    website: Line100 | None = None
    register_entry: Line100 | None = None
    managing_directors: Line200 | None = None
    vat_exemption_reason: Line200 | None = None
    payment_days: Annotated[int, Meta(ge=0, le=365)] = 14
    invoice_number_prefix: Annotated[
        str,
        form(
            "up to 20 letters, digits and . / _ - with {year} in place of the year",
            r"^([A-Za-z0-9./_-]|\{year\}){0,20}$",
            examples=["RE-{year}-"],
        ),
    ] = "RE-{year}-"
    invoice_number_digits: Annotated[int, Meta(ge=1, le=10)] = 5

    def missing_fields(self, vat_rates: set[int]) -> list[str]:
        """Returns the fields without which no invoice can be made, in the order in which one would fill them in."""
        needed: list[tuple[str, Any]] = [
            ("name", self.name), ("street", self.street), ("postal_code", self.postal_code), ("city", self.city),
            ("vat_id or tax_number", self.vat_id or self.tax_number), ("iban", self.iban),
            ("contact_name", self.contact_name), ("contact_phone", self.contact_phone), ("contact_email", self.contact_email),
        ]  # fmt: skip
        if 0 in vat_rates:
            needed.append(("vat_exemption_reason", self.vat_exemption_reason))
        return [name for name, value in needed if not value]


class SellerAnswer(Answer):
    seller: Seller
    missing: Annotated[list[str], Meta(description="Fields that an invoice needs and that are not set.")]


class MobilityError(Error, kw_only=True):
    """An error of the mobility area."""

    missing: (
        Annotated[list[str], Meta(description="409 of an invoice: the seller's fields, or rules, that it lacks.")]
        | UnsetType
    ) = UNSET


# Choice 31: the seller's data are settings of the organisation.
@get("/v2/mobility/seller", scope="mobility:read", errors=_ERRORS, example=wire.SELLER)
async def get_seller(call: Call, query: OrganizationQuery) -> SellerAnswer:
    """Read how the organisation stands on its invoices, and what is still missing."""
    return await call.read(show, call.principal.organization(query.organization_id))


@put(
    "/v2/mobility/seller",
    scope="mobility:write",
    role="admin",
    errors=_ERRORS,
    body_example=wire.NEW_SELLER,
    example=wire.SELLER,
)
async def save_seller(call: Call, query: OrganizationQuery, body: Seller) -> SellerAnswer:
    """Set the organisation's name, address, tax numbers, bank account and invoice numbers, all at once.

    A field that is left out is gone, not kept. Invoices that were issued stay as they are.
    """
    organization_id = call.principal.organization(query.organization_id)
    # In a thread: the first check loads registers of countries and banks.
    checked = await asyncio.to_thread(check, body)
    return await call.commit(save, organization_id, checked, call.actor)


def check(seller: Seller) -> Seller:
    """Returns the record with IBAN and BIC in their stored form. Raises BadRequest if a code cannot exist.

    Stored records are not re-validated.
    """
    check_codes(seller.country_code, seller.vat_id)
    seller.iban = _check_code("iban", seller.iban)
    seller.bic = _check_code("bic", seller.bic)
    return seller


def _check_code(field: Literal["iban", "bic"], text: str | None) -> str | None:
    if text is None:
        return None
    # Imported late: its registry of all banks is not needed when the service starts.
    from schwifty import BIC, IBAN
    from schwifty.exceptions import SchwiftyException

    plain = re.sub(r"\s", "", text)
    try:
        return str((IBAN(plain) if field == "iban" else BIC(plain)).compact)
    except SchwiftyException as error:
        sentence = (
            said("The field `{field}` is not a valid IBAN: {why}.", field=field, why=error)
            if field == "iban"
            else said("The field `{field}` is not a valid BIC: {why}.", field=field, why=error)
        )
        raise BadRequest(sentence, field=field) from None


def save(tx: Tx, organization_id: str, seller: Seller, actor: Actor) -> SellerAnswer:
    """Replaces the whole record. Invoices keep what they were made with; the audit log records who changed what."""
    before = load_locked(tx, organization_id)
    tx.run(
        "INSERT INTO mobility_sellers (organization_id, record, created_at, updated_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET record = excluded.record, updated_at = excluded.updated_at",
        organization_id, encode(seller).decode(), tx.now, tx.now,
    )  # fmt: skip
    changed = {
        name: getattr(seller, name)
        for name in seller.__struct_fields__
        if getattr(seller, name) != getattr(before, name)
    }
    audit.record(tx, organization_id, actor, "mobility.seller", organization_id, **changed)
    return _view(seller)


def show(tx: Tx, organization_id: str) -> SellerAnswer:
    return _view(load(tx, organization_id))


def load(tx: Tx, organization_id: str) -> Seller:
    """Returns what is set so far; every field may be missing."""
    row = tx.one("SELECT record FROM mobility_sellers WHERE organization_id = ?", organization_id)
    return decode(row[0]) if row else Seller()


def load_locked(tx: Tx, organization_id: str) -> Seller:
    """The same for whoever writes it back changed: no other change comes in between."""
    tx.lock("mobility_seller", organization_id)
    return load(tx, organization_id)


def decode(record: str) -> Seller:
    """Returns a stored record. It was checked before: a stricter rule of today must not make an old invoice unreadable."""
    stored = msgspec.json.decode(record, type=dict[str, Any])
    return Seller(**{name: value for name, value in stored.items() if name in Seller.__struct_fields__})


def _view(seller: Seller) -> SellerAnswer:
    return SellerAnswer(seller=seller, missing=seller.missing_fields(set()))


def take_next_number(tx: Tx, organization_id: str, series: str) -> int:
    """Returns the next number. Others wait until this transaction has ended; if it fails, the number stays free."""
    tx.run(
        "INSERT INTO mobility_numbers (organization_id, series, last_number) VALUES (?, ?, 0) ON CONFLICT DO NOTHING",
        organization_id, series,
    )  # fmt: skip
    tx.run(
        "UPDATE mobility_numbers SET last_number = last_number + 1 WHERE organization_id = ? AND series = ?",
        organization_id, series,
    )  # fmt: skip
    row = tx.one(
        "SELECT last_number FROM mobility_numbers WHERE organization_id = ? AND series = ?", organization_id, series
    )
    assert row is not None
    return int(row[0])


# --- The logo in the letterhead: checked by its content, kept as long as an invoice shows it

# Every invoice holds a copy.
MAX_LOGO_BYTES = 256 * 1024
MAX_LOGO_SIDE = 4_000
MAX_LOGO_PIXELS = 4_000_000
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


def check_logo(content: bytes) -> Logo:
    """Returns what the file is. Raises BadRequest if it is not a PNG or JPEG picture within the limits."""
    if len(content) > MAX_LOGO_BYTES:
        raise BadRequest(said("The logo may have at most {size} KiB.", size=MAX_LOGO_BYTES // 1024), field="logo")
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
    if not (0 < width <= MAX_LOGO_SIDE and 0 < height <= MAX_LOGO_SIDE and width * height <= MAX_LOGO_PIXELS):
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


def find_logo(tx: Tx, organization_id: str, sha256: str | None) -> Logo | None:
    if sha256 is None:
        return None
    found = _LOGOS.one(tx, "organization_id = ? AND sha256 = ?", organization_id, sha256)
    return None if found is None else found._replace(content=bytes(found.content))


def current_logo(tx: Tx, organization_id: str) -> Logo | None:
    """The one that the next invoice will show."""
    row = tx.one("SELECT logo_sha256 FROM mobility_sellers WHERE organization_id = ?", organization_id)
    return find_logo(tx, organization_id, row[0]) if row else None


def save_logo(tx: Tx, organization_id: str, logo: Logo | None, actor: Actor) -> None:
    """Sets or removes it. Invoices that were issued keep theirs."""
    record = encode(load_locked(tx, organization_id)).decode()
    before = current_logo(tx, organization_id)
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
