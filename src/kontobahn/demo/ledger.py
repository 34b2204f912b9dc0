"""The demo's books: a trading company over three fiscal years, by the story that its bank tells too.

Debtors and creditors with names and terms of payment, part payments, discounts, reversals, wages, taxes, two cash books. A second client
has no export service, and a second connection has expired.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import msgspec

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.bank_providers.sandbox.rules import COMPANY
from kontobahn.books import batches, cash_book, partners, posting, reports, setup, store
from kontobahn.books.satz import Satz
from kontobahn.books.store import Client
from kontobahn.db import Tx
from kontobahn.demo import story, trade
from kontobahn.demo.story import LENGTH, Story, number
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import connections, personenkonto
from kontobahn.ledger.bwa import is_profit_and_loss
from kontobahn.ledger.kassenbuch import CashEntry, CashLine
from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.ledger.personenkonto import Adresse, Bankkonto, Email, Personenkonto
from kontobahn.ledger.provider import Author
from kontobahn.ledger.wire import Periode, Zahlungsbedingung

CLIENT_ID, SECOND_CLIENT_ID = "29098-55003", "29098-55004"
CASH_BOOKS = ("Hauptkasse", "Nebenkasse")
_NET, _WITH_DISCOUNT, _BY_PERIOD = 20, 30, 40
_LABELS = (
    ("0860", "Gewinnvortrag vor Verwendung"), ("1200", "Musterbank Geschäftskonto"), ("1210", "Musterbank Tagesgeld"),
    ("1730", "Kreditkartenabrechnung"), ("1790", "Umsatzsteuer Vorjahr"), ("2200", "Körperschaftsteuer"), ("4320", "Gewerbesteuer"),
)  # fmt: skip
_TAX_ACCOUNTS = ("157", "177", "178", "179")


class DemoLedger(NamedTuple):
    connection_id: str
    expired_connection_id: str
    fiscal_years: list[str]

    def facts(self) -> dict[str, Any]:
        return {
            "connection_id": self.connection_id,
            "client_id": CLIENT_ID,
            "second_client_id": SECOND_CLIENT_ID,
            "expired_connection_id": self.expired_connection_id,
            "fiscal_years": self.fiscal_years,
            "kassenname": CASH_BOOKS[0],
        }


def build_ledger(tx: Tx, organization_id: str, told: Story) -> DemoLedger:
    starts = [date(told.today.year - back, 1, 1) for back in (2, 1, 0)]
    connection_id = _connection(tx, organization_id, COMPANY, CLIENT_ID, starts[0])
    connection = connections.find_for_operator(tx, connection_id)
    client = store.find_client(tx, connection, CLIENT_ID)
    _master_data(tx, client, starts)
    _post_years(tx, client, starts, told)
    second = setup.create_books(
        tx, organization_id, connection_id, name="Demo Vermietung GbR", skr="SKR04", length=LENGTH, client_id=SECOND_CLIENT_ID,
        year_start=starts[-1],
    )  # fmt: skip
    store.unsubscribe(tx, second, store.EXPORT)
    expired_id = _connection(tx, organization_id, "Alte Verbindung", "29098-55009", starts[-1])
    connections.set_status(tx, connections.find_for_operator(tx, expired_id), "expired")
    return DemoLedger(connection_id, expired_id, [start.isoformat() for start in starts])


def _connection(tx: Tx, organization_id: str, name: str, client_id: str, start: date) -> str:
    return setup.create_books(
        tx, organization_id, None, name=name, skr="SKR03", length=LENGTH, client_id=client_id, year_start=start
    ).connection_id


# --- Master data


def _master_data(tx: Tx, client: Client, starts: list[date]) -> None:
    for start in starts:
        store.ensure_year(tx, client, start)
    store.label_accounts(tx, client, [(number(konto), name) for konto, name in _LABELS])
    for position, name in enumerate((*trade.DEBTORS, *trade.CREDITORS)):
        nummer = trade.konto_of(name)
        person = _person(nummer, name, position, starts[-1])
        as_in_file = personenkonto.as_row(msgspec.to_builtins(person))
        row = encode(as_in_file._replace(zahlungsbedingung=_terms_of(name))).decode()
        partners.save_record(tx, client, number(nummer), person, row=row)
    setup.add_folders(tx, client, (("EINGANGSRECHNUNG", "Reisekosten"), ("AUSGANGSRECHNUNG", "Onlineshop")))
    for term in _terms():
        store.save_payment_terms(tx, client, term)
    cash_book.remove_cash_books(tx, client)
    for name, konto in zip(CASH_BOOKS, ("1000", "1010"), strict=True):
        cash_book.create_cash_book(tx, client, name, number(konto))


def _terms_of(name: str) -> int:
    if name in trade.WITH_DISCOUNT:
        return _WITH_DISCOUNT
    return _BY_PERIOD if name == trade.BY_PERIOD else _NET


def _person(nummer: str, name: str, position: int, start: date) -> Personenkonto:
    return Personenkonto(
        personenkontoNummer=nummer,
        kontaktTyp="COMPANY",
        kontenrahmen="SKR03",
        kontonummernLaenge=LENGTH,
        geschaeftsjahrStartDatum=start,
        firmenname=name,
        emailAdressen=[Email(email=trade.mail_of(name), typ="INVOICE")],
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
        id=str(_BY_PERIOD), bezeichnung="Monatsweise, zwei Zeiträume", skontoFrist1=None, skontoSatz1=Decimal(2), skontoFrist2=None,
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
        days(_NET, "14 Tage netto", 14),
        days(_WITH_DISCOUNT, "10 Tage 2 %, 30 Tage netto", 30, (10, 2)),
        days(31, "8 Tage 3 %, 14 Tage 2 %, 30 Tage netto", 30, (8, 3), (14, 2)),
        by_period,
    ]


# --- Bookings


def _post_years(tx: Tx, client: Client, starts: list[date], told: Story) -> None:
    of_year: dict[str, list[Satz]] = {f"{start.year}": [] for start in starts}
    for satz in told.booked():
        of_year[satz.belegdatum[:4]].append(satz)
    for start in starts:
        openings = _first_openings(start) if start == starts[0] else carry_over(tx, client, start)
        post(tx, client, start, [*openings, *sorted(of_year[f"{start.year}"], key=lambda satz: satz.belegdatum)])
        # Before the next year takes over the balances.
        _keep_cash(tx, client, [entry for entry in told.cash if entry.day.year == start.year])


def post(tx: Tx, client: Client, start: date, saetze: list[Satz]) -> None:
    """Posts bookings of the fiscal year that begins on this day."""
    jahr = store.year_of_start(tx, client, start)
    batch = batches.open_batch(
        tx, client, jahr, kind="demo", source="demo", author=COMMAND_LINE.name, sha256=f"demo {new_id()}",
        bezeichnung=f"Buchungen {start.year}",
    )  # fmt: skip
    poster = posting.begin(tx, client, batch)
    for satz in saetze:
        poster.add(satz)
    poster.finish()


def opening(start: date, konto: str, gegenkonto: str, cents: int) -> Satz:
    return Satz(abs(cents), cents > 0, konto, number(gegenkonto), start.isoformat(), buchungstext="Saldovortrag")


def _first_openings(start: date) -> list[Satz]:
    """Balances from before these books begin; what they were made of is not known."""
    persons = ((trade.DEBTORS[0], "9008", story.OLD_DEBT), (trade.CREDITORS[0], "9009", -story.OLD_BILL))
    accounts = {
        story.GIRO: story.OPENING_GIRO, story.SAVINGS: story.OPENING_SAVINGS, "0420": 11_800_00, "0800": -25_000_00,
    }  # fmt: skip
    accounts["0860"] = -sum(accounts.values()) - sum(cents for _, _, cents in persons)
    return [
        *(opening(start, number(konto), "9000", cents) for konto, cents in accounts.items()),
        *(opening(start, number(trade.konto_of(name)), against, cents) for name, against, cents in persons),
    ]


def carry_over(tx: Tx, client: Client, start: date) -> list[Satz]:
    """Balances of the year before: persons, accounts of the balance sheet, the year's result, and its VAT as one sum."""
    saetze, sums = [], {"0860": 0, "1790": 0}
    for konto, cents in reports.balances(tx, client, date(start.year - 1, 1, 1)):
        if is_personenkonto(konto):
            if cents:
                saetze.append(opening(start, konto, "9008" if is_debitor(konto) else "9009", cents))
        elif is_profit_and_loss(client.kontenrahmen, konto) or konto.startswith("0860"):
            sums["0860"] += cents
        elif konto.startswith(_TAX_ACCOUNTS):
            sums["1790"] += cents
        elif cents and konto[0] in "01":
            saetze.append(opening(start, konto, "9000", cents))
    return [*saetze, *(opening(start, number(konto), "9000", cents) for konto, cents in sums.items() if cents)]


# --- Cash


def _keep_cash(tx: Tx, client: Client, entries: list[story.CashEntry]) -> None:
    for entry in entries:
        lines = tuple(
            CashLine(line.text, line.konto, line.cents, line.beleg, None, line.key, (None, None))
            for line in entry.lines
        )
        at_ten = datetime(entry.day.year, entry.day.month, entry.day.day, 10, tzinfo=UTC)
        made = CashEntry(CASH_BOOKS[entry.book], "EUR", sum(line.betrag for line in lines), at_ten, lines, ())
        cash_book.create_entry(tx, client, made, Author("demo", "demo"))
