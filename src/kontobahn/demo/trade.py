"""The payments of the demo's customers and suppliers: the same world in the books and at the bank.

The bank shows every payment that the books show as booked, and beyond them the cases below: their documents are open in the books, and
what is about them has arrived at the bank and is not booked. So a run of matching finds something of every class.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.bank_providers.sandbox.history import DAYS
from kontobahn.bank_providers.sandbox.rules import BANKS, COMPANY, Booking, Party, direct_debit, transfer

BANK = "musterbank"
DEBTORS = (
    "Bäckerei Sonnenkorn GmbH", "Café am Markt e. K.", "Elektro Brandt OHG", "Fahrradhaus Kettler GmbH", "Gasthof Zur Linde",
    "Hotel Seeblick GmbH", "Ingenieurbüro Vogt", "Juwelier Stein KG", "Kinderladen Pusteblume e. V.", "Landhandel Petersen GmbH",
    "Metallbau Krüger GmbH", "Naturkost Grünewald", "Optik Hell GmbH", "Praxis Dr. Sommer", "Quartier Wohnbau eG",
    "Reisebüro Fernweh", "Schreinerei Holzmann", "Tierarztpraxis Wolf", "Uhren Beck e. K.", "Verlag Blauer Reiter GmbH",
    "Weinhandel Rebstock GmbH", "Yogastudio Om", "Zahntechnik Weiß GmbH", "Autohaus Nord GmbH",
)  # fmt: skip
CREDITORS = (
    "Stadtwerke Musterstadt", "Papier & Mehr GmbH", "Spedition Rollfix KG", "Software Allee AG", "Möbelfabrik Süd GmbH",
    "Büroreinigung Blitz", "Versandhaus Paket GmbH", "Kanzlei Dr. Recht", "Telekomnetz AG", "Großhandel Zentral GmbH",
    "Verpackung Nord GmbH", "Werbeagentur Laut",
)  # fmt: skip
# Pays within ten days less two per cent.
WITH_DISCOUNT = "Weinhandel Rebstock GmbH"
# The bill that the demo's settled payment order names.
ORDERED, ORDERED_BILL, ORDERED_CENTS = "Papier & Mehr GmbH", "20417", 148_75


class Document(NamedTuple):
    """An invoice of ours, or a supplier's bill. `number` is what both sides call it by, with the year left open."""

    number: str
    cents: int
    days_ago: int

    def day(self, today: date) -> date:
        return today - timedelta(days=self.days_ago)

    def beleg(self, today: date) -> str:
        return self.number.format(year=self.day(today).year)


class Case(NamedTuple):
    """Open documents of a partner, and the movement about them. `paid_cents` is signed as at the bank; 0: none has arrived."""

    partner: str
    documents: tuple[Document, ...]
    paid_cents: int
    paid_days_ago: int = 1
    # {0} and {1} are the documents' numbers.
    text: str = "Rechnung {0}"
    is_debit: bool = False


# Numbers above those of the years' random trade. None of the amounts is another document's.
CASES = (
    Case("Hotel Seeblick GmbH", (Document("RE-{year}-0701", 1_284_65, 21),), 1_284_65, 4),
    Case("Autohaus Nord GmbH", (Document("RE-{year}-0702", 2_356_20, 30),), 2_356_20, 2, "{0} Winterreifen"),
    Case(WITH_DISCOUNT, (Document("RE-{year}-0703", 952_00, 8),), 932_96, 2, "RE {0} abzgl. 2% Skonto"),
    Case(
        "Metallbau Krüger GmbH",
        (Document("RE-{year}-0704", 418_88, 26), Document("RE-{year}-0705", 1_071_00, 19)),
        1_489_88, 3, "{0} und {1}",
    ),
    Case("Optik Hell GmbH", (Document("RE-{year}-0706", 743_75, 24),), 693_75, 3, "Rechnung {0} abzgl. Transportschaden"),
    Case("Praxis Dr. Sommer", (Document("RE-{year}-0707", 327_37, 17),), 327_37, 1, "Vielen Dank fuer die schnelle Lieferung"),
    Case("Telekomnetz AG", (Document("TN-{year}-88421", 172_55, 12),), -172_55, 2, "Rechnung {0}", is_debit=True),
    Case(ORDERED, (Document(ORDERED_BILL, ORDERED_CENTS, 9),), 0),
)  # fmt: skip


class Paid(NamedTuple):
    """A payment that the books show; `cents` signed as at the bank."""

    day: date
    cents: int
    konto: str
    beleg: str


class _Partner(Party):
    """A partner of the books, whose account at the bank the books know. `number` is its place among all."""

    @property
    def iban(self) -> str:
        return iban_of(self.number)


def place_of(partner: str) -> int:
    return (*DEBTORS, *CREDITORS).index(partner)


def konto_of(partner: str) -> str:
    """The number of its person account, without the zeros of the books."""
    return str(10010 + 10 * DEBTORS.index(partner) if partner in DEBTORS else 70010 + 10 * CREDITORS.index(partner))


def iban_of(place: int) -> str:
    """Returns a made-up account at a made-up bank code, with valid check digits."""
    bban = f"12030000{place + 1000:010d}"
    check = 98 - int(bban + "131400") % 97
    return f"DE{check:02d}{bban}"


def movements(paid: Iterable[Paid], today: date) -> list[Booking]:
    """Returns the bank's side: the payments that are booked, as far back as the bank's history reaches, and the cases."""
    of_konto = {konto_of(name): name for name in (*DEBTORS, *CREDITORS)}
    found = [
        _movement(of_konto[payment.konto], payment.day, payment.cents, f"Rechnung {payment.beleg}")
        for payment in paid
        if today - timedelta(days=DAYS) <= payment.day < today
    ]
    for case in CASES:
        if case.paid_cents:
            text = case.text.format(*(document.beleg(today) for document in case.documents))
            day = today - timedelta(days=case.paid_days_ago)
            found.append(_movement(case.partner, day, case.paid_cents, text, is_debit=case.is_debit))
    return found


def _movement(partner: str, day: date, cents: int, text: str, *, is_debit: bool = False) -> Booking:
    party = _Partner(partner, place_of(partner), "sales" if cents > 0 else "merchandise")
    if is_debit:
        return direct_debit(BANKS[BANK], day, -cents, party, text, holder=COMPANY)
    return transfer(BANKS[BANK], day, cents, party, text, holder=COMPANY)
