"""The files adapter: it reaches no bank, says so, and its orders are the same file every time."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Any

import pytest

from kontobahn.bank_providers.files import FilesProvider
from kontobahn.banking.provider import (
    BadSignature,
    ConnectRequest,
    Delivery,
    PaymentOrder,
    PaymentReport,
    ProviderRefused,
)
from kontobahn.clock import start_of_day
from tests.bank_builder import CREDITOR_IBAN, IBAN
from tests.harness import START

ORDER = PaymentOrder(
    end_to_end_id="KB1-0A0B0C0D", connection_ref="c", account_ref="a", template_identifier="SEPA", amount_minor=1234,
    currency_code="EUR", creditor_name="Papier GmbH", creditor_iban=CREDITOR_IBAN, debtor_name="Muster GmbH", debtor_iban=IBAN,
    description="Rechnung 4711", reference=None, details={}, return_to=None, customer_ip_address="127.0.0.1",
    created_at=START,
)  # fmt: skip


@pytest.mark.parametrize("action", ["start_connect", "proceed", "fetch", "refresh"])
def test_it_reaches_no_bank_and_says_what_to_do(action: str) -> None:
    files = FilesProvider(30)
    calls: dict[str, Any] = {
        "start_connect": lambda: files.start_connect(ConnectRequest("pending_x", "partner", None, (), None)),
        "proceed": lambda: files.proceed(b"", {}),
        "fetch": lambda: files.fetch("c"),
        "refresh": lambda: files.refresh("c", "manual"),
    }
    with pytest.raises(ProviderRefused, match="import statements") as caught:
        asyncio.run(calls[action]())
    assert caught.value.error_class == "ActionNotSupported"
    assert list(asyncio.run(files.banks())) == []


def test_an_order_is_identified_by_its_end_to_end_id_and_never_reports_a_status() -> None:
    files = FilesProvider(30)
    start = asyncio.run(files.create_payment(ORDER))
    assert (start.payment_url, start.report) == (None, PaymentReport("initiated"))
    assert asyncio.run(files.find_payment(ORDER)) == start
    assert asyncio.run(files.payment_status(start.provider_ref)) == PaymentReport(None)
    assert files.order_file("M-1", START, [ORDER]) == files.order_file("M-1", START, [ORDER])


def test_an_order_may_be_fetched_until_the_days_after_its_execution_are_over() -> None:
    files = FilesProvider(30)
    later = ORDER._replace(details={"date": "2026-09-01"})
    ends = [asyncio.run(files.create_payment(one)).expires_at for one in (ORDER, later)]
    assert ends == [start_of_day(date(2026, 4, 2)), start_of_day(date(2026, 10, 2))]


def test_a_day_that_has_passed_becomes_the_day_of_the_file() -> None:
    order = ORDER._replace(details={"date": "2026-03-01"})
    assert b"<Dt>2026-03-02</Dt>" in FilesProvider(30).order_file("M-1", START, [order]).content


def test_an_order_carries_its_address_bank_and_day() -> None:
    address = {"town_name": "Köln", "street_name": "Ring", "building_number": "7", "post_code": "50667"}
    details = {"date": "2026-04-01", "creditor_agent": "SOGEDEFFXXX", "creditor_address": address}
    order = ORDER._replace(details=details, template_identifier="SEPA_INSTANT")
    file = FilesProvider(30).order_file("M-1", START, [order]).content
    for text in (b"<Dt>2026-04-01</Dt>", b"<BICFI>SOGEDEFFXXX</BICFI>", b"<TwnNm>Koeln</TwnNm>", b"<Cd>INST</Cd>"):
        assert text in file


@pytest.mark.parametrize(
    ("details", "left_out"),
    [
        ({}, ()),
        ({"creditor_country_code": "DE"}, ("creditor_country_code",)),
        ({"creditor_country_code": "DE", "creditor_address": {"town_name": "Köln"}}, ()),
        ({"creditor_agent_name": "Musterbank"}, ("creditor_agent_name",)),
    ],
)
def test_what_a_file_has_no_place_for_is_named(details: dict[str, Any], left_out: tuple[str, ...]) -> None:
    file = FilesProvider(30).order_file("M-1", START, [ORDER._replace(details=details)])
    assert file.left_out == ({ORDER.end_to_end_id: left_out} if left_out else {})


def test_nobody_comes_back_to_it_and_nothing_is_ever_delivered_for_it() -> None:
    files = FilesProvider(30)
    with pytest.raises(ProviderRefused, match="from a file"):
        asyncio.run(files.returned({"state": "x"}))
    with pytest.raises(BadSignature):
        files.read_webhook(Delivery("", "", {}, b"{}"))
