"""Our messages by the official schemas, which come with a client by others, and read by it."""

from __future__ import annotations

from datetime import UTC, date, datetime

from lxml import etree
from painfree import ebics3
from painfree.ebics3 import envelope_schema

from kontobahn.formats.ebics import documents, keys, requests, services
from kontobahn.formats.ebics.requests import BankKeys, Period, Subscriber, Upload, Waiting
from kontobahn.formats.ebics.services import Order

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
OURS = Subscriber("H005", "FAKEBANK", "FIRMA1", "TECH1")


def test_every_request_is_valid_and_signed_for_others_too() -> None:
    signature, own, encryption = (keys.new_key(version, "Muster", NOW) for version in ("A006", "X002", "E002"))
    bank = BankKeys(own.public(), encryption.public())
    transfers = services.order_of("checked_transfers", "H005")
    upload = Upload(transfers, b"\0" * 32, documents.new_key(), 1, "orders-1.xml")
    period = Period(date(2026, 2, 1), date(2026, 3, 2))
    statements = services.order_of("camt.053", "H005")
    waits = Waiting("FIRMA1", transfers, "N001")
    signed = [
        requests.bank_keys_request(OURS, own, NOW),
        requests.download_request(OURS, own, bank, statements, NOW, period=period),
        *(requests.download_request(OURS, own, bank, Order(name), NOW) for name in ("HTD", "HAC", "HVU", "HVZ")),
        requests.download_request(OURS, own, bank, Order("HVD"), NOW, about=waits),
        requests.segment_request(OURS, own, "A" * 32, 2, is_last=True),
        requests.receipt_request(OURS, own, "A" * 32, is_positive=True),
        requests.upload_request(OURS, (signature, own), bank, upload, NOW),
        requests.upload_request(OURS, (signature, own), bank, upload._replace(can_release=False), NOW),
        *(
            requests.upload_request(
                OURS, (signature, own), bank, upload._replace(order=Order(name), segments=count, about=about), NOW
            )
            for name, count, about in (("HVE", 0, waits), ("HVS", 1, waits), ("HCS", 1, None), ("SPR", 0, None))
        ),
        requests.upload_segment_request(OURS, own, "A" * 32, 1, "QUJD", is_last=True),
    ]
    unsigned = [
        requests.unsecured_request(OURS, "INI", requests.signature_key_data(OURS, signature)),
        requests.unsecured_request(OURS, "HIA", requests.other_keys_data(OURS, own, encryption)),
    ]
    data = [
        requests.new_keys_data(OURS, (signature, own, encryption)),
        requests.cancellation_data("H005", b"\0" * 32, "A006"),
    ]
    for content in (*signed, *unsigned, *data):
        assert envelope_schema.schema_failures(content) == []
    for content in signed:
        assert ebics3.verify_auth_signature(etree.fromstring(content), own.public().rsa_key()).ok
