"""MT940 and MT942 as banks and programs write them, each after the habits of what it is named after. All data is our own."""

from __future__ import annotations

from datetime import date

from tests.corpus.statements.sample import Row, Sample

DUTCH = "NL91ABNA0417164300"
GERMAN = "DE89370400440532013000"
POLISH = "PL61109010140000071219812874"
SWISS = "CH9300762011623852957"
OTHER = "DE02120300000000202051"
MUSTER = "Muster GmbH"


def _text(*lines: str, newline: str = "\r\n") -> bytes:
    return (newline.join(lines) + newline).encode()


def _statement(*movements: str, account: str = GERMAN, opening: str = "C260301EUR100,00", closing: str) -> list[str]:
    return [":20:STARTUMS", f":25:{account}", ":28C:00001/001", f":60F:{opening}", *movements, f":62F:{closing}"]


def abn_amro() -> Sample:
    """BIC and message number before each statement, a hyphen after it, code words between slashes."""
    frame = ("ABNANL2A", "940", "ABNANL2A")
    first = _statement(
        ":61:2603020302D25,50N426NONREF",
        f":86:/TRTP/SEPA OVERBOEKING/IBAN/{DUTCH}/BIC/ABNANL2A/NAME/Jan Jansen",
        "/REMI/Factuur 2026-17/EREF/NOTPROVIDED",
        account=DUTCH, opening="C260301EUR1000,00", closing="C260302EUR974,50",
    )  # fmt: skip
    second = _statement(
        ":61:2603030303C5,N654NONREF",
        ":86:SEPA iDEAL                       IBAN: niet bekend",
        account=DUTCH, opening="C260302EUR974,50", closing="C260303EUR979,50",
    )  # fmt: skip
    second[2] = ":28C:00002/001"
    rows = (
        Row(-2_550, "Factuur 2026-17", "Jan Jansen", DUTCH),
        Row(500),
    )
    return Sample(_text(*frame, *first, "-", *frame, *second, "-"), rows, 97_950)


def ing_netherlands() -> Sample:
    """SWIFT's blocks on lines of their own; the other side in one word; debit with a second letter."""
    body = _statement(
        ":61:2603020302DR1,01NTRFEREF//26030250000001",
        "/TRCD/00100/",
        f":86:/EREF/EV12341//CNTP/{DUTCH}/ABNANL2A/Jan Jansen///REMI/USTD//Huur maart 2026/",
        ":61:260302C,99NTRFNONREF//26030250000002",
        ":86:/EREF/NONREF//MARF/M-1//CSID/NL32ZZZ999999991234//REMI/USTD//contributie/",
        account=DUTCH, closing="C260302EUR99,98",
    )  # fmt: skip
    frame = ("{1:F01INGBNL2ABXXX0000000000}", "{2:I940INGBNL2AXXXN}", "{4:")
    rows = (
        Row(-101, "Huur maart 2026", "Jan Jansen", DUTCH, "EV12341"),
        Row(99, "contributie"),
    )
    return Sample(_text(*frame, *body, "-}"), rows, 9_998)


def ing_netherlands_old() -> Sample:
    body = _statement(":61:260302C12,N01 NONREF", ":86:GIROTEL", account=DUTCH, closing="C260302EUR112,")
    return Sample(_text("0000 01INGBNL2AXXXX00001", "0000 01INGBNL2AXXXX00001", "940 00", *body, "-"), (Row(1_200),))


def rabobank() -> Sample:
    body = _statement(
        ":61:260302D000000000010,25N102NONREF", ":86:/BENM//NAME/Bakkerij de Vries/REMI/brood en meer/ISDT/2026-03-02",
        account=f"{DUTCH} EUR", closing="C260302EUR000000000089,75",
    )  # fmt: skip
    return Sample(_text(":940:", *body), (Row(-1_025, "brood en meer", "Bakkerij de Vries"),), 8_975)


def bunq() -> Sample:
    """Everything of the frame on one line with the first field."""
    body = _statement(
        ":61:2603020302C10,00NTRFNONREF", f":86:/ORDP//NAME/J. de Wit/IBAN/{DUTCH}/REMI/pizza",
        account=DUTCH, closing="C260302EUR110,00",
    )  # fmt: skip
    body[0] = "{1:F01BUNQNL2AXXXX0000000000}{2:O9400000260302BUNQNL2AXXXX00000000002603020000N}{4:" + body[0]
    return Sample(_text(*body, "-}{5:{CHK:0123456789AB}}"), (Row(1_000, "pizza", "J. de Wit", DUTCH),), 11_000)


