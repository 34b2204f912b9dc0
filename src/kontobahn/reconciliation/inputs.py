"""Puts together what the matcher needs, through the areas' own functions: open items, partners, payments, movements; what was decided
and learned before.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.transactions import store as transactions
from kontobahn.banking.transactions.wire import Transaction, TransactionExtra
from kontobahn.clock import DAY, berlin_date
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.statements import Entry, purpose
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.faelligkeiten import FaelligerPosten, FaelligesKonto, Faelligkeiten
from kontobahn.ledger.konto import KONTENRAHMEN, is_debitor, is_personenkonto, technical
from kontobahn.ledger.opos import EB_RESIDUAL, Belegbewegung, OposSelection
from kontobahn.ledger.partner_names import AGREES, name_similarity, normal_name
from kontobahn.ledger.provider import ClientBooks, Effect, OpenAmounts
from kontobahn.mobility.invoices import store as mobility
from kontobahn.mobility.invoices.rules import Buyer
from kontobahn.mobility.invoices.store import IssuedInvoice
from kontobahn.money import to_minor
from kontobahn.payables.run_store import documents_of
from kontobahn.reconciliation import knowledge, store
from kontobahn.reconciliation.booking_rows import reference_of
from kontobahn.reconciliation.core.model import (
    Booked,
    Discount,
    Key,
    Knowledge,
    Learned,
    Line,
    MatchedMovement,
    Movement,
    OpenItem,
    OwnMovement,
    OwnPayment,
    Person,
    Rule,
)
from kontobahn.reconciliation.core.special_cases import TRANSFER_DAYS
from kontobahn.reconciliation.store import Client, Taken
from kontobahn.sentences import said
from kontobahn.threads import Pool

# From a bank transaction as it is stored to what the matcher looks at. Pure.


_AMOUNT = re.compile(r"(?<![\d.,])(\d{1,12})(?:[.,](\d{1,2}))?(?![.,]?\d)")
# The DK's codes for what comes back: direct debits (108, 109), transfers (159), and credits given again (181).
_RETURNS = frozenset(("108", "109", "159", "181"))


def movement_of(transaction: Transaction, own_iban: str | None = None) -> Movement:
    """`own_iban` is that of the account: a bank may name payer and payee of a return as they were in the payment that comes back."""
    parsed, extra = transaction.description_parsed, transaction.extra
    is_in = transaction.amount > 0
    name, account = _other_side(extra, is_in=is_in, own_iban=own_iban)
    texts = (
        ("svwz", parsed.svwz),
        ("end_to_end_id", extra.end_to_end_id),
        ("kref", parsed.kref),
        ("additional", extra.additional),
    )
    # Not a field of the transaction's answer, so it is looked for in the text.
    reference = purpose.parse(transaction.description).rref if "RREF" in transaction.description else None
    return Movement(
        id=transaction.id,
        day=transaction.made_on,
        amount_minor=to_minor(transaction.amount),
        currency=transaction.currency_code,
        texts=tuple((field, text) for field, text in texts if text),
        name=name,
        iban=account,
        other_name=parsed.abwa if is_in else parsed.abwe,
        end_to_end_id=extra.end_to_end_id,
        mandate=parsed.mref,
        bank_reference=extra.bank_reference,
        return_reference=reference,
        is_return=bool(extra.return_reason or reference or extra.gvc in _RETURNS),
        original_minor=_cents(parsed.oamt),
        fee_minor=_cents(parsed.coam) or 0,
    )


def _other_side(extra: TransactionExtra, *, is_in: bool, own_iban: str | None) -> tuple[str | None, str | None]:
    """Name and account of whoever is not ourselves."""
    sides = (extra.payer, extra.payer_information), (extra.payee, extra.payee_information)
    expected, other = sides if is_in else sides[::-1]
    is_ours = own_iban is not None and expected[1] == own_iban
    return (
        other if (is_ours or expected == (None, None)) and other != (None, None) and other[1] != own_iban else expected
    )


def movement_of_entry(id: str, entry: Entry) -> Movement:
    """The same from a statement that was read and not imported."""
    said, other = entry.purpose, entry.counterparty
    texts = (
        ("svwz", said.svwz),
        ("end_to_end_id", said.end_to_end_id),
        ("kref", said.kref),
        ("additional", said.additional),
    )
    return Movement(
        id=id,
        day=entry.value_date or entry.booking_date,
        amount_minor=entry.amount_minor,
        currency=entry.currency,
        texts=tuple((field, text) for field, text in texts if text),
        name=other.name,
        iban=other.iban or other.account,
        other_name=said.abwa if entry.amount_minor > 0 else said.abwe,
        end_to_end_id=said.end_to_end_id,
        mandate=said.mref,
        bank_reference=entry.bank_reference,
        return_reference=said.rref,
        is_return=bool(entry.return_reason or said.rref or entry.gvc in _RETURNS),
        original_minor=_cents(said.oamt),
        fee_minor=_cents(said.coam) or 0,
    )


def _cents(text: str | None) -> int | None:
    """Reads `EUR 12,34`, `12.34` or `12`; an amount with thousands separators is not understood, and so not used."""
    found = _AMOUNT.search(text or "")
    if found is None or len(re.findall(r"[.,]", text or "")) > 1:
        return None
    return to_minor(Decimal(f"{found[1]}.{(found[2] or '0').ljust(2, '0')}"))


# A run is bounded: this many movements take a second or two, and this many items some hundred megabytes.
MAX_MOVEMENTS = 2_000
MAX_ITEMS = 50_000
# Items times movements: as many are compared in some twenty seconds.
MAX_PAIRS = 50_000_000
MAX_PAYMENTS = 5_000
MAX_MOVES = 50_000
MAX_INVOICES = 20_000
# A settled document is known this long: paid again, or its payment returned, it is named once more.
_SETTLED_BEFORE = timedelta(days=400)
# A direct debit may be returned for eight weeks; what was booked is looked for among the movements of these days.
_RETURNED_AFTER = timedelta(days=60)
# An order may be executed long after it was given.
_ORDERED_BEFORE = 90 * DAY
# A direct debit can be returned for 13 months.
_RETURNED_WITHIN = timedelta(days=400)
MAX_MATCHED = 5_000
_DECIDED = ("matched", "ignored")


class Material(NamedTuple):
    """`has_partners` is False if the books did not say who the partners are: then only the names of open items are known."""

    items: list[OpenItem]
    knowledge: Knowledge
    movements: list[Movement]
    has_partners: bool


async def gather(
    db: Database,
    pool: Pool,
    books: ClientBooks,
    account: AccountRow,
    today: date,
    from_date: date,
    to_date: date,
    elsewhere: frozenset[str] = frozenset(),
) -> Material:
    """Gathers what a run works on. Raises BadRequest if it is more than one run takes.

    `elsewhere` are the ledger accounts of the client's other bank accounts: what is booked there did not move at this one.
    """
    # The bank first: it is ours, and too many movements are found before anybody else is asked.
    bank = await db.read(_read_bank, account, from_date, to_date)
    due = await books.faelligkeiten(OposSelection(today, "all", "reconcile", None))
    check_size(sum(len(konto.posten) for konto in due.konten), len(bank.movements))
    moves = await books.belegbewegungen(_days_before(from_date, _SETTLED_BEFORE), MAX_MOVES)
    partners = await _partners(books)
    fee_konto, transfer_konto = await _usual_accounts(books)
    # Beside the event loop: as many items are most of a second.
    material = await pool.run(_put_together, bank, due, moves, partners, elsewhere)
    knowledge = material.knowledge._replace(fee_konto=fee_konto, transfer_konto=transfer_konto)
    return material._replace(knowledge=knowledge)


def check_size(items: int, movements: int) -> None:
    """Raises BadRequest if a run over so much would take longer than anybody waits: before it is begun."""
    if items > MAX_ITEMS:
        raise BadRequest(
            said(
                "The client of `client_id` has {count} open items; a run takes at most {most}.",
                count=items,
                most=MAX_ITEMS,
            ),
            field="client_id",
        )
    if items * movements > MAX_PAIRS:
        raise BadRequest(
            said(
                "With {items} open items a run takes at most {most} transactions, and there are {count} in these days: ask for"
                " fewer days.",
                items=items,
                most=MAX_PAIRS // items,
                count=movements,
            ),
            field="to_date",
        )


def _put_together(
    bank: _Bank,
    due: Faelligkeiten,
    moves: list[Belegbewegung],
    partners: list[Person] | None,
    elsewhere: frozenset[str],
) -> Material:
    items = [
        _item(konto, posten) for konto in due.konten for posten in konto.posten if posten.beleg not in ("", EB_RESIDUAL)
    ]
    items += _settled(items, moves)
    names = {konto.kontonummer: Person(konto.kontonummer, konto.bezeichnung) for konto in due.konten}
    persons = {**names, **{person.konto: person for person in partners or ()}}
    of_mobility = unbooked(bank.invoices, {item.beleg for item in items}, persons.values())
    persons.update((customer.konto, customer) for customer in of_mobility.customers)
    knowledge = bank.knowledge._replace(
        persons=tuple(persons[konto] for konto in sorted(persons)),
        booked=tuple(booked_of(move) for move in moves if is_bank_payment(move, elsewhere)),
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
    """Returns the accounts for bank fees and for transfers between own accounts in the client's chart; empty if that is not known."""
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
    """Returns what is open now of documents, for a decision: read in the transaction that decides, where the books are ours."""
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


