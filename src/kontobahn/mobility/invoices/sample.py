"""An invoice that nobody gets: to find out whether a logo can be printed before the first real one needs it."""

from __future__ import annotations

from datetime import date

from kontobahn.formats.cii.invoice import INVOICE
from kontobahn.mobility.invoices.facts import Buyer, Facts, Line, Sum
from kontobahn.mobility.logos.logo import Logo
from kontobahn.mobility.seller import Seller

_DAY = date(2026, 1, 31)


def sample(logo: Logo) -> Facts:
    seller = Seller(
        name="Muster GmbH", street="Musterweg 1", postal_code="10115", city="Berlin", tax_number="37/123/45678",
        iban="DE02120300000000202051", contact_name="Erika Muster", contact_phone="030 1234567",
        contact_email="rechnung@muster.example",
    )  # fmt: skip
    buyer = Buyer(
        customer_number="K1", name="Beispiel GmbH", street="Beispielweg 2", postal_code="20095", city="Hamburg",
        country_code="DE", email=None, buyer_reference=None, vat_id=None,
    )  # fmt: skip
    line = Line(
        position=1, ticket_id="t", reference=None, product="Ticket", holder_reference="P1", valid_from="2026-01",
        valid_to="2026-01", price_in_cents=6300, discount_in_cents=0, employer_share_in_cents=None, vat_rate=7,
        amount_in_cents=6300, net_in_cents=5888, credited_number=None, credited_on=None,
    )  # fmt: skip
    return Facts("MUSTER", INVOICE, _DAY, _DAY, seller, buyer, [line], [Sum(7, 5888, 412, 0, 6300)], logo)