def swiss_with_transmission_marks() -> Sample:
    """Starts with \x01, ends with \x03; messages parted by $."""
    body = _statement(
        ":61:2603020302C50,NTRFNONREF//ABC-1", "Gutschrift", ":86:QRR 210000000003139471430009017",
        account=SWISS, opening="C260301CHF0,", closing="C260302CHF50,",
    )  # fmt: skip
    start = "\x01{1:F01UBSWCHZHXXXX0000000000}{2:O9400000260302UBSWCHZHXXXX00000000002603020000N}{4:"
    return Sample(_text(start, *body, "-}\x03", "$"), (Row(5_000, "QRR 210000000003139471430009017"),), 5_000)


def polish_bank() -> Sample:
    """The account after a slash, sub-fields with another separator, the currency's third letter after the mark."""
    body = _statement(
        ":61:2603020302DN100,00NTRFNONREF//0001",
        ":86:020<00Przelew<10001<20Faktura 15<21za marzec<30 10901014<31" + "0000071219812874"
        + "<32ABC Spolka z o.o.",
        account=f"/{POLISH}", opening="C260301PLN100,00", closing="C260302PLN0,00",
    )  # fmt: skip
    return Sample(_text(*body, "-"), (Row(-10_000, "Faktura 15 za marzec", "ABC Spolka z o.o."),), 0)


def sparkasse() -> Sample:
    """Each tag begins a sub-field; a value goes on in the next one; blanks at its end are cut off."""
    body = _statement(
        ":61:2603020302D19,99N005NONREF",
        ":86:105?00FOLGELASTSCHRIFT?109248?20EREF+0123456789ABCDEFGHIJKL",
        "?21MREF+MANDAT-7?22CRED+DE98ZZZ09999999999?23SVWZ+Beitrag zur Haftpflich",
        "?24tversicherung 2026 Kunde 47?2511?30BYLADEM1001",
        f"?31{OTHER}?32Versicherungsverein auf Geg?33enseitigkeit?34992",
        closing="C260302EUR80,01",
    )  # fmt: skip
    text = "Beitrag zur Haftpflichtversicherung 2026 Kunde 4711"
    row = Row(-1_999, text, "Versicherungsverein auf Gegenseitigkeit", OTHER, "0123456789ABCDEFGHIJKL")
    return Sample(_text(*body, "-"), (row,), 8_001)


def sparkasse_returned_debit() -> Sample:
    body = _statement(
        ":61:2603020302RC25,00NRTINONREF//R-1",
        ":86:109?00RUECKLASTSCHRIFT?109248?20EREF+R-17?21SVWZ+RUECKGABE?30BYLADEM1001",
        f"?31{OTHER}?32Anna Muster?34914", closing="C260302EUR75,00",
    )  # fmt: skip
    return Sample(_text(*body, "-"), (Row(-2_500, "RUECKGABE", "Anna Muster", OTHER, "R-17"),), 7_500)


def volksbank() -> Sample:
    """Text first, then a list of tags with colons; words end where sub-fields end."""
    body = _statement(
        ":61:2603020302C119,00NMSCNONREF",
        ":86:166?00GUTSCHRIFT?10000?20Rechnung 2026-0815 vom?2101.03.2026 Danke?22EREF: RE-0815",
        f"?23IBAN: {OTHER}?24BIC: BYLADEM1001?30BYLADEM1001?31{OTHER}?32{MUSTER}",
        closing="C260302EUR219,00",
    )  # fmt: skip
    row = Row(11_900, "Rechnung 2026-0815 vom 01.03.2026 Danke", MUSTER, OTHER, "RE-0815")
    return Sample(_text(*body, "-"), (row,), 21_900)


