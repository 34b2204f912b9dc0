"""A seller with customers and tickets, made over HTTP, for the tests of the mobility area."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import httpx
from facturx import xml_check_xsd

from tests.harness import Organization, Service
from tests.invoice_corpus import schematron

SELLER: dict[str, Any] = {
    "name": "Verkehrsverbund Beispiel GmbH", "street": "Bahnhofsplatz 4", "postal_code": "10557", "city": "Berlin",
    "vat_id": "DE136695976", "tax_number": "37/123/45678", "iban": "DE02 1203 0000 0000 2020 51", "bic": "BYLADEM1001",
    "bank_name": "Beispielbank", "contact_name": "Firmenservice", "contact_phone": "+49 30 1234567",
    "contact_email": "firmen@verbund.example", "register_entry": "Amtsgericht Charlottenburg, HRB 12345",
    "vat_exemption_reason": "Umsatzsteuerfrei nach § 4 Nr. 17 UStG",
}  # fmt: skip
CUSTOMER: dict[str, Any] = {
    "name": "Krüger & Söhne GmbH", "street": "Industriestraße 12", "postal_code": "70565", "city": "Stuttgart",
    "email": "rechnung@krueger.example",
}  # fmt: skip
MOBILITY = "/v2/mobility"


def ticket(holder: str = "PN-1", **more: Any) -> dict[str, Any]:
    return {
        "product": "Deutschlandticket Job", "holder_reference": holder, "valid_from": "2026-03", "price_in_cents": 6300,
        "vat_rate": 7, **more,
    }  # fmt: skip


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int = 40, height: int = 10, pixels: bytes | None = None) -> bytes:
    """A picture in one colour, half transparent."""
    drawn = zlib.compress((b"\0" + b"\x10\x60\x40\x80" * width) * height) if pixels is None else pixels
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", drawn) + _chunk(b"IEND", b"")


class Shop:
    """An organisation that sells tickets."""

    def __init__(self, service: Service, owner: Organization | None = None, **seller: Any) -> None:
        self.service = service
        self.owner = owner or service.organization()
        self.key = self.owner.key
        self.ok(self.put("/seller", {**SELLER, **seller}))

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.service.get(MOBILITY + path, self.key, params=params)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        if body is not None:
            options["json"] = body
        return self.service.post(MOBILITY + path, self.key, **options)

    def put(self, path: str, body: Any) -> httpx.Response:
        return self.service.request("PUT", MOBILITY + path, self.key, json=body)

    @staticmethod
    def ok(answer: httpx.Response) -> Any:
        assert answer.status_code in (200, 201), answer.text
        return answer.json()

    def customer(self, *tickets: dict[str, Any], **more: Any) -> str:
        customer_id = str(self.ok(self.post("/customers", {**CUSTOMER, **more}))["id"])
        if tickets:
            self.add(customer_id, *tickets)
        return customer_id

    def add(self, customer_id: str, *tickets: dict[str, Any]) -> list[dict[str, Any]]:
        return list(self.ok(self.post(f"/customers/{customer_id}/tickets", {"tickets": tickets})))

    def tickets(self, customer_id: str) -> list[dict[str, Any]]:
        return list(self.ok(self.get(f"/customers/{customer_id}"))["tickets"])

    def invoice(self, customer_id: str) -> dict[str, Any]:
        """Issues an invoice, and reads it back with its lines."""
        made = self.post(f"/customers/{customer_id}/invoice")
        assert made.status_code == 201, made.text
        return dict(self.ok(self.get(f"/invoices/{made.json()['id']}")))

    def document(self, invoice: dict[str, Any], kind: str) -> bytes:
        answer = self.get(f"/invoices/{invoice['id']}/{kind}")
        assert answer.status_code == 200, answer.text
        return answer.content

    def count(self, table: str) -> int:
        row = self.service.db.read_now(
            lambda tx: tx.one(f"SELECT COUNT(*) FROM {table} WHERE organization_id = ?", self.owner.id)
        )
        assert row is not None
        return int(row[0])


# It requires Factur-X's own value in BT-24; an XRechnung has its own there, which BR-DE-21 checks.
XRECHNUNG_DIFFERS = "FX-SCH-A-000556"


def broken_rules(xml: bytes, *, is_xrechnung: bool) -> set[str]:
    """Returns what schema and Schematron find."""
    xml_check_xsd(xml, flavor="factur-x", level="en16931")
    return schematron("cii").broken(xml) - ({XRECHNUNG_DIFFERS} if is_xrechnung else set())
