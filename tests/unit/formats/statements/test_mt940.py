"""MT940 and MT942 as banks write them."""

from __future__ import annotations

from datetime import date

import pytest

from kontobahn.formats.mt940.entry import read_information, read_line
from kontobahn.formats.statements import Amount, Balance, Entry, Party
from tests.statement_builder import DAY, IBAN, OTHER_IBAN, Booking, Sheet, follow_up, mt940
from tests.unit.formats.statements.reading import closings, entries, entry, opening, read_all, refused


def statement(*movements: str, opening: str = "C260301EUR100,00", closing: str = "C260302EUR100,00") -> bytes:
    head = [":20:STARTUMS", f":25:{IBAN}", ":28C:00007/001", f":60F:{opening}"]
    return "\n".join([*head, *movements, f":62F:{closing}", "-", ""]).encode()


def information(*lines: str) -> Entry:
    """The entry of a movement of nothing with this :86:."""
    return entry(statement(":61:2603020302C0,00NTRFNONREF", ":86:" + "\n".join(lines)))


def test_a_statement_and_its_balances() -> None:
    data = statement(":61:2603020302CR12,34NTRFNONREF//BANK-1", ":86:166?20SVWZ+Miete", closing="C260302EUR112,34")
    data = data.replace(b"\n-\n", b"\n:64:C260302EUR112,34\n:65:C260303EUR99,00\n:86:ein Hinweis der Bank\n-\n")
    found = opening(data)
    assert (found.format, found.kind, found.statement_id) == ("MT940", "booked", "STARTUMS 00007/001")
    assert (found.number, found.page, found.account.currency) == (7, 1, "EUR")
    assert found.balance == Balance("OPBD", 10_000, "EUR", date(2026, 3, 1))
    (closing,) = closings(data)
    assert [balance.code for balance in closing.balances] == ["OPBD", "CLBD", "CLAV", "FWAV"]
    assert entry(data).purpose.svwz == "Miete"


def test_a_structured_86() -> None:
    found = information(
        "166?00GUTSCHRIFT?1000931?20EREF+E-1?21SVWZ+Rechnung 4711 v", "?22om 2.3.?30BYLADEM1001?31" + OTHER_IBAN,
        "?32Muster und Söhne Handelsgese?33llschaft mbH?34000?60 Rest",
    )  # fmt: skip
    assert (found.gvc, found.booking_text, found.primanota) == ("166", "GUTSCHRIFT", "00931")
    assert found.description == "EREF+E-1 SVWZ+Rechnung 4711 vom 2.3. Rest"
    assert (found.end_to_end_id, found.purpose.svwz) == ("E-1", "Rechnung 4711 vom 2.3. Rest")
    assert found.counterparty == found.payer
    assert found.payer == Party("Muster und Söhne Handelsgesellschaft mbH", OTHER_IBAN, None, "BYLADEM1001")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("166?20SVWZ+Was kostet das?? 5 Euro?21nix", "SVWZ+Was kostet das?? 5 Euronix"),
        ("166?20Frage?21wirklich?", "Frage wirklich?"),
        ("166?20nur ?99 Euro?21mehr", "nur ?99 Euro mehr"),
        ("166?21zwei?20eins?22drei", "zwei?20eins drei"),
        ("166?20um ?30 Euro zu viel?21gezahlt", "um ?30 Euro zu viel gezahlt"),
        ("166?20eins?20zwei", "eins zwei"),
        (" 166?20mit Blank davor", "mit Blank davor"),
        ("166?20S?21VWZ+x", "SVWZ+x"),
        ("166?20mit Blank ?21dahinter", "mit Blank dahinter"),
        ("166~20anderes~21Zeichen?", "anderes Zeichen?"),
        ("166?20a?70Empfänger?71zwei", "a Empfänger zwei"),
        ("ohne ?20 Struktur", "ohne ?20 Struktur"),
        ("", ""),
        ("166", "166"),
        ("166?", "166?"),
    ],
)
def test_nothing_of_an_86_is_lost(text: str, expected: str) -> None:
    assert read_information([text]).description == expected


def test_an_unstructured_86_is_a_text_of_lines() -> None:
    found = information("x" * 65, "y EREF+5", "SVWZ+z")
    assert found.description == "x" * 65 + "y EREF+5 SVWZ+z"
    assert (found.gvc, found.end_to_end_id, found.purpose.svwz) == (None, "5", "z")
    assert (
        information(": mit Doppelpunkt", ":00: und noch einem").description == ": mit Doppelpunkt :00: und noch einem"
    )


def test_an_old_account_number_is_kept_as_one() -> None:
    found = information("051?20x?3037040044?31532013000?32Alt")
    assert found.counterparty == Party("Alt", None, "37040044/532013000", None)
    assert information("051?20x?38" + OTHER_IBAN).counterparty.iban == OTHER_IBAN


