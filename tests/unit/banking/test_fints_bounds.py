"""Answers of a FinTS bank have a bound that is found before they are parsed: the parser's time is everybody's."""

from __future__ import annotations

import base64
from types import SimpleNamespace

import pytest
from fints.exceptions import FinTSConnectionError

from kontobahn.bank_providers.fints.client import (
    MAX_BYTES_BETWEEN_DOCUMENTS,
    MAX_DOCUMENTS,
    MAX_ELEMENTS,
    _Connection,
    check_size,
    decode_base64,
)


def test_a_document_counts_as_one_however_long_and_whatever_is_in_it() -> None:
    document = b":61:+'" * 200_000
    check_size(b"HICAZ:3:1+@%d@" % len(document) + document + b"'HNHBS:4:1+2'")


@pytest.mark.parametrize("mark", [b"'", b"+", b":"])
def test_more_elements_than_any_bank_sends_are_refused(mark: bytes) -> None:
    check_size(b"A" + mark * MAX_ELEMENTS)
    with pytest.raises(FinTSConnectionError, match="more elements"):
        check_size(b"A" + mark * (MAX_ELEMENTS + 1))


def test_an_answer_is_bounded_before_it_is_parsed() -> None:
    answer = base64.b64encode(b"A" + b"+" * (MAX_ELEMENTS + 1))
    connection = _Connection("https://bank.example/fints", lambda url, message: answer)
    with pytest.raises(FinTSConnectionError, match="more elements"):
        connection.send(SimpleNamespace(render_bytes=lambda: b""))


def test_more_documents_than_any_bank_sends_are_refused() -> None:
    check_size(b"@1@A" * (MAX_DOCUMENTS - 1))
    with pytest.raises(FinTSConnectionError):
        check_size(b"@1@A" * (MAX_DOCUMENTS + 1))


def test_a_length_beyond_the_end_ends_it() -> None:
    check_size(b"A+@999999999@B")


def test_what_is_no_document_is_short_however_few_elements_it_has() -> None:
    check_size(b"A" * MAX_BYTES_BETWEEN_DOCUMENTS)
    check_size(b"A" * (MAX_BYTES_BETWEEN_DOCUMENTS - 3) + b"@1@B")
    with pytest.raises(FinTSConnectionError):
        check_size(b"A" * (MAX_BYTES_BETWEEN_DOCUMENTS + 1))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 786_431, 786_432, 786_433, 1_572_864, 2_000_000])
def test_an_answer_is_decoded_slice_by_slice_as_if_it_were_in_one(length: int) -> None:
    content = b"ab" * (length // 2) + b"c" * (length % 2)
    encoded = base64.b64encode(content)
    assert decode_base64(encoded) == content
    assert decode_base64(base64.encodebytes(content)) == content
    assert decode_base64(encoded + b"\r\n") == content


@pytest.mark.parametrize(
    "text", [b"YWI=YWI=", b"YWI", b"YW I=", b"A" * (1024 * 1024 - 4) + b"YWI=" + b"YWJj", b"A" * (1024 * 1024) + b"="]
)
def test_what_is_no_base64_is_refused_wherever_it_stands(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of binascii or ours
        decode_base64(text)
