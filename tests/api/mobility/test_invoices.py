"""The collective invoice: everything that is open, once, under a number without gaps, to the cent."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from kontobahn.db import Tx
from tests.harness import Service
from tests.mobility_builder import MOBILITY, SELLER, Shop, ticket


def test_an_invoice_has_the_contract_s_fields(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("PN-1"), ticket("PN-2", discount_in_cents=315))
    made = shop.post(f"/customers/{customer_id}/invoice")
    assert made.status_code == 201
    invoice = made.json()
    assert invoice == {
        "id": invoice["id"],
        "organization_id": shop.owner.id,
        "customer_id": customer_id,
        "mobility_invoice_id": invoice["id"],
        "invoice_number": "RE-2026-00001",
        "invoice_pdf_url": f"{service.base_url}{MOBILITY}/invoices/{invoice['id']}/pdf",
        "amount_in_cents": 12285,
        "ticket_count": 2,
        "invoiced_at": "2026-03-02T09:00:00Z",
        "created_at": "2026-03-02T09:00:00Z",
    }
    assert shop.get("/invoices").json() == [invoice]
    assert shop.service.balance(shop.owner).available == 100
    assert {item["status"] for item in shop.tickets(customer_id)} == {"invoiced"}
    assert {item["invoice_id"] for item in shop.tickets(customer_id)} == {invoice["id"]}
    assert service.get(invoice["invoice_pdf_url"]).status_code == 401, "behind the key"
    assert service.get(invoice["invoice_pdf_url"], shop.key).content.startswith(b"%PDF-1.7")


def test_sums_are_by_rate_and_rounded_once(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(
        *(ticket(f"PN-{number}") for number in range(3)),
        ticket("PN-8", product="Stellplatz", price_in_cents=3500, vat_rate=19),
        ticket("PN-9", product="Schulung", price_in_cents=1000, vat_rate=0),
    )
    invoice = shop.invoice(customer_id)
    # 18900 x 7/107 = 1236.4; 3500 x 19/119 = 558.8, of which 2941 is the net amount: 2941 x 0.19 = 558.8.
    assert invoice["vat_sums"] == [
        {"vat_rate": 19, "net_in_cents": 2941, "vat_in_cents": 559, "rounding_in_cents": 0, "amount_in_cents": 3500},
        {"vat_rate": 7, "net_in_cents": 17664, "vat_in_cents": 1236, "rounding_in_cents": 0, "amount_in_cents": 18900},
        {"vat_rate": 0, "net_in_cents": 1000, "vat_in_cents": 0, "rounding_in_cents": 0, "amount_in_cents": 1000},
    ]
    assert (invoice["net_in_cents"], invoice["vat_in_cents"], invoice["amount_in_cents"]) == (21605, 1795, 23400)
    assert sum(line["net_in_cents"] for line in invoice["lines"]) == invoice["net_in_cents"]
    assert (invoice["issued_on"], invoice["due_on"], invoice["type"]) == ("2026-03-02", "2026-03-16", "invoice")


@pytest.mark.either_engine
def test_nothing_to_invoice_is_409_and_takes_no_number(service: Service) -> None:
    shop = Shop(service)
    empty = shop.customer()
    refused = shop.post(f"/customers/{empty}/invoice")
    assert refused.status_code == 409
    assert "nothing to invoice" in refused.json()["error"]
    customer_id = shop.customer(ticket())
    assert shop.invoice(customer_id)["invoice_number"] == "RE-2026-00001"
    assert shop.post(f"/customers/{customer_id}/invoice").status_code == 409
    shop.add(customer_id, ticket(valid_from="2026-04"))
    assert shop.invoice(customer_id)["invoice_number"] == "RE-2026-00002"


@pytest.mark.either_engine
def test_a_body_is_refused(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket())
    assert shop.post(f"/customers/{customer_id}/invoice", {"due": "now"}).status_code == 400
    assert shop.get("/invoices").json() == []


async def _all_at_once(service: Service, key: str, paths: list[str]) -> list[tuple[int, Any]]:
    async with aiohttp.ClientSession(service.base_url, headers={"x-api-key": key}) as http:

        async def call(path: str) -> tuple[int, Any]:
            async with http.post(MOBILITY + path) as response:
                return response.status, await response.json()

        return await asyncio.gather(*(call(path) for path in paths))


def test_fifty_calls_at_once_make_one_invoice(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(*(ticket(f"PN-{number}") for number in range(20)))
    answers = asyncio.run(_all_at_once(service, shop.key, [f"/customers/{customer_id}/invoice"] * 50))
    statuses = [status for status, _ in answers]
    assert (statuses.count(201), statuses.count(409)) == (1, 49)
    (invoice,) = shop.get("/invoices").json()
    assert (invoice["ticket_count"], invoice["amount_in_cents"]) == (20, 126_000)
    assert shop.count("mobility_invoice_lines") == 20


def test_numbers_have_no_gaps_however_many_customers_are_billed_at_once(service: Service) -> None:
    shop = Shop(service)
    customers = [shop.customer(ticket()) for _ in range(8)]
    empty = [shop.customer() for _ in range(8)]
    paths = [f"/customers/{customer_id}/invoice" for pair in zip(customers, empty, strict=True) for customer_id in pair]
    answers = asyncio.run(_all_at_once(service, shop.key, paths))
    numbers = sorted(body["invoice_number"] for status, body in answers if status == 201)
    assert numbers == [f"RE-2026-{number:05d}" for number in range(1, 9)]
    other = Shop(service)
    assert other.invoice(other.customer(ticket()))["invoice_number"] == "RE-2026-00001", "each organisation has its own"


def test_a_repeated_call_is_replayed_for_weeks(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket())
    headers = {"Idempotency-Key": "march"}
    first = shop.post(f"/customers/{customer_id}/invoice", headers=headers)
    shop.add(customer_id, ticket(valid_from="2026-04"))
    service.clock.advance(seconds=29 * 86_400)
    again = shop.post(f"/customers/{customer_id}/invoice", headers=headers)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(shop.get("/invoices").json()) == 1


def test_a_cancelled_ticket_is_credited_on_the_next_invoice_and_once(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("PN-1"), ticket("PN-2", price_in_cents=1000))
    first = shop.invoice(customer_id)
    cancelled = next(item for item in shop.tickets(customer_id) if item["holder_reference"] == "PN-2")
    assert shop.ok(shop.post(f"/tickets/{cancelled['id']}/cancel"))["invoice_id"] == first["id"]
    shop.add(customer_id, ticket("PN-1", valid_from="2026-04"))
    second = shop.invoice(customer_id)
    assert (second["amount_in_cents"], second["ticket_count"], second["type"]) == (5300, 2, "invoice")
    assert [(line["amount_in_cents"], line["credited_invoice_number"]) for line in second["lines"]] == [
        (6300, None),
        (-1000, first["invoice_number"]),
    ]
    after = next(item for item in shop.tickets(customer_id) if item["id"] == cancelled["id"])
    assert (after["status"], after["invoice_id"], after["credit_invoice_id"]) == ("credited", first["id"], second["id"])
    assert shop.ok(shop.post(f"/tickets/{cancelled['id']}/cancel")) == after
    assert shop.post(f"/customers/{customer_id}/invoice").status_code == 409


def test_more_credit_than_charge_is_a_correction(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("PN-1"), ticket("PN-2", product="Stellplatz", price_in_cents=3500, vat_rate=19))
    shop.invoice(customer_id)
    for item in shop.tickets(customer_id):
        shop.post(f"/tickets/{item['id']}/cancel")
    shop.add(customer_id, ticket("PN-3", price_in_cents=1000))
    correction = shop.invoice(customer_id)
    assert (correction["type"], correction["amount_in_cents"], correction["due_on"]) == ("correction", -8800, None)
    assert correction["invoice_number"] == "RE-2026-00002", "of the same series"
    xml = shop.document(correction, "xml").decode()
    assert "<ram:TypeCode>381</ram:TypeCode>" in xml
    assert "<ram:DuePayableAmount>88.00</ram:DuePayableAmount>" in xml
    assert "<ram:IssuerAssignedID>RE-2026-00001</ram:IssuerAssignedID>" in xml


@pytest.mark.either_engine
def test_seller_s_data_that_are_missing_are_named_and_take_no_number(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket(), ticket("PN-2", vat_rate=0))
    names = ("name", "street", "postal_code", "city", "iban", "contact_name", "contact_phone", "contact_email",
             "vat_exemption_reason")  # fmt: skip
    for name in names:
        shop.ok(shop.put("/seller", {**SELLER, name: None}))
        refused = shop.post(f"/customers/{customer_id}/invoice")
        assert (refused.status_code, refused.json()["missing"]) == (409, [name])
        assert name in refused.json()["error"]
    shop.ok(shop.put("/seller", {}))
    assert shop.post(f"/customers/{customer_id}/invoice").json()["missing"] == [
        "name", "street", "postal_code", "city", "vat_id or tax_number", "iban", "contact_name", "contact_phone",
        "contact_email", "vat_exemption_reason",
    ]  # fmt: skip
    assert {item["status"] for item in shop.tickets(customer_id)} == {"open"}
    for number, tax in enumerate(({"vat_id": None}, {"tax_number": None}), 1):
        shop.ok(shop.put("/seller", {**SELLER, **tax}))
        shop.add(customer_id, ticket(valid_from=f"2027-0{number}"))
        assert shop.invoice(customer_id)["invoice_number"] == f"RE-2026-0000{number}"


def test_invoices_are_listed_by_customer_and_day(service: Service) -> None:
    shop = Shop(service)
    one, two = shop.customer(ticket()), shop.customer(ticket())
    first = shop.invoice(one)
    service.clock.advance(seconds=86_400)
    second = shop.invoice(two)

    def numbers(**query: str) -> list[str]:
        return [item["invoice_number"] for item in shop.ok(shop.get("/invoices", **query))]

    both = [first["invoice_number"], second["invoice_number"]]
    assert numbers() == both
    assert numbers(customer_id=two) == both[1:]
    assert numbers(from_date="2026-03-03") == both[1:]
    assert numbers(to_date="2026-03-02") == both[:1]
    assert numbers(from_date="2026-03-02", to_date="2026-03-03") == both
    assert numbers(customer_id=one, from_date="2026-03-03") == []
    assert shop.get("/invoices", from_date="gestern").json()["field"] == "from_date"
    assert shop.get("/invoices", customer_id="0193b2a0-0000-7000-8000-00000000abcd").status_code == 404


def test_a_series_with_the_year_in_it_starts_anew(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket())
    assert shop.invoice(customer_id)["invoice_number"] == "RE-2026-00001"
    service.clock.advance(seconds=304 * 86_400 + 14.5 * 3600)
    shop.add(customer_id, ticket(valid_from="2027-01"))
    # 23:30 on 31 December in UTC is 2027 in Berlin.
    invoice = shop.invoice(customer_id)
    assert (invoice["invoice_number"], invoice["issued_on"]) == ("RE-2027-00001", "2027-01-01")
    shop.ok(shop.put("/seller", {**SELLER, "invoice_number_prefix": "J/", "invoice_number_digits": 3}))
    shop.add(customer_id, ticket(valid_from="2027-02"))
    assert shop.invoice(customer_id)["invoice_number"] == "J/001"
    shop.ok(shop.put("/seller", {**SELLER, "invoice_number_prefix": "J/0", "invoice_number_digits": 2}))
    shop.add(customer_id, ticket(valid_from="2027-03"))
    taken = shop.post(f"/customers/{customer_id}/invoice")
    assert (taken.status_code, taken.json()["field"]) == (409, "invoice_number_prefix")


def test_an_invoice_is_never_changed(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket())
    invoice = shop.invoice(customer_id)
    before = [shop.document(invoice, kind) for kind in ("pdf", "xml")]
    shop.ok(shop.put("/seller", {**SELLER, "name": "Ganz Anders AG", "iban": "DE89370400440532013000"}))
    shop.ok(
        shop.put(f"/customers/{customer_id}", {"name": "Umbenannt", "street": "A 1", "postal_code": "1", "city": "B"})
    )
    assert [shop.document(invoice, kind) for kind in ("pdf", "xml")] == before
    assert shop.ok(shop.get(f"/invoices/{invoice['id']}")) == invoice
    for table in ("mobility_invoices", "mobility_invoice_lines", "mobility_invoice_sums", "mobility_documents"):
        for statement in (f"UPDATE {table} SET organization_id = 'x'", f"DELETE FROM {table}"):

            def tamper(tx: Tx, sql: str = statement) -> None:
                tx.run(sql)

            with pytest.raises(Exception, match="append-only"):
                service.db.write_now(tamper)
