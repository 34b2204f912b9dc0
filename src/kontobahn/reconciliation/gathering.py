"""Puts together what the matcher needs, through the areas' own functions: open items, partners, payments, movements."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.transactions import listing
from kontobahn.clock import DAY, berlin_date
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.faelligkeit import FaelligerPosten, FaelligesKonto
from kontobahn.ledger.kontenrahmen import KONTENRAHMEN
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.opos import EB_RESIDUAL, Belegbewegung, OposSelection
from kontobahn.ledger.provider import ClientBooks, Effect, OpenAmounts
from kontobahn.mobility.invoices import store as mobility
from kontobahn.mobility.invoices.facts import Buyer
from kontobahn.mobility.invoices.store import IssuedInvoice
from kontobahn.money import to_minor
from kontobahn.reconciliation.core.model import (
    Booked,
    Discount,
    Key,
    Knowledge,
    Movement,
    OpenItem,
    OwnMovement,
    OwnPayment,
    Person,
)
from kontobahn.reconciliation.core.special import TRANSFER_DAYS
from kontobahn.reconciliation.invoices import unbooked
from kontobahn.reconciliation.movements import movement_of

# A run has a bound: so many movements take a second or two, and so many items some hundred megabytes.
MAX_MOVEMENTS = 2_000
MAX_ITEMS = 50_000
MAX_PAYMENTS = 5_000
MAX_MOVES = 50_000
MAX_INVOICES = 20_000
# A settled document is known this long: paid again, or its payment returned, it is named once more.
_SETTLED_BEFORE = timedelta(days=400)
# A direct debit may be returned for eight weeks; what was booked is looked for among the movements of these days.
_RETURNED_AFTER = timedelta(days=60)
# An order may be executed long after it was given.
_ORDERED_BEFORE = 90 * DAY


class Material(NamedTuple):
    """`has_partners` is False if the books did not say who the partners are: then only the names of open items are known."""

    items: list[OpenItem]
    knowledge: Knowledge
    movements: list[Movement]
    has_partners: bool


async def gather(
    db: Database,
    books: ClientBooks,
    account: AccountRow,
    today: date,
    from_date: date,
    to_date: date,
    elsewhere: frozenset[str] = frozenset(),
) -> Material:
    """Raises BadRequest if there is more than one run takes.

    `elsewhere` are the ledger accounts of the client's other bank accounts: what is booked there did not move at this one.
    """
    # The bank first: it is ours, and too many movements are found before anybody else is asked.
    bank = await db.read(_of_bank, account, from_date, to_date)
    due = await books.faelligkeiten(OposSelection(today, "all", "reconcile", None))
    items = [
        _item(konto, posten) for konto in due.konten for posten in konto.posten if posten.beleg not in ("", EB_RESIDUAL)
    ]
    if len(items) > MAX_ITEMS:
        raise BadRequest(
            f"The client of `clientId` has {len(items)} open items; a run takes at most {MAX_ITEMS}.", field="clientId"
        )
    moves = await books.belegbewegungen(_before(from_date, _SETTLED_BEFORE), MAX_MOVES)
    items += _settled(items, moves)
    names = {konto.kontonummer: Person(konto.kontonummer, konto.bezeichnung) for konto in due.konten}
    partners = await _partners(books)
    persons = {**names, **{person.konto: person for person in partners or ()}}
    of_mobility = unbooked(bank.invoices, {item.beleg for item in items}, persons.values())
    persons.update((customer.konto, customer) for customer in of_mobility.customers)
    fee_konto, transfer_konto = await _usual_accounts(books)
    knowledge = bank.knowledge._replace(
        persons=tuple(persons[konto] for konto in sorted(persons)),
        booked=tuple(_booked(move) for move in moves if of_bank(move, elsewhere)),
        fee_konto=fee_konto,
        transfer_konto=transfer_konto,
    )
    return Material(items + of_mobility.items, knowledge, bank.movements, partners is not None)


async def _partners(books: ClientBooks) -> list[Person] | None:
    try:
        found = await books.geschaeftspartner()
    except ProviderError as error:
        if error.status != 403:
            raise
        return None
    return [Person(partner.konto, partner.name, partner.ibans, (partner.nummer,)) for partner in found]


async def _usual_accounts(books: ClientBooks) -> tuple[str, str]:
    """Where bank fees and transfers between own accounts are booked in the client's chart; empty if that is not known."""
    try:
        years = await books.geschaeftsjahre()
    except ProviderError as error:
        if error.status != 403:
            raise
        years = []
    rahmen = KONTENRAHMEN.get(years[-1].kontenrahmen) if years else None
    if rahmen is None:
        return "", ""
    length = years[-1].konto_laenge
    fee, transfer = (technical(konto.ljust(length, "0"), length) for konto in (rahmen.geldverkehr, rahmen.geldtransit))
    return fee, transfer


