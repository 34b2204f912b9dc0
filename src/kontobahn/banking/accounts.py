"""Bank accounts: how they are kept, found, and kept up to date from what the bank tells."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.access.scope import in_scope
from kontobahn.banking import numbers
from kontobahn.banking.model import AccountExtra, AccountsQuery, BankAccount, Nature, TransactionsCount
from kontobahn.banking.provider import AccountFacts
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.money import to_wire


class Account(NamedTuple):
    organization_id: str
    id: int
    connection_id: str
    provider_ref: str
    iban: str | None
    name: str
    holder_name: str | None
    nature: Nature
    balance_minor: int
    currency_code: str
    can_hide: int
    posted: int
    pending: int
    created_at: int
    updated_at: int


_COLUMNS = ", ".join(Account._fields)


def wire(row: Account) -> BankAccount:
    return BankAccount(
        can_hide=bool(row.can_hide),
        id=str(row.id),
        name=row.name,
        nature=row.nature,
        balance=to_wire(row.balance_minor),
        currency_code=row.currency_code,
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        extra=AccountExtra(
            iban=row.iban,
            holder_name=row.holder_name,
            transactions_count=TransactionsCount(posted=row.posted, pending=row.pending),
        ),
    )


def listing(
    tx: Tx, organizations: tuple[str, ...], query: AccountsQuery, connection_id: str | None = None
) -> list[Account]:
    columns = ", ".join(f"a.{name}" for name in Account._fields)
    where, params = [f"a.{in_scope(len(organizations))}"], list[object](organizations)
    if connection_id is not None:
        where.append("a.connection_id = ?")
        params.append(connection_id)
    if query.api is not None:
        where.append("c.api = ?")
        params.append(query.api)
    if query.payments_supported is not None:
        where.append("c.templates <> ''" if query.payments_supported else "c.templates = ''")
    rows = tx.all(
        f"SELECT {columns} FROM banking_accounts a JOIN banking_connections c"
        " ON c.organization_id = a.organization_id AND c.id = a.connection_id"
        f" WHERE {' AND '.join(where)} ORDER BY a.id",
        *params,
    )
    return [Account(*row) for row in rows]


def find(tx: Tx, principal: Principal, account_id: str) -> Account:
    row = tx.one(
        f"SELECT {_COLUMNS} FROM banking_accounts WHERE {in_scope(len(principal.scope))} AND id = ?",
        *principal.scope, int(account_id),
    )  # fmt: skip
    if row is None:
        raise principal.missing("Account")
    return Account(*row)


def of_connection(tx: Tx, organization_id: str, connection_id: str) -> list[Account]:
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM banking_accounts WHERE organization_id = ? AND connection_id = ? ORDER BY id",
        organization_id, connection_id,
    )  # fmt: skip
    return [Account(*row) for row in rows]


def of_organization(tx: Tx, organization_id: str) -> list[Account]:
    rows = tx.all(f"SELECT {_COLUMNS} FROM banking_accounts WHERE organization_id = ? ORDER BY id", organization_id)
    return [Account(*row) for row in rows]


def save(tx: Tx, organization_id: str, connection_id: str, facts: AccountFacts) -> Account:
    """Make the account, or bring it up to what the bank tells now."""
    row = tx.one(
        "UPDATE banking_accounts SET name = ?, nature = ?, balance_minor = ?, iban = ?, holder_name = ?, updated_at = ?"
        f" WHERE organization_id = ? AND connection_id = ? AND provider_ref = ? RETURNING {_COLUMNS}",
        facts.name, facts.nature, facts.balance_minor, facts.iban, facts.holder_name, tx.now,
        organization_id, connection_id, facts.provider_ref,
    )  # fmt: skip
    if row is not None:
        return Account(*row)
    account = Account(
        organization_id=organization_id,
        id=numbers.take(tx, organization_id, "account"),
        connection_id=connection_id,
        provider_ref=facts.provider_ref,
        iban=facts.iban,
        name=facts.name,
        holder_name=facts.holder_name,
        nature=facts.nature,
        balance_minor=facts.balance_minor,
        currency_code=facts.currency_code,
        can_hide=1,
        posted=0,
        pending=0,
        created_at=tx.now,
        updated_at=tx.now,
    )
    tx.run(f"INSERT INTO banking_accounts ({_COLUMNS}) VALUES ({', '.join('?' * len(account))})", *account)
    return account


def remove_of_connection(tx: Tx, organization_id: str, connection_id: str) -> None:
    """The accounts with their transactions, which the change feed then tells as removed."""
    for account in of_connection(tx, organization_id, connection_id):
        counted = tx.one("SELECT COUNT(*) FROM banking_transactions WHERE account_id = ?", account.id)
        count = int(counted[0]) if counted else 0
        if count:
            first = numbers.take(tx, organization_id, "change", count)
            tx.run(
                "INSERT INTO banking_removed_transactions"
                " (organization_id, change_number, account_id, connection_id, id, first_change, removed_at)"
                " SELECT ?, ? + ROW_NUMBER() OVER (ORDER BY id), account_id, ?, id, first_change, ?"
                " FROM banking_transactions WHERE account_id = ?",
                organization_id, first - 1, connection_id, tx.now, account.id,
            )  # fmt: skip
        tx.run("DELETE FROM banking_transactions WHERE account_id = ?", account.id)
        tx.run("DELETE FROM banking_statements WHERE account_id = ?", account.id)
    tx.run(
        "DELETE FROM banking_accounts WHERE organization_id = ? AND connection_id = ?", organization_id, connection_id
    )