def _read_bank(tx: Tx, account: AccountRow, from_date: date, to_date: date) -> _Bank:
    movements = _movements(tx, account, from_date, to_date, MAX_MOVEMENTS + 1)
    if len(movements) > MAX_MOVEMENTS:
        raise BadRequest(
            said(
                "There are more than {most} transactions between `from_date` and `to_date`: ask for fewer days.",
                most=MAX_MOVEMENTS,
            ),
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
        for movement in _movements(tx, other, *_days_around(from_date, to_date), MAX_MOVEMENTS)
    )
    days_ago = max((berlin_date(tx.now) - from_date).days, 0)
    since = tx.now - days_ago * DAY - _ORDERED_BEFORE
    ordered = payments.ordered_since(tx, account.organization_id, account.id, since, MAX_PAYMENTS)
    knowledge = Knowledge(
        payments=_own_payments(tx, account.organization_id, ordered),
        own_ibans=frozenset(other.iban or "" for other in own),
        own_movements=transfers,
        earlier=_earlier(tx, account, from_date),
    )
    first = _days_before(from_date, _SETTLED_BEFORE)
    return _Bank(movements, knowledge, mobility.issued_since(tx, account.organization_id, first, MAX_INVOICES))


def _own_payments(tx: Tx, organization_id: str, ordered: list[PaymentRow]) -> tuple[OwnPayment, ...]:
    """Payments that we ordered; those of a payment run with what each pays of which document."""
    of_runs = documents_of(tx, organization_id, [row.id for row in ordered])
    found = []
    for row in ordered:
        paid = of_runs.get(row.id, [])
        lines = [Line("item", one.konto, one.beleg, -one.amount_minor - one.skonto_minor) for one in paid]
        lines += [Line("skonto", one.konto, one.beleg, one.skonto_minor) for one in paid if one.skonto_minor]
        keys = tuple((one.konto, one.beleg) for one in paid)
        found.append(OwnPayment(row.end_to_end_id, -row.amount_minor, row.description, keys, tuple(lines)))
    return tuple(found)


