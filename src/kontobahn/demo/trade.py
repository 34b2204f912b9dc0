"""Everybody whom the demo's company deals with, and the cases that wait at its bank for somebody to look at them.

Documents of the cases are open in the books, and what is about them has arrived at the bank and is not booked.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.bank_providers.sandbox.rules import BANKS, COMPANY, Booking, Party, direct_debit, transfer

BANK, CARD_BANK = "musterbank", "kartenhaus"
# Invoiced for job tickets, beside what it buys.
TICKET_CUSTOMER = "Maschinenbau Krüger & Söhne GmbH"
DEBTORS = (
    "Bäckerei Sonnenkorn GmbH", "Café am Markt e. K.", "Elektro Brandt OHG", "Fahrradhaus Kettler GmbH", "Gasthof Zur Linde",
    "Hotel Seeblick GmbH", "Ingenieurbüro Vogt", "Juwelier Stein KG", "Kinderladen Pusteblume e. V.", "Landhandel Petersen GmbH",
    "Metallbau Krüger GmbH", "Naturkost Grünewald", "Optik Hell GmbH", "Praxis Dr. Sommer", "Quartier Wohnbau eG",
    "Reisebüro Fernweh", "Schreinerei Holzmann", "Tierarztpraxis Wolf", "Uhren Beck e. K.", "Verlag Blauer Reiter GmbH",
    "Weinhandel Rebstock GmbH", "Yogastudio Om", "Zahntechnik Weiß GmbH", "Autohaus Nord GmbH", TICKET_CUSTOMER,
)  # fmt: skip
# With the numbers of their bills: {year}, {month} and a running {number}.
SUPPLIERS = {
    "Stadtwerke Musterstadt": "SW-{year}-{number:04d}", "Papier & Mehr GmbH": "PM-{number:05d}",
    "Spedition Rollfix KG": "F{year}/{number:04d}", "Software Allee AG": "INV-{number:06d}",
    "Möbelfabrik Süd GmbH": "MS{year}-{number:03d}", "Büroreinigung Blitz": "BB-{year}-{month:02d}",
    "Versandhaus Paket GmbH": "VP{number:08d}", "Kanzlei Dr. Recht": "HN-{year}-{number:03d}",
    "Telekomnetz AG": "TN-{year}-{number:05d}", "Großhandel Zentral GmbH": "GZ{number:07d}",
    "Verpackung Nord GmbH": "VN-{number:05d}", "Werbeagentur Laut": "L{year}-{number:03d}",
}  # fmt: skip
CREDITORS = tuple(SUPPLIERS)


class Purchase(NamedTuple):
    """The account and the tax key of a supplier's bills, and what they are about."""

    konto: str
    key: str
    text: str


PURCHASES = {
    "Stadtwerke Musterstadt": Purchase("4240", "9", "Strom und Gas"), "Papier & Mehr GmbH": Purchase("4930", "9", "Büromaterial"),
    "Spedition Rollfix KG": Purchase("4980", "9", "Fracht"), "Software Allee AG": Purchase("4980", "9", "Softwarelizenzen"),
    "Möbelfabrik Süd GmbH": Purchase("3400", "", "Wareneinkauf Möbel"),
    "Büroreinigung Blitz": Purchase("4250", "9", "Unterhaltsreinigung"),
    "Versandhaus Paket GmbH": Purchase("4940", "8", "Fachliteratur"), "Kanzlei Dr. Recht": Purchase("4950", "9", "Rechtsberatung"),
    "Telekomnetz AG": Purchase("4920", "9", "Telefon und Internet"),
    "Großhandel Zentral GmbH": Purchase("3400", "", "Wareneinkauf"),
    "Verpackung Nord GmbH": Purchase("4980", "9", "Versandkartons"), "Werbeagentur Laut": Purchase("4600", "9", "Werbung"),
}  # fmt: skip
# Pay within ten days less two per cent.
WITH_DISCOUNT = ("Weinhandel Rebstock GmbH", "Autohaus Nord GmbH", "Hotel Seeblick GmbH")
# Have not paid for half a year, or pay by periods of the month.
VERY_LATE, VERY_LATE_DAYS, VERY_LATE_CENTS = "Juwelier Stein KG", 196, 1_932_56
BY_PERIOD = "Landhandel Petersen GmbH"


