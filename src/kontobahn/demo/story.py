"""Three years of the demo's company as facts: what it sold and bought, and everything that moved at its bank. Pure, from a seed.

Bank and books are both made from the movements here, so they agree to the cent. What is older than `WAITING_DAYS` is booked; the rest
has arrived at the bank only. A month's trade is the same whatever the day of today; what happens this month ends yesterday.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from functools import partial
from typing import NamedTuple

from kontobahn.bank_providers.sandbox.rules import (
    BANKS,
    COMPANY,
    Booking,
    Party,
    card_purchase,
    direct_debit,
    fee,
    transfer,
)
from kontobahn.books.satz import Satz
from kontobahn.demo import trade
from kontobahn.demo.trade import CASES, Case, Document, bank_day, bank_day_before, konto_of
from kontobahn.ledger.kontierung import tax_in
from kontobahn.ledger.konto import technical

LENGTH = 4
WAITING_DAYS = 13
GIRO, SAVINGS, CARD, TRANSIT = "1200", "1210", "1730", "1360"
OPENING_GIRO, OPENING_SAVINGS = 42_500_00, 20_000_00
# Owed to us and by us from before these books begin.
OLD_DEBT, OLD_BILL = 1_487_50, 595_00
_SEED = "Kontobahn"
_INVOICES_A_MONTH, _BILLS_A_MONTH = 12, 5
# Nobody but the one who is very late takes longer.
_PAID_DAYS = 60
_RATES = {"8400": 19, "8300": 7, "3400": 19, "9": 19, "8": 7}
# Partner, day of the bill, cents, and whether the supplier debits.
_MONTHLY_BILLS = (
    ("Telekomnetz AG", 3, 89_90, True),
    ("Stadtwerke Musterstadt", 5, 417_00, True),
    ("Büroreinigung Blitz", 18, 226_10, False),
)
_STAFF = (("Erika Muster", 1_980_00), ("Jonas Beispiel", 2_121_00), ("Mia Probst", 2_262_00), ("Dana Demo", 3_350_00))
_WAGE_TAX, _SOCIAL_OF_STAFF, _SOCIAL_OF_COMPANY = 1_487_00, 2_236_00, 2_310_00
_SHOPS = (
    (Party("Tankstelle Ringstrasse", 501, "gas_and_fuel"), "4530"),
    (Party("Baumarkt Hammer", 502, "equipment"), "4980"),
    (Party("Bistro Mittagspause", 503, "cafes_and_restaurants"), "4650"),
    (Party("Buerobedarf Klammer", 504, "office_supplies"), "4930"),
)
_TAX_OFFICE = Party("Finanzamt Beispielstadt", 304, "vat")
_LANDLORD = Party("Immobilien Haus und Hof KG", 301, "office_rent")
_INSURER = Party("Haftpflicht Union a. G.", 305, "business_insurance")
_HEALTH = Party("Gesundheitskasse Musterland", 307, "wages")
_CARD_ISSUER = Party("Kartenhaus Kreditkarten", 308, "transfer")


class Move(NamedTuple):
    """A movement of the current account. `konto` is what it is booked against; with `skonto` a discount beside it."""

    day: date
    cents: int
    konto: str
    text: str
    at_bank: Callable[[], Booking]
    beleg: str = ""
    skonto: int = 0
    key: str = ""
    case: Case | None = None


class CashLine(NamedTuple):
    text: str
    konto: str
    cents: int
    beleg: str | None = None
    key: str | None = None


class CashEntry(NamedTuple):
    book: int
    day: date
    lines: tuple[CashLine, ...]


class Story(NamedTuple):
    today: date
    # Everything but what the bank moved: invoices, bills, wages, purchases by card.
    documents: list[Satz]
    moves: list[Move]
    savings: list[Booking]
    card: list[Booking]
    cash: list[CashEntry]
    # The number of each document of the cases, by partner and document.
    numbers: dict[tuple[str, Document], str]

    @property
    def start_of_waiting(self) -> date:
        """Never in the year before, whose balances are carried over."""
        return max(self.today - timedelta(days=WAITING_DAYS), date(self.today.year, 1, 1))

    def booked(self) -> Iterator[Satz]:
        yield from self.documents
        yield from (_booking(move) for move in self.moves if move.day < self.start_of_waiting)


def number(konto: str) -> str:
    return technical(konto, LENGTH)


def tell(today: date, own_ibans: tuple[str, str]) -> Story:
    """Tells it up to yesterday; `own_ibans` are those of the current account and of the savings."""
    return _Teller(today, own_ibans).tell()


def _booking(move: Move) -> Satz:
    day, konto, bank = move.day.isoformat(), number(move.konto), number(GIRO)
    if move.cents > 0:
        return Satz(move.cents, True, bank, konto, day, move.key, move.beleg, move.text, skonto=move.skonto)
    return Satz(-move.cents, True, konto, bank, day, move.key, move.beleg, move.text, skonto=move.skonto)


class _Sale(NamedTuple):
    """An invoice of ours. `fate` decides whether and when it is paid; a document of a case waits for that case."""

    day: date
    order: int
    partner: str
    cents: int
    konto: str
    fate: float = 0.0
    document: Document | None = None

    def draw(self, low: int, high: int) -> int:
        """Returns a number below `high`, which its fate settles."""
        return low + int(self.fate * 7919) % (high - low)


class _Bill(NamedTuple):
    """A supplier's invoice, and after how many days we pay it; a document of a case waits for that case."""

    day: date
    partner: str
    cents: int
    paid_after: int = 0
    is_debit: bool = False
    document: Document | None = None


