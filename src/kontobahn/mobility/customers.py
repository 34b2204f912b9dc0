"""Customers of transport tickets: kept, found, and shown as the contract has them."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict, NotFound
from kontobahn.ids import new_id
from kontobahn.mobility import codes, numbers
from kontobahn.mobility.facts import Buyer
from kontobahn.mobility.model import AddressLines, MobilityCustomer, NewCustomer

# The built-in platform; another one is named when it is connected.
OWN_PLATFORM = "own"
_FIRST_NUMBER = 10_001
_COLUMNS = (
    "organization_id, id, provider, customer_number, mobility_customer_id, name, street, postal_code, city, country_code, email,"
    " buyer_reference, vat_id, created_at, updated_at"
)


class Customer(NamedTuple):
    organization_id: str
    id: str
    provider: str
    number: int
    mobility_customer_id: str | None
    name: str
    street: str
    postal_code: str
    city: str
    country_code: str
    email: str | None
    buyer_reference: str | None
    vat_id: str | None
    created_at: int
    updated_at: int

    @property
    def customer_number(self) -> str:
        return f"K{self.number}"

    def view(self) -> MobilityCustomer:
        return MobilityCustomer(
            id=self.id,
            organization_id=self.organization_id,
            mobility_customer_id=self.mobility_customer_id,
            name=self.name,
            address_lines=AddressLines(street=self.street, postal_code=self.postal_code, city=self.city),
            created_at=to_datetime(self.created_at),
            updated_at=to_datetime(self.updated_at),
        )

    def as_buyer(self) -> Buyer:
        return Buyer(
            customer_number=self.customer_number, name=self.name, street=self.street, postal_code=self.postal_code,
            city=self.city, country_code=self.country_code, email=self.email, buyer_reference=self.buyer_reference,
            vat_id=self.vat_id,
        )  # fmt: skip


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[MobilityCustomer]:
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM mobility_customers WHERE {in_scope(len(organizations))} ORDER BY created_at, id",
        *organizations,
    )
    return [Customer(*row).view() for row in rows]


def create(tx: Tx, organization_id: str, new: NewCustomer, *, provider: str = OWN_PLATFORM) -> MobilityCustomer:
    codes.check(new.country_code, new.vat_id)
    tx.lock("mobility_customers", organization_id)
    _refuse_taken(tx, organization_id, new.mobility_customer_id, None)
    number = _FIRST_NUMBER - 1 + numbers.take(tx, organization_id, "customers")
    customer = Customer(
        organization_id, new_id(), provider, number, new.mobility_customer_id, new.name, new.street, new.postal_code, new.city,
        new.country_code, new.email, new.buyer_reference, new.vat_id, tx.now, tx.now,
    )  # fmt: skip
    marks = ", ".join("?" * len(customer))
    tx.run(f"INSERT INTO mobility_customers ({_COLUMNS}) VALUES ({marks})", *customer)
    return customer.view()


def update(tx: Tx, principal: Principal, customer_id: str, new: NewCustomer) -> MobilityCustomer:
    """Replace what is known of a customer. Invoices keep what they were made with."""
    known = find(tx, principal, customer_id)
    codes.check(new.country_code, new.vat_id)
    tx.lock("mobility_customers", known.organization_id)
    _refuse_taken(tx, known.organization_id, new.mobility_customer_id, known.id)
    tx.run(
        "UPDATE mobility_customers SET mobility_customer_id = ?, name = ?, street = ?, postal_code = ?, city = ?, country_code = ?,"
        " email = ?, buyer_reference = ?, vat_id = ?, updated_at = ? WHERE organization_id = ? AND id = ?",
        new.mobility_customer_id, new.name, new.street, new.postal_code, new.city, new.country_code, new.email,
        new.buyer_reference, new.vat_id, tx.now, known.organization_id, known.id,
    )  # fmt: skip
    return find(tx, principal, customer_id).view()


def _refuse_taken(tx: Tx, organization_id: str, mobility_customer_id: str | None, own_id: str | None) -> None:
    row = tx.one(
        "SELECT id FROM mobility_customers WHERE organization_id = ? AND mobility_customer_id = ?",
        organization_id, mobility_customer_id,
    )  # fmt: skip
    if row is not None and row[0] != own_id:
        raise Conflict("Another customer has this `mobility_customer_id`.", field="mobility_customer_id")


def find(tx: Tx, principal: Principal, customer_id: str) -> Customer:
    """A customer in the principal's scope."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM mobility_customers WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, customer_id.lower(),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Customer")
    return Customer(*row)


def reload(tx: Tx, customer: Customer) -> Customer:
    """The customer as this transaction sees it; it may have been found before."""
    row = tx.one(
        f"SELECT {_COLUMNS} FROM mobility_customers WHERE organization_id = ? AND id = ?",
        customer.organization_id, customer.id,
    )  # fmt: skip
    assert row is not None, "a customer is never deleted"
    return Customer(*row)


def find_for_operator(tx: Tx, customer_id: str) -> Customer:
    """A customer by its id alone, for the operator's command line."""
    row = tx.one(f"SELECT {_COLUMNS} FROM mobility_customers WHERE id = ?", customer_id.lower())
    if row is None:
        raise NotFound(f"There is no mobility customer {customer_id}.")
    return Customer(*row)
