"""Random invoices for hypothesis, and the plain ones that tests start from."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import msgspec
from hypothesis import strategies as st

from kontobahn.formats.invoices.model import CREDIT_NOTE, INVOICE
from kontobahn.mobility import seller as sellers
from kontobahn.mobility.invoices.rules import Buyer, Facts, Line, Sum, split_vat
from kontobahn.mobility.seller import Seller
from tests.mobility_builder import SELLER

DAY = date(2026, 3, 2)
BUYER = Buyer(
    customer_number="K10001", name="Krüger & Söhne GmbH", street="Industriestraße 12", postal_code="70565", city="Stuttgart",
    country_code="DE", email="rechnung@krueger.example", buyer_reference=None, vat_id=None,
)  # fmt: skip
_text = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=30)


def seller(**more: Any) -> Seller:
    return sellers.check(msgspec.convert({**SELLER, **more}, Seller))


def line(amount: int = 6_300, rate: int = 7, **more: Any) -> dict[str, Any]:
    return {
        "ticket_id": "t", "reference": None, "product": "Deutschlandticket Job", "holder_reference": "PN-1",
        "valid_from": "2026-03", "valid_to": "2026-03", "price_in_cents": abs(amount), "discount_in_cents": 0,
        "employer_share_in_cents": None, "vat_rate": rate, "amount_in_cents": amount,
        "credited_number": "RE-2025-00007" if amount < 0 else None, "credited_on": "2025-12-01" if amount < 0 else None, **more,
    }  # fmt: skip


def make(*lines: dict[str, Any], by: Seller | None = None, to: Buyer = BUYER, number: str = "RE-2026-00001") -> Facts:
    """Returns facts as issuing freezes them."""
    nets, sums = [0] * len(lines), []
    for rate in sorted({item["vat_rate"] for item in lines}, reverse=True):
        places = [place for place, item in enumerate(lines) if item["vat_rate"] == rate]
        prices = [lines[place]["amount_in_cents"] for place in places]
        parts = split_vat(prices, rate)
        for place, net in zip(places, parts.line_nets, strict=True):
            nets[place] = net
        sums.append(Sum(rate, parts.net, parts.vat, parts.rounding, sum(prices)))
    total = sum(item["amount_in_cents"] for item in lines)
    return Facts(
        number, CREDIT_NOTE if total < 0 else INVOICE, DAY, DAY + timedelta(days=14) if total > 0 else None, by or seller(), to,
        [Line(position=place + 1, net_in_cents=nets[place], **item) for place, item in enumerate(lines)], sums,
    )  # fmt: skip


@st.composite
def _lines(draw: st.DrawFn) -> dict[str, Any]:
    price = draw(st.integers(0, 20_000))
    discount = draw(st.integers(0, price))
    first = draw(st.integers(1, 12))
    share = draw(st.none() | st.integers(0, price - discount))
    sign = draw(st.sampled_from((1, 1, 1, -1)))
    return line(
        sign * (price - discount), draw(st.sampled_from((0, 7, 7, 19))), price_in_cents=price, discount_in_cents=discount,
        employer_share_in_cents=share, product=draw(st.sampled_from(("Deutschlandticket Job", "Stellplatz")) | _text),
        holder_reference=draw(_text), reference=draw(st.none() | _text), valid_from=f"2026-{first:02d}",
        valid_to=f"2026-{draw(st.integers(first, 12)):02d}",
    )  # fmt: skip


@st.composite
def random_invoices(draw: st.DrawFn) -> Facts:
    lines = draw(st.lists(_lines(), min_size=1, max_size=draw(st.sampled_from((3, 12, 60)))))
    buyer = msgspec.structs.replace(
        BUYER, name=draw(_text), city=draw(_text), email=draw(st.sampled_from((None, "rechnung@krueger.example"))),
        buyer_reference=draw(st.sampled_from((None, "04011000-12345-03", "Kostenstelle 7"))),
        vat_id=draw(st.sampled_from((None, "DE136695976"))),
    )  # fmt: skip
    selling = seller(
        bic=draw(st.sampled_from((None, "BYLADEM1001"))), tax_number=draw(st.sampled_from((None, "37/123/45678")))
    )
    return make(*lines, by=selling, to=buyer)
