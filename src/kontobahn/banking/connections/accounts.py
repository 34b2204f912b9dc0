"""Bank accounts: what goes over the wire, their rows kept as the bank reports them, and the calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from itertools import accumulate
from typing import Annotated, NamedTuple

from msgspec import UNSET, Meta, UnsetType

from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, ListQuery, Timestamp
from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import SANDBOX, Api, Nature
from kontobahn.banking.wire import ConnectionId, NumericId
from kontobahn.db import Rounds, Table, Tx, ask_all, run_in, short_read
from kontobahn.errors import BadRequest, StillRunning
from kontobahn.formats.pain import sepa
from kontobahn.json_text import decode_kept
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
    # Choice 49: an account that does not exist says so.
    is_sandbox: (
        Annotated[bool, Meta(description="An account at the sandbox bank; left out for all others.")] | UnsetType
    ) = UNSET
    not_read: (
        Annotated[
            list[str],
            Meta(description="What of the account could not be read at the last fetch; left out if everything was."),
        ]
        | UnsetType
    ) = UNSET


class BankAccount(Answer):
    can_hide: bool
    id: str
    name: str
    nature: Nature
    # Choice 40: null if the bank does not report it.
    balance: Decimal | None
    currency_code: str
    created_at: Timestamp
    updated_at: Timestamp
    extra: AccountExtra


# --- Rows


class AccountRow(NamedTuple):
    organization_id: str
    id: int
    # The one of its connections that it is paid from; all of them are its sources (`sources.py`).
    connection_id: str
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
    balance_known: int
    balance_on: str | None
    balance_from: str | None
    not_read: str = "[]"

    @property
    def sentences_not_read(self) -> list[str]:
        """Says what of the account could not be read at the last fetch."""
        return decode_kept(self.not_read, list[str])

    @property
    def balance(self) -> int | None:
        """The balance that the bank reported last; None if it reports none."""
        return self.balance_minor if self.balance_known else None


ACCOUNTS = Table("banking_accounts", AccountRow)
# At most this many movements of an account are added up for a line of its balance.
MAX_MOVEMENTS = 20_000
# The accounts of an organisation, to which transactions and statements belong.
IDS = "SELECT id FROM banking_accounts WHERE organization_id = ?"
_REACHED = "SELECT account_id FROM banking_account_sources WHERE organization_id = ? AND connection_id = ?"
CANNOT_PAY: frozenset[Nature] = frozenset({"bonus", "credit", "insurance", "investment", "loan", "mortgage", "savings"})


@short_read
def find(principal: Principal, account_id: str) -> Rounds[AccountRow]:
    """Returns the account with this id, or the one that it has become part of."""
    scope = in_scope(len(principal.scope))
    row = yield from ACCOUNTS.ask_one(
        f"{scope} AND id = {_present(scope)}", *principal.scope, *principal.scope, int(account_id), int(account_id)
    )
    if row is None:
        raise principal.missing("Account")
    return row


def _present(scope: str) -> str:
    """The number of an account in SQL, which may be part of another by now. Takes the scope, and the number twice."""
    return f"COALESCE((SELECT account_id FROM banking_account_aliases WHERE {scope} AND id = ?), ?)"


def present_id(tx: Tx, principal: Principal, account_id: int) -> int:
    """Returns the number of the account that this one has become part of, else the same."""
    row = tx.one(f"SELECT {_present(in_scope(len(principal.scope)))}", *principal.scope, account_id, account_id)
    assert row is not None
    return int(row[0])


def can_pay(account: AccountRow, templates: str) -> bool:
    """Returns whether payments can be made from an account whose connection offers these kinds of payment."""
    if account.iban is None or account.nature in CANNOT_PAY or account.currency_code != "EUR" or not templates:
        return False
    try:
        sepa.check_iban("iban", account.iban)
    except BadRequest:
        return False
    return True


def of_connection(tx: Tx, organization_id: str, connection_id: str) -> list[AccountRow]:
    """The accounts that the connection reaches, including those that another one reaches as well."""
    condition = f"organization_id = ? AND id IN ({_REACHED}) ORDER BY id"
    return ACCOUNTS.all(tx, condition, organization_id, organization_id, connection_id)


def shared_ids(tx: Tx, organization_id: str, connection_id: str) -> frozenset[int]:
    """The accounts of the connection that another one reaches as well: they stay when it is removed."""
    rows = tx.all(
        f"SELECT DISTINCT account_id FROM banking_account_sources WHERE organization_id = ? AND connection_id <> ?"
        f" AND account_id IN ({_REACHED})",
        organization_id, connection_id, organization_id, connection_id,
    )  # fmt: skip
    return frozenset(account_id for (account_id,) in rows)


def is_reached(tx: Tx, account: AccountRow, connection_id: str) -> bool:
    """Returns whether the connection is one of the account's."""
    found = tx.one(f"{_REACHED} AND account_id = ?", account.organization_id, connection_id, account.id)
    return found is not None


