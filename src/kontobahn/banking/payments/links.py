"""Signed addresses of our own pages for a payer: they need no API key, open only one order, and expire at a given time.

The signature is made with a key of this installation, so nothing about a link is stored and none can be guessed or altered.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import struct
import uuid
from typing import Literal, NamedTuple

from kontobahn.api.call import Context
from kontobahn.banking.interaction import RETURN_PATH
from kontobahn.banking.payments.rules import AWAITING_PAYER
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.provider import Banking
from kontobahn.clock import DAY
from kontobahn.vault import Vault

PATH = "/banking/orders"
RETURN_LIFETIME = 30 * DAY
Kind = Literal["payment", "file"]
_KINDS: tuple[Kind, ...] = ("payment", "file")
# Kind, organisation, number, end in microseconds.
_CONTENT = struct.Struct(">B16sQQ")
_SIGNATURE_BYTES = 16


class Link(NamedTuple):
    """The content of a link: what it opens, and until when, however often it is used."""

    kind: Kind
    organization_id: str
    id: int
    ends_at: int


def make_token(vault: Vault, link: Link) -> str:
    organization = uuid.UUID(link.organization_id).bytes
    content = _CONTENT.pack(_KINDS.index(link.kind), organization, link.id, link.ends_at)
    return base64.urlsafe_b64encode(content + _signature(vault, content)).rstrip(b"=").decode()


def read_token(vault: Vault, token: str, now: int) -> Link | None:
    """Returns what a token of ours opens; None if it is not ours, was altered, or has expired."""
    try:
        raw = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    content, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
    if len(content) != _CONTENT.size or not hmac.compare_digest(signature, _signature(vault, content)):
        return None
    kind, organization, number, ends_at = _CONTENT.unpack(content)
    return None if ends_at <= now else Link(_KINDS[kind], str(uuid.UUID(bytes=organization)), number, ends_at)


def url_of(context: Context, link: Link) -> str:
    return f"{context.settings.base_url}{PATH}/{make_token(context.vault, link)}"


def way_back(context: Context, row: PaymentRow) -> tuple[str, str]:
    """Returns the address that the payer of a payment is sent back to, and the `state` by which the page there recognises the payment."""
    link = Link("payment", row.organization_id, row.id, row.created_at + RETURN_LIFETIME)
    return f"{context.settings.base_url}{RETURN_PATH}/{row.provider}", make_token(context.vault, link)


class PayerAddress(NamedTuple):
    url: str | None
    expires_at: int | None


def payer_address(context: Context, row: PaymentRow) -> PayerAddress:
    """Returns where the payer continues with a payment, and until when; nothing if there is nothing left for the payer to do."""
    # An order in a file with others is uploaded with that file, which has a page of its own.
    is_open = row.status in AWAITING_PAYER and row.provider_ref is not None and row.order_file_id is None
    if not is_open or (row.expires_at is not None and row.expires_at <= context.clock.now()):
        return PayerAddress(None, None)
    if row.expires_at is not None and context.part(Banking).provider(row.provider).orders_are_files:
        link = Link("payment", row.organization_id, row.id, row.expires_at)
        return PayerAddress(url_of(context, link), row.expires_at)
    return PayerAddress(row.payment_url, row.expires_at)


def _signature(vault: Vault, content: bytes) -> bytes:
    return hmac.digest(vault.derive("order links"), content, hashlib.sha256)[:_SIGNATURE_BYTES]
