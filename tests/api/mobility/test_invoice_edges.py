"""The edges of invoices: nothing left to pay, what is credited from where, and what a validator would refuse."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from kontobahn.formats.cii import national
from kontobahn.mobility.invoices import store
from kontobahn.mobility.invoices.rules import Facts
from tests.harness import Service
from tests.mobility_builder import Shop, ticket

# What both engines do alike is tried on one: the statements are those of the other tests of invoices.
pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
DAY = 86_400


def facts(shop: Shop, invoice: dict[str, Any]) -> Facts:
    return shop.service.db.read_now(store.load, shop.owner.id, invoice["id"])[1]


def cancel(shop: Shop, customer_id: str, *holders: str) -> None:
    for item in shop.tickets(customer_id):
        if item["holder_reference"] in holders:
            shop.ok(shop.post(f"/tickets/{item['id']}/cancel"))


def test_each_line_names_the_invoice_that_it_credits(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("A"), ticket("B", vat_rate=19, price_in_cents=11_900, product="Stellplatz"))
    first = shop.invoice(customer_id)
    service.clock.advance(seconds=DAY)
    shop.add(customer_id, ticket("C", valid_from="2026-04"))
    second = shop.invoice(customer_id)
    cancel(shop, customer_id, "A", "B", "C")
    service.clock.advance(seconds=DAY)
    shop.add(customer_id, ticket("D", valid_from="2026-05", valid_to="2026-06", price_in_cents=99_900))
    third = facts(shop, shop.invoice(customer_id))
    assert third.credited == [
        (first["invoice_number"], date(2026, 3, 2)), (second["invoice_number"], date(2026, 3, 3)),
    ]  # fmt: skip
    assert [
        (line.position, line.holder_reference, line.amount_in_cents, line.credited_number) for line in third.lines
    ] == [
        (1, "D", 99_900, None),
        (2, "A", -6300, first["invoice_number"]),
        (3, "B", -11_900, first["invoice_number"]),
        (4, "C", -6300, second["invoice_number"]),
    ]
    assert [(item.vat_rate, item.amount_in_cents) for item in third.sums] == [(19, -11_900), (7, 87_300)]
    assert [line.net_in_cents for line in third.lines] == [93_365, -5888, -10_000, -5888]
    assert (third.period, third.due_on) == ((date(2026, 3, 1), date(2026, 6, 30)), date(2026, 3, 18))


@pytest.mark.parametrize(
    ("price", "kind", "due_on"),
    [(6300, "invoice", None), (6301, "invoice", "2026-03-16"), (6299, "correction", None)],
)
def test_what_comes_to_nothing_is_an_invoice_without_a_day_to_pay(
    service: Service, price: int, kind: str, due_on: str | None
) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("A"))
    shop.invoice(customer_id)
    cancel(shop, customer_id, "A")
    shop.add(customer_id, ticket("B", price_in_cents=price))
    made = shop.invoice(customer_id)
    assert (made["type"], made["amount_in_cents"], made["due_on"]) == (kind, price - 6300, due_on)


def test_what_a_validator_would_refuse_takes_no_number(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(service)
    reached, unknown = shop.customer(ticket()), shop.customer(ticket(), email=None)
    broken = [national.Violation("BR-DE-1", "payment instructions (BG-16) are missing")]
    monkeypatch.setattr(national, "violations", lambda xml: broken)
    refused = shop.post(f"/customers/{reached}/invoice")
    assert (refused.status_code, refused.json()["missing"]) == (409, ["BR-DE-1"])
    assert shop.invoice(unknown)["invoice_number"] == "RE-2026-00001", "XRechnung needs an address to send it to"
    monkeypatch.undo()
    assert shop.invoice(reached)["invoice_number"] == "RE-2026-00002"
