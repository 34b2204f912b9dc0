"""Order files: everything an order says reaches the file, and nothing is accepted that a file cannot say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.file_bank import FileBank
from tests.harness import Service


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"reference": "RE-4711"}, "<InstrId>RE-4711</InstrId>"),
        ({"reference": "RF18 5390 0754 7034"}, "<Ustrd>RF18539007547034 Rechnung 4711</Ustrd>"),
        ({"reference": "RF18539007547034", "description": "RF18539007547034"}, "<Ref>RF18539007547034</Ref>"),
        ({"creditor_address": "Ring 7, 50667 Köln"}, "<TwnNm>Koeln</TwnNm>"),
        ({"creditor_address": "Ring 7, 50667 Köln"}, "<AdrLine>Ring 7</AdrLine>"),
        ({"creditor_address": {"town_name": "Köln", "post_code": "50667"}}, "<PstCd>50667</PstCd>"),
    ],
)
@pytest.mark.either_engine
def test_what_an_order_says_is_in_its_file(bank: FileBank, more: dict[str, Any], text: str) -> None:
    assert text in bank.order_file(bank.pay(**more)).text


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"reference": "RF18539007547034", "description": "x" * 130}, "reference"),
        ({"creditor_address": "Ring 7"}, "creditor_address"),
        ({"creditor_address": {"town_name": "ä" * 20}}, "creditor_address.town_name"),
    ],
)
@pytest.mark.either_engine
def test_what_no_file_can_say_is_refused_before_anything_is_written(
    service: Service, bank: FileBank, more: dict[str, Any], field: str
) -> None:
    refused = bank.ask(**more)
    assert (refused.status_code, refused.json()["field"]) == (400, field)
    assert service.get("/v2/banking/payments", bank.key).json()["data"] == []
    assert service.balance(bank.owner).reserved == 0
