"""The demo's tickets: the demo organisation sells job tickets to one company with open tickets, and to one without.

The first customer's tickets are for this month and the last: several products, both VAT rates, discounts, employer's shares
and an annual ticket.
"""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from kontobahn.access.audit import Actor
from kontobahn.bank_providers.sandbox.rules import COMPANY, Bank
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.demo.trade import TICKET_CUSTOMER
from kontobahn.mobility import customers, seller
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.seller import Seller
from kontobahn.mobility.tickets import NewTicket, TicketReport, merge

_SEED = 20_260_301
_EMPLOYEES = 34
_SELLER = Seller(
    name=COMPANY,
    street="Beispielallee 12",
    postal_code="10115",
    city="Berlin",
    vat_id="DE123456788",
    tax_number="37/123/45678",
    contact_name="Firmenkundenservice",
    contact_phone="+49 30 5550100",
    contact_email="firmenkunden@demo-handel.example",
    website="www.demo-handel.example",
    register_entry="Amtsgericht Charlottenburg, HRB 999999",
    managing_directors="Geschäftsführung: Dana Demo",
    # Apart from those of its goods.
    invoice_number_prefix="JT-{year}-",
)


class DemoMobility(NamedTuple):
    customer_id: str
    empty_customer_id: str

    def facts(self) -> dict[str, Any]:
        return self._asdict()


def build_mobility(tx: Tx, organization_id: str, iban: str, bank: Bank) -> DemoMobility:
    """Invoices are to be paid to this account."""
    own = msgspec.structs.replace(_SELLER, iban=iban, bic=bank.bic, bank_name=bank.name)
    seller.save(tx, organization_id, own, Actor("demo"))
    factory = customers.create(
        tx,
        organization_id,
        NewCustomer(
            name=TICKET_CUSTOMER,
            street="Industriestraße 12",
            postal_code="70565",
            city="Stuttgart",
            mobility_customer_id="MOB-4711",
            email="rechnungseingang@krueger-soehne.example",
        ),
    )
    empty = customers.create(
        tx,
        organization_id,
        NewCustomer(name="Stadtverwaltung Musterstadt", street="Rathausplatz 1", postal_code="12345", city="Musterstadt",
                    buyer_reference="04011000-12345-03"),
    )  # fmt: skip
    result = merge(tx, organization_id, factory.id, [TicketReport(new) for new in _tickets(tx)], repeats=False)
    assert not result.refused
    return DemoMobility(factory.id, empty.id)


def _tickets(tx: Tx) -> list[NewTicket]:
    rng = random.Random(_SEED)
    today = berlin_date(tx.now)
    this_month = f"{today:%Y-%m}"
    last_month = f"{today.replace(day=1) - timedelta(days=1):%Y-%m}"
    found = []
    for number in range(1, _EMPLOYEES + 1):
        holder = f"PN-{20_000 + 17 * number}"
        months = (last_month, this_month) if number <= 6 else (this_month,)
        for month in months:
            if rng.random() < 0.7:
                # Discounted by 5 %, as the employer bears at least a quarter of the price.
                found.append(
                    NewTicket(product="Deutschlandticket Job", holder_reference=holder, valid_from=month, price_in_cents=6300,
                              discount_in_cents=315, employer_share_in_cents=rng.choice((1575, 3000, 5985)), vat_rate=7)
                )  # fmt: skip
            else:
                found.append(
                    NewTicket(product="Firmenticket Region AB", holder_reference=holder, valid_from=month, price_in_cents=8650,
                              employer_share_in_cents=rng.choice((None, 4325)), vat_rate=7)
                )  # fmt: skip
        if number % 9 == 0:
            found.append(NewTicket(product="Stellplatz Park + Ride", holder_reference=holder, valid_from=this_month,
                                   price_in_cents=3500, vat_rate=19))  # fmt: skip
    found.append(
        NewTicket(product="Fahrradabo", holder_reference="PN-20901", valid_from=f"{today.year}-01", valid_to=f"{today.year}-12",
                  price_in_cents=9900, vat_rate=7)
    )  # fmt: skip
    return found