def _days_before(day: date, span: timedelta) -> date:
    return max(day, date.min + span) - span


def _earlier(tx: Tx, account: AccountRow, from_date: date) -> tuple[Movement, ...]:
    """The movements before the first in question: what the books show as paid may be one of these."""
    span = _days_before(from_date, _RETURNED_AFTER), _days_before(from_date, timedelta(days=1))
    if span[1] == from_date:
        return ()
    found = transactions.posted_between(tx, account.id, *span, MAX_MOVEMENTS, latest_first=True)
    return tuple(movement_of(one, account.iban) for one in found)


def _days_around(first: date, last: date) -> tuple[date, date]:
    """The days in which the other side of a transfer may be, within the calendar."""
    return max(first, date.min + TRANSFER_DAYS) - TRANSFER_DAYS, min(last, date.max - TRANSFER_DAYS) + TRANSFER_DAYS


def _movements(tx: Tx, account: AccountRow, from_date: date, to_date: date, limit: int) -> list[Movement]:
    found = transactions.posted_between(tx, account.id, from_date, to_date, limit)
    return [movement_of(one, account.iban) for one in found]


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


def is_bank_payment(move: Belegbewegung, elsewhere: frozenset[str]) -> bool:
    """Returns whether it may be booked for a movement of the bank account: not cash, and not what another one paid."""
    return move.ist_zahlung and not move.ist_bar and move.gegenkonto not in elsewhere


