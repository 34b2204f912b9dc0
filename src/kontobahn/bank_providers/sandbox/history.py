"""An account's history before it is connected: some months of a small company's bookings. Pure, from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta

from kontobahn.bank_providers.sandbox.rules import (
    COMPANY,
    AccountPlan,
    Bank,
    Booking,
    Party,
    Person,
    card_purchase,
    direct_debit,
    fee,
    transfer,
)

DAYS = 118
MANY = 5000

_CUSTOMERS = tuple(
    Party(name, 100 + number, "sales")
    for number, name in enumerate((
        "Bäckerei Sonnenkorn GmbH", "Elektro Brandt OHG", "Hotel Seeblick GmbH", "Metallbau Krüger GmbH", "Optik Hell GmbH",
        "Praxis Dr. Sommer", "Quartier Wohnbau eG", "Weinhandel Rebstock GmbH", "Autohaus Nord GmbH", "Zahntechnik Weiß GmbH",
    ))
)  # fmt: skip
_SUPPLIERS = tuple(
    Party(name, 200 + number, category)
    for number, (name, category) in enumerate((
        ("Großhandel Zentral GmbH", "merchandise"), ("Papier & Mehr GmbH", "office_supplies"), ("Spedition Rollfix KG", "shipping"),
        ("Verpackung Nord GmbH", "merchandise"), ("Werbeagentur Laut", "marketing"), ("Kanzlei Dr. Recht", "legal"),
    ))
)  # fmt: skip
# Day of the month, who, amount in cents, text.
_MONTHLY = (
    (1, Party("Immobilien Haus und Hof KG", 301, "office_rent"), 238_000, "Miete {month} Lager und Buero Industriestr. 12"),
    (3, Party("Telekomnetz AG", 302, "phone"), 8_990, "Rechnung {month} Kundennummer 4471189 Vielen Dank"),
    (5, Party("Stadtwerke Musterstadt", 303, "electricity"), 41_700, "Abschlag Strom Vertragskonto 200817733"),
    (10, Party("Finanzamt Beispielstadt", 304, "vat"), 311_420, "Umsatzst. {month} St.Nr. 999/815/08150"),
    (15, Party("Haftpflicht Union a. G.", 305, "business_insurance"), 12_940, "Betriebshaftpflicht Vertrag 77-204.881"),
    (25, Party("Fuhrpark Leasing GmbH", 306, "leasing"), 38_950, "Leasingrate {month} Kennzeichen BS-KB 204"),
)  # fmt: skip
_STAFF = tuple(
    Party(name, 400 + number, "wages") for number, name in enumerate(("Erika Muster", "Jonas Beispiel", "Mia Probst"))
)
_SHOPS = (
    Party("Tankstelle Ringstrasse", 501, "gas_and_fuel"),
    Party("Baumarkt Hammer", 502, "equipment"),
    Party("Bistro Mittagspause", 503, "cafes_and_restaurants"),
    Party("Buerobedarf Klammer", 504, "office_supplies"),
)
_SAVINGS = Party(COMPANY, 601, "transfer")
_MONTHS = [
    "Januar",
    "Februar",
    "Maerz",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
_SAVED_MINOR, _SAVING_DAY = 50_000, 20


def history(person: Person, bank: Bank, account: AccountPlan, today: date) -> list[Booking]:
    """Returns the account's bookings before it is connected, oldest first; pending ones come last."""
    if person.bookings == "none":
        return []
    rng = random.Random(f"{person.name} {bank.code} {account.nature}")
    days = [today - timedelta(days=back) for back in range(DAYS, 0, -1)]
    match account.nature:
        case "checking":
            is_many = person.bookings == "many"
            made = _many(bank, account, days, rng) if is_many else _company(bank, account, days, rng)
        case "savings":
            made = _savings(bank, account, days)
        case "investment":
            made = _investments(bank, account, days, rng)
        case _:
            made = _purchases(days, rng)
    bookings = sorted(made, key=lambda booking: booking.made_on)
    if person.name == "pending" and account.nature in ("checking", "credit_card", "ewallet"):
        bookings += _pending(today, rng)
    return bookings