class _Teller:
    def __init__(self, today: date, own_ibans: tuple[str, str]) -> None:
        self.today = today
        self.start = date(today.year - 2, 1, 1)
        self.story = Story(today, [], [], [], [], [], {})
        self._own_ibans = own_ibans
        # VAT that is owed for each month.
        self._vat: dict[date, int] = defaultdict(int)
        self._bills: dict[str, int] = defaultdict(int)

    def tell(self) -> Story:
        self._sell()
        self._buy()
        self._use_cash()
        self._use_card()
        for month in self._months():
            self._month(month)
        # After everything that has tax in it.
        for month in self._months():
            self._pay_vat(month)
        self._settle_what_is_old()
        self._pay_cases()
        self.story.moves.sort(key=lambda move: move.day)
        return self.story

    def _months(self) -> Iterator[date]:
        month = self.start
        while month < self.today:
            yield month
            month = _month_after(month)

    def _has_happened(self, day: date) -> bool:
        return self.start <= day < self.today

    def _add(self, move: Move) -> None:
        if move.case is not None or self._has_happened(move.day):
            self.story.moves.append(move)

    def _post(self, satz: Satz) -> None:
        self.story.documents.append(satz)

    def _owe(self, day: date, cents: int, kind: str, *, output: bool) -> None:
        """Adds the tax in a gross amount to what is owed for the month: `output` tax, or less input tax."""
        tax = tax_in(cents, _RATES[kind]) if kind in _RATES else 0
        self._vat[day.replace(day=1)] += tax if output else -tax

    # --- Customers

    def _sell(self) -> None:
        sales = [*self._usual_sales(), *self._sales_of_cases()]
        count: dict[int, int] = defaultdict(int)
        for sale in sorted(sales, key=lambda sale: (sale.day, sale.order)):
            count[sale.day.year] += 1
            self._invoice(sale, f"RE-{sale.day.year}-{count[sale.day.year]:04d}")

    def _usual_sales(self) -> Iterator[_Sale]:
        customers = [name for name in trade.DEBTORS if name not in (trade.VERY_LATE, trade.TICKET_CUSTOMER)]
        for month in self._months():
            rng = random.Random(f"{_SEED} sales {month:%Y-%m}")
            for order in range(_INVOICES_A_MONTH):
                day = bank_day(month + timedelta(days=rng.randrange(26)))
                konto = "8300" if rng.random() < 0.2 else "8400"
                sale = _Sale(day, order, rng.choice(customers), rng.randrange(120_00, 7_000_00), konto, rng.random())
                # All that the first customer bought long ago is paid.
                if self._has_happened(day if sale.partner != trade.OWING.partner else day + timedelta(days=_PAID_DAYS)):
                    yield sale

    def _sales_of_cases(self) -> Iterator[_Sale]:
        late = Case(trade.VERY_LATE, (Document(trade.VERY_LATE_CENTS, trade.VERY_LATE_DAYS),), 0)
        for order, case in enumerate((*CASES, late)):
            for document in case.documents if case.partner in trade.DEBTORS else ():
                day = self._day_of(document)
                yield _Sale(day, 100 + order, case.partner, document.cents, "8400", document=document)

    def _day_of(self, document: Document) -> date:
        return bank_day_before(self.today - timedelta(days=document.days_ago))

    def _invoice(self, sale: _Sale, beleg: str) -> None:
        debtor, revenue, text = number(konto_of(sale.partner)), number(sale.konto), f"Warenverkauf {beleg}"
        self._post(Satz(sale.cents, True, debtor, revenue, sale.day.isoformat(), "", beleg, text))
        self._owe(sale.day, sale.cents, sale.konto, output=True)
        if sale.document is not None:
            self.story.numbers[sale.partner, sale.document] = beleg
            return
        chance = sale.fate
        back = bank_day(sale.day + timedelta(days=3))
        if chance < 0.02:
            if self._has_happened(back):
                text = f"Storno {beleg}"
                self._post(
                    Satz(sale.cents, False, debtor, revenue, back.isoformat(), "", beleg, text, generalumkehr=True)
                )
                self._owe(back, sale.cents, sale.konto, output=False)
        elif chance < 0.06:
            part = sale.cents // 2
            self._receive(sale, beleg, sale.draw(10, 16), part, "Teilzahlung Rechnung {0}")
            self._receive(sale, beleg, sale.draw(25, 40), sale.cents - part, "Restzahlung {0}")
        elif sale.partner in trade.WITH_DISCOUNT and chance < 0.75:
            skonto = (sale.cents * 2 + 50) // 100
            self._receive(sale, beleg, sale.draw(5, 9), sale.cents - skonto, "{0} abzgl. 2% Skonto", skonto)
        else:
            days = sale.draw(25, 42) if chance > 0.95 else sale.draw(6, 19)
            text = ("Rechnung {0}", "{0}", "Ihre Rechnung {0}", "Rg. {0} danke")[sale.draw(0, 4)]
            self._receive(sale, beleg, days, sale.cents, text)

    def _receive(self, sale: _Sale, beleg: str, days: int, cents: int, text: str, skonto: int = 0) -> None:
        day, written = bank_day(sale.day + timedelta(days=days)), text.format(beleg)
        if not self._has_happened(day):
            return
        key = ("3" if sale.konto == "8400" else "2") if skonto else ""
        at_bank = partial(trade.movement, sale.partner, day, cents, written)
        self._add(Move(day, cents, konto_of(sale.partner), f"Zahlung {beleg}", at_bank, beleg, skonto, key))
        if skonto:
            self._owe(day, skonto, sale.konto, output=False)

    # --- Suppliers

    def _buy(self) -> None:
        bills = [bill for bill in self._usual_bills() if self._has_happened(bill.day)]
        for bill in sorted([*bills, *self._bills_of_cases()], key=lambda bill: bill.day):
            beleg = self._receive_bill(bill)
            if bill.document is not None:
                self.story.numbers[bill.partner, bill.document] = beleg
            else:
                self._pay_bill(bill, bank_day(bill.day + timedelta(days=bill.paid_after)), beleg)

    def _usual_bills(self) -> Iterator[_Bill]:
        others = [name for name in trade.CREDITORS if name not in {bill[0] for bill in _MONTHLY_BILLS}]
        sellers = [name for name in others if trade.PURCHASES[name].konto == "3400"]
        helpers = [name for name in others if name not in sellers]
        for month in self._months():
            rng = random.Random(f"{_SEED} bills {month:%Y-%m}")
            for _ in range(_BILLS_A_MONTH):
                day = bank_day(month + timedelta(days=rng.randrange(26)))
                partner, cents = rng.choice(sellers), rng.randrange(1_900_00, 8_600_00)
                if rng.random() < 0.4:
                    partner, cents = rng.choice(helpers), rng.randrange(60_00, 1_400_00)
                yield _Bill(day, partner, cents, rng.randrange(6, 13))
            for name, on, cents, is_debit in _MONTHLY_BILLS:
                yield _Bill(bank_day(month.replace(day=on)), name, cents, 9, is_debit)

    def _bills_of_cases(self) -> Iterator[_Bill]:
        for case in CASES:
            for document in case.documents if case.partner in trade.CREDITORS else ():
                yield _Bill(self._day_of(document), case.partner, document.cents, document=document)

    def _receive_bill(self, bill: _Bill) -> str:
        scheme = trade.SUPPLIERS[bill.partner]
        self._bills[bill.partner] += 7
        beleg = scheme.format(year=bill.day.year, month=bill.day.month, number=self._bills[bill.partner] + 100)
        konto, key, text = trade.PURCHASES[bill.partner]
        creditor = number(konto_of(bill.partner))
        self._post(Satz(bill.cents, True, number(konto), creditor, bill.day.isoformat(), key, beleg, text))
        self._owe(bill.day, bill.cents, key or konto, output=False)
        return beleg

    def _pay_bill(self, bill: _Bill, day: date, beleg: str) -> None:
        at_bank = partial(trade.movement, bill.partner, day, -bill.cents, f"Rechnung {beleg}", is_debit=bill.is_debit)
        self._add(Move(day, -bill.cents, konto_of(bill.partner), f"Überweisung {beleg}", at_bank, beleg))

    def _settle_what_is_old(self) -> None:
        """Paid since these books began, which do not know the documents: a customer's debt in two parts."""
        for name, cents, day, text in (
            (trade.DEBTORS[0], 1_000_00, 20, "RE-ALT-0311"), (trade.DEBTORS[0], OLD_DEBT - 1_000_00, 380, "RE-ALT-0311"),
            (trade.CREDITORS[0], -OLD_BILL, 12, "SW-ALT-0871"),
        ):  # fmt: skip
            on = bank_day(self.start + timedelta(days=day))
            at_bank = partial(trade.movement, name, on, cents, text)
            self._add(Move(on, cents, konto_of(name), f"Zahlung {text}", at_bank, text))

    def _pay_cases(self) -> None:
        for case in CASES:
            if not case.paid_cents:
                continue
            text = case.text.format(*(self.story.numbers[case.partner, one] for one in case.documents))
            day = max(bank_day_before(self.today - timedelta(days=case.paid_days_ago)), self.story.start_of_waiting)
            at_bank = partial(
                trade.movement, case.partner, day, case.paid_cents, text, is_debit=case.is_debit, payer=case.payer
            )
            self._add(Move(day, case.paid_cents, konto_of(case.partner), text, at_bank, case=case))

    # --- Every month: rent, wages, taxes, fees, savings

    def _month(self, month: date) -> None:
        name = f"{month:%m/%Y}"
        self._debit(bank_day(month), _LANDLORD, 2_380_00, "4210", f"Miete {name} Lager und Buero Industriestr. 12")
        self._debit(bank_day(month.replace(day=15)), _INSURER, 129_40, "4360", "Betriebshaftpflicht Vertrag 77-204.881")
        self._pay_wages(month, name)
        self._put_aside(bank_day(month.replace(day=20)), 500_00)
        last = bank_day_before(_month_after(month) - timedelta(days=1))
        first = month.replace(day=1)
        charged = f"Abrechnung {last:%d.%m.%Y} Entgelte vom {first:%d.%m.} bis {last:%d.%m.}"
        self._add(Move(last, -12_90, "4970", charged, partial(fee, last, 12_90, charged)))
        if month.month % 3 == 0 and self._has_happened(last):
            text = f"Habenzinsen Quartal {month.month // 3}/{month.year}"
            self._save(Booking(last, 64_18, text, "investment", extra={"additional": "Zinsen"}), text, "2650")
        if month.month in (3, 6, 9, 12):
            due = bank_day(month.replace(day=10))
            self._debit(
                due, _TAX_OFFICE, 450_00, "2200", f"Koerperschaftsteuer {month.month // 3}. Quartal {month.year}"
            )
        if month.month in (2, 5, 8, 11):
            due = bank_day(month.replace(day=15))
            self._debit(
                due, _TAX_OFFICE, 380_00, "4320", f"Gewerbesteuer {(month.month + 1) // 3}. Quartal {month.year}"
            )

    def _debit(self, day: date, party: Party, cents: int, konto: str, text: str) -> None:
        at_bank = partial(direct_debit, BANKS[trade.BANK], day, cents, party, text, holder=COMPANY)
        self._add(Move(day, -cents, konto, text, at_bank))

    def _transfer(self, day: date, cents: int, party: Party, konto: str, text: str) -> None:
        at_bank = partial(transfer, BANKS[trade.BANK], day, cents, party, text, holder=COMPANY)
        self._add(Move(day, cents, konto, text, at_bank))

    def _put_aside(self, day: date, cents: int) -> None:
        giro, savings = (Party(COMPANY, 601, "transfer", iban) for iban in self._own_ibans)
        text = "Ruecklage Tagesgeld"
        self._transfer(day, -cents, savings, TRANSIT, text)
        if self._has_happened(day):
            self._save(
                transfer(BANKS[trade.BANK], day, cents, giro, text, holder=COMPANY, mode="transfer"), text, TRANSIT
            )

    def _save(self, booking: Booking, text: str, konto: str) -> None:
        day = booking.made_on.isoformat()
        self.story.savings.append(booking)
        self._post(Satz(booking.amount_minor, True, number(SAVINGS), number(konto), day, buchungstext=text))

    def _pay_wages(self, month: date, name: str) -> None:
        day = bank_day_before(month.replace(day=28))
        net = sum(cents for _, cents in _STAFF)
        if self._has_happened(day):
            for cents, konto, gegenkonto, text in (
                (net + _WAGE_TAX + _SOCIAL_OF_STAFF, "4100", "1740", f"Löhne und Gehälter {name}"),
                (_WAGE_TAX, "1740", "1741", f"Lohnsteuer {name}"),
                (_SOCIAL_OF_STAFF, "1740", "1742", f"Sozialversicherung {name}"),
                (_SOCIAL_OF_COMPANY, "4130", "1742", f"Arbeitgeberanteil {name}"),
            ):
                self._post(Satz(cents, True, number(konto), number(gegenkonto), day.isoformat(), buchungstext=text))
        for place, (person, cents) in enumerate(_STAFF):
            text = f"Lohn/Gehalt {name} Personalnr. {place + 11}"
            self._transfer(day, -cents, Party(person, 400 + place, "wages"), "1740", text)
        social = _SOCIAL_OF_STAFF + _SOCIAL_OF_COMPANY
        self._debit(day, _HEALTH, social, "1742", f"SV-Beitraege {name} Betriebsnr. 99815081")
        due = bank_day(_month_after(month).replace(day=10))
        if self._has_happened(day):
            self._debit(due, _TAX_OFFICE, _WAGE_TAX, "1741", f"Lohnsteuer {name} St.Nr. 999/815/08150")

    def _pay_vat(self, month: date) -> None:
        cents = self._vat[month]
        day = bank_day(_month_after(month).replace(day=10))
        # That of December is owed from the year before.
        konto = "1790" if month.month == 12 else "1780"
        text = f"Umsatzst. {month:%m/%Y} St.Nr. 999/815/08150"
        if cents > 0:
            self._debit(day, _TAX_OFFICE, cents, konto, text)
        elif cents < 0:
            self._transfer(day, -cents, _TAX_OFFICE, konto, text)

    # --- Cash and card

    def _use_cash(self) -> None:
        def line(text: str, konto: str, cents: int, beleg: str | None = None, key: str | None = None) -> CashLine:
            return CashLine(text, konto, cents, beleg, key)

        drawn = "Einlage aus Bankkonto"
        for book, ago, lines in (
            (0, 57, (line(drawn, TRANSIT, 500_00),)),
            (1, 57, (line("Wechselgeld", TRANSIT, 200_00),)),
            (0, 55, (line("Barverkauf", "8400", 119_00, "K-1"),)),
            (0, 52, (line("Porto", "4910", -8_50, "K-2"), line("Büromaterial", "4930", -23_80, "K-3", "9"))),
            (1, 48, (line("Fachbuch", "4940", -21_40, "N-1", "8"),)),
            (0, 34, (line("Barverkauf", "8400", 89_25, "K-4"),)),
            (0, 24, (line(drawn, TRANSIT, 300_00),)),
            (0, 12, (line("Bewirtung", "4650", -64_26, "K-5", "9"), line("Porto", "4910", -17_00, "K-6"))),
            (0, 6, (line("Barverkauf", "8400", 45_22, "K-7"),)),
        ):  # fmt: skip
            day = bank_day_before(self.today - timedelta(days=ago))
            self.story.cash.append(CashEntry(book, day, lines))
            for one in lines:
                self._owe(day, abs(one.cents), one.key or one.konto, output=one.cents > 0)
        for ago, cents in ((57, 700_00), (24, 300_00)):
            self._draw(bank_day_before(self.today - timedelta(days=ago)), cents)

    def _draw(self, day: date, cents: int) -> None:
        text = f"Bargeldauszahlung {day:%d.%m.%Y} Musterbank Marktplatz"
        extra = {"additional": "Bargeldauszahlung"}
        self._add(Move(day, -cents, TRANSIT, text, partial(Booking, day, -cents, text, "cash", extra=extra)))

    def _use_card(self) -> None:
        for month in self._months():
            rng, spent = random.Random(f"{_SEED} card {month:%Y-%m}"), 0
            for _ in range(5):
                day, cents = month + timedelta(days=rng.randrange(28)), rng.randrange(12_00, 140_00)
                (shop, konto), time = rng.choice(_SHOPS), f"{rng.randrange(8, 20):02d}:{rng.randrange(60):02d}:00"
                if not self._has_happened(day):
                    continue
                spent += cents
                self.story.card.append(card_purchase(day, cents, shop, "Beispielstadt", time))
                # The key is about the account that stands second.
                self._post(
                    Satz(cents, False, number(CARD), number(konto), day.isoformat(), "9", buchungstext=shop.name)
                )
                self._owe(day, cents, "9", output=False)
            self._settle_card(month, spent)
        self.story.card.sort(key=lambda booking: booking.made_on)

    def _settle_card(self, month: date, spent: int) -> None:
        day, text = bank_day(_month_after(month).replace(day=2)), f"Kreditkartenabrechnung {month:%m/%Y}"
        if spent and self._has_happened(day):
            self._debit(day, _CARD_ISSUER, spent, CARD, text)
            self.story.card.append(Booking(day, spent, f"Ausgleich Abrechnung {month:%m/%Y}", "transfer", "transfer"))


def _month_after(month: date) -> date:
    return (month.replace(day=1) + timedelta(days=32)).replace(day=1)
