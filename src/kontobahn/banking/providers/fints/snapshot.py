"""From what was read in a dialog to what the port calls a snapshot, with the readers that statement files have."""

from __future__ import annotations

import io
from collections import Counter

from kontobahn.banking.imports.entries import entry_facts, reference_of
from kontobahn.banking.provider import (
    AccountFacts,
    BankConnectionFacts,
    Nature,
    ProviderRefused,
    Snapshot,
    TransactionFacts,
)
from kontobahn.banking.providers.fints.model import Login, SeenAccount
from kontobahn.formats.bank_files import read
from kontobahn.formats.statements import Balance, Closing, Entry, StatementError

# Account types of the user parameters, by their tens.
_NATURES: dict[int, Nature] = {
    0: "checking",
    1: "savings",
    3: "investment",
    4: "loan",
    5: "credit_card",
    6: "investment",
}
# German banks' own marks for an empty document, and what XML needs at least.
_MIN_DOCUMENT = 20


def snapshot_of(
    login: Login, accounts: list[SeenAccount], *, provider_ref: str, provider_code: str, next_refresh_possible_at: int
) -> Snapshot:
    """Raises ProviderRefused if a document cannot be read: half a statement is worse than none."""
    facts, transactions = [], []
    own = {account.iban for account in accounts}
    for account in accounts:
        found, balance = _transactions(account, own)
        transactions += found
        facts.append(_account(account, balance))
    connection = BankConnectionFacts(
        provider_ref=provider_ref,
        provider_code=provider_code,
        provider_name=login.bank_name,
        country_code="DE",
        logo_url="",
        # Payments are order files, which every bank takes.
        templates=("SEPA", "SEPA_INSTANT"),
        # Choice 40: FinTS tells no end of a consent.
        consent_expires_at=None,
        next_refresh_possible_at=next_refresh_possible_at,
        automatic_refresh=login.pin is not None,
    )
    return Snapshot(connection, facts, transactions)


def _account(account: SeenAccount, closing_minor: int | None) -> AccountFacts:
    balance = account.balance_minor if account.balance_minor is not None else closing_minor
    return AccountFacts(
        provider_ref=account.iban or f"{account.blz}/{account.number}/{account.sub}",
        name=account.name or f"Konto {account.number}",
        nature=_NATURES.get(account.type // 10, "account"),
        balance_minor=balance or 0,
        currency_code=account.currency,
        iban=account.iban or None,
        holder_name=account.holder,
    )


def _transactions(account: SeenAccount, own: set[str]) -> tuple[list[TransactionFacts], int | None]:
    entries: list[Entry] = []
    latest: Balance | None = None
    for number, document in enumerate([*_whole(account.booked), *_whole(account.pending)], 1):
        if len(document.strip()) < _MIN_DOCUMENT or _is_empty(document):
            continue
        try:
            for item in read(io.BytesIO(document), f"{account.iban}-{number}", ibans=_names(account), unbalanced=True):
                if isinstance(item, Entry):
                    entries.append(item)
                elif isinstance(item, Closing) and item.balance and (not latest or item.balance.day >= latest.day):
                    latest = item.balance
        except StatementError as error:
            raise ProviderRefused("ProviderError", f"A statement of the bank cannot be read: {error}") from None
    references = Counter(filter(None, map(reference_of, entries)))
    ref = account.iban or f"{account.blz}/{account.number}/{account.sub}"
    facts = [
        # A reference that several bookings share identifies none of them.
        entry_facts(entry, ref, own - {account.iban}, reference=name if name and references[name] == 1 else None)
        for entry in entries
        for name in (reference_of(entry),)
    ]
    return facts, None if latest is None else latest.amount_minor


def _whole(documents: list[bytes]) -> list[bytes]:
    """Puts the parts of an MT940 together, which banks cut at any place. camt comes in whole documents."""
    return documents if not documents or documents[0].lstrip()[:1] == b"<" else [b"".join(documents)]


def _is_empty(document: bytes) -> bool:
    """Whether it is a camt without a report, which some banks send where there is nothing."""
    return document.lstrip()[:1] == b"<" and b"Rpt>" not in document and b"Stmt>" not in document


def _names(account: SeenAccount) -> dict[str, str]:
    """How MT940 calls the account."""
    number = account.number.lstrip("0")
    return {
        f"{account.blz}/{name}": account.iban
        for name in (account.number, number, account.number.zfill(10))
        if account.iban
    }
