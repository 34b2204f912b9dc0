"""The files adapter: it reaches no bank, says so, and its orders are the same file every time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kontobahn.banking.provider import BadSignature, ConnectRequest, PaymentOrder, PaymentReport, ProviderRefused
from kontobahn.banking.providers.files.adapter import FilesProvider
from tests.bank_builder import CREDITOR_IBAN, IBAN
from tests.harness import START

ORDER = PaymentOrder(
    end_to_end_id="KB1-0A0B0C0D", connection_ref="c", account_ref="a", template_identifier="SEPA", amount_minor=1234,
    currency_code="EUR", creditor_name="Papier GmbH", creditor_iban=CREDITOR_IBAN, debtor_name="Muster GmbH", debtor_iban=IBAN,
    description="Rechnung 4711", reference=None, details={}, return_to=None, customer_ip_address="127.0.0.1",
    own_url="https://kontobahn.example/order",
)  # fmt: skip


@pytest.mark.parametrize("action", ["start_connect", "fetch", "refresh"])
def test_it_reaches_no_bank_and_says_what_to_do(action: str) -> None:
    files = FilesProvider()
    calls: dict[str, Any] = {
        "start_connect": lambda: files.start_connect(ConnectRequest("pending_x", "partner", None, (), None)),
        "fetch": lambda: files.fetch("c"),
        "refresh": lambda: files.refresh("c", "manual"),
    }
    with pytest.raises(ProviderRefused, match="import statements") as caught:
        asyncio.run(calls[action]())
    assert caught.value.error_class == "ActionNotSupported"


def test_an_order_is_identified_by_its_end_to_end_id_and_never_reports_a_status() -> None:
    files = FilesProvider()
    start = asyncio.run(files.create_payment(ORDER))
    assert (start.payment_url, start.report) == (ORDER.own_url, PaymentReport("initiated"))
    assert asyncio.run(files.find_payment(ORDER)) == start
    assert asyncio.run(files.payment_status(start.provider_ref)) == PaymentReport(None)
    assert files.order_file(ORDER, START) == files.order_file(ORDER, START)


def test_an_order_carries_its_address_bank_and_day() -> None:
    address = {"town_name": "Köln", "street_name": "Ring", "building_number": "7", "post_code": "50667"}
    details = {"date": "2026-04-01", "creditor_agent": "SOGEDEFFXXX", "creditor_address": address}
    file = FilesProvider().order_file(ORDER._replace(details=details, template_identifier="SEPA_INSTANT"), START)
    assert file is not None
    for text in (b"<Dt>2026-04-01</Dt>", b"<BICFI>SOGEDEFFXXX</BICFI>", b"<TwnNm>Koeln</TwnNm>", b"<Cd>INST</Cd>"):
        assert text in file


def test_nothing_is_ever_delivered_for_it() -> None:
    with pytest.raises(BadSignature):
        FilesProvider().read_webhook({}, b"{}")
