"""A posting is taken exactly as the file says, perhaps with a warning, or refused with line, column and reason."""

from __future__ import annotations

import json

import pytest

from kontobahn.formats.extf import Buchungssatz, RowError
from tests.unit.formats.extf.files import read, read_satz, refusal, satz, text_of, warnings_of

UMSATZ, KENNZEICHEN = "Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen"
KONTO, GEGENKONTO = "Konto", "Gegenkonto (ohne BU-Schlüssel)"


def test_every_column_that_has_a_meaning_is_read() -> None:
    further = {14: '"Papier; ""A4"""', 37: '"Lager"', 38: '"Süd"', 114: "1", 115: "07032024"}
    row = satz('1190,5;"H";"EUR";;;"";4930;70001;"0009";0703;"ER-2024/7";"150424";2,38', further)
    found = read(text_of(row))
    assert found == [
        Buchungssatz(
            line=3, umsatz=119050, soll=False, waehrung="EUR", kurs="", basis_umsatz=None, konto="4930",
            gegenkonto="70001", bu_schluessel="9", belegdatum="2024-03-07", belegfeld1="ER-2024/7", belegfeld2="150424",
            skonto=238, buchungstext='Papier; "A4"', kost1="Lager", kost2="Süd", generalumkehr=False,
            weitere='{"114":"1","115":"07032024"}',
        )
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("0,01", 1),
        ("64083", 6408300),
        ("64083,00", 6408300),
        ("12,5", 1250),
        ("007,10", 710),
        ("9999999999,99", 999999999999),
    ],
)
def test_an_amount_is_whole_cents(text: str, cents: int) -> None:
    assert read_satz(satz(changed={1: text})).umsatz == cents


