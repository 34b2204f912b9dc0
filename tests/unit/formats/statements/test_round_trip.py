"""Random statements, written in every format by the tests' builder, are read back as they were."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kontobahn.formats.statements import NOBODY, Closing, Entry, Opening, Party, StatementError
from tests.statement_builder import BIC, DAY, OTHER_IBAN, Booking, Sheet, camt, follow_up, mt940
from tests.unit.formats.statements.reading import read_all

WORDS = (
    "Rechnung",
    "4711",
    "Käse",
    "für",
    "1.234,56",
    "Müller & Co.",
    "(Mai)",
    "ÖPNV",
    "Was?",
    "5?? Euro",
    "a/b",
    "C+A",
    "<x>",
)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
ids = st.text("ABCDEFGHIJ0123456789-", min_size=1, max_size=20)
amounts = st.integers(1, 10**12).flatmap(lambda cents: st.sampled_from([cents, -cents]))
days = st.integers(-20, 20).map(lambda shift: DAY + timedelta(shift))


@st.composite
def bookings(draw: st.DrawFn) -> Booking:
    booked: date = draw(days)
    return Booking(
        draw(amounts),
        text=draw(texts),
        name=draw(st.none() | st.sampled_from(["Muster GmbH", "Bäckerei Größe & Töchter Handelsgesellschaft mbH"])),
        iban=draw(st.none() | st.just(OTHER_IBAN)),
        bic=draw(st.none() | st.just(BIC)),
        end_to_end_id=draw(st.none() | ids),
        mandate=draw(st.none() | ids),
        reference=draw(st.none() | ids),
        booked=booked,
        valued=booked + timedelta(draw(st.integers(-3, 3))),
        reversal=draw(st.booleans()),
        booking_text=draw(st.none() | st.sampled_from(["GUTSCHRIFT", "LASTSCHRIFT"])),
    )


@st.composite
def sheets(draw: st.DrawFn) -> list[Sheet]:
    found = [Sheet(draw(st.lists(bookings(), max_size=5)), opening=draw(st.integers(-(10**9), 10**9)))]
    for _ in range(draw(st.integers(0, 2))):
        found.append(follow_up(found[-1], *draw(st.lists(bookings(), max_size=3))))
    return found


def check(written: list[Sheet], data: bytes, *, with_balances: bool) -> None:
    items = iter(read_all(data))
    for sheet in written:
        opening = next(items)
        assert isinstance(opening, Opening)
        assert (opening.account.iban, opening.number) == (sheet.iban, sheet.number)
        for number, booking in enumerate(sheet.bookings, 1):
            entry = next(items)
            assert isinstance(entry, Entry)
            assert entry.number == number
            check_entry(booking, entry)
        closing = next(items)
        assert isinstance(closing, Closing)
        assert closing.moved_minor == sheet.end - sheet.opening
        if with_balances:
            assert opening.balance is not None
            assert closing.balance is not None
            assert (opening.balance.amount_minor, closing.balance.amount_minor) == (sheet.opening, sheet.end)
    assert next(items, None) is None


def check_entry(booking: Booking, entry: Entry) -> None:
    assert (entry.amount_minor, entry.booking_date, entry.value_date) == (
        booking.amount,
        booking.booked,
        booking.valued,
    )
    assert (entry.status, entry.currency, entry.reversal) == ("posted", "EUR", booking.reversal)
    assert (entry.purpose.svwz, entry.purpose.mref) == (booking.text, booking.mandate)
    assert (entry.end_to_end_id, entry.bank_reference) == (booking.end_to_end_id, booking.reference)
    assert (entry.booking_text, entry.gvc, entry.primanota) == (booking.booking_text, "166", "00931")
    party = Party(booking.name, booking.iban, None, booking.bic)
    assert entry.counterparty == (party if any(party) else NOBODY)
    received = (booking.amount >= 0) != booking.reversal
    assert (entry.payer if received else entry.payee) == entry.counterparty


@pytest.mark.parametrize("kind", ["052", "053", "054"])
@pytest.mark.parametrize("version", ["02", "08"])
@settings(max_examples=12)
@given(written=sheets())
def test_camt_is_read_back_as_it_was_written(kind: str, version: str, written: list[Sheet]) -> None:
    check(written, camt(*written, kind=kind, version=version), with_balances=kind != "054")


@settings(max_examples=50)
@given(written=sheets(), newline=st.sampled_from(["\r\n", "\n"]), envelope=st.booleans())
def test_mt940_is_read_back_as_it_was_written(written: list[Sheet], newline: str, envelope: bool) -> None:
    check(written, mt940(*written, newline=newline, envelope=envelope), with_balances=True)


@settings(max_examples=60)
@given(written=sheets(), data=st.data())
def test_a_damaged_file_never_makes_another_error(written: list[Sheet], data: st.DataObject) -> None:
    """Whatever happens to the bytes: read as something, or refused with our own error."""
    content = bytearray(camt(*written) if data.draw(st.booleans()) else mt940(*written))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        content[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(StatementError):
        assert read_all(bytes(content))
