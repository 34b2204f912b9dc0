"""Bank accounts: what goes over the wire, their rows kept as the bank reports them, and the calls."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn.access.principal import Principal, find_in_scope, in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, ListQuery, Timestamp
from kontobahn.banking import numbers
from kontobahn.banking.connections import store as connections
from kontobahn.banking.fields import ConnectionId, NumericId
from kontobahn.banking.provider import AccountFacts, Api, Nature
from kontobahn.clock import to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.money import to_wire

# --- Over the wire


class AccountsQuery(ListQuery):
    api: Annotated[Api, Meta(description="Only accounts at regulated banks, or only at the others.")] | None = None
    connection_id: Annotated[ConnectionId, Meta(description="Only accounts of this connection.")] | None = None
    # Choice 20: the name of the payment filter.
    payments_supported: (
        Annotated[
            bool, Meta(description="Only accounts that can be the source of a payment, or only those that cannot.")
        ]
        | None
    ) = None


class TransactionsCount(Answer):
    posted: int
    pending: int


class AccountExtra(Answer):
    iban: str | None
    holder_name: str | None
    transactions_count: TransactionsCount


class BankAccount(Answer):
    can_hide: bool
    id: str
    name: str
    nature: Nature
    # Choice 40: null if the bank does not tell it.
    balance: Decimal | None
    currency_code: str
    created_at: Timestamp
    updated_at: Timestamp
    extra: AccountExtra


class AccountAnswer(Answer):
    data: BankAccount


class AccountsAnswer(Answer):
    data: list[BankAccount]


# --- Rows


class AccountRow(NamedTuple):
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
    identity: str | None
    can_hide: int
    posted: int
    pending: int
    created_at: int
    updated_at: int
    balance_known: int

    @property
    def balance(self) -> int | None:
        """What the bank said last; None if it does not tell."""
        return self.balance_minor if self.balance_known else None


ACCOUNTS = Table("banking_accounts", AccountRow)
CANNOT_PAY: frozenset[Nature] = frozenset({"bonus", "credit", "insurance", "investment", "loan", "mortgage", "savings"})


def find(tx: Tx, principal: Principal, account_id: str) -> AccountRow:
    return find_in_scope(tx, ACCOUNTS, principal, "Account", int(account_id))


def can_pay(account: AccountRow, templates: str) -> bool:
    """Whether payments can be made from an account whose connection offers these kinds of payment."""
    if account.iban is None or account.nature in CANNOT_PAY or account.currency_code != "EUR" or not templates:
        return False
    try:
        sepa.check_iban("iban", account.iban)
    except BadRequest:
        return False
    return True


def of_connection(tx: Tx, organization_id: str, connection_id: str) -> list[AccountRow]:
    return ACCOUNTS.all(tx, "organization_id = ? AND connection_id = ? ORDER BY id", organization_id, connection_id)


def differ(before: list[AccountRow], after: list[AccountRow]) -> bool:
    """Whether a bank reports anything else about its accounts than before."""
    facts = ("id", "name", "nature", "balance", "currency_code", "iban", "holder_name")
    return any([getattr(row, name) for row in before] != [getattr(row, name) for row in after] for name in facts)


def of_organization(tx: Tx, organization_id: str) -> list[AccountRow]:
    return ACCOUNTS.all(tx, "organization_id = ? ORDER BY id", organization_id)


def adopt(tx: Tx, organization_id: str, connection_id: str, reported: list[AccountFacts]) -> None:
    """Gives known accounts the references that the provider uses now, where these change from session to session.

    An account is the same if its identity is, or else its IBAN and currency; if two could be meant, neither is.
    """
    refs = {facts.provider_ref for facts in reported}
    known = of_connection(tx, organization_id, connection_id)
    free = [row for row in known if row.provider_ref not in refs]
    strangers = [facts for facts in reported if facts.provider_ref not in {row.provider_ref for row in known}]
    for facts in strangers:
        same = [row for row in free if facts.identity is not None and row.identity == facts.identity]
        if not same and facts.iban is not None:
            same = [row for row in free if (row.iban, row.currency_code) == (facts.iban, facts.currency_code)]
            alike = [one for one in strangers if (one.iban, one.currency_code) == (facts.iban, facts.currency_code)]
            same = same if len(alike) == 1 else []
        if len(same) == 1:
            ACCOUNTS.update(tx, same[0], provider_ref=facts.provider_ref)
            free.remove(same[0])


def save(tx: Tx, organization_id: str, connection_id: str, facts: AccountFacts) -> AccountRow:
    """Creates the account, or updates it to what the bank reports now."""
    row = tx.one(
        "UPDATE banking_accounts SET name = ?, nature = ?, balance_minor = ?, balance_known = ?, iban = ?,"
        " holder_name = ?, updated_at = ?, identity = COALESCE(?, identity)"
        f" WHERE organization_id = ? AND connection_id = ? AND provider_ref = ? RETURNING {ACCOUNTS.columns}",
        facts.name, facts.nature, facts.balance_minor or 0, int(facts.balance_minor is not None), facts.iban,
        facts.holder_name, tx.now, facts.identity, organization_id, connection_id, facts.provider_ref,
    )  # fmt: skip
    if row is not None:
        return AccountRow._make(row)
    account = AccountRow(
        organization_id=organization_id,
        id=numbers.take(tx, organization_id, "account"),
        connection_id=connection_id,
        provider_ref=facts.provider_ref,
        iban=facts.iban,
        name=facts.name,
        holder_name=facts.holder_name,
        nature=facts.nature,
        balance_minor=facts.balance_minor or 0,
        currency_code=facts.currency_code,
        identity=facts.identity,
        can_hide=1,
        posted=0,
        pending=0,
        created_at=tx.now,
        updated_at=tx.now,
        balance_known=int(facts.balance_minor is not None),
    )
    ACCOUNTS.insert(tx, account)
    return account


def remove_of_connection(tx: Tx, organization_id: str, connection_id: str) -> None:
    """Removes the accounts with their transactions, which the change feed then reports as removed."""
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
        tx.run("DELETE FROM banking_statement_spans WHERE account_id = ?", account.id)
    tx.run(
        "DELETE FROM banking_accounts WHERE organization_id = ? AND connection_id = ?", organization_id, connection_id
    )


# --- Calls


@get("/v2/banking/accounts", scope="banking:read", errors=(403, 404))
async def list_bank_accounts(call: Call, query: AccountsQuery) -> AccountsAnswer:
    """List bank accounts: all of the organisation, or those of one connection."""
    # Whether payments can be made takes a check of each IBAN, which is nothing for the event loop.
    read = call.read_inline if query.payments_supported is None else call.read
    rows = await read(listing, call.principal, query)
    return AccountsAnswer(data=[_bank_account(row) for row in rows])


# Choice 20: one account is read for free.
@get("/v2/banking/accounts/{id}", scope="banking:read", errors=(403, 404))
async def get_bank_account(call: Call, id: NumericId) -> AccountAnswer:
    """Read one bank account."""
    return AccountAnswer(data=_bank_account(await call.read_inline(find, call.principal, id)))


def listing(tx: Tx, principal: Principal, query: AccountsQuery) -> list[AccountRow]:
    organizations = principal.organizations(query.organization_id)
    where, params = list[str](), list[object]()
    if query.connection_id is not None:
        connection = connections.find(tx, principal, query.connection_id)
        organizations = (connection.organization_id,)
        where.append("a.connection_id = ?")
        params.append(connection.id)
    if query.api is not None:
        where.append("c.api = ?")
        params.append(query.api)
    rows = tx.all(
        f"SELECT c.templates, {ACCOUNTS.columns_of('a')} FROM banking_accounts a JOIN banking_connections c"
        " ON c.organization_id = a.organization_id AND c.id = a.connection_id"
        f" WHERE {' AND '.join([f'a.{in_scope(len(organizations))}', *where])} ORDER BY a.id",
        *organizations, *params,
    )  # fmt: skip
    listed = [(AccountRow._make(row[1:]), str(row[0])) for row in rows]
    wanted = query.payments_supported
    return [account for account, templates in listed if wanted is None or can_pay(account, templates) is wanted]


def _bank_account(row: AccountRow) -> BankAccount:
    return BankAccount(
        can_hide=bool(row.can_hide),
        id=str(row.id),
        name=row.name,
        nature=row.nature,
        balance=_told(row),
        currency_code=row.currency_code,
        created_at=to_datetime(row.created_at),
        updated_at=to_datetime(row.updated_at),
        extra=AccountExtra(
            iban=row.iban,
            holder_name=row.holder_name,
            transactions_count=TransactionsCount(posted=row.posted, pending=row.pending),
        ),
    )


def _told(row: AccountRow) -> Decimal | None:
    return None if row.balance is None else to_wire(row.balance)


def emit_refresh_complete(tx: Tx, row: connections.ConnectionRow, refresh_type: str, rows: list[AccountRow]) -> None:
    data = {
        "status": row.status,
        "refresh_type": refresh_type,
        "accounts": [
            {
                "id": str(account.id),
                "name": account.name,
                "holder_name": account.holder_name,
                "nature": account.nature,
                "balance": _told(account),
                "currency_code": account.currency_code,
                "iban": account.iban,
            }
            for account in rows
        ],
    }
    connections.emit_event(tx, row, "refresh_complete", data)
