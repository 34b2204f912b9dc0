"""Ticket files: what is read, and why the rest is not."""

from __future__ import annotations

import pytest

from kontobahn.errors import BadRequest
from kontobahn.mobility.ticket_file import TicketFile, read
from kontobahn.mobility.tickets import NewTicket

HEADER = "product;holder_reference;valid_from;price_in_cents;vat_rate"
ROW = "Deutschlandticket Job;PN-1;2026-03;6300;7"
TICKET = NewTicket(
    product="Deutschlandticket Job", holder_reference="PN-1", valid_from="2026-03", price_in_cents=6300, vat_rate=7
)


def text(*lines: str) -> bytes:
    return "\n".join(lines).encode()


def tickets(found: TicketFile) -> list[NewTicket]:
    assert found.refused == []
    return [item.ticket for item in found.reports]


@pytest.mark.parametrize(
    "content",
    [
        text(HEADER, ROW),
        text(HEADER, ROW, ""),
        b"\xef\xbb\xbf" + text(HEADER, ROW),
        text(HEADER, ROW).replace(b"\n", b"\r\n"),
        text(HEADER, ROW).replace(b";", b","),
        text(HEADER, ROW).replace(b";", b"\t"),
        text(HEADER.upper(), ROW),
        text("", HEADER, "", ROW, ";;;;"),
        text("Produkt;Personalnummer;Monat;Preis in Cent;USt", "Deutschlandticket Job;PN-1;03.2026;6300;7"),
        text("vat rate,price in cents,month,holder,product", '7,6300,03/2026,PN-1,"Deutschlandticket Job"'),
        text(HEADER + ";valid_to;reference", ROW + ";;"),
    ],
)
def test_a_file_is_read_however_it_was_saved(content: bytes) -> None:
    assert tickets(read(content)) == [TICKET]


def test_all_columns_are_read() -> None:
    columns = f"{HEADER};valid_to;discount_in_cents;employer_share_in_cents;reference"
    (found,) = tickets(read(text(columns, 'Jahres"abo;PN-1;2026-01;6300;7;2026-12;315;1575;A-1')))
    assert (found.product, found.valid_to, found.discount_in_cents) == ('Jahres"abo', "2026-12", 315)
    assert (found.employer_share_in_cents, found.reference) == (1575, "A-1")


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ("A;PN-1;2026-03;-1;7", "price_in_cents", "-1 is less than 0"),
        ("A;PN-1;2026-03;10.5;7", "price_in_cents", "“10.5” is not a whole number of cents"),
        ("A;PN-1;2026-03;10,5;7", "price_in_cents", "“10,5” is not a whole number of cents"),
        ("A;PN-1;2026-03;63 €;7", "price_in_cents", "“63 €” is not a whole number of cents"),
        ("A;PN-1;2026-03;100000000;7", "price_in_cents", "100000000 is more than 99999999"),
        ("A;PN-1;2026-03;6300;8", "vat_rate", "“8” is not a rate; the rates are 0, 7 and 19"),
        ("A;PN-1;2026-03;6300;7.5", "vat_rate", "“7.5” is not a whole percentage: 0, 7 or 19"),
        ("A;PN-1;2026-3;6300;7", "valid_from", "“2026-3” must be a calendar month like 2026-03"),
        ("A;PN-1;März;6300;7", "valid_from", "“März” must be a calendar month like 2026-03"),
        ("A;;2026-03;6300;7", "holder_reference", "is empty"),
        ("A;PN-1;2026-03;6300", "", "the row has 4 cells, the first row has 5"),
        (f"{'x' * 101};PN-1;2026-03;6300;7", "product", f"“{'x' * 40}” must have at most 100 characters"),
    ],
)
def test_a_refused_row_is_reported_by_line_column_and_reason(row: str, column: str, reason: str) -> None:
    found = read(text(HEADER, ROW, "", row, ROW))
    assert len(found.reports) == 2
    assert found.refused == [(4, column, reason)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"),
        (text("product;holder_reference"), "lacks these columns: valid_from, price_in_cents, vat_rate"),
        (text(HEADER + ";preis_pro_monat", ROW + ";1"), "unknown column “preis_pro_monat”"),
        (text(HEADER + ";discount_in_cent", ROW + ";1"), "Did you mean discount_in_cents?"),
        (text(HEADER + ";month", ROW + ";2026-03"), "`valid_from` appears twice"),
        (text(HEADER, 'A";"B'), "not valid CSV from line 2 on"),
        (text(HEADER, ROW) + "ü".encode("latin-1"), "not UTF-8 (line 2)"),
        (text(HEADER, ROW) + b"\0", "NUL"),
        (b"%PDF-1.7\n%\x80\x80", "not UTF-8"),
    ],
)
def test_a_file_that_is_wrong_as_a_whole_is_refused_in_one_sentence(content: bytes, reason: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        read(content)
    assert reason in str(refusal.value)