class Document(NamedTuple):
    """An invoice of ours, or a supplier's bill."""

    cents: int
    days_ago: int


class Case(NamedTuple):
    """Open documents of a partner, and the movement about them. `paid_cents` is signed as at the bank; 0: none has arrived."""

    partner: str
    documents: tuple[Document, ...]
    paid_cents: int
    paid_days_ago: int = 1
    # {0} and {1} are the documents' numbers.
    text: str = "Rechnung {0}"
    is_debit: bool = False
    # Somebody else who pays; the partner if empty.
    payer: str = ""


def _paid(partner: str, cents: int, invoiced: int, paid: int, text: str = "Rechnung {0}") -> Case:
    return Case(partner, (Document(cents, invoiced),), cents, paid, text)


# None of the amounts is another document's.
CLEAR = (
    _paid("Hotel Seeblick GmbH", 1_284_65, 21, 4),
    _paid("Autohaus Nord GmbH", 2_356_20, 24, 2, "{0} Winterreifen"),
    _paid("Landhandel Petersen GmbH", 487_31, 15, 3),
    _paid("Café am Markt e. K.", 212_17, 16, 5, "Rg. {0} danke"),
    _paid("Elektro Brandt OHG", 1_713_43, 18, 6),
    _paid("Fahrradhaus Kettler GmbH", 964_29, 14, 1, "{0}"),
    _paid("Gasthof Zur Linde", 358_63, 19, 7),
    _paid("Ingenieurbüro Vogt", 2_618_17, 17, 4, "Ihre Rechnung {0}"),
    _paid("Kinderladen Pusteblume e. V.", 145_29, 15, 2),
    _paid("Naturkost Grünewald", 829_41, 20, 8),
    _paid("Quartier Wohnbau eG", 3_117_83, 23, 6, "Rechnung {0} Objekt Lindenhof"),
    _paid("Reisebüro Fernweh", 276_19, 16, 3),
    _paid("Schreinerei Holzmann", 1_546_37, 18, 5, "{0} Beschlaege"),
    _paid("Tierarztpraxis Wolf", 398_71, 14, 1),
    _paid("Uhren Beck e. K.", 541_33, 17, 7),
    _paid("Zahntechnik Weiß GmbH", 1_867_97, 22, 9, "Rechnung {0}"),
    Case("Weinhandel Rebstock GmbH", (Document(952_00, 8),), 932_96, 2, "RE {0} abzgl. 2% Skonto"),
    Case("Metallbau Krüger GmbH", (Document(418_88, 21), Document(1_071_00, 19)), 1_489_88, 3, "{0} und {1}"),
    Case("Telekomnetz AG", (Document(172_55, 12),), -172_55, 2, is_debit=True),
)  # fmt: skip


class Order(NamedTuple):
    """A supplier's bill that we have ordered the bank to pay, and how far the bank has come."""

    case: Case
    status: str
    text: str
    in_days: int


def _ordered(
    partner: str, cents: int, days_ago: int, status: str, text: str = "Rechnung {0}", in_days: int = 0
) -> Order:
    return Order(Case(partner, (Document(cents, days_ago),), 0), status, text, in_days)


