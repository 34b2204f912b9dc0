"""From an entry of a statement to what the matcher looks at: whose name, which day, which amounts, and what is a return."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from kontobahn.banking.transactions.wire import DescriptionParsed, Transaction, TransactionExtra
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Entry, Party
from kontobahn.formats.statements.purpose import Purpose
from kontobahn.reconciliation.core.model import Movement
from kontobahn.reconciliation.core.special_cases import TRANSFER_DAYS
from kontobahn.reconciliation.inputs import _days_around, movement_of, movement_of_entry

BOOKED, VALUED = date(2026, 5, 4), date(2026, 5, 5)


def movement(amount: int = 100, purpose: Purpose | None = None, **changed: Any) -> Movement:
    fields: dict[str, Any] = {
        "status": "posted", "amount_minor": amount, "currency": "EUR", "booking_date": BOOKED, "value_date": VALUED,
        "description": "", "purpose": purpose or Purpose(), "counterparty": Party("Anna", "DE1"), "payer": Party(),
        "payee": Party(),
    }  # fmt: skip
    return movement_of_entry("1", Entry(**fields | changed))


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("EUR 12,34", 1_234),
        ("12.34", 1_234),
        ("12", 1_200),
        ("12,3", 1_230),
        ("1.234,56", None),
        ("12,345", None),
        ("EUR 1.234", None),
        ("12,34 5,00", None),
        ("EUR", None),
        (None, None),
        ("0,05", 5),
    ],
)
def test_the_original_amount_and_the_fee_of_a_return_are_read_to_the_cent(text: str | None, cents: int | None) -> None:
    found = movement(purpose=Purpose(oamt=text, coam=text))
    assert (found.original_minor, found.fee_minor) == (cents, cents or 0)


@pytest.mark.parametrize(("amount", "other"), [(1, "payer's"), (-1, "payee's")])
def test_on_whose_behalf_is_said_of_the_other_side(amount: int, other: str) -> None:
    assert movement(amount, Purpose(abwa="payer's", abwe="payee's")).other_name == other


@pytest.mark.parametrize(
    ("changed", "is_return"),
    [
        ({}, False),
        ({"gvc": "166"}, False),
        ({"gvc": "109"}, True),
        ({"return_reason": "AC04"}, True),
        ({"purpose": Purpose(rref="R-1")}, True),
    ],
)
def test_a_return_is_known_by_its_reason_its_reference_or_its_code(changed: dict[str, Any], is_return: bool) -> None:
    assert movement(**changed).is_return == is_return


def test_the_day_is_the_value_date_and_the_account_an_iban_if_there_is_one() -> None:
    assert (movement().day, movement(value_date=None).day) == (VALUED, BOOKED)
    assert (movement().iban, movement(counterparty=Party("Anna", None, "4711")).iban) == ("DE1", "4711")
    said = movement(purpose=Purpose(svwz="danke", end_to_end_id="E-1", mref="M-1", rref="R-1", kref=""))
    assert said.texts == (("svwz", "danke"), ("end_to_end_id", "E-1"))
    assert (said.end_to_end_id, said.mandate, said.return_reference) == ("E-1", "M-1", "R-1")


def test_a_return_has_its_amounts_from_the_statement_line() -> None:
    content = (
        ":20:STARTUMS\r\n:25:DE89370400440532013000\r\n:28C:00001/001\r\n:60F:C260301EUR1000,00\r\n"
        ":61:2603020302DR122,00N109NONREF//REF-2\r\n/OCMT/EUR119,00/CHGS/EUR3,00\r\n"
        ":86:109?00RUECKLASTSCHRIFT?20EREF+DD-1?21SVWZ+RE-2026-00123?30BYLADEM1001?31DE02120300000000202051?32ANNA MUSTER BAU\r\n"
        ":62F:C260302EUR878,00\r\n-\r\n"
    )
    [entry] = [it for it in read(io.BytesIO(content.encode()), "return.sta") if isinstance(it, Entry)]
    found = movement_of_entry("1", entry)
    assert (found.is_return, found.original_minor, found.fee_minor) == (True, 11_900, 300)


@pytest.mark.parametrize("amount", [-122, 119])
@pytest.mark.parametrize("ours", ["payer", "payee"])
def test_the_other_side_is_never_ourselves(amount: int, ours: str) -> None:
    """Banks name the parties of a return as they were in the payment, or the other way round."""
    other = {"payer": "payee", "payee": "payer"}[ours]
    sides: dict[str, Any] = {
        ours: "Wir GmbH",
        f"{ours}_information": "DE1",
        other: "Anna",
        f"{other}_information": "DE2",
    }
    now = datetime(2026, 5, 4, tzinfo=UTC)
    transaction = Transaction(
        id="1", account_id="1", payment_id=None, duplicated=False, mode="normal", status="posted", made_on=BOOKED,
        amount=Decimal(amount), currency_code="EUR", description="", description_parsed=DescriptionParsed(), category="",
        extra=TransactionExtra(**sides, return_reason="AC04"), created_at=now, updated_at=now,
    )  # fmt: skip
    found = movement_of(transaction, "DE1")
    assert (found.name, found.iban) == ("Anna", "DE2")


def test_the_other_side_of_a_transfer_is_looked_for_around_the_days_asked_for() -> None:
    assert _days_around(BOOKED, VALUED) == (BOOKED - TRANSFER_DAYS, VALUED + TRANSFER_DAYS)
    assert _days_around(date.min, date.max) == (date.min, date.max)
