"""Downloads by EBICS: each statement counts once, and what cannot be read is told where it belongs; and rights in words."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import pytest

from kontobahn.bank_providers.ebics.rules import missing_rights
from kontobahn.bank_providers.ebics.statements import Plain, Reading
from kontobahn.banking.provider import Snapshot
from kontobahn.formats.ebics.keys import Protocol
from kontobahn.formats.ebics.services import AccountOfBank, Kind, Right, Rights, asked_for, order_of
from tests.statement_builder import IBAN, OTHER_IBAN, Booking, Sheet, camt

CONNECTION: Any = None
STATEMENT = Sheet([Booking(100), Booking(-300, "Porto")])


def read(*downloads: bytes) -> Snapshot:
    reading = Reading([AccountOfBank(iban, "EUR", None, None) for iban in (IBAN, OTHER_IBAN)], {})
    for number, content in enumerate(downloads):
        reading.add(Plain(f"{number}.xml", io.BytesIO(content)))
    return reading.snapshot(CONNECTION, [], None)


def amounts(found: Snapshot) -> list[int]:
    return [facts.amount_minor for facts in found.transactions]


@pytest.mark.parametrize(
    "downloads",
    [[camt(STATEMENT)], [camt(STATEMENT)] * 2, [camt(STATEMENT, STATEMENT)], [camt(STATEMENT, STATEMENT)] * 2],
)
def test_a_statement_counts_once_however_often_it_comes(downloads: list[bytes]) -> None:
    assert amounts(read(*downloads)) == [100, -300]


@pytest.mark.parametrize("is_together", [True, False])
def test_a_reference_that_several_bookings_have_identifies_none(is_together: bool) -> None:
    first, second = (
        Sheet([Booking(100, reference="R"), Booking(300, reference="S")]),
        Sheet([Booking(200, reference="R")], opening=100_400, id="S-2", number=2),
    )
    found = read(camt(first, second)) if is_together else read(camt(first), camt(second))
    assert [(facts.amount_minor, facts.provider_ref is None) for facts in found.transactions] == [
        (100, True), (300, False), (200, True),
    ]  # fmt: skip


def test_a_download_that_cannot_be_read_is_told_of_its_account_or_of_all() -> None:
    broken = camt(STATEMENT).rpartition(b"</Ntry>")[0]
    for content, told in ((broken, [IBAN]), (b"no statement at all", [IBAN, OTHER_IBAN])):
        found = read(content, camt(Sheet([Booking(500)], iban=OTHER_IBAN)))
        assert amounts(found) == [500]
        assert [one.account_ref for one in found.not_read] == told
        assert all("cannot be read" in one.sentence for one in found.not_read)


@pytest.mark.parametrize("protocol", ["H004", "H005"])
def test_a_bank_that_allows_no_statements_is_to_be_asked_for_them_by_their_name(protocol: Protocol) -> None:
    def missing(kinds: Sequence[Kind]) -> list[str]:
        own = tuple(Right(order_of(kind, protocol), "T") for kind in kinds)
        return missing_rights(Rights(None, (), (), own), protocol)

    assert missing(["camt.053"]) == missing(["mt940"]) == missing(["camt.053", "mt940"]) == []
    [sentence] = missing(["camt.052", "transfers"])
    assert sentence.endswith(f"the right {asked_for('camt.053', protocol)}.")
    assert missing_rights(None, protocol) == []