def volksbank_second_list() -> Sample:
    body = _statement(
        ":61:2603020302D7,00NDDTNONREF",
        ":86:105?20EREF+NOTPROVIDED?21SVWZ+Zeitschrift Maerz MREF?22: M-77 CRED: DE98ZZZ0999999?239999",
        "?24IBAN: DE02120300000000202?25051 BIC: BYLADEM1001?32Verlag",
        closing="C260302EUR93,00",
    )  # fmt: skip
    return Sample(_text(*body, "-"), (Row(-700, "Zeitschrift Maerz", "Verlag", OTHER),), 9_300)


def private_bank_with_a_blank_before_the_code() -> Sample:
    body = _statement(
        ":61:2603020302D12,35 NTRFNONREF", ":86:Kartenzahlung Baumarkt",
        ":61:260302C0,35NNMSCNONREF//B-2", ":86:020?20Zins?21anteil?32Bank", closing="C260302EUR88,00",
    )  # fmt: skip
    rows = (Row(-1_235, "Kartenzahlung Baumarkt"), Row(35, "Zins anteil", "Bank"))
    return Sample(_text(*body, "-"), rows, 8_800)


def interest_on_the_thirtieth_of_february() -> Sample:
    body = _statement(
        ":61:2602300302C1,50NINTNONREF", ":86:814?20ZINSEN FEBRUAR", ":61:2602290302D1,00NINTNONREF", ":86:814?20STEUER",
        closing="C260302EUR100,50",
    )  # fmt: skip
    last, booked = date(2026, 2, 28), date(2026, 3, 2)
    rows = (
        Row(150, "ZINSEN FEBRUAR", value_date=last, booking_date=booked),
        Row(-100, "STEUER", value_date=last, booking_date=booked),
    )
    return Sample(_text(*body, "-"), rows, 10_050, ("There is no 2026-02-30", "There is no 2026-02-29"))


def days_that_longer_months_have() -> Sample:
    body = _statement(
        ":61:2511311130C1,50NINTNONREF", ":86:814?20ZINSEN", ":61:2509300931D1,00NINTNONREF", ":86:814?20STEUER",
        opening="C250931EUR100,00", closing="C251130EUR100,50",
    )  # fmt: skip
    november, september = date(2025, 11, 30), date(2025, 9, 30)
    rows = (
        Row(150, "ZINSEN", value_date=november, booking_date=november),
        Row(-100, "STEUER", value_date=september, booking_date=september),
    )
    warnings = ("There is no 2025-09-31", "There is no 2025-11-31", "There is no 2025-09-31")
    return Sample(_text(*body, "-"), rows, 10_050, warnings)


def blanks_or_zeros_for_the_entry_date() -> Sample:
    body = _statement(
        ":61:260302    D65,00NTRFNONREF", ":86:eins", ":61:2603020000C5,00NTRFNONREF", ":86:zwei",
        closing="C260302EUR40,00",
    )  # fmt: skip
    day = date(2026, 3, 2)
    rows = (Row(-6_500, "eins", value_date=day, booking_date=day), Row(500, "zwei", value_date=day, booking_date=day))
    return Sample(_text(*body, "-"), rows, 4_000)


def codes_of_one_letter_or_none() -> Sample:
    lines = ("C1,00N", "C1,00NNONREF//B-2", "C1,00N//B-3", "C1,00NONREF", "C1,00//B-5", "C1,00 N K-6", "C1,00 4711")
    movements = [line for rest in lines for line in (f":61:2603020302{rest}", f":86:nach {rest}")]
    rows = tuple(Row(100, f"nach {rest}") for rest in lines)
    return Sample(_text(*_statement(*movements, closing="C260302EUR107,00"), "-"), rows, 10_700)


def more_zeros_than_the_form_has() -> Sample:
    body = _statement(
        ":61:2603020302C0000000000000012,50NTRFNONREF", ":86:eins", ":61:2603020302C0000000000000000,00NTRFNONREF",
        ":86:nichts", opening="C260301EUR0000000000000000,00", closing="C260302EUR0000000000000012,50",
    )  # fmt: skip
    return Sample(_text(*body, "-"), (Row(1_250, "eins"), Row(0, "nichts")), 1_250)


def an_original_amount_with_three_decimals() -> Sample:
    body = _statement(":61:2603020302D25,00NTRFNONREF", "/OCMT/KWD8,125/", ":86:Kuwait", closing="C260302EUR75,00")
    return Sample(_text(*body, "-"), (Row(-2_500, "Kuwait"),), 7_500, ("8,125 has more than two decimals",))