@pytest.mark.parametrize(
    "text",
    ["12,345", "1.000,00", "-5,00", "+5,00", "1e5", "12.50", ",50", "12,", "1,2,3", " 5,00", "²", "", "10000000000"],
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    found = refusal(satz(changed={1: text}))
    assert (found.line, found.column) == (3, UMSATZ)
    assert (f"'{text}'" if text else "missing") in found.reason


@pytest.mark.parametrize("text", ["0", "0,00"])
def test_an_amount_of_nothing_is_refused(text: str) -> None:
    assert refusal(satz(changed={1: text})) == (3, UMSATZ, f"'{text}' is not greater than zero.")


@pytest.mark.parametrize("text", ["X", "SH", "Soll"])
def test_another_mark_than_debit_or_credit_is_refused(text: str) -> None:
    assert refusal(satz(changed={2: text})) == (3, KENNZEICHEN, f"'{text}' is neither S nor H.")


@pytest.mark.parametrize(("text", "soll"), [("S", True), ("H", False), ("s", True), ("h", False)])
def test_debit_and_credit_may_be_written_in_lower_case(text: str, soll: bool) -> None:
    row = satz(changed={2: text})
    assert read_satz(row).soll is soll
    assert warnings_of(text_of(row)) == []


def test_without_a_mark_it_is_debit_with_a_warning() -> None:
    row = satz(changed={2: ""})
    assert read_satz(row).soll is True
    assert warnings_of(text_of(row)) == [
        (3, KENNZEICHEN, "Neither S nor H is given.", "It was read as S, as DATEV does.")
    ]


class TestForeignCurrency:
    def test_the_base_amount_is_what_counts(self) -> None:
        found = read_satz(satz(changed={3: "CHF", 4: "1,081000", 5: "110,08", 6: "EUR"}))
        assert (found.waehrung, found.kurs, found.umsatz, found.basis_umsatz) == ("CHF", "1,081000", 11900, 11008)
        assert found.weitere == ""

    def test_the_currency_of_the_file_is_the_default(self) -> None:
        row = satz(changed={5: "110,08"})
        assert read_satz(row, header={22: '"CHF"'}).waehrung == "CHF"

    def test_noughts_are_as_good_as_nothing(self) -> None:
        found = read_satz(satz(changed={4: "0,000000", 5: "0,00", 13: "0,00"}))
        assert (found.kurs, found.basis_umsatz, found.skonto) == ("", None, 0)

    @pytest.mark.parametrize(
        ("changed", "column", "part"),
        [
            ({3: "CHF"}, "Basis-Umsatz", "a posting in CHF must have"),
            ({3: "CHF", 5: "0,00"}, "Basis-Umsatz", "'0,00'"),
            ({3: "CHF", 5: "1.000,00"}, "Basis-Umsatz", "'1.000,00'"),
            ({3: "Fr.", 5: "1,00"}, "WKZ Umsatz", "'FR.'"),
            ({3: "CHF", 5: "1,00", 6: "USD"}, "WKZ Basis-Umsatz", "'USD'"),
        ],
    )
    def test_what_cannot_be_turned_into_euros_is_refused(self, changed: dict[int, str], column: str, part: str) -> None:
        found = refusal(satz(changed=changed))
        assert found.column == column
        assert part in found.reason

    def test_a_currency_may_be_written_in_lower_case(self) -> None:
        assert read_satz(satz(changed={3: "eur"})).waehrung == "EUR"
        assert read_satz(satz(changed={3: "chf", 5: "110,08", 6: "eur"})).waehrung == "CHF"

    def test_a_rate_that_is_none_is_left_out_as_the_amounts_are_there(self) -> None:
        row = satz(changed={3: "CHF", 4: "1.08", 5: "110,08"})
        found = read_satz(row)
        assert (found.kurs, found.umsatz, found.basis_umsatz) == ("", 11900, 11008)
        (warning,) = warnings_of(text_of(row))
        assert warning[1:3] == ("Kurs", "'1.08' is not an exchange rate.")

    def test_a_currency_of_no_base_amount_does_not_matter(self) -> None:
        assert read_satz(satz(changed={6: "USD"})).basis_umsatz is None


class TestAccounts:
    @pytest.mark.parametrize(
        ("length", "text", "konto"),
        [("4", "85", "0085"), ("4", "1200", "1200"), ("4", "10000", "10000"), ("4", "99999", "99999"),
         ("6", "840000", "840000"), ("6", "27000", "027000"), ("8", "123456789", "123456789"),
         ("4", "08400", "8400"), ("4", "000010001", "10001"), ("4", "00085", "0085"), ("6", "0000840000", "840000")],
    )  # fmt: skip
    def test_the_length_tells_a_sachkonto_from_a_personenkonto(self, length: str, text: str, konto: str) -> None:
        found = read_satz(satz(changed={7: text, 8: "9"}), header={14: length})
        assert (found.konto, found.gegenkonto) == (konto, "9".zfill(int(length)))

    @pytest.mark.parametrize("text", ["", "0", "0000", "00000", "100000", "0100000", "84a0", "-840", "8400 ", "٣٣٣٣"])
    def test_any_other_number_is_refused(self, text: str) -> None:
        for number, column in ((7, KONTO), (8, GEGENKONTO)):
            data = text_of(satz(changed={number: text})).encode("utf-8-sig")
            (found,) = read(data)
            assert isinstance(found, RowError)
            assert (found.line, found.column) == (3, column)
            assert (f"'{text}'" if text else "missing") in found.reason

    def test_an_account_against_itself_is_refused(self) -> None:
        assert refusal(satz(changed={7: "0085", 8: "85"})) == (3, GEGENKONTO, "'85' is the Konto itself.")


class TestBelegdatum:
    @pytest.mark.parametrize(
        ("text", "day"), [("0101", "2024-01-01"), ("101", "2024-01-01"), ("2902", "2024-02-29"), ("3112", "2024-12-31")]
    )
    def test_the_year_is_that_of_the_file(self, text: str, day: str) -> None:
        assert read_satz(satz(changed={10: text})).belegdatum == day

    @pytest.mark.parametrize(
        ("text", "day"),
        [
            ("0107", "2023-07-01"),
            ("3112", "2023-12-31"),
            ("0101", "2024-01-01"),
            ("2902", "2024-02-29"),
            ("3006", "2024-06-30"),
        ],
    )
    def test_a_fiscal_year_may_span_two_calendar_years(self, text: str, day: str) -> None:
        header = {13: "20230701", 15: "20230701", 16: "20240630"}
        assert read_satz(satz(changed={10: text}), header=header).belegdatum == day

    def test_a_fiscal_year_may_begin_on_a_leap_day(self) -> None:
        header = {13: "20240229", 15: "", 16: ""}
        assert read_satz(satz(changed={10: "2902"}), header=header).belegdatum == "2024-02-29"
        assert read_satz(satz(changed={10: "2802"}), header=header).belegdatum == "2025-02-28"

    @pytest.mark.parametrize("text", ["3102", "3201", "0013", "0001", "1", "11", "01012", "1.1.", "", "1a01"])
    def test_what_is_no_day_is_refused(self, text: str) -> None:
        found = refusal(satz(changed={10: text}))
        assert found.column == "Belegdatum"
        assert f"'{text}' is not a day (TTMM) of the fiscal year that begins on 2024-01-01" in found.reason

    def test_a_leap_day_needs_a_leap_year(self) -> None:
        header = {13: "20230101", 15: "", 16: ""}
        assert "'2902' is not a day" in refusal(satz(changed={10: "2902"}), header=header).reason

    def test_a_day_outside_of_the_period_is_taken_with_a_warning(self) -> None:
        text = text_of(
            *(satz(changed={10: day}) for day in ("2902", "0103", "3103", "0104")),
            header={15: "20240301", 16: "20240331"},
        )
        days = [row.belegdatum for row in read(text) if isinstance(row, Buchungssatz)]
        assert days == ["2024-02-29", "2024-03-01", "2024-03-31", "2024-04-01"]
        first, last = warnings_of(text)
        assert first[:2] == (3, "Belegdatum")
        assert last == (
            6, "Belegdatum", "'0104' is 2024-04-01, outside of the period of the file, 2024-03-01 to 2024-03-31.",
            "It was read as a day of the fiscal year.",
        )  # fmt: skip

    def test_a_day_may_have_its_year_if_it_is_one_of_the_fiscal_year(self) -> None:
        assert read_satz(satz(changed={10: "15032024"})).belegdatum == "2024-03-15"
        assert refusal(satz(changed={10: "15032023"})).column == "Belegdatum"


class TestGeneralumkehr:
    @pytest.mark.parametrize(
        ("key", "mark", "expected"),
        [("", "", False), ("9", "0", False), ("40", "", False), ("9", "1", True), ("20", "", True), ("29", "0", True),
         ("23", "1", True), ("2", "", False), ("200", "", False), ("", "G", True),
         ("69", "", True), ("34", "", True), ("80", "", True), ("70", "", True), ("94", "", False), ("19", "", False),
         ("506", "", False)],
    )  # fmt: skip
    def test_it_is_marked_in_its_column_or_in_a_key_of_the_old_style(self, key: str, mark: str, expected: bool) -> None:
        found = read_satz(satz(changed={9: key, 118: mark}))
        assert (found.generalumkehr, found.bu_schluessel) == (expected, key)
        assert found.weitere == ""

    def test_another_mark_is_taken_as_none_with_a_warning(self) -> None:
        text = text_of(*[satz(changed={118: "2"})] * 300)
        assert not any(row.generalumkehr for row in read(text) if isinstance(row, Buchungssatz))
        warnings = warnings_of(text)
        assert [warning.line for warning in warnings] == list(range(3, 303))
        assert warnings[299][1:] == (
            "Generalumkehr (GU)", "'2' is neither 0 nor 1.", "The row was read as no reversal.",
        )  # fmt: skip


@pytest.mark.parametrize(("text", "key"), [("", ""), ("0", ""), ("09", "9"), ("0040", "40"), ("6501", "6501")])
def test_a_tax_key_loses_its_leading_zeros(text: str, key: str) -> None:
    assert read_satz(satz(changed={9: text})).bu_schluessel == key


@pytest.mark.parametrize("text", ["12345", "9a", "-9"])
def test_what_is_no_tax_key_is_handed_on_with_a_warning(text: str) -> None:
    row = satz(changed={9: text})
    assert (read_satz(row).bu_schluessel, read_satz(row).generalumkehr) == (text, False)
    assert warnings_of(text_of(row)) == [
        (3, "BU-Schlüssel", f"'{text}' is not a key of up to four digits.", "It was kept as it is.")
    ]


@pytest.mark.parametrize("text", ["RE 1", "RE#1", "RÜ-1", "RE:1", " RE1"])
def test_a_belegfeld_1_that_datev_would_change_is_kept_with_a_warning(text: str) -> None:
    row = satz(changed={11: text})
    assert read_satz(row).belegfeld1 == text
    (warning,) = warnings_of(text_of(row))
    assert warning.column == "Belegfeld 1"
    assert f"'{text}' has other characters" in warning.found


def test_all_usual_characters_of_belegfeld_1_are_taken() -> None:
    row = satz(changed={11: "aZ09_$&%*+-/.,"})
    assert read_satz(row).belegfeld1 == "aZ09_$&%*+-/.,"
    assert warnings_of(text_of(row)) == []


@pytest.mark.parametrize(
    ("number", "column", "longest"),
    [(11, "Belegfeld 1", 36), (12, "Belegfeld 2", 12), (14, "Buchungstext", 60), (37, "KOST1 - Kostenstelle", 36),
     (38, "KOST2 - Kostenstelle", 36)],
)  # fmt: skip
def test_a_text_that_is_too_long_is_kept_whole_with_a_warning(number: int, column: str, longest: int) -> None:
    assert warnings_of(text_of(satz(changed={number: "x" * longest}))) == []
    text = "x" * (longest + 1)
    row = satz(changed={number: text})
    assert text in read_satz(row)
    (warning,) = warnings_of(text_of(row))
    assert (warning.line, warning.column) == (3, column)
    assert f"'{text}'" in warning.found
    assert str(longest) in warning.found
    assert warning.done.startswith("It was kept as it is.")


def test_a_warning_does_not_repeat_a_whole_page() -> None:
    text = "x" * 5_000
    row = satz(changed={14: text})
    assert read_satz(row).buchungstext == text
    assert len(warnings_of(text_of(row))[0].found) < 310


def test_a_wrong_skonto_is_refused() -> None:
    assert refusal(satz(changed={13: "-1,00"})).column == "Skonto"


def test_nothing_of_the_other_columns_is_lost() -> None:
    others = {20: '"BEDI ""4A-5B"""', 21: '"Rechnung; Nr."', 39: "2,50", 103: '"G-1"', 115: "15032024", 125: "8700"}
    weitere = json.loads(read_satz(satz(changed=others)).weitere)
    assert weitere == {
        "20": 'BEDI "4A-5B"',
        "21": "Rechnung; Nr.",
        "39": "2,50",
        "103": "G-1",
        "115": "15032024",
        "125": "8700",
    }


def test_quotes_make_no_difference() -> None:
    bare = satz("119,00;S;;;;;10001;8400;9;1503;RE-1;;;Rechnung", {114: "0"})
    quoted = ";".join(f'"{field}"' for field in bare.split(";"))
    assert read_satz(quoted) == read_satz(bare)