def booked_of(move: Belegbewegung) -> Booked:
    """Money in reduces what is open: the bank's sign is the other one."""
    skonto = move.skonto if move.betrag < 0 else -move.skonto
    return Booked(move.konto, move.beleg, move.belegdatum, -move.betrag - skonto, skonto, move.belegfeld2)


# --- Invoices of mobility that the books do not have


class Unbooked(NamedTuple):
    """Invoices that the books do not have, and their customers where the books do not know these either."""

    items: list[OpenItem]
    customers: list[Person]


def unbooked(issued: Iterable[tuple[IssuedInvoice, Buyer]], documents: set[str], persons: Iterable[Person]) -> Unbooked:
    """`documents` are the numbers that the books have, settled ones too."""
    by_name: dict[str, list[str]] = defaultdict(list)
    by_number: dict[str, Person] = {}
    for person in persons:
        if is_personenkonto(person.konto) and is_debitor(person.konto):
            by_name[normal_name(person.name)].append(person.konto)
            by_number.update((number, person) for number in person.numbers)
    items, customers = [], {}
    for invoice, buyer in issued:
        if invoice.invoice_number in documents or not invoice.amount_in_cents:
            continue
        konto = _account_of_buyer(buyer, by_number, by_name)
        if konto is None:
            customers[buyer.customer_number] = Person(
                buyer.customer_number, buyer.name, numbers=(buyer.customer_number,)
            )
        items.append(
            OpenItem(
                konto or buyer.customer_number,
                invoice.invoice_number,
                date.fromisoformat(invoice.issued_on),
                invoice.amount_in_cents,
                date.fromisoformat(invoice.due_on) if invoice.due_on else None,
                has_account=konto is not None,
            )
        )
    return Unbooked(items, list(customers.values()))


def _account_of_buyer(buyer: Buyer, by_number: dict[str, Person], by_name: dict[str, list[str]]) -> str | None:
    """The customer's debtor account: by its number if the name agrees, or as the only one of the same name."""
    name = normal_name(buyer.name)
    same_number = by_number.get(buyer.customer_number.removeprefix("K"))
    if same_number and name_similarity(name, normal_name(same_number.name)) >= AGREES:
        return same_number.konto
    same_name = by_name.get(name, []) if name else []
    return same_name[0] if len(same_name) == 1 else None


# --- Earlier decisions and lessons


class Known(NamedTuple):
    """`judged` are transactions that a person has said something about: they are never acted on without asking."""

    taken: dict[Key, Taken]
    learned: tuple[Learned, ...]
    rules: tuple[Rule, ...]
    matched: tuple[MatchedMovement, ...]
    decided: frozenset[str]
    judged: frozenset[str]
    rejected: dict[str, frozenset[str]]
    undone: frozenset[str]
    # The discounts of matches that were undone: of a document that the books show as settled they say no terms.
    discounts: dict[Key, Discount]