def _company(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    invoice = 1000
    for day in days:
        month = f"{_MONTHS[day.month - 1]} {day.year}"
        for on, party, amount, text in _MONTHLY:
            if day.day == on:
                yield direct_debit(
                    bank, day, amount, party, text.format(month=month), holder=account.holder_name, time="06:00:00"
                )
        if day.day == _SAVING_DAY:
            text = "Ruecklage Tagesgeld"
            yield transfer(
                bank, day, -_SAVED_MINOR, _SAVINGS, text, holder=account.holder_name, mode="transfer", time=_time(rng)
            )
        if day.day == 28:
            for number, person in enumerate(_STAFF):
                text = f"Lohn/Gehalt {day:%m/%Y} Personalnr. {number + 11}"
                yield transfer(bank, day, -(198_000 + 14_100 * number), person, text, holder=account.holder_name)
        if (day + timedelta(days=1)).day == 1:
            yield fee(
                day, 1_290, f"Abrechnung {day:%d.%m.%Y} Entgelte vom {day.replace(day=1):%d.%m.} bis {day:%d.%m.}"
            )
        if day.weekday() >= 5:
            continue
        for _ in range(rng.choice((0, 1, 1, 2))):
            invoice += rng.randint(1, 3)
            yield _receipt(bank, account, day, invoice, rng)
        if rng.random() < 0.35:
            yield _bill_paid(bank, account, day, rng)
        if rng.random() < 0.3:
            yield card_purchase(day, rng.randint(450, 14_000), rng.choice(_SHOPS), "Beispielstadt", _time(rng))


def _many(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    for number in range(MANY):
        yield _receipt(bank, account, days[number * len(days) // MANY], 10_000 + number, rng)


def _receipt(bank: Bank, account: AccountPlan, day: date, invoice: int, rng: random.Random) -> Booking:
    customer = rng.choice(_CUSTOMERS)
    text = f"RE-{day.year}-{invoice} Kd-Nr {4000 + customer.number}"
    reference = f"RE{invoice}" if rng.random() < 0.7 else None
    payer = "Hausverwaltung Schlüssel GmbH" if rng.random() < 0.05 else None
    return transfer(
        bank, day, rng.randint(5_900, 240_000), customer, text,
        holder=account.holder_name, reference=reference, time=_time(rng), original_party=payer,
    )  # fmt: skip


def _bill_paid(bank: Bank, account: AccountPlan, day: date, rng: random.Random) -> Booking:
    supplier = rng.choice(_SUPPLIERS)
    number = rng.randint(10_000, 99_999)
    text = f"Rechnung {number} vom {day - timedelta(days=12):%d.%m.%Y} abzgl. 2 % Skonto"
    amount = -rng.randint(4_000, 160_000)
    return transfer(
        bank, day, amount, supplier, text, holder=account.holder_name, reference=f"ER-{number}", time=_time(rng)
    )


def _savings(bank: Bank, account: AccountPlan, days: list[date]) -> Iterator[Booking]:
    for day in days:
        if day.day == _SAVING_DAY:
            yield transfer(
                bank, day, _SAVED_MINOR, _SAVINGS, "Ruecklage Tagesgeld", holder=account.holder_name, mode="transfer"
            )
        if day.month % 3 == 0 and (day + timedelta(days=1)).day == 1:
            extra = {"additional": "Zinsen"}
            yield Booking(day, 12_418, f"Habenzinsen Quartal {day.month // 3}/{day.year}", "investment", extra=extra)


def _investments(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    for day in days:
        if day.day in (2, 16):
            name = rng.choice(("Weltindex Anteile", "Anleihen Euroraum", "Rohstoffkorb"))
            yield Booking(day, -rng.randint(20_000, 60_000), f"Kauf {name} {rng.randint(2, 9)} Stueck", "investment")
        if day.day == 27:
            yield Booking(day, rng.randint(900, 9_000), "Ausschuettung Weltindex Anteile", "dividends")


def _purchases(days: list[date], rng: random.Random) -> Iterator[Booking]:
    for day in days:
        if rng.random() < 0.55:
            yield card_purchase(day, rng.randint(300, 9_900), rng.choice(_SHOPS), "Beispielstadt", _time(rng))
        if day.day == 2:
            yield Booking(day, 60_000, f"Ausgleich Abrechnung {day:%m/%Y}", "transfer", "transfer")


def _pending(today: date, rng: random.Random) -> Iterator[Booking]:
    for shop in _SHOPS[:3]:
        booking = card_purchase(today, rng.randint(1_000, 9_000), shop, "Beispielstadt", _time(rng))
        yield booking._replace(status="pending")


def _time(rng: random.Random) -> str:
    return f"{rng.randint(6, 20):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"
