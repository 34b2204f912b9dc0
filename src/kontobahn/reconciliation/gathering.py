"""Puts together what the matcher needs, through the areas' own functions: open items, partners, payments, movements."""

from __future__ import annotations

from datetime import date
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
from kontobahn.ledger.opos import EB_RESIDUAL, OposSelection
from kontobahn.ledger.provider import ClientBooks
from kontobahn.money import to_minor
from kontobahn.reconciliation.core.model import (
    Discount,
    Knowledge,
    Movement,
    OpenItem,
    OwnMovement,
    OwnPayment,
    Person,
)
from kontobahn.reconciliation.core.special import TRANSFER_DAYS
from kontobahn.reconciliation.movements import movement_of

# A run has a bound: so many movements take a second or two, and so many items some hundred megabytes.
MAX_MOVEMENTS = 2_000
MAX_ITEMS = 50_000
MAX_PAYMENTS = 5_000
# An order may be executed long after it was given.
_ORDERED_BEFORE = 90 * DAY


class Material(NamedTuple):
    """`has_partners` is False if the books did not say who the partners are: then only the names of open items are known."""

    items: list[OpenItem]
    knowledge: Knowledge
    movements: list[Movement]
    has_partners: bool


async def gather(
    db: Database, books: ClientBooks, account: AccountRow, today: date, from_date: date, to_date: date
) -> Material:
    """Raises BadRequest if there is more than one run takes."""
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
    persons = {konto.kontonummer: Person(konto.kontonummer, konto.bezeichnung) for konto in due.konten}
    has_partners = True
    try:
        for partner in await books.geschaeftspartner():
            persons[partner.konto] = Person(partner.konto, partner.name, partner.ibans, (partner.nummer,))
    except ProviderError as error:
        if error.status != 403:
            raise
        has_partners = False
    ordered = tuple(persons[konto] for konto in sorted(persons))
    return Material(items, bank.knowledge._replace(persons=ordered), bank.movements, has_partners)


class _Bank(NamedTuple):
    movements: list[Movement]
    knowledge: Knowledge


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
    )
    return _Bank(movements, knowledge)


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
