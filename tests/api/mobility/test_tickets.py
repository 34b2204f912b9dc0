"""Tickets over HTTP: all added or none, one for a holder, product and month, cancelled once."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.mobility.customers import MAX_NEW_TICKETS
from tests.harness import Service
from tests.mobility_builder import Shop, ticket


def test_a_ticket_says_what_is_charged(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer()
    (made,) = shop.add(customer_id, ticket(discount_in_cents=315, employer_share_in_cents=1575, reference="A-1"))
    assert made == {
        "id": made["id"], "customer_id": customer_id, "reference": "A-1", "product": "Deutschlandticket Job",
        "holder_reference": "PN-1", "valid_from": "2026-03", "valid_to": "2026-03", "price_in_cents": 6300,
        "discount_in_cents": 315, "employer_share_in_cents": 1575, "amount_in_cents": 5985, "vat_rate": 7, "status": "open",
        "invoice_id": None, "credit_invoice_id": None, "created_at": "2026-03-02T09:00:00Z",
        "updated_at": "2026-03-02T09:00:00Z",
    }  # fmt: skip
    assert shop.tickets(customer_id) == [made]


def test_as_many_tickets_as_the_document_says_fit_one_call(service: Service) -> None:
    shop = Shop(service)
    tickets = [
        ticket(
            f"{number:0>64}", product="P" * 100, reference=f"R{number:0>63}", valid_to="2026-04",
            discount_in_cents=100, employer_share_in_cents=6200,
        )
        for number in range(MAX_NEW_TICKETS)
    ]  # fmt: skip
    customer_id = shop.customer()
    assert len(shop.add(customer_id, *tickets)) == MAX_NEW_TICKETS
    refused = shop.post(f"/customers/{customer_id}/tickets", {"tickets": [*tickets, ticket()]})
    assert (refused.status_code, refused.json()["field"]) == (400, "tickets")


@pytest.mark.parametrize("written", [6300.0, 6300])
def test_a_whole_number_of_cents_is_one_however_it_is_written(service: Service, written: float) -> None:
    shop = Shop(service)
    (made,) = shop.add(shop.customer(), ticket(price_in_cents=written, vat_rate=type(written)(7)))
    assert (made["price_in_cents"], made["vat_rate"]) == (6300, 7)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"price_in_cents": -1}, "price_in_cents"),
    ({"price_in_cents": 10.5}, "price_in_cents"),
    ({"price_in_cents": "6300"}, "price_in_cents"),
    ({"price_in_cents": 100_000_000}, "price_in_cents"),
    ({"vat_rate": 8}, "vat_rate"),
    ({"vat_rate": 19.5}, "vat_rate"),
    ({"valid_from": "2026-13"}, "valid_from"),
    ({"valid_from": "2026-03-01"}, "valid_from"),
    ({"valid_to": "2026-02"}, "valid_to"),
    ({"valid_to": "2028-03"}, "valid_to"),
    ({"discount_in_cents": 6301}, "discount_in_cents"),
    ({"discount_in_cents": 300, "employer_share_in_cents": 6001}, "employer_share_in_cents"),
    ({"holder_reference": ""}, "holder_reference"),
    ({"inhaber": "x"}, "inhaber"),
]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_bad_input_names_the_field_and_writes_nothing(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer()
    for change, field in BAD:
        body = {"tickets": [ticket("PN-0"), ticket(**change)]}
        refused = shop.post(f"/customers/{customer_id}/tickets", body)
        assert refused.status_code == 400, (change, refused.text)
        assert field in refused.json()["field"], change
    assert shop.tickets(customer_id) == []


OVERLAPS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({}, {"price_in_cents": 5800}),
    ({"valid_from": "2026-01", "valid_to": "2026-12"}, {}),
    ({}, {"valid_from": "2025-12", "valid_to": "2026-03"}),
    ({"reference": "A-1"}, {"reference": "A-2"}),
    ({"reference": "A-1"}, {"reference": "A-1", "valid_from": "2026-09"}),
]


@pytest.mark.either_engine
def test_overlapping_months_of_one_ticket_are_refused(service: Service) -> None:
    shop = Shop(service)
    for first, second in OVERLAPS:
        apart = shop.customer(ticket(**first))
        together = shop.customer()
        later = shop.post(f"/customers/{apart}/tickets", {"tickets": [ticket("PN-9"), ticket(**second)]})
        at_once = shop.post(f"/customers/{together}/tickets", {"tickets": [ticket(**first), ticket(**second)]})
        for refused in (later, at_once):
            assert (refused.status_code, refused.json()["field"]) == (409, "tickets[1]"), refused.text
        assert len(shop.tickets(apart)) == 1
        assert shop.tickets(together) == []


def test_what_does_not_overlap_is_added(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(
        ticket(), ticket(valid_from="2026-04", valid_to="2026-06"), ticket(product="Fahrradabo"), ticket("PN-2")
    )
    assert len(shop.tickets(customer_id)) == 4
    other = shop.customer(ticket())
    assert len(shop.tickets(other)) == 1


def test_a_cancelled_ticket_is_not_billed_and_makes_room(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer()
    (made,) = shop.add(customer_id, ticket())
    service.clock.advance(seconds=5)
    cancelled = shop.ok(shop.post(f"/tickets/{made['id']}/cancel"))
    assert (cancelled["status"], cancelled["updated_at"]) == ("cancelled", "2026-03-02T09:00:05Z")
    service.clock.advance(seconds=5)
    assert shop.ok(shop.post(f"/tickets/{made['id']}/cancel")) == cancelled, "the second time changes nothing"
    assert shop.post(f"/customers/{customer_id}/invoice").status_code == 409
    shop.add(customer_id, ticket())
    assert shop.invoice(customer_id)["ticket_count"] == 1


def test_tickets_are_added_once_under_an_idempotency_key(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer()
    headers = {"Idempotency-Key": "once"}
    first, again = (
        shop.post(f"/customers/{customer_id}/tickets", {"tickets": [ticket()]}, headers=headers) for _ in range(2)
    )
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(shop.tickets(customer_id)) == 1
