"""Mobility invoices beside the books: those that the books do not have are items too. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.mobility.invoices.facts import Buyer
from kontobahn.mobility.invoices.store import IssuedInvoice
from kontobahn.reconciliation.core import names
from kontobahn.reconciliation.core.model import OpenItem, Person


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
            by_name[names.normal(person.name)].append(person.konto)
            by_number.update((number, person) for number in person.numbers)
    items, customers = [], {}
    for invoice, buyer in issued:
        if invoice.invoice_number in documents or not invoice.amount_in_cents:
            continue
        konto = _account_of(buyer, by_number, by_name)
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


def _account_of(buyer: Buyer, by_number: dict[str, Person], by_name: dict[str, list[str]]) -> str | None:
    """The customer's debtor account: by its number if the name agrees, or as the only one of the same name."""
    name = names.normal(buyer.name)
    same_number = by_number.get(buyer.customer_number.removeprefix("K"))
    if same_number and names.similarity(name, names.normal(same_number.name)) >= names.AGREES:
        return same_number.konto
    same_name = by_name.get(name, []) if name else []
    return same_name[0] if len(same_name) == 1 else None
