"""The seller's data: who an organisation is on its invoices, where it is paid, and how it numbers."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.mobility import codes
from kontobahn.mobility.facts import needed_of_seller, stored_seller
from kontobahn.mobility.model import Seller, SellerAnswer


def load(tx: Tx, organization_id: str) -> Seller:
    """What is set so far; all of it may be missing."""
    row = tx.one("SELECT record FROM mobility_sellers WHERE organization_id = ?", organization_id)
    return stored_seller(row[0]) if row else Seller()


def check(seller: Seller) -> Seller:
    """The record with IBAN and BIC as they are stored; BadRequest where one cannot be. What is stored is not doubted again."""
    codes.check(seller.country_code, seller.vat_id)
    seller.iban = _checked("iban", seller.iban)
    seller.bic = _checked("bic", seller.bic)
    return seller


def _checked(field: Literal["iban", "bic"], text: str | None) -> str | None:
    if text is None:
        return None
    # Its registry of all banks is read when it is needed, not when the service starts.
    from schwifty import BIC, IBAN
    from schwifty.exceptions import SchwiftyException

    plain = re.sub(r"\s", "", text)
    try:
        return str((IBAN(plain) if field == "iban" else BIC(plain)).compact)
    except SchwiftyException as error:
        raise BadRequest(f"The field `{field}` is not a valid {field.upper()}: {error}.", field=field) from None


def save(tx: Tx, organization_id: str, seller: Seller, actor: Actor) -> SellerAnswer:
    """Replace all of it. Invoices keep what they were made with; the audit log keeps who changed what."""
    before = load(tx, organization_id)
    record = msgspec.json.encode(seller).decode()
    tx.run(
        "INSERT INTO mobility_sellers (organization_id, record, created_at, updated_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (organization_id) DO UPDATE SET record = excluded.record, updated_at = excluded.updated_at",
        organization_id, record, tx.now, tx.now,
    )  # fmt: skip
    changed = {
        name: getattr(seller, name)
        for name in seller.__struct_fields__
        if getattr(seller, name) != getattr(before, name)
    }
    audit.record(tx, organization_id, actor, "mobility.seller", organization_id, **changed)
    return answer(seller)


def show(tx: Tx, organization_id: str) -> SellerAnswer:
    return answer(load(tx, organization_id))


def answer(seller: Seller) -> SellerAnswer:
    return SellerAnswer(seller=seller, missing=needed_of_seller(seller, set()))
