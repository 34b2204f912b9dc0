"""The text that is made before a booking is stored, completed when it is, is that of the transaction."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import msgspec
import pytest

from kontobahn.banking.provider import TransactionFacts
from kontobahn.banking.transactions.wire import Transaction, parse_description, texts_of
from kontobahn.json_text import encode

NOW = datetime(2026, 3, 2, 8, 15, 30, 125_000, UTC)
FACTS = TransactionFacts(
    "giro", date(2026, 3, 1), -12_34, "EUR", 'EREF+RE-1 SVWZ+Miete "März" \\', mode="fee", category="rent",
    extra={"posting_date": date(2026, 3, 2), "account_balance_snapshot": Decimal("5.10")},
)  # fmt: skip


@pytest.mark.parametrize(("payment", "is_duplicate"), [(None, False), (17, True)])
def test_a_text_made_beforehand_is_that_of_the_transaction(payment: int | None, is_duplicate: bool) -> None:
    end_to_end_id, parsed, extra = parse_description(FACTS)
    whole = Transaction(
        id="7", account_id="3", payment_id=None if payment is None else str(payment), duplicated=is_duplicate, mode="fee",
        status="posted", made_on=FACTS.made_on, amount=Decimal("-12.34"), currency_code="EUR",
        description=FACTS.description, description_parsed=parsed, category="rent", extra=extra, created_at=NOW, updated_at=NOW,
    )  # fmt: skip
    texts = texts_of(FACTS)
    assert texts.end_to_end_id == end_to_end_id == "RE-1"
    stored = texts.stored(7, 3, payment, encode(NOW).decode(), is_duplicate=is_duplicate)
    assert stored == encode(whole).decode()
    assert msgspec.json.decode(stored, type=Transaction) == whole
