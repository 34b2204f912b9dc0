"""The demo's books: a trading company over three fiscal years, made from a fixed seed.

Debtors and creditors with names, part payments, discounts, a reversal, an opening balance whose history is missing, both kinds of
payment terms, two cash books. A second client has no export service, and a second connection has expired.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from kontobahn.bank_providers.sandbox.rules import COMPANY
from kontobahn.books import batches, cash_book, partners, payment_terms, posting, reports, setup, store
from kontobahn.books.satz import Satz
from kontobahn.books.store import Client
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.demo import trade
from kontobahn.demo.trade import Paid
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import connections
from kontobahn.ledger.kassenbuch import CashEntry, CashLine
from kontobahn.ledger.konto import functional, is_debitor, is_personenkonto, technical
from kontobahn.ledger.personenkonto import Adresse, Bankkonto, Email, Personenkonto
from kontobahn.ledger.provider import Author
from kontobahn.ledger.wire import Periode, Zahlungsbedingung

CLIENT_ID, SECOND_CLIENT_ID = "29098-55003", "29098-55004"
CASH_BOOK, SECOND_CASH_BOOK = "Hauptkasse", "Nebenkasse"
LENGTH = 4
_SEED = 20_260_101
_Skonto = tuple[int, int] | None
_INVOICES_A_MONTH, _BILLS_A_MONTH = 32, 18
_TERMS_WITH_DISCOUNT = 30

_COSTS = (("4930", "9"), ("4240", "9"), ("4920", "9"), ("4950", "9"), ("4600", "9"), ("4940", "8"), ("4980", "9"))


class DemoLedger(NamedTuple):
    connection_id: str
    expired_connection_id: str
    fiscal_years: list[str]
    # The payments that the books show as made at the bank.
    paid: list[Paid]

    def facts(self) -> dict[str, Any]:
        return {
            "connection_id": self.connection_id,
            "client_id": CLIENT_ID,
            "second_client_id": SECOND_CLIENT_ID,
            "expired_connection_id": self.expired_connection_id,
            "fiscal_years": self.fiscal_years,
            "kassenname": CASH_BOOK,
        }


def build_ledger(tx: Tx, organization_id: str) -> DemoLedger:
    today = berlin_date(tx.now)
    starts = [date(today.year - back, 1, 1) for back in (2, 1, 0)]
    connection_id = _connection(tx, organization_id, COMPANY, CLIENT_ID, starts[0])
    connection = connections.find_for_operator(tx, connection_id)
    client = store.find_client(tx, connection, CLIENT_ID)
    _master_data(tx, client, starts)
    rng = random.Random(_SEED)
    paid: list[Paid] = []
    for start in starts:
        paid += _post_year(tx, client, start, today, rng, is_first=start == starts[0])
    _cash(tx, client, today)
    second = setup.create_books(
        tx, organization_id, connection_id, name="Demo Vermietung GbR", skr="SKR04", length=LENGTH, client_id=SECOND_CLIENT_ID,
        year_start=starts[-1],
    )  # fmt: skip
    store.unsubscribe(tx, second, store.EXPORT)
    expired_id = _connection(tx, organization_id, "Alte Verbindung", "29098-55009", starts[-1])
    connections.set_status(tx, connections.find_for_operator(tx, expired_id), "expired")
    return DemoLedger(connection_id, expired_id, [start.isoformat() for start in starts], paid)


def _connection(tx: Tx, organization_id: str, name: str, client_id: str, start: date) -> str:
    return setup.create_books(
        tx, organization_id, None, name=name, skr="SKR03", length=LENGTH, client_id=client_id, year_start=start
    ).connection_id


def _number(konto: str) -> str:
    return technical(konto, LENGTH)


# --- Master data


def _master_data(tx: Tx, client: Client, starts: list[date]) -> None:
    for start in starts:
        store.ensure_year(tx, client, start)
    for position, name in enumerate((*trade.DEBTORS, *trade.CREDITORS)):
        nummer = trade.konto_of(name)
        person, row = _person(nummer, name, position, starts[-1]), ""
        if name == trade.WITH_DISCOUNT:
            as_in_file = partners.as_row(msgspec.to_builtins(person))
            row = encode(as_in_file._replace(zahlungsbedingung=_TERMS_WITH_DISCOUNT)).decode()
        partners.save_record(tx, client, _number(nummer), person, row=row)
    setup.add_folders(tx, client, (("EINGANGSRECHNUNG", "Reisekosten"), ("AUSGANGSRECHNUNG", "Onlineshop")))
    for term in _terms():
        payment_terms.save(tx, client, term)
    cash_book.remove_cash_books(tx, client)
    cash_book.create_cash_book(tx, client, CASH_BOOK, _number("1000"))
    cash_book.create_cash_book(tx, client, SECOND_CASH_BOOK, _number("1010"))


def _person(nummer: str, name: str, position: int, start: date) -> Personenkonto:
    short = "".join(char for char in name.split(maxsplit=1)[0].lower() if char.isascii() and char.isalpha())
    return Personenkonto(
        personenkontoNummer=nummer,
        kontaktTyp="COMPANY",
        kontenrahmen="SKR03",
        kontonummernLaenge=LENGTH,
        geschaeftsjahrStartDatum=start,
        firmenname=name,
        emailAdressen=[Email(email=f"rechnung@{short or 'firma'}.example", typ="INVOICE")],
        bankkonten=[Bankkonto(iban=trade.iban_of(position), name=name[:70], istHauptkonto=True)],
        adressen=[
            Adresse(
                adresszeile=f"Musterstraße {position + 1}",
                postleitzahl=f"{10115 + position * 97:05d}",
                ort="Musterstadt",
            )
        ],
    )


def _terms() -> list[Zahlungsbedingung]:
    zero = Decimal(0)

    def days(
        number: int, text: str, net: int, first: tuple[int, int] | None = None, second: tuple[int, int] | None = None
    ) -> Zahlungsbedingung:
        return Zahlungsbedingung(
            id=str(number), bezeichnung=text, skontoFrist1=first[0] if first else None, skontoSatz1=Decimal(first[1]) if first else zero,
            skontoFrist2=second[0] if second else None, skontoSatz2=Decimal(second[1]) if second else zero, nettoFrist=net,
            faelligkeitsart="NACH_TAGE", perioden=[],
        )  # fmt: skip

    by_period = Zahlungsbedingung(
        id="40", bezeichnung="Monatsweise, zwei Zeiträume", skontoFrist1=None, skontoSatz1=Decimal(2), skontoFrist2=None,
        skontoSatz2=zero, nettoFrist=None, faelligkeitsart="ALS_ZEITRAUM",
        perioden=[
            Periode(
                rechnungsbereich="Rechnungen vom 1. bis 15.", skontoFrist1="20. des laufenden Monats", skontoFrist2=None,
                nettoFrist="Monatsende des laufenden Monats",
            ),
            Periode(
                rechnungsbereich="Rechnungen vom 16. bis 31.", skontoFrist1="5. des Folgemonats", skontoFrist2=None,
                nettoFrist="15. des Folgemonats",
            ),
        ],
    )  # fmt: skip
    return [
        days(10, "Sofort ohne Abzug", 0),
        days(20, "14 Tage netto", 14),
        days(_TERMS_WITH_DISCOUNT, "10 Tage 2 %, 30 Tage netto", 30, (10, 2)),
        days(31, "8 Tage 3 %, 14 Tage 2 %, 30 Tage netto", 30, (8, 3), (14, 2)),
        by_period,
    ]


# --- Bookings


def _post_year(tx: Tx, client: Client, start: date, today: date, rng: random.Random, *, is_first: bool) -> list[Paid]:
    """Posts the bookings of a year, and returns what was paid in it."""
    jahr = store.year_of_start(tx, client, start)
    openings = _first_openings(start) if is_first else _carry_over(tx, client, start)
    saetze = [
        *openings,
        *_trade(start, min(today, date(start.year, 12, 31)), rng, is_first=is_first),
        *(satz for satz in _documents_of_cases(today) if satz.belegdatum.startswith(f"{start.year}-")),
    ]
    batch = batches.open_batch(
        tx, client, jahr, kind="demo", source="demo", sha256=f"demo {new_id()}", bezeichnung="Demo"
    )
    poster = posting.begin(tx, client, batch)
    for satz in sorted(saetze, key=lambda satz: satz.belegdatum):
        poster.add(satz)
    poster.finish()
    return [paid for satz in saetze if (paid := _paid(satz)) is not None]


def _documents_of_cases(today: date) -> Iterator[Satz]:
    for case in trade.CASES:
        konto = _number(trade.konto_of(case.partner))
        for document in case.documents:
            day, beleg = document.day(today).isoformat(), document.beleg(today)
            if case.partner in trade.DEBTORS:
                text = f"Warenverkauf {beleg}"
                yield Satz(document.cents, True, konto, _number("8400"), day, belegfeld1=beleg, buchungstext=text)
            else:
                yield Satz(document.cents, True, _number("4920"), konto, day, "9", beleg, "Betriebsausgabe")


def _paid(satz: Satz) -> Paid | None:
    bank, day = _number("1200"), date.fromisoformat(satz.belegdatum)
    if satz.konto == bank and is_personenkonto(satz.gegenkonto):
        return Paid(day, satz.umsatz, functional(satz.gegenkonto, LENGTH), satz.belegfeld1)
    if satz.gegenkonto == bank and is_personenkonto(satz.konto):
        return Paid(day, -satz.umsatz, functional(satz.konto, LENGTH), satz.belegfeld1)
    return None


def _eb(start: date, konto: str, gegenkonto: str, cents: int) -> Satz:
    return Satz(abs(cents), cents > 0, konto, _number(gegenkonto), start.isoformat(), buchungstext="Saldovortrag")


def _first_openings(start: date) -> list[Satz]:
    """Balances from before these books begin; no document explains the 1,487.50 of the first debtor."""
    return [
        _eb(start, _number("1200"), "9000", 4_250_000),
        _eb(start, _number("0420"), "9000", 1_180_000),
        _eb(start, _number("0800"), "9000", -2_500_000),
        _eb(start, _number("10010"), "9008", 148_750),
        _eb(start, _number("70010"), "9009", -59_500),
    ]


def _carry_over(tx: Tx, client: Client, start: date) -> list[Satz]:
    """Balances of the year before, for persons and for the accounts of the balance sheet."""
    previous = date(start.year - 1, 1, 1)
    saetze = []
    for konto, cents in reports.balances(tx, client, previous):
        if is_personenkonto(konto):
            gegenkonto = "9008" if is_debitor(konto) else "9009"
        elif konto[0] in "01":
            gegenkonto = "9000"
        else:
            continue
        if cents:
            saetze.append(_eb(start, konto, gegenkonto, cents))
    return saetze


def _trade(start: date, until: date, rng: random.Random, *, is_first: bool) -> list[Satz]:
    saetze: list[Satz] = []
    if is_first:
        saetze.append(Satz(100_000, True, _number("1200"), _number("10010"), f"{start.year}-02-10", belegfeld1="RE-ALT",
                           buchungstext="Zahlung alte Rechnung"))  # fmt: skip
    month = start
    number = 0
    while month <= until:
        for _ in range(_INVOICES_A_MONTH):
            number += 1
            day = month + timedelta(days=rng.randrange(28))
            saetze += _sale(start.year, number, day, rng)
        for _ in range(_BILLS_A_MONTH):
            number += 1
            day = month + timedelta(days=rng.randrange(28))
            saetze += _purchase(start.year, number, day, rng)
        month = (month.replace(day=1) + timedelta(days=32)).replace(day=1)
    end = f"{start.year}-12-31"
    return [satz for satz in saetze if satz.belegdatum <= min(until.isoformat(), end)]


def _sale(year: int, number: int, day: date, rng: random.Random) -> list[Satz]:
    debtor = _number(str(10010 + 10 * rng.randrange(len(trade.DEBTORS))))
    revenue = _number("8300" if rng.random() < 0.2 else "8400")
    cents = rng.randrange(4_000, 420_000)
    beleg = f"RE-{year}-{number:04d}"
    invoice = Satz(
        cents, True, debtor, revenue, day.isoformat(), belegfeld1=beleg, buchungstext=f"Warenverkauf {beleg}"
    )
    paid = (day + timedelta(days=rng.randrange(5, 45))).isoformat()
    chance = rng.random()
    bank = _number("1200")
    if chance < 0.03:
        storno = (day + timedelta(days=3)).isoformat()
        return [
            invoice,
            Satz(
                cents,
                False,
                debtor,
                revenue,
                storno,
                belegfeld1=beleg,
                buchungstext=f"Storno {beleg}",
                generalumkehr=True,
            ),
        ]
    if chance < 0.12:
        return [invoice]
    if chance < 0.24:
        part = cents * rng.randrange(20, 80) // 100
        return [invoice, Satz(part, True, bank, debtor, paid, belegfeld1=beleg, buchungstext=f"Teilzahlung {beleg}")]
    skonto = cents * 2 // 100 if chance < 0.5 else 0
    schluessel = ("3" if revenue == _number("8400") else "2") if skonto else ""
    return [
        invoice,
        Satz(cents - skonto, True, bank, debtor, paid, belegfeld1=beleg, buchungstext=f"Zahlung {beleg}", skonto=skonto,
             bu_schluessel=schluessel),
    ]  # fmt: skip


def _purchase(year: int, number: int, day: date, rng: random.Random) -> list[Satz]:
    creditor = _number(str(70010 + 10 * rng.randrange(len(trade.CREDITORS))))
    cents = rng.randrange(2_000, 260_000)
    beleg = f"ER{year % 100}{number:05d}"
    if rng.random() < 0.5:
        bill = Satz(
            cents, True, _number("3400"), creditor, day.isoformat(), belegfeld1=beleg, buchungstext="Wareneinkauf"
        )
    else:
        konto, schluessel = rng.choice(_COSTS)
        bill = Satz(cents, True, _number(konto), creditor, day.isoformat(), schluessel, beleg, "Betriebsausgabe")
    if rng.random() < 0.15:
        return [bill]
    paid = (day + timedelta(days=rng.randrange(3, 30))).isoformat()
    return [
        bill,
        Satz(cents, True, creditor, _number("1200"), paid, belegfeld1=beleg, buchungstext=f"Überweisung {beleg}"),
    ]


# --- Cash


def _cash(tx: Tx, client: Client, today: date) -> None:
    first = max(date(today.year, 1, 2), today - timedelta(days=60))
    author = Author("demo", "demo")
    entries = [
        (CASH_BOOK, first, (("Einlage aus Bankkonto", "1360", 50_000, None, None),)),
        (SECOND_CASH_BOOK, first, (("Wechselgeld", "1360", 20_000, None, None),)),
        (CASH_BOOK, first + timedelta(days=2), (("Barverkauf", "8400", 11_900, None, "K-1"),)),
        (
            CASH_BOOK,
            first + timedelta(days=5),
            (("Porto", "4910", -850, None, "K-2"), ("Büromaterial", "4930", -2_380, "9", "K-3")),
        ),
        (SECOND_CASH_BOOK, first + timedelta(days=9), (("Fachbuch", "4940", -2_140, "8", "N-1"),)),
    ]
    for name, day, rows in entries:
        lines = tuple(
            CashLine(text, konto, cents, beleg, None, key, (None, None)) for text, konto, cents, key, beleg in rows
        )
        at_ten = datetime(min(day, today).year, min(day, today).month, min(day, today).day, 10, tzinfo=UTC)
        entry = CashEntry(name, "EUR", sum(line.betrag for line in lines), at_ten, lines, ())
        cash_book.create_entry(tx, client, entry, author)