def differ(before: list[AccountRow], after: list[AccountRow]) -> bool:
    """Returns whether a bank reports anything else about its accounts than before."""
    facts = ("id", "name", "nature", "balance", "currency_code", "iban", "holder_name", "not_read")
    return any([getattr(row, name) for row in before] != [getattr(row, name) for row in after] for name in facts)


def of_organization(tx: Tx, organization_id: str) -> list[AccountRow]:
    return ACCOUNTS.all(tx, "organization_id = ? ORDER BY id", organization_id)


def look_up(tx: Tx, organization_id: str, account_id: int) -> AccountRow | None:
    return ACCOUNTS.one(tx, "organization_id = ? AND id = ?", organization_id, account_id)


def check_unclaimed(tx: Tx, organization_id: str, account_id: int) -> None:
    """Raises StillRunning if a large file is being imported into the account."""
    if tx.one(
        "SELECT 1 FROM banking_arrivals WHERE organization_id = ? AND account_id = ?", organization_id, account_id
    ):
        raise StillRunning(
            "A large file is being imported into this account. Try again in a minute.", retry_after_seconds=5
        )


def by_connection(tx: Tx, organization_id: str) -> dict[str, list[AccountRow]]:
    """The accounts that each connection reaches; one that several reach stands with each."""
    by_id = {account.id: account for account in of_organization(tx, organization_id)}
    found: dict[str, list[AccountRow]] = {}
    for connection_id, account_id in tx.all(
        "SELECT DISTINCT connection_id, account_id FROM banking_account_sources WHERE organization_id = ? ORDER BY account_id",
        organization_id,
    ):
        found.setdefault(connection_id, []).append(by_id[account_id])
    return found


def any_exists(tx: Tx, organization_id: str) -> bool:
    return tx.one("SELECT 1 FROM banking_accounts WHERE organization_id = ? LIMIT 1", organization_id) is not None


def last_booked(tx: Tx, organization_id: str) -> dict[int, date]:
    """The day of the latest transaction of each account that has one."""
    rows = tx.all(
        "SELECT a.id, (SELECT MAX(t.made_on) FROM banking_transactions t WHERE t.account_id = a.id)"
        " FROM banking_accounts a WHERE a.organization_id = ?",
        organization_id,
    )
    return {account_id: date.fromisoformat(day) for account_id, day in rows if day}


def last_booked_on(tx: Tx, account: AccountRow) -> date | None:
    row = tx.one("SELECT MAX(made_on) FROM banking_transactions WHERE account_id = ?", account.id)
    return date.fromisoformat(row[0]) if row and row[0] else None


def balance_by_day(tx: Tx, account: AccountRow, today: date, days: int) -> list[tuple[date, int]]:
    """Returns the balance at the end of each day, counted back from what the bank says now; nothing if it does not say.

    Of an account with very many movements, only the latest of these days.
    """
    if account.balance is None:
        return []
    first = today - timedelta(days=days - 1)
    rows = tx.all(
        "SELECT made_on, SUM(CASE WHEN status = 'posted' THEN amount_minor ELSE 0 END), COUNT(*) FROM"
        " (SELECT made_on, amount_minor, status FROM banking_transactions WHERE account_id = ? AND made_on > ?"
        " ORDER BY made_on DESC, id DESC LIMIT ?) AS latest GROUP BY made_on ORDER BY made_on",
        account.id, first.isoformat(), MAX_MOVEMENTS,
    )  # fmt: skip
    moved = {day: int(amount) for day, amount, _ in rows}
    if sum(count for _, _, count in rows) == MAX_MOVEMENTS:
        # The day where it was cut off may have more; what is known is the balance at its end.
        days = max(1, (today - date.fromisoformat(rows[0][0])).days + 1)
    later_first = [today - timedelta(days=number) for number in range(days)]
    changes = [-moved.get(day.isoformat(), 0) for day in later_first[:-1]]
    return list(zip(later_first, accumulate(changes, initial=account.balance), strict=True))[::-1]


