"""The seller's data: a setting of the organisation that says what is missing, and that only an administrator changes."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import audit, keys
from tests.harness import ACTOR, Service
from tests.mobility_builder import MOBILITY, SELLER, Shop

SELLER_PATH = f"{MOBILITY}/seller"


def test_the_seller_s_data_are_kept_whole(service: Service) -> None:
    owner = service.organization()
    empty = service.get(SELLER_PATH, owner.key).json()
    assert empty["missing"] == [
        "name", "street", "postal_code", "city", "vat_id or tax_number", "iban", "contact_name", "contact_phone",
        "contact_email",
    ]  # fmt: skip
    assert empty["seller"]["invoice_number_prefix"] == "RE-{year}-"
    shop = Shop(service, owner)
    found = shop.ok(shop.get("/seller"))
    assert found["missing"] == []
    assert found["seller"]["iban"] == "DE02120300000000202051", "without blanks"
    assert {name: found["seller"][name] for name in SELLER} == {**SELLER, "iban": "DE02120300000000202051"}
    less = shop.ok(shop.put("/seller", {"name": "Nur der Name"}))
    assert (less["seller"]["name"], less["seller"]["iban"]) == ("Nur der Name", None)
    entries = [item for item in service.db.read_now(audit.entries, owner.id) if item.action == "mobility.seller"]
    assert len(entries) == 2
    assert "DE02120300000000202051" in entries[0].details, "who changed the account can be found out"


@pytest.mark.either_engine
def test_only_an_administrator_changes_where_money_goes(service: Service) -> None:
    shop = Shop(service)
    member = service.db.write_now(keys.create, service.vault, shop.owner.id, "member", ACTOR, role="member")
    assert service.request("PUT", SELLER_PATH, member.secret, json=SELLER).status_code == 403
    assert service.get(SELLER_PATH, member.secret).status_code == 200


@pytest.mark.parametrize("engine", ["sqlite"])
def test_bad_input_names_the_field_and_writes_nothing(service: Service) -> None:
    shop = Shop(service)
    before = shop.get("/seller").json()
    bad: list[tuple[dict[str, Any], str]] = [
        ({"iban": "DE02120300000000202052"}, "iban"), ({"iban": "x"}, "iban"), ({"bic": "12"}, "bic"), ({"vat_id": "DE"}, "vat_id"),
        ({"tax_number": "abc"}, "tax_number"), ({"contact_email": "a@b"}, "contact_email"), ({"contact_phone": "12"}, "contact_phone"),
        ({"payment_days": -1}, "payment_days"), ({"invoice_number_prefix": "{month}"}, "invoice_number_prefix"),
        ({"invoice_number_digits": 0}, "invoice_number_digits"), ({"firma": "x"}, "firma"), ({"name": "x" * 71}, "name"),
    ]  # fmt: skip
    for change, field in bad:
        refused = shop.put("/seller", {**SELLER, **change})
        assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
    assert shop.get("/seller").json() == before
