"""Search over everything that one organisation has: partners, documents, money, payments, invoices; and the pages themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date, timedelta
from typing import NamedTuple
from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from kontobahn.api.pages import LANGUAGES
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.store import PaymentRow, PaymentSearch
from kontobahn.banking.transactions import store as transactions
from kontobahn.banking.transactions.store import TransactionSearch
from kontobahn.banking.transactions.wire import Transaction
from kontobahn.banking.wire import Word, fits
from kontobahn.dashboard import bank_words, bookshelf, figures
from kontobahn.dashboard.books import plain
from kontobahn.dashboard.bookshelf import ShelvedBooks
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.lists import MAX_TYPED, is_iban, search_words
from kontobahn.dashboard.menu import MENU
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, text_in
from kontobahn.db import Tx
from kontobahn.ledger.konto import is_personenkonto, readable
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.ledger.provider import ClientBooks
from kontobahn.mobility import customers
from kontobahn.mobility.customers import Customer
from kontobahn.mobility.invoices import store as invoices
from kontobahn.mobility.invoices.store import InvoiceSummary
from kontobahn.money import to_minor
from kontobahn.payables import store as payables
from kontobahn.payables.store import DueRow

# Found things of one kind that are shown; the page of that kind shows all.
SHOWN = 6
# Movements of documents, and invoices, that are looked through, the latest first.
MAX_MOVES = 5_000
MAX_INVOICES = 1_000
DAYS = 730


class Hit(NamedTuple):
    title: str
    hint: str
    url: str
    # Whole cents.
    amount: int | None = None
    currency: str = "EUR"


class Group(NamedTuple):
    """Found things of one kind."""

    title: str
    icon: str
    hits: list[Hit]
    # A page that shows all of them; empty if there is none.
    all_url: str = ""


@page("/search", help="search")
async def search_page(visit: Visit) -> Response:
    typed = " ".join((visit.query.get("q") or [""])[-1][:MAX_TYPED].split())
    words = search_words(typed)
    groups: list[Group] = []
    if words:
        of_rooms, of_books = await asyncio.gather(
            visit.read(_in_rooms, visit.organization_id, words), _in_books(visit, typed, words)
        )
        groups = [_pages(visit, typed), _clients(visit, typed), *of_books, *_groups_of_rooms(of_rooms, typed)]
    shown = [group._replace(hits=[hit for hit in group.hits if _may_open(visit, hit)][:SHOWN]) for group in groups]
    return visit.show("search.html", typed=typed, groups=[group for group in shown if group.hits])


def _may_open(visit: Visit, hit: Hit) -> bool:
    return visit.person is not None and visit.dependencies.menu.may_open(visit.person, hit.url)


# Pages that the menu leads to by way of another one.
FURTHER = (
    (N_("Profit and loss"), f"{ROOT}/reports/profit-and-loss"),
    (N_("VAT figures"), f"{ROOT}/reports/vat"),
    (N_("Journal"), f"{ROOT}/reports/journal"),
    (N_("Due dates"), f"{ROOT}/open-items/due"),
    (N_("Terms of payment"), f"{ROOT}/partners/terms"),
    (N_("Getting started"), f"{ROOT}/set-up"),
    (N_("Your profile"), f"{ROOT}/profile"),
)
# Words that people look for and that are in no title, in either language, by the page that they mean.
MEANT = {
    f"{ROOT}/statements": "kontoauszug kontoauszüge bank statement camt mt940 import",
    f"{ROOT}/open-items": "mahnung mahnungen zahlungserinnerung mahnwesen reminder dunning opos debitoren kreditoren receivables",
    f"{ROOT}/open-items/due": "überfällig overdue",
    f"{ROOT}/reports/vat": "umsatzsteuer mehrwertsteuer vorsteuer voranmeldung zahllast ust tax return",
    f"{ROOT}/reports/profit-and-loss": "betriebswirtschaftliche auswertung guv gewinn verlust ergebnis income",
    f"{ROOT}/trial-balance": "susa saldenliste kontenblatt kontenblätter account sheet",
    f"{ROOT}/partners/terms": "skonto zahlungsziel discount",
    f"{ROOT}/payables": "belege lieferantenrechnung e-rechnung xrechnung zugferd supplier bills",
    f"{ROOT}/payments": "überweisung überweisungen sepa transfer",
    f"{ROOT}/batches": "datev extf import",
    f"{ROOT}/books": "datev extf export wirtschaftsjahr",
    f"{ROOT}/team": "benutzer rechte rollen einladen users roles invite",
    f"{ROOT}/profile": "passwort passkey zweiter faktor benachrichtigungen password second factor notices",
}


def _pages(visit: Visit, typed: str) -> Group:
    """Pages by their names, in either language: people remember the word that they read first; or by what they are looked for."""
    assert visit.person is not None
    opened = visit.dependencies.menu.open_entries(visit.person, visit.context)
    wanted = typed.casefold().split()
    known = [
        *(
            (entry.text, section.text, entry.path)
            for section in MENU
            for entry in section.entries
            if entry.path in opened
        ),
        *((text, "", path) for text, path in FURTHER),
    ]
    hits = [
        Hit(_(text), _(section) if section else "", path) for text, section, path in known if _means(wanted, text, path)
    ]
    return Group(_("Pages"), "list", hits)


def _means(wanted: Sequence[str], text: str, path: str) -> bool:
    # A soft hyphen lets a title fit on a phone.
    named = " ".join(text_in(one, text) for one in LANGUAGES).replace("\xad", "")
    return _all_in(wanted, f"{named} {MEANT.get(path, '')}")


def _all_in(wanted: Sequence[str], text: str) -> bool:
    return all(word in text.casefold() for word in wanted)


def _clients(visit: Visit, typed: str) -> Group:
    """Clients that this person has been given access to; the board leads into them."""
    assert visit.person is not None
    wanted = typed.casefold().split()
    hits = [
        Hit(client.name, "", f"{ROOT}/board?{urlencode({'q': client.name})}")
        for client in visit.person.clients
        if _all_in(wanted, client.name)
    ]
    return Group(_("Clients"), "team", hits)


# --- Banks and invoices


class InRooms(NamedTuple):
    accounts: list[AccountRow]
    transactions: list[Transaction]
    payments: list[PaymentRow]
    received: list[DueRow]
    invoices: list[InvoiceSummary]
    customers: list[Customer]
    # Names by id.
    account_names: dict[str, str]
    customer_names: dict[str, str]


def _in_rooms(tx: Tx, organization_id: str, words: Sequence[Word]) -> InRooms:
    """Each search is bounded: what is older than it looks is found on the page of its kind."""
    banks, buyers = accounts.of_organization(tx, organization_id), customers.by_number(tx, organization_id)
    names = {one.id: one.name for one in buyers}
    issued = invoices.latest(tx, organization_id, MAX_INVOICES) if buyers else []
    return InRooms(
        [one for one in banks if fits(words, (one.name, one.iban, one.holder_name), one.balance_minor, str(one.id))],
        transactions.search(tx, [one.id for one in banks], TransactionSearch(words=words), SHOWN).rows,
        payments.search(tx, organization_id, PaymentSearch(words=words), SHOWN).rows,
        [
            one
            for one in payables.newest(tx, organization_id, MAX_INVOICES)
            if fits(words, (one.number, one.creditor_name, one.creditor_iban), one.payable_minor, one.number)
        ],
        [
            one
            for one in issued
            if fits(words, (one.invoice_number, names.get(one.customer_id)), one.amount_in_cents, one.invoice_number)
        ],
        [one for one in buyers if fits(words, (one.name, one.number_text, one.email, one.vat_id), 0, one.number_text)],
        {str(one.id): one.name for one in banks},
        names,
    )


def _groups_of_rooms(found: InRooms, typed: str) -> list[Group]:
    query = urlencode({"q": typed})
    return [
        Group(_("Accounts"), "account", [_account(row) for row in found.accounts]),
        Group(
            _("Transactions"), "list", [_transaction(row, found.account_names) for row in found.transactions],
            f"{ROOT}/transactions?{query}",
        ),
        Group(_("Payments"), "payment", [_payment(row) for row in found.payments], f"{ROOT}/payments?{query}"),
        Group(_("Received invoices"), "invoice", [_received(row) for row in found.received]),
        Group(_("Invoices"), "invoice", [_invoice(row, found.customer_names) for row in found.invoices]),
        Group(_("Customers"), "people", [_customer(row) for row in found.customers]),
    ]  # fmt: skip


def _account(row: AccountRow) -> Hit:
    return Hit(row.name, figures.iban(row.iban), f"{ROOT}/accounts/{row.id}", row.balance, row.currency_code)


def _transaction(row: Transaction, names: dict[str, str]) -> Hit:
    title = bank_words.other_side(row) or names.get(row.account_id, "")
    hint = f"{figures.day(row.made_on)} · {bank_words.purpose(row)}"
    return Hit(title, hint, f"{ROOT}/transactions/{row.id}", to_minor(row.amount), row.currency_code)


def _payment(row: PaymentRow) -> Hit:
    hint = f"{figures.day(row.created_at)} · {row.description or figures.iban(row.creditor_iban)}"
    return Hit(row.creditor_name, hint, f"{ROOT}/payments/{row.id}", row.amount_minor)


def _received(row: DueRow) -> Hit:
    hint = f"{figures.day(date.fromisoformat(row.issue_date))} · {row.creditor_name}"
    return Hit(row.number, hint, f"{ROOT}/payables/{row.id}", row.payable_minor, row.currency_code)


def _invoice(row: InvoiceSummary, names: dict[str, str]) -> Hit:
    hint = f"{figures.day(row.invoiced_at)} · {names.get(row.customer_id, '')}"
    return Hit(row.invoice_number, hint, f"{ROOT}/invoices/{row.id}", row.amount_in_cents)


def _customer(row: Customer) -> Hit:
    return Hit(row.name, f"{row.number_text} · {row.city}", f"{ROOT}/customers/{row.id}")


# --- Books


async def _in_books(visit: Visit, typed: str, words: Sequence[Word]) -> list[Group]:
    shelved = await bookshelf.shelf(visit.context, visit.organization_id)
    partners = await asyncio.gather(*(_partners(visit, books, typed) for books in shelved))
    konten = await asyncio.gather(*(_konten(visit, books, words) for books in shelved))
    documents = await asyncio.gather(*(_documents(visit, books, words) for books in shelved))
    one_list = f"{ROOT}/partners?{urlencode({**shelved[0].fields, 'search': typed})}" if len(shelved) == 1 else ""
    return [
        Group(_("Partners"), "people", [hit for hits in partners for hit in hits], one_list),
        Group(_("Ledger accounts"), "scale", [hit for hits in konten for hit in hits]),
        Group(_("Documents"), "book", [hit for hits in documents for hit in hits]),
    ]


async def _partners(visit: Visit, books: ShelvedBooks, typed: str) -> list[Hit]:
    """Partners by number and name; by IBAN, if that is what was typed."""
    found = await bookshelf.ask(
        visit.context, visit.principal, books, "personenkonten", lambda opened: opened.partners(typed, "", SHOWN)
    )
    hits = [_partner(books, one.konto, one.name) for one in found or ()]
    if is_iban(typed):
        known = await bookshelf.ask(
            visit.context, visit.principal, books, "personenkonten", lambda opened: opened.geschaeftspartner()
        )
        iban = "".join(typed.split()).upper()
        hits += [_partner(books, one.konto, one.name) for one in known or () if any(iban in own for own in one.ibans)]
    return hits


class Konto(Struct):
    """A line of the trial balance, as far as it is looked for: accounts on which nothing was booked have none."""

    kontonummer: str
    kontobeschriftung: str


async def _konten(visit: Visit, books: ShelvedBooks, words: Sequence[Word]) -> list[Hit]:
    """Ledger accounts of this year by number and name; they lead to their sheets."""

    async def listed(opened: ClientBooks) -> tuple[date, list[Konto]] | None:
        years = [year.start for year in await opened.geschaeftsjahre() if year.start <= visit.today]
        if not years:
            return None
        return years[-1], await visit.off_loop(plain, await opened.susa(years[-1], None), list[Konto])

    found = await bookshelf.ask(visit.context, visit.principal, books, "susa", listed)
    return await visit.off_loop(_fitting_konten, books, *found, words) if found else []


def _fitting_konten(books: ShelvedBooks, year: date, konten: Sequence[Konto], words: Sequence[Word]) -> list[Hit]:
    query, hits = urlencode({**books.fields, "year": year.isoformat()}), []
    for one in konten:
        written = _written(books, one.kontonummer)
        if not is_personenkonto(one.kontonummer) and fits(words, (written, one.kontobeschriftung), 0, written):
            address = f"{ROOT}/trial-balance/{one.kontonummer}?{query}"
            hits.append(Hit(one.kontobeschriftung or written, written, address))
    return hits


def _partner(books: ShelvedBooks, konto: str, name: str) -> Hit:
    written = _written(books, konto)
    return Hit(name or written, written, f"{ROOT}/partners/{konto}?{urlencode(books.fields)}")


def _written(books: ShelvedBooks, konto: str) -> str:
    return readable(konto, books.konto_laenge) if books.konto_laenge else konto


async def _documents(visit: Visit, books: ShelvedBooks, words: Sequence[Word]) -> list[Hit]:
    """Documents that moved within two years, the latest first."""
    since = visit.today - timedelta(days=DAYS)
    moves = await bookshelf.ask(
        visit.context, visit.principal, books, "buchungen", lambda opened: opened.belegbewegungen(since, MAX_MOVES)
    )
    return [_document(books, move) for move in await visit.off_loop(_fitting, moves or [], words)]


def _fitting(moves: Sequence[Belegbewegung], words: Sequence[Word]) -> list[Belegbewegung]:
    """Returns the latest fitting movement of each document."""
    found: dict[tuple[str, str], Belegbewegung] = {}
    for move in moves:
        if fits(words, (move.beleg, move.text), move.betrag, move.beleg):
            found.setdefault((move.konto, move.beleg), move)
            if len(found) == SHOWN:
                break
    return list(found.values())


def _document(books: ShelvedBooks, move: Belegbewegung) -> Hit:
    query = urlencode({**books.fields, "beleg": move.beleg})
    hint = f"{figures.day(move.belegdatum)} · {move.text or _written(books, move.konto)}"
    return Hit(move.beleg, hint, f"{ROOT}/open-items/{move.konto}/document?{query}", move.betrag)