@pytest.mark.parametrize(
    ("line", "amount", "booked", "reversal", "code", "references"),
    [
        ("2603020302C12,34NTRFABC//DEF", 1_234, DAY, False, "NTRF", ("ABC", "DEF")),
        ("260302D12,NTRFNONREF", -1_200, DAY, False, "NTRF", (None, None)),
        ("2603020302CR0,5NMSCKREF+", 50, DAY, False, "NMSC", (None, None)),
        ("2603020302RC1,00NCHGx", -100, DAY, True, "NCHG", ("x", None)),
        ("2603020302RDR1,00FMSCx//y", 100, DAY, True, "FMSC", ("x", "y")),
        ("2603020302ED1,00S103x", -100, DAY, False, "S103", ("x", None)),
        ("2612310102C1,00NTRFNONREF", 100, date(2027, 1, 2), False, "NTRF", (None, None)),
        ("2701021231C1,00NTRFNONREF", 100, date(2026, 12, 31), False, "NTRF", (None, None)),
        ("2803010229C1,00NTRFNONREF", 100, date(2028, 2, 29), False, "NTRF", (None, None)),
        ("2603020302C1,00", 100, DAY, False, None, (None, None)),
        ("2603020302D12,35 NTRFNONREF//NONREF", -1_235, DAY, False, "NTRF", (None, None)),
        ("2603020302DN12,35NNTRFABC", -1_235, DAY, False, "NTRF", ("ABC", None)),
        ("2603020302C,5NSTORNO", 50, DAY, False, "NSTO", ("RNO", None)),
        ("2603020302C12.35N01 x", 1_235, DAY, False, "N01", ("x", None)),
        ("2602300302C1,00NTRFNONREF", 100, DAY, False, "NTRF", (None, None)),
    ],
)
def test_every_way_to_write_a_statement_line(
    line: str, amount: int, booked: date, reversal: bool, code: str | None, references: tuple[str | None, str | None]
) -> None:
    found = read_line(line)
    assert (found.amount_minor, found.booking_date, found.reversal, found.code) == (amount, booked, reversal, code)
    assert (found.customer_reference, found.bank_reference) == references


def test_supplementary_details_tell_the_original_amount_and_charges() -> None:
    found = read_line("2603020302C12,34NTRFABC\n/OCMT/USD15,00//CHGS/EUR1,50/")
    assert (found.original_amount, found.charges) == (Amount(1_500, "USD"), Amount(150, "EUR"))


def test_other_supplementary_details_are_kept_as_text() -> None:
    data = statement(":61:2603020302C0,00NTRFNONREF", "Kartenzahlung", ":86:x")
    assert entry(data).booking_text == "Kartenzahlung"


def test_a_reversal_keeps_the_counterpartys_role() -> None:
    credit = entry(statement(":61:2603020302RC5,00NTRFNONREF", ":86:166?20x?32Kunde", closing="C260302EUR95,00"))
    assert (credit.amount_minor, credit.payer.name, credit.reversal) == (-500, "Kunde", True)


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "iso-8859-1"])
@pytest.mark.parametrize("newline", ["\r\n", "\n"])
@pytest.mark.parametrize("envelope", [False, True])
def test_frames_encodings_and_line_ends(encoding: str, newline: str, envelope: bool) -> None:
    first = Sheet([Booking(-1_234, text="Größe für Öl", name="Bäcker"), Booking(5)])
    second = follow_up(first, Booking(7))
    found = entries(mt940(first, second, encoding=encoding, newline=newline, envelope=envelope))
    assert [(item.amount_minor, item.purpose.svwz) for item in found] == [
        (-1_234, "Größe für Öl"),
        (5, "Rechnung 4711"),
        (7, "Rechnung 4711"),
    ]
    assert found[0].counterparty.name == "Bäcker"


@pytest.mark.parametrize(
    "account", ["37040044/0532013000", "37040044/532013000EUR", f"{IBAN}EUR", IBAN, "37040044 532013000"]
)
def test_the_account_as_iban_or_bank_code_and_number(account: str) -> None:
    assert opening(mt940(Sheet(), account=account)).account.iban == IBAN


def test_an_account_of_an_unknown_bank_must_be_named() -> None:
    data = mt940(Sheet(), account="99999999/1")
    assert "--iban 99999999/1=DE" in refused(data).sentence
    assert opening(data, ibans={"99999999/1": IBAN}).account.iban == IBAN


def test_pages_by_interim_balances() -> None:
    first = Sheet([Booking(5)], page=(1, False))
    last = Sheet([Booking(6)], opening=first.end, page=(2, True))
    assert [closing.last_page for closing in closings(mt940(first, last))] == [False, True]


MT942 = [
    ":20:VORMERK", f":25:{IBAN}", ":28C:00003/001", ":34F:EURD0,", ":13D:2603021200+0100",
    ":61:2603020302C5,00NTRFNONREF", ":86:166?20SVWZ+a", ":61:2603020302D2,00NTRFNONREF", ":86:166?20SVWZ+b",
    ":90D:1EUR2,00", ":90C:1EUR5,00", "-",
]  # fmt: skip


def test_mt942_is_pending_and_held_to_its_totals() -> None:
    data = "\r\n".join(MT942).encode()
    assert (opening(data).format, opening(data).kind, opening(data).balance) == ("MT942", "intraday", None)
    assert [(item.amount_minor, item.status) for item in entries(data)] == [(500, "pending"), (-200, "pending")]
    assert "says 1 entries of 2,00; the statement has 1 of 3.00" in refused(data.replace(b"D2,00", b"D3,00")).sentence


def test_a_movement_without_information() -> None:
    data = statement(":61:2603020302C5,00NTRFNONREF", ":61:2603020302D5,00NTRFNONREF")
    assert [item.description for item in entries(data)] == ["", ""]
    assert len(read_all(data)) == 4


@pytest.mark.parametrize("text", ["312/45/6789 Rechnung", "100.20 Euro", "960-83 Rate", "123?99 Rabatt"])
def test_a_number_at_the_start_of_a_text_is_no_sub_field(text: str) -> None:
    assert information(text).description == text
