"""Answers of a FinTS bank have a bound that is found before they are parsed: the parser's time is everybody's."""

from __future__ import annotations

import pytest
from fints.exceptions import FinTSConnectionError

from kontobahn.bank_providers.fints.client import MAX_DOCUMENTS, MAX_ELEMENTS, check_size


def test_a_document_counts_as_one_however_long_and_whatever_is_in_it() -> None:
    document = b":61:+'" * 200_000
    check_size(b"HICAZ:3:1+@%d@" % len(document) + document + b"'HNHBS:4:1+2'")


@pytest.mark.parametrize("mark", [b"'", b"+", b":"])
def test_more_elements_than_any_bank_sends_are_refused(mark: bytes) -> None:
    check_size(b"A" + mark * MAX_ELEMENTS)
    with pytest.raises(FinTSConnectionError, match="more elements"):
        check_size(b"A" + mark * (MAX_ELEMENTS + 1))


def test_more_documents_than_any_bank_sends_are_refused() -> None:
    check_size(b"@1@A" * (MAX_DOCUMENTS - 1))
    with pytest.raises(FinTSConnectionError):
        check_size(b"@1@A" * (MAX_DOCUMENTS + 1))


def test_a_length_beyond_the_end_ends_it() -> None:
    check_size(b"A+@999999999@B")
