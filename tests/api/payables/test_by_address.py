"""An invoice that is sent by its address: fetched once, named after it, and refused with the address as the field."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kontobahn.outbound import Rule
from tests.harness import Service
from tests.received_invoices import Inbox, as_xml
from tests.receiver import Answer, Delivered, Receiver

BY_ADDRESS = "/v2/payables/files/by-address"


def _files(delivered: Delivered) -> Answer:
    if ".xml" not in delivered.path:
        return Answer(404)
    return Answer(200, body=as_xml())


@pytest.mark.either_engine
def test_an_invoice_is_fetched_from_its_address(service: Service) -> None:
    inbox, files = Inbox(service), Receiver(_files)
    at = f"http://127.0.0.1:{files.port}"

    def send(address: str, key: str = "", **options: Any) -> httpx.Response:
        body = {"address": address, **options.pop("body", {})}
        return service.post(BY_ADDRESS, key or inbox.owner.key, json=body, params=options)

    def name_of(payable: dict[str, Any]) -> str:
        disposition = service.get(f"/v2/payables/{payable['id']}/file", inbox.owner.key).headers["content-disposition"]
        return str(disposition)

    forbidden = send(f"{at}/RE-7.xml")
    assert (forbidden.status_code, forbidden.json()["field"]) == (400, "address")
    assert files.deliveries == [], "an address of our own network is not even asked"
    service.application.outbound.rule = Rule(frozenset({("127.0.0.1", files.port)}))
    missing = send(f"{at}/RE-7.pdf")
    assert (missing.status_code, missing.json()["field"]) == (409, "address")
    assert "404" in missing.json()["error"]
    assert service.get("/v2/payables", inbox.owner.key).json()["data"] == []

    stranger, agency = service.organization("Andere GmbH"), service.agency(inbox.owner)
    assert send(f"{at}/x.xml", stranger.key, organization_id=inbox.owner.id).status_code == 404
    made = send(f"{at}/post/R%C3%A9-7.xml?token=secret", agency.key, organization_id=inbox.owner.id)
    assert made.status_code == 201, made.text
    [payable] = service.get("/v2/payables", inbox.owner.key).json()["data"]
    assert payable["id"] == made.json()["data"]["id"], "it is the client's, not the agency's"
    assert "R%C3%A9-7.xml" in name_of(payable)
    assert "token" not in name_of(payable)
    again = send(f"{at}/other.xml", body={"file_name": "kaffee.xml"})
    assert (again.status_code, again.json()["data"]["id"]) == (200, payable["id"])
    assert send("http://127.0.0.1:1/RE-7.xml").status_code == 400


@pytest.mark.either_engine
def test_a_file_at_an_address_is_bounded(service: Service) -> None:
    inbox, files = Inbox(service), Receiver(lambda _: Answer(200, body=b"x" * 20_000_001))
    service.application.outbound.rule = Rule(frozenset({("127.0.0.1", files.port)}))
    answer = service.post(BY_ADDRESS, inbox.owner.key, json={"address": f"http://127.0.0.1:{files.port}/large.xml"})
    assert answer.status_code in (409, 413)
    assert service.get("/v2/payables", inbox.owner.key).json()["data"] == []