def tell_not_read(tx: Tx, account: AccountRow, sentences: Sequence[str]) -> AccountRow:
    """Keeps what of an account could not be read at the last fetch."""
    kept = connections.kept_sentences(sentences)
    return account if kept == account.not_read else ACCOUNTS.update(tx, account, not_read=kept)


# --- Calls


@get("/v2/banking/accounts", scope="banking:read", errors=(403, 404))
async def list_bank_accounts(call: Call, query: AccountsQuery) -> Data[list[BankAccount]]:
    """List bank accounts: all of the organisation, or those of one connection."""
    # The filter for payments takes a check of each IBAN, which would hold up the event loop.
    if query.connection_id is None and query.payments_supported is None:
        rows = await call.read_inline(_listing_of_all, call.principal, query)
    else:
        rows = await call.read(listing, call.principal, query)
    return Data([_bank_account(*row) for row in rows])


# Choice 20: one account is read for free.
@get("/v2/banking/accounts/{id}", scope="banking:read", errors=(403, 404))
async def get_bank_account(call: Call, id: NumericId) -> Data[BankAccount]:
    """Read one bank account."""
    return Data(_bank_account(*await call.read_inline(_find_listed, call.principal, id)))


class Listed(NamedTuple):
    account: AccountRow
    # Of the connection that the account belongs to.
    provider: str


@short_read
def _find_listed(principal: Principal, account_id: str) -> Rounds[Listed]:
    scope = in_scope(len(principal.scope))
    rows = yield from ask_all(
        f"SELECT c.provider, {ACCOUNTS.columns_of('a')} FROM banking_accounts a JOIN banking_connections c"
        " ON c.organization_id = a.organization_id AND c.id = a.connection_id"
        f" WHERE a.{scope} AND a.id = {_present(scope)}",
        *principal.scope, *principal.scope, int(account_id), int(account_id),
    )  # fmt: skip
    if not rows:
        raise principal.missing("Account")
    return Listed(AccountRow._make(rows[0][1:]), str(rows[0][0]))


def listing(tx: Tx, principal: Principal, query: AccountsQuery) -> list[Listed]:
    organizations, connection = principal.organizations(query.organization_id), None
    if query.connection_id is not None:
        connection = connections.find(tx, principal, query.connection_id)
        organizations = (connection.organization_id,)
    return run_in(tx, _ask_listing(organizations, connection, query))


@short_read
def _listing_of_all(principal: Principal, query: AccountsQuery) -> Rounds[list[Listed]]:
    return _ask_listing(principal.organizations(query.organization_id), None, query)


def _ask_listing(
    organizations: tuple[str, ...], connection: connections.ConnectionRow | None, query: AccountsQuery
) -> Rounds[list[Listed]]:
    where, params = list[str](), list[object]()
    if connection is not None:
        where.append(f"a.id IN ({_REACHED})")
        params += [connection.organization_id, connection.id]
    if query.api is not None:
        where.append("c.api = ?")
        params.append(query.api)
    rows = yield from ask_all(
        f"SELECT c.templates, c.provider, {ACCOUNTS.columns_of('a')} FROM banking_accounts a JOIN banking_connections c"
        " ON c.organization_id = a.organization_id AND c.id = a.connection_id"
        f" WHERE {' AND '.join([f'a.{in_scope(len(organizations))}', *where])} ORDER BY a.id",
        *organizations, *params,
    )  # fmt: skip
    listed = [(Listed(AccountRow._make(row[2:]), str(row[1])), str(row[0])) for row in rows]
    wanted = query.payments_supported
    return [one for one, templates in listed if wanted is None or can_pay(one.account, templates) is wanted]


def _bank_account(row: AccountRow, provider: str) -> BankAccount:
    return from_row(
        BankAccount,
        row,
        id=str(row.id),
        balance=_balance_on_wire(row),
        extra=AccountExtra(
            iban=row.iban,
            holder_name=row.holder_name,
            transactions_count=TransactionsCount(posted=row.posted, pending=row.pending),
            is_sandbox=True if provider == SANDBOX else UNSET,
            not_read=row.sentences_not_read or UNSET,
        ),
    )


def _balance_on_wire(row: AccountRow) -> Decimal | None:
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
                "balance": _balance_on_wire(account),
                "currency_code": account.currency_code,
                "iban": account.iban,
            }
            for account in rows
        ],
    }
    connections.emit_event(tx, row, "refresh_complete", data)