def read_known(tx: Tx, client: Client, account_id: int, movement_ids: list[str], first: date, last: date) -> Known:
    ids = [int(id) for id in movement_ids]
    organization_id = client.organization_id
    states = store.states_of(tx, organization_id, ids)
    rejected = store.proposals_of(tx, organization_id, ids, "rejected")
    undone = store.undone_of(tx, organization_id, ids)
    return Known(
        taken=store.taken_from(tx, client),
        learned=knowledge.learned_for_matcher(tx, client),
        rules=tuple(
            Rule(row.id, row.konto, row.text, row.iban, row.sign, row.least_minor, row.most_minor, bool(row.acts))
            for row in store.rules(tx, client)
        ),
        matched=_matched(tx, organization_id, account_id, first, last),
        decided=frozenset(str(id) for id, state in states.items() if state in _DECIDED),
        judged=frozenset(str(id) for id in {*rejected, *undone}),
        rejected={str(id): frozenset(row.lines for row in rows) for id, rows in rejected.items()},
        undone=frozenset(map(reference_of, undone)),
        discounts=_undone_discounts(tx, organization_id, sorted(undone)),
    )


def _undone_discounts(tx: Tx, organization_id: str, undone: list[int]) -> dict[Key, Discount]:
    rows = {row.id: row for row in store.undone_matches(tx, organization_id, undone)}
    return {
        (line.konto, line.beleg): Discount(date.fromisoformat(rows[id].made_on), "", abs(line.amount_minor))
        for id, lines in store.lines_of(tx, organization_id, list(rows)).items()
        for line in lines
        if line.kind == "skonto"
    }


def _matched(tx: Tx, organization_id: str, account_id: int, first: date, last: date) -> tuple[MatchedMovement, ...]:
    since = first - min(_RETURNED_WITHIN, first - date.min)
    rows = store.matches_between(
        tx, organization_id, account_id, since.isoformat(), last.isoformat(), limit=MAX_MATCHED
    )
    lines = store.lines_of(tx, organization_id, [row.id for row in rows])
    return tuple(
        MatchedMovement(
            str(row.transaction_id),
            row.amount_minor,
            tuple(Line(line.kind, line.konto, line.beleg, line.amount_minor) for line in lines[row.id]),
            row.end_to_end_id,
            row.mandate,
            row.bank_reference,
        )
        for row in rows
    )


def with_known(material: Material, known: Known, today: date, *, fee_konto: str, transfer_konto: str) -> Material:
    """The material less what is decided: movements that are matched, and what live matches took from documents."""
    knowledge = material.knowledge._replace(
        learned=known.learned,
        rules=known.rules,
        matched=known.matched,
        # Our bookings of a match that was undone are taken back by the next batch: they stand for no movement.
        booked=tuple(payment for payment in material.knowledge.booked if payment.reference not in known.undone),
        # Matched, it may be what the books show: then another of the same amount is a second payment.
        earlier=(
            *material.knowledge.earlier,
            *(movement for movement in material.movements if movement.id in known.decided),
        ),
        fee_konto=fee_konto or material.knowledge.fee_konto,
        transfer_konto=transfer_konto or material.knowledge.transfer_konto,
    )
    items = [_less_taken(item, known.taken.get(item.key), known.discounts.get(item.key)) for item in material.items]
    present = {item.key for item in items}
    # Settled in the books, and opened again by a return that they do not show yet: written long before, and nobody says when.
    items += [
        OpenItem(konto, beleg, date.min, left, discounts=_again(known.discounts.get((konto, beleg))))
        for (konto, beleg), taken in known.taken.items()
        if (konto, beleg) not in present and (left := -taken.left_of(0).pending_minor)
    ]
    movements = [movement for movement in material.movements if movement.id not in known.decided]
    return material._replace(items=items, knowledge=knowledge, movements=movements)


def _again(discount: Discount | None) -> tuple[Discount, ...]:
    return () if discount is None else (discount,)


def _less_taken(item: OpenItem, taken: Taken | None, undone: Discount | None) -> OpenItem:
    pending = 0 if taken is None else taken.left_of(item.open_minor).pending_minor
    if not pending:
        return item
    if not item.open_minor:
        # Settled, and opened again by an undo that the books do not show yet.
        return item._replace(open_minor=-pending, discounts=_again(undone))
    # The rest of a part payment has no discount: whether one was meant is for a person to say.
    return item._replace(open_minor=item.open_minor - pending, discounts=())
