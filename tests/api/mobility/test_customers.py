"""Customers of transport tickets: exactly the contract's fields, and only one's own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness import Service
from tests.mobility_builder import CUSTOMER, MOBILITY, Shop, ticket

PLAIN = {name: CUSTOMER[name] for name in ("name", "street", "postal_code", "city")}


def test_a_customer_has_the_contract_s_fields_and_the_list_is_bare(service: Service) -> None:
    shop = Shop(service)
    assert shop.get("/customers").json() == []
    made = shop.post("/customers", PLAIN)
    assert made.status_code == 201
    customer = made.json()
    assert customer == {
        "id": customer["id"],
        "organization_id": shop.owner.id,
        "mobility_customer_id": None,
        "name": PLAIN["name"],
        "address_lines": {"street": PLAIN["street"], "postal_code": PLAIN["postal_code"], "city": PLAIN["city"]},
        "created_at": "2026-03-02T09:00:00Z",
        "updated_at": "2026-03-02T09:00:00Z",
    }
    second = shop.ok(shop.post("/customers", {**PLAIN, "mobility_customer_id": "MOB-1"}))
    assert second["mobility_customer_id"] == "MOB-1"
    assert shop.get("/customers").json() == [customer, second]
    assert shop.service.balance(shop.owner).available == 100, "all of it is free"


def test_a_customer_is_read_with_its_tickets(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(
        ticket("PN-2", valid_from="2026-04"), ticket("PN-1"), buyer_reference="04011000-12345-03"
    )
    found = shop.ok(shop.get(f"/customers/{customer_id}"))
    assert (found["customer_number"], found["buyer_reference"], found["country_code"]) == (
        "K10001",
        "04011000-12345-03",
        "DE",
    )
    assert [item["holder_reference"] for item in found["tickets"]] == ["PN-1", "PN-2"]
    assert shop.ok(shop.get(f"/customers/{customer_id.upper()}")) == found


def test_a_customer_is_replaced_whole(service: Service) -> None:
    shop = Shop(service)
    customer_id = shop.customer(mobility_customer_id="MOB-1")
    service.clock.advance(seconds=60)
    changed = shop.ok(shop.put(f"/customers/{customer_id}", {**PLAIN, "city": "Ulm"}))
    assert (changed["address_lines"]["city"], changed["mobility_customer_id"]) == ("Ulm", None)
    assert (changed["created_at"], changed["updated_at"]) == ("2026-03-02T09:00:00Z", "2026-03-02T09:01:00Z")
    assert shop.ok(shop.get(f"/customers/{customer_id}"))["email"] is None


def test_an_id_of_the_platform_belongs_to_one_customer(service: Service) -> None:
    shop = Shop(service)
    shop.customer(mobility_customer_id="MOB-1")
    refused = shop.post("/customers", {**PLAIN, "mobility_customer_id": "MOB-1"})
    assert (refused.status_code, refused.json()["field"]) == (409, "mobility_customer_id")
    other = shop.customer()
    assert shop.put(f"/customers/{other}", {**PLAIN, "mobility_customer_id": "MOB-1"}).status_code == 409
    elsewhere = Shop(service)
    elsewhere.customer(mobility_customer_id="MOB-1")


BAD: list[tuple[dict[str, Any], str]] = [
    ({"name": None}, "name"),
    ({"name": ""}, "name"),
    ({"name": "   "}, "name"),
    ({"name": "Zwei\nZeilen"}, "name"),
    ({"name": "Ende\n"}, "name"),
    ({"name": "x" * 71}, "name"),
    ({"street": "\u0007Glocke"}, "street"),
    ({"postal_code": 10115}, "postal_code"),
    ({"city": ["Berlin"]}, "city"),
    ({"email": "kein-at"}, "email"),
    ({"country_code": "Deutschland"}, "country_code"),
    ({"country_code": "ZZ"}, "country_code"),
    ({"vat_id": "123"}, "vat_id"),
    ({"vat_id": "DE12345678"}, "vat_id"),
    ({"vat_id": "DE1234567890"}, "vat_id"),
    ({"vat_id": "AT12345678"}, "vat_id"),
    ({"vat_id": "ZZ123456789"}, "vat_id"),
    ({"vat_id": "EU528002224"}, "vat_id"),
    ({"stadt": "Berlin"}, "stadt"),
    ({"adress_lines": {}}, "adress_lines"),
]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_bad_input_names_the_field_and_writes_nothing(service: Service) -> None:
    shop = Shop(service)
    for change, field in BAD:
        refused = shop.post("/customers", {**PLAIN, **change})
        assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
    for missing in PLAIN:
        refused = shop.post("/customers", {name: value for name, value in PLAIN.items() if name != missing})
        assert (refused.status_code, refused.json()["field"]) == (400, missing)
    assert shop.get("/customers").json() == []


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_vat_id_needs_the_form_of_its_country_and_no_check_digit(service: Service) -> None:
    shop = Shop(service)
    for vat_id in ("DE136695976", "DE123456789", "ATU12345678", "EL123456789", "XI123456789", "CHE107787577", "GB1234"):
        shop.customer(vat_id=vat_id)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_malformed_id_is_400_and_an_unknown_one_404(service: Service) -> None:
    shop = Shop(service)
    for path in ("/customers/{}", "/invoices/{}", "/invoices/{}/pdf", "/invoices/{}/xml"):
        assert shop.get(path.format("no-uuid")).status_code == 400
        assert shop.get(path.format("0193b2a0-0000-7000-8000-00000000abcd")).status_code == 404
    for path in ("/customers/{}/invoice", "/tickets/{}/cancel"):
        assert shop.post(path.format("no-uuid")).json()["field"] == "id"
        assert shop.post(path.format("0193b2a0-0000-7000-8000-00000000abcd")).status_code == 404


def test_an_agency_acts_for_its_clients_and_no_other(service: Service) -> None:
    shop, stranger = Shop(service), Shop(service)
    agency = service.agency(shop.owner)
    params = {"organization_id": shop.owner.id}
    made = service.post(f"{MOBILITY}/customers", agency.key, params=params, json=PLAIN)
    assert made.json()["organization_id"] == shop.owner.id
    own = service.post(f"{MOBILITY}/customers", agency.key, json=PLAIN)
    assert own.json()["organization_id"] == agency.id
    listed = service.get(f"{MOBILITY}/customers", agency.key).json()
    assert {item["organization_id"] for item in listed} == {shop.owner.id, agency.id}
    assert len(service.get(f"{MOBILITY}/customers", agency.key, params=params).json()) == 1
    outside = service.post(
        f"{MOBILITY}/customers", agency.key, params={"organization_id": stranger.owner.id}, json=PLAIN
    )
    assert outside.status_code == 403
