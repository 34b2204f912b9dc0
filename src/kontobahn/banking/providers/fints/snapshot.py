"""From what was read in a dialog to what the port calls a snapshot, with the readers that statement files have."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from typing import IO

from kontobahn.banking.gathered import Gathered
from kontobahn.banking.imports.entries import entry_facts, reference_of
from kontobahn.banking.provider import (
    AccountFacts,
    BankConnectionFacts,
    Nature,
    ProviderRefused,
    Snapshot,
    TransactionFacts,
)
from kontobahn.banking.providers.fints.documents import IN_MEMORY, Documents
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
    login: Login, accounts: list[SeenAccount], documents: Documents, *, provider_ref: str, provider_code: str,
    next_refresh_possible_at: int,
) -> Snapshot:  # fmt: skip
    """Raises ProviderRefused if a document cannot be read: half a statement is worse than none."""
    facts, transactions = [], Gathered()
    # By account: references that several of its bookings have.
    shared: dict[str, set[str]] = {}
    own = {account.iban for account in accounts}
    for number, account in enumerate(accounts):
        reading = _Reading(account)
        transactions.add(reading.transactions(documents, number, own - {account.iban}))
        facts.append(_account(account, reading.balance_minor))
        if reading.shared:
            shared[_ref(account)] = reading.shared
    if shared:
        transactions = Gathered(_without(transactions, shared))
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
        provider_ref=_ref(account),
        name=account.name or f"Konto {account.number}",
        nature=_NATURES.get(account.type // 10, "account"),
        balance_minor=balance,
        currency_code=account.currency,
        iban=account.iban or None,
        holder_name=account.holder,
    )


def _ref(account: SeenAccount) -> str:
    return account.iban or f"{account.blz}/{account.number}/{account.sub}"


class _Reading:
    """Reads an account's documents one after the other; afterwards `balance_minor` is what the latest one closes with.

    `shared` are references that several bookings have: such a one identifies none of them.
    """

    def __init__(self, account: SeenAccount) -> None:
        self._account = account
        # Digests, because there may be hundreds of thousands.
        self._seen: set[int] = set()
        self._latest: Balance | None = None
        self.shared: set[str] = set()

    @property
    def balance_minor(self) -> int | None:
        return None if self._latest is None else self._latest.amount_minor

    def transactions(self, documents: Documents, number: int, own: set[str]) -> Iterator[TransactionFacts]:
        ref = _ref(self._account)
        for is_pending in (False, True):
            for file in _files(documents.of_account(number, is_pending=is_pending)):
                for entry in self._entries(file):
                    reference = reference_of(entry)
                    if reference is not None:
                        if hash(reference) in self._seen:
                            self.shared.add(reference)
                        self._seen.add(hash(reference))
                    yield entry_facts(entry, ref, own, reference=reference)

    def _is_later(self, balance: Balance) -> bool:
        return self._latest is None or balance.day >= self._latest.day

    def _entries(self, file: IO[bytes]) -> Iterator[Entry]:
        try:
            for item in read(file, _ref(self._account), ibans=_names(self._account), unbalanced=True):  # type: ignore[arg-type]
                if isinstance(item, Entry):
                    yield item
                elif isinstance(item, Closing) and item.balance and self._is_later(item.balance):
                    self._latest = item.balance
        except StatementError as error:
            raise ProviderRefused("ProviderError", f"A statement of the bank cannot be read: {error}") from None


def _without(transactions: Gathered, shared: dict[str, set[str]]) -> Iterator[TransactionFacts]:
    for facts in transactions:
        is_shared = facts.provider_ref in shared.get(facts.account_ref, ())
        yield facts._replace(provider_ref=None) if is_shared else facts


def _files(documents: Iterator[bytes]) -> Iterator[IO[bytes]]:
    """Puts the parts of an MT940 together, which banks cut at any place. camt comes in whole documents."""
    with tempfile.SpooledTemporaryFile(IN_MEMORY) as whole:
        for document in documents:
            if document.lstrip()[:1] != b"<":
                whole.write(document)
            elif not _is_empty(document):
                yield io.BytesIO(document)
        if whole.tell() >= _MIN_DOCUMENT:
            whole.seek(0)
            yield whole


def _is_empty(document: bytes) -> bool:
    """Whether it is a camt without a report, which some banks send where there is nothing."""
    return b"Rpt>" not in document and b"Stmt>" not in document


def _names(account: SeenAccount) -> dict[str, str]:
    """How MT940 calls the account."""
    number = account.number.lstrip("0")
    return {
        f"{account.blz}/{name}": account.iban
        for name in (account.number, number, account.number.zfill(10))
        if account.iban
    }
