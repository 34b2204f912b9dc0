"""Sources: the ways by which an account is reached. One IBAN of an organisation is one account, whatever brings it.

A source is an account as one connection calls it. A further connection to the same IBAN is another source of the account that is there:
it adds facts to it, and never makes a second account.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from kontobahn.banking import ids
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import ACCOUNTS, AccountRow, look_up
from kontobahn.banking.provider import AccountFacts
from kontobahn.clock import berlin_date
from kontobahn.db import Table, Tx


class SourceRow(NamedTuple):
    organization_id: str
    connection_id: str
    provider_ref: str
    account_id: int
    identity: str | None


SOURCES = Table("banking_account_sources", SourceRow, key=("organization_id", "connection_id", "provider_ref"))


def of_connection(tx: Tx, organization_id: str, connection_id: str) -> list[SourceRow]:
    condition = "organization_id = ? AND connection_id = ? ORDER BY account_id, provider_ref"
    return SOURCES.all(tx, condition, organization_id, connection_id)


def find(tx: Tx, organization_id: str, connection_id: str, facts: AccountFacts) -> AccountRow | None:
    """Returns the account that a connection reports, if it is there already."""
    source = SOURCES.one(
        tx, "organization_id = ? AND connection_id = ? AND provider_ref = ?",
        organization_id, connection_id, facts.provider_ref,
    )  # fmt: skip
    account_id = source.account_id if source else _same_iban(tx, organization_id, [facts], facts, set())
    return None if account_id is None else look_up(tx, organization_id, account_id)


def find_certain(
    tx: Tx, organization_id: str, connection_id: str, reported: list[AccountFacts], facts: AccountFacts
) -> AccountRow | None:
    """Returns the account that `open_some` is going to return, if no other one could be meant."""
    known = of_connection(tx, organization_id, connection_id)
    if any(source.provider_ref == facts.provider_ref for source in known):
        return find(tx, organization_id, connection_id, facts)
    if _is_ambiguous(reported, facts) or any(source.identity == facts.identity is not None for source in known):
        return None
    account = find(tx, organization_id, connection_id, facts)
    taken = {source.account_id for source in known}
    is_only = account is not None and not _same_iban(tx, organization_id, reported, facts, {account.id})
    return account if account is not None and is_only and account.id not in taken else None


def lock(tx: Tx, organization_id: str, reported: list[AccountFacts]) -> None:
    connections.lock_accounts(tx, organization_id, [facts.iban for facts in reported])


def _no_number(facts: AccountFacts) -> int | None:
    return None


# Choice 45: one IBAN of an organisation is one account.
def open_some(
    tx: Tx,
    organization_id: str,
    connection_id: str,
    reported: list[AccountFacts],
    number: Callable[[AccountFacts], int | None] = _no_number,
) -> list[AccountRow]:
    """Returns the accounts that a connection reports, in this order, as they are reported now. New ones are created.

    An account is the same if the provider calls it the same, or its identity is the same where that name changes from session to
    session, or else its IBAN and currency are; if two could be meant by these, neither is. The accounts are locked. `number` says
    which number a new one has, if one was taken for it before.
    """
    known = of_connection(tx, organization_id, connection_id)
    by_ref = {source.provider_ref: source for source in known}
    refs = {facts.provider_ref for facts in reported}
    free = [source for source in known if source.provider_ref not in refs]
    strangers = [facts for facts in reported if facts.provider_ref not in by_ref]
    for facts in strangers:
        source = _renamed(tx, free, strangers, facts)
        if source is not None:
            by_ref[facts.provider_ref] = SOURCES.update(tx, source, provider_ref=facts.provider_ref)
            free.remove(source)
    taken = {source.account_id for source in by_ref.values()}
    found = []
    for facts in reported:
        source = by_ref.get(facts.provider_ref)
        account_id = source.account_id if source else _same_iban(tx, organization_id, reported, facts, taken)
        taken |= {account_id} if account_id is not None else set()
        account = None if account_id is None else look_up(tx, organization_id, account_id)
        if account is None:
            account = _create(tx, organization_id, connection_id, facts, number(facts))
        found.append(_save(tx, organization_id, connection_id, facts, source, account))
    return found


def _renamed(tx: Tx, free: list[SourceRow], strangers: list[AccountFacts], facts: AccountFacts) -> SourceRow | None:
    same = [source for source in free if facts.identity is not None and source.identity == facts.identity]
    if not same and facts.iban is not None and not _is_ambiguous(strangers, facts):
        same = [
            source for source in free if _key(look_up(tx, source.organization_id, source.account_id)) == _key(facts)
        ]
    return same[0] if len(same) == 1 else None


def _same_iban(
    tx: Tx, organization_id: str, reported: list[AccountFacts], facts: AccountFacts, taken: set[int]
) -> int | None:
    """Returns the account that other connections reach under this IBAN; the oldest, if there are several from before."""
    if facts.iban is None or _is_ambiguous(reported, facts):
        return None
    rows = tx.all(
        "SELECT id FROM banking_accounts WHERE organization_id = ? AND iban = ? AND currency_code = ? ORDER BY id",
        organization_id, facts.iban, facts.currency_code,
    )  # fmt: skip
    return next((account_id for (account_id,) in rows if account_id not in taken), None)


def _is_ambiguous(reported: list[AccountFacts], facts: AccountFacts) -> bool:
    """Returns whether one connection has several accounts with this IBAN, as of a card that is settled by the account."""
    return sum(_key(one) == _key(facts) for one in reported) > 1


def _key(account: AccountRow | AccountFacts | None) -> tuple[str | None, str] | None:
    return None if account is None else (account.iban, account.currency_code)


def _save(
    tx: Tx,
    organization_id: str,
    connection_id: str,
    facts: AccountFacts,
    source: SourceRow | None,
    account: AccountRow,
) -> AccountRow:
    if source is None:
        SOURCES.insert(tx, SourceRow(organization_id, connection_id, facts.provider_ref, account.id, facts.identity))
    elif facts.identity is not None and source.identity != facts.identity:
        SOURCES.update(tx, source, identity=facts.identity)
    if account.connection_id != connection_id:
        leading = connections.lead(tx, organization_id, account.id)
        account = account._replace(connection_id=leading or account.connection_id)
    if account.connection_id == connection_id:
        return ACCOUNTS.update(
            tx, account, name=facts.name, nature=facts.nature, iban=facts.iban, holder_name=facts.holder_name, updated_at=tx.now
        )  # fmt: skip
    # The words are those of the connection that the account is paid from.
    return ACCOUNTS.update(tx, account, holder_name=account.holder_name or facts.holder_name, updated_at=tx.now)


def _create(tx: Tx, organization_id: str, connection_id: str, facts: AccountFacts, number: int | None) -> AccountRow:
    account = AccountRow(
        organization_id=organization_id,
        id=number or ids.take(tx, organization_id, "account"),
        connection_id=connection_id,
        iban=facts.iban,
        name=facts.name,
        holder_name=facts.holder_name,
        nature=facts.nature,
        balance_minor=0,
        currency_code=facts.currency_code,
        can_hide=1,
        posted=0,
        pending=0,
        created_at=tx.now,
        updated_at=tx.now,
        balance_known=0,
        balance_on=None,
        balance_from=None,
    )
    ACCOUNTS.insert(tx, account)
    return account


class Twin(NamedTuple):
    """An IBAN that an organisation has several accounts with, from before it was one."""

    organization_id: str
    iban: str
    currency_code: str
    account_ids: list[int]


def twins(tx: Tx, organization_id: str | None = None) -> list[Twin]:
    """The IBANs with several accounts that different connections reach; one connection may have several with one IBAN."""
    only, params = ("", ()) if organization_id is None else (" AND a.organization_id = ?", (organization_id,))
    rows = tx.all(
        "SELECT DISTINCT a.organization_id, a.iban, a.currency_code, a.id FROM banking_accounts a JOIN banking_accounts b"
        " ON b.organization_id = a.organization_id AND b.iban = a.iban AND b.currency_code = a.currency_code AND b.id <> a.id"
        " WHERE NOT EXISTS (SELECT 1 FROM banking_account_sources s JOIN banking_account_sources t"
        " ON t.organization_id = s.organization_id AND t.connection_id = s.connection_id AND t.account_id = b.id"
        f" WHERE s.organization_id = a.organization_id AND s.account_id = a.id){only} ORDER BY 1, 2, 3, 4",
        *params,
    )
    grouped = groupby(rows, key=itemgetter(0, 1, 2))
    return [
        Twin(organization_id, iban, currency_code, [row[3] for row in group])
        for (organization_id, iban, currency_code), group in grouped
    ]


# --- Balances


def tell_balance(
    tx: Tx, account: AccountRow, connection_id: str, balance_minor: int | None, day: date | None = None, *, is_later: bool = True,
) -> AccountRow:  # fmt: skip
    """Keeps the balance that a connection reports for a day (today, if it names none), unless another has reported a later one.

    One that reports none any more takes back only what it reported itself. `is_later`: later than what was told of the same day.
    """
    day = day or berlin_date(tx.now)
    told_by = account.balance_from or account.connection_id
    if account.balance is not None and told_by != connection_id:
        told_on = account.balance_on or berlin_date(account.updated_at).isoformat()
        if balance_minor is None or day.isoformat() < told_on or (day.isoformat() == told_on and not is_later):
            return account
    return ACCOUNTS.update(
        tx, account, balance_minor=balance_minor or 0, balance_known=int(balance_minor is not None),
        balance_on=None if balance_minor is None else day.isoformat(), balance_from=connection_id, updated_at=tx.now,
    )  # fmt: skip