# The first is paid and waits at the bank, which makes twenty clear ones.
ORDERS = (
    _ordered("Papier & Mehr GmbH", 148_75, 9, "settled"),
    _ordered("Spedition Rollfix KG", 612_00, 8, "executed", "Fracht {0}"),
    _ordered("Werbeagentur Laut", 2_380_00, 11, "rejected", "{0} Kampagne, zweite Rate"),
    _ordered("Großhandel Zentral GmbH", 1_094_80, 6, "authorized", in_days=5),
    _ordered("Kanzlei Dr. Recht", 357_00, 7, "initiated_info_required", "Honorarnote {0}"),
    _ordered("Verpackung Nord GmbH", 226_10, 4, "initiated"),
)  # fmt: skip
# Something was deducted; no number; paid by somebody else; a sum for several; a discount taken too late.
DOUBTFUL = (
    Case("Optik Hell GmbH", (Document(743_75, 24),), 693_75, 3, "Rechnung {0} abzgl. Transportschaden"),
    Case("Praxis Dr. Sommer", (Document(327_37, 17),), 327_37, 1, "Vielen Dank fuer die schnelle Lieferung"),
    Case("Yogastudio Om", (Document(634_09, 19),), 634_09, 4, "Rechnung vom letzten Monat", payer="Sabine Omann"),
    Case("Verlag Blauer Reiter GmbH", (Document(1_206_61, 23), Document(688_27, 12)), 1_500_00, 2, "Abschlag offene Rechnungen"),
    Case("Autohaus Nord GmbH", (Document(1_130_50, 26),), 1_107_89, 5, "{0} abzgl. 2 Prozent"),
)  # fmt: skip
# Matched and handed over already, with whatever else was paid lately.
MATCHED = (
    _paid("Landhandel Petersen GmbH", 1_318_07, 22, 11),
    _paid("Optik Hell GmbH", 265_43, 20, 10),
    _paid("Praxis Dr. Sommer", 419_99, 23, 9, "Ihre Rechnung {0}"),
)  # fmt: skip
# The first customer owes for one invoice, and nothing has arrived for it.
OWING = Case(DEBTORS[0], (Document(538_83, 9),), 0)
CASES = (OWING, *MATCHED, *CLEAR, *DOUBTFUL, *(order.case for order in ORDERS))


def place_of(partner: str) -> int:
    return (*DEBTORS, *CREDITORS).index(partner)


def konto_of(partner: str) -> str:
    """The number of its person account, without the zeros of the books."""
    return str(10010 + 10 * DEBTORS.index(partner) if partner in DEBTORS else 70010 + 10 * CREDITORS.index(partner))


_ASCII = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "é": "e"})


def mail_of(partner: str) -> str:
    word = partner.split(maxsplit=1)[0].lower().translate(_ASCII)
    short = "".join(sign for sign in word if sign.isascii() and sign.isalpha())
    return f"rechnung@{short or 'firma'}.example"


def iban_of(place: int) -> str:
    """Returns a made-up account at a made-up bank code, with valid check digits."""
    bban = f"12030000{place + 1000:010d}"
    check = 98 - int(bban + "131400") % 97
    return f"DE{check:02d}{bban}"


def movement(partner: str, day: date, cents: int, text: str, *, is_debit: bool = False, payer: str = "") -> Booking:
    """Returns what the bank shows of a partner's payment, or of ours to a partner."""
    category = "sales" if cents > 0 else "merchandise"
    place = place_of(partner)
    party = Party(payer, 950, category) if payer else Party(partner, place, category, iban_of(place))
    if is_debit:
        return direct_debit(BANKS[BANK], day, -cents, party, text, holder=COMPANY)
    return transfer(BANKS[BANK], day, cents, party, text, holder=COMPANY)


# --- Days on which banks work


_HOLIDAYS = ((1, 1), (5, 1), (10, 3), (12, 25), (12, 26))


def is_bank_day(day: date) -> bool:
    return day.weekday() < 5 and (day.month, day.day) not in _HOLIDAYS


def bank_day(day: date) -> date:
    """Returns the day, or the next one on which banks work."""
    while not is_bank_day(day):
        day += timedelta(days=1)
    return day


def bank_day_before(day: date) -> date:
    """Returns the day, or the last one before on which banks worked."""
    while not is_bank_day(day):
        day -= timedelta(days=1)
    return day