def fints_with_signs_for_line_ends() -> Sample:
    """Each @@ is the end of a line, also where two pieces that are read one after the other meet."""
    body = _statement(
        ":61:2603020302C5,00NTRFNONREF", ":86:166?00GUTSCHRIFT?20SVWZ+Miete?32Anna Muster", closing="C260302EUR105,00"
    )
    return Sample(("@@" + "@@".join(body) + "@@-@@").encode(), (Row(500, "Miete", "Anna Muster"),), 10_500)


def without_closing_balance() -> Sample:
    body = _statement(":61:2603020302C1,00NTRFNONREF", ":86:eins", closing="")[:-1]
    return Sample(
        _text(*body), (Row(100, "eins"),), None, ("without a closing balance",), {"unbalanced": True}, "(:62F:)"
    )


def anonymised() -> Sample:
    """Amounts changed, balances not."""
    body = _statement(":61:2603020302C1,00NTRFNONREF", ":86:eins", closing="C260302EUR345,67")
    return Sample(
        _text(*body, "-"), (Row(100, "eins"),), 34_567, ("make 101.00 EUR, but the statement closes with 345.67",),
        {"unbalanced": True}, "do not add up",
    )  # fmt: skip


def exporter_with_a_title() -> Sample:
    """A program that puts its own words above the statement."""
    body = _statement(":61:2603020302C1,00NTRFNONREF", ":86:eins", closing="C260302EUR101,00")
    return Sample(_text("Umsatzexport 2026", *body, "-"), (Row(100, "eins"),), 10_100, ("'Umsatzexport 2026' belongs",))


def _umlauts() -> list[str]:
    return _statement(
        ":61:2603020302D1,00NTRFNONREF", f":86:005?20Grüße aus der Straße für?21Käse?31{OTHER}?32Müller & Söhne",
        closing="C260302EUR99,00",
    )  # fmt: skip


UMLAUTS = (Row(-100, "Grüße aus der Straße für Käse", "Müller & Söhne", OTHER),)


def old_sparkasse_in_code_page_850() -> Sample:
    return Sample("\r\n".join(_umlauts()).encode("cp850"), UMLAUTS, 9_900)


def windows_program() -> Sample:
    return Sample("\r\n".join(_umlauts()).encode("cp1252"), UMLAUTS, 9_900)


def old_program_in_seven_bits() -> Sample:
    german = str.maketrans("ÄÖÜäöüß", "[\\]{|}~")
    return Sample("\r\n".join(_umlauts()).translate(german).encode("ascii"), UMLAUTS, 9_900)


def mac_with_carriage_returns() -> Sample:
    return Sample(("\ufeff" + "\r".join(_umlauts()) + "\r").encode(), UMLAUTS, 9_900)


def intraday_without_a_floor() -> Sample:
    """MT942 that only its frame tells."""
    body = [":20:VMK", f":25:{GERMAN}", ":28C:0/1", ":61:2603020302C5,00 NTRFNONREF//V-1", ":86:166?20SVWZ+Vormerkung"]
    frame = "{1:F01COBADEFFXXXX0000000000}{2:O9420000260302COBADEFFXXXX00000000002603020000N}{4:"
    return Sample(_text(frame, *body, ":90D:0EUR0,", ":90C:1EUR5,00", "-}"), (Row(500, "Vormerkung"),))


ALL = {
    write.__name__: write
    for write in (
        abn_amro, ing_netherlands, ing_netherlands_old, rabobank, bunq, swiss_with_transmission_marks, polish_bank,
        sparkasse, sparkasse_returned_debit, volksbank, volksbank_second_list, private_bank_with_a_blank_before_the_code,
        interest_on_the_thirtieth_of_february, days_that_longer_months_have, blanks_or_zeros_for_the_entry_date,
        codes_of_one_letter_or_none, more_zeros_than_the_form_has, an_original_amount_with_three_decimals,
        fints_with_signs_for_line_ends, without_closing_balance, anonymised, exporter_with_a_title,
        old_sparkasse_in_code_page_850, windows_program, old_program_in_seven_bits, mac_with_carriage_returns,
        intraday_without_a_floor,
    )
}  # fmt: skip