async def open_now(
    db: Database, books: ClientBooks, organization_id: str, keys: Collection[Key]
) -> Effect[OpenAmounts]:
    """What is open now of documents, for a decision: read in the transaction that decides, where the books are ours."""
    effect = await books.offene_betraege({konto for konto, _ in keys if is_personenkonto(konto)})
    numbers = sorted({beleg for _, beleg in keys if beleg})
    issued = await db.read(mobility.issued_with, organization_id, numbers)
    if not issued:
        return effect
    # Issued by us, and unknown to the books: all of it is open.
    first = min(date.fromisoformat(invoice.issued_on) for invoice in issued.values())
    booked = {move.beleg for move in await books.belegbewegungen(first, MAX_MOVES)}
    ours = {key: issued[key[1]].amount_in_cents for key in keys if key[1] in issued and key[1] not in booked}
    return lambda tx: {**ours, **effect(tx)}


class _Bank(NamedTuple):
    movements: list[Movement]
    knowledge: Knowledge
    invoices: list[tuple[IssuedInvoice, Buyer]]


def _of_bank(tx: Tx, account: AccountRow, from_date: date, to_date: date) -> _Bank:
    movements = _movements(tx, account.id, from_date, to_date, MAX_MOVEMENTS + 1)
    if len(movements) > MAX_MOVEMENTS:
        raise BadRequest(
            f"There are more than {MAX_MOVEMENTS} transactions between `from_date` and `to_date`: ask for fewer days.",
            field="to_date",
        )
    own = [
        other
        for other in accounts.of_organization(tx, account.organization_id)
        if other.id != account.id and other.iban
    ]
    transfers = tuple(
        OwnMovement(movement.id, other.iban or "", movement.day, movement.amount_minor)
        for other in own
        for movement in _movements(tx, other.id, *_around(from_date, to_date), MAX_MOVEMENTS)
    )
    days_ago = max((berlin_date(tx.now) - from_date).days, 0)
    since = tx.now - days_ago * DAY - _ORDERED_BEFORE
    ordered = payments.ordered_since(tx, account.organization_id, account.id, since, MAX_PAYMENTS)
    knowledge = Knowledge(
        payments=tuple(OwnPayment(row.end_to_end_id, -row.amount_minor, row.description) for row in ordered),
        own_ibans=frozenset(other.iban or "" for other in own),
        own_movements=transfers,
        earlier=_earlier(tx, account.id, from_date),
    )
    first = _before(from_date, _SETTLED_BEFORE)
    return _Bank(movements, knowledge, mobility.issued_since(tx, account.organization_id, first, MAX_INVOICES))


def _before(day: date, span: timedelta) -> date:
    return max(day, date.min + span) - span


def _earlier(tx: Tx, account_id: int, from_date: date) -> tuple[Movement, ...]:
    """The movements before the first that is asked about: what the books show as paid may be one of these."""
    span = _before(from_date, _RETURNED_AFTER), _before(from_date, timedelta(days=1))
    if span[1] == from_date:
        return ()
    found = listing.posted_between(tx, account_id, *span, MAX_MOVEMENTS, latest_first=True)
    return tuple(map(movement_of, found))


def _around(first: date, last: date) -> tuple[date, date]:
    """The days in which the other side of a transfer may be, within the calendar."""
    return max(first, date.min + TRANSFER_DAYS) - TRANSFER_DAYS, min(last, date.max - TRANSFER_DAYS) + TRANSFER_DAYS


def _movements(tx: Tx, account_id: int, from_date: date, to_date: date, limit: int) -> list[Movement]:
    return [movement_of(found) for found in listing.posted_between(tx, account_id, from_date, to_date, limit)]


def _item(konto: FaelligesKonto, posten: FaelligerPosten) -> OpenItem:
    return OpenItem(
        konto.kontonummer,
        posten.beleg,
        posten.belegdatum,
        to_minor(posten.saldo),
        posten.faelligAm,
        tuple(Discount(terms.bis, str(terms.prozent), to_minor(terms.betrag)) for terms in posten.skonto),
        posten.buchungstext,
    )


def _settled(items: list[OpenItem], moves: list[Belegbewegung]) -> list[OpenItem]:
    """Documents of which nothing is open, by their numbers."""
    known = {item.key for item in items}
    found = {
        (move.konto, move.beleg): OpenItem(move.konto, move.beleg, move.beginn, 0, text=move.text)
        for move in moves
        if move.ist_ausgeglichen and (move.konto, move.beleg) not in known
    }
    return list(found.values())


def of_bank(move: Belegbewegung, elsewhere: frozenset[str]) -> bool:
    """Whether it may be booked for a movement of the bank account: not cash, and not what another one paid."""
    return move.ist_zahlung and not move.ist_bar and move.gegenkonto not in elsewhere


def _booked(move: Belegbewegung) -> Booked:
    """Money in reduces what is open: the bank's sign is the other one."""
    skonto = move.skonto if move.betrag < 0 else -move.skonto
    return Booked(move.konto, move.beleg, move.belegdatum, -move.betrag - skonto, skonto, move.belegfeld2)
