"""Stored downloads as a snapshot, with the readers that statement files have: each booking once, however often the bank offers it.

A booked statement counts once by its account and name. Reports of the day (camt.052) count only for days that no statement has closed
yet, and repeat each other: a booking counts as often as it stands in the one that has it most often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import chain
from typing import IO, NamedTuple

from kontobahn.bank_providers.ebics.wire import Access
from kontobahn.banking.imports.files import entry_facts, reference_of
from kontobahn.banking.provider import AccountFacts, BankConnectionFacts, NotRead, Snapshot, TransactionFacts
from kontobahn.banking.reports.intake import Gathered
from kontobahn.formats.bank_files import read
from kontobahn.formats.ebics.services import AccountOfBank
from kontobahn.formats.statements import Balance, Closing, Entry, Item, Opening, StatementError, StatusReport
from kontobahn.sentences import said

# The provider's one entry in the list of banks.
CODE = "ebics"


class Plain(NamedTuple):
    """A download, unpacked: camt or MT940, alone or several in an archive."""

    name: str
    file: IO[bytes]


class _Report(NamedTuple):
    opening: Opening
    entries: list[TransactionFacts]
    balance: Balance | None


class _Part:
    """A download while it is read: thrown away if a later part of it cannot be."""

    def __init__(self) -> None:
        self.opening: Opening | None = None
        self.is_known = False
        self.booked = Gathered()
        self.days: list[_Report] = []
        self.seen: set[tuple[str, ...]] = set()
        self.latest: dict[str, Balance] = {}
        self.references: dict[str, set[int]] = {}
        self.shared: set[tuple[str, int]] = set()
        self.reports: list[StatusReport] = []

    def take(self, facts: TransactionFacts) -> None:
        assert self.opening is not None
        if self.opening.kind != "booked":
            self.days[-1].entries.append(facts)
            return
        self.booked.add((facts,))
        if facts.provider_ref is not None:
            known, digest = self.references.setdefault(facts.account_ref, set()), hash(facts.provider_ref)
            if digest in known:
                self.shared.add((facts.account_ref, digest))
            known.add(digest)

    def close(self, balance: Balance | None) -> None:
        assert self.opening is not None
        if self.opening.kind == "booked":
            self.seen.add(_identity(self.opening))
            if balance and _is_later(balance, self.latest.get(self.opening.account.iban)):
                self.latest[self.opening.account.iban] = balance
        elif not self.is_known:
            self.days[-1] = self.days[-1]._replace(balance=balance)


class Reading:
    """Reads downloads one after the other. Afterwards `snapshot` is what they say, and `reports` what they say about orders."""

    def __init__(self, accounts: Iterable[AccountOfBank], closings: Mapping[str, Balance]) -> None:
        self._accounts = {
            account.iban: AccountFacts(
                account.iban, account.name or f"Konto {account.iban[-10:]}", "checking", None, account.currency,
                account.iban, account.holder,
            )
            for account in accounts
        }  # fmt: skip
        self._booked: list[Gathered] = []
        self._seen: set[tuple[str, ...]] = set()
        # Digests, because there may be hundreds of thousands; and those that several bookings have, which identify none of them.
        self._references: dict[str, set[int]] = {}
        self._shared: set[tuple[str, int]] = set()
        self._latest = dict(closings)
        self._days: list[_Report] = []
        self._unread: list[tuple[str | None, str]] = []
        self.reports: list[StatusReport] = []

    def add(self, plain: Plain) -> None:
        """Reads one download. One that cannot be read is reported, and nothing is taken from it."""
        part = _Part()
        try:
            for item in read(plain.file, plain.name, unbalanced=True):  # type: ignore[arg-type]
                self._read(item, part)
        except StatementError as error:
            iban = None if part.opening is None else part.opening.account.iban
            sentence = said("A statement of the bank cannot be read: {reason}", reason=error.without_file(plain.name))
            self._unread.append((iban, sentence))
            return
        self._take(part)

    def _read(self, item: Item, part: _Part) -> None:
        match item:
            case Opening():
                part.opening = item
                part.is_known = _identity(item) in self._seen or _identity(item) in part.seen
                if item.kind != "booked":
                    part.days.append(_Report(item, [], None))
            case Entry() if part.opening is not None and not part.is_known:
                part.take(entry_facts(item, part.opening.account.iban, self._accounts, reference=reference_of(item)))
            case Closing() if part.opening is not None:
                part.close(item.balance)
                self._open_account(part.opening)
            case StatusReport():
                part.reports.append(item)

    def _take(self, part: _Part) -> None:
        """Takes what was read of a whole download."""
        for iban, references in part.references.items():
            known = self._references.setdefault(iban, set())
            self._shared |= {(iban, one) for one in known & references}
            known |= references
        self._shared |= part.shared
        if len(part.booked):
            self._booked.append(part.booked)
        self._days += part.days
        self._seen |= part.seen
        for iban, balance in part.latest.items():
            if _is_later(balance, self._latest.get(iban)):
                self._latest[iban] = balance
        self.reports += part.reports

    def _open_account(self, opening: Opening) -> None:
        stated = opening.account
        currency = stated.currency or (opening.balance.currency if opening.balance else "EUR")
        self._accounts.setdefault(
            stated.iban,
            AccountFacts(
                stated.iban, f"Konto {stated.iban[-10:]}", "checking", None, currency, stated.iban, stated.holder
            ),
        )

    def snapshot(self, connection: BankConnectionFacts, missing: Iterable[str], since: date | None) -> Snapshot:
        accounts = [self._with_balance(facts) for facts in self._accounts.values()]
        not_read = [NotRead(facts.provider_ref, sentence, is_lost=False) for facts in accounts for sentence in missing]
        for iban, sentence in self._unread:
            refs = [iban] if iban in self._accounts else list(self._accounts)
            not_read += [NotRead(str(ref), sentence) for ref in refs]
        is_plain = len(self._booked) == 1 and not self._shared and not self._days
        transactions = self._booked[0] if is_plain else Gathered(self._transactions())
        # Banks offer each statement once, so one that is missing here is not gone.
        return Snapshot(connection, accounts, transactions, is_partial=False, since=since, not_read=not_read)

    @property
    def closings(self) -> dict[str, Balance]:
        return self._latest

    def _with_balance(self, facts: AccountFacts) -> AccountFacts:
        balance = self._latest.get(facts.provider_ref)
        for report in self._days:
            told = report.balance
            if report.opening.account.iban == facts.provider_ref and told is not None and _is_later(told, balance):
                balance = told
        if balance is None or balance.currency != facts.currency_code:
            return facts
        return facts._replace(balance_minor=balance.amount_minor, balance_on=balance.day)

    def _transactions(self) -> Iterator[TransactionFacts]:
        for facts in chain.from_iterable(self._booked):
            is_shared = (facts.account_ref, hash(facts.provider_ref)) in self._shared
            yield facts._replace(provider_ref=None) if is_shared else facts
        by_account: dict[str, list[_Report]] = {}
        for report in self._days:
            by_account.setdefault(report.opening.account.iban, []).append(report)
        for iban, reports in by_account.items():
            closed = self._latest.get(iban)
            yield from _of_the_day(reports, None if closed is None else closed.day)


def _identity(opening: Opening) -> tuple[str, ...]:
    day = opening.to_date or (opening.balance.day if opening.balance else None)
    return (
        opening.account.iban, opening.account.currency or "", opening.format, opening.statement_id, str(opening.number),
        str(opening.page), str(day),
    )  # fmt: skip


def _is_later(balance: Balance, than: Balance | None) -> bool:
    return than is None or balance.day >= than.day


def _of_the_day(reports: list[_Report], closed: date | None) -> Iterator[TransactionFacts]:
    """Yields bookings that no statement has yet, and what is pending in the last report."""
    most: Counter[tuple[object, ...]] = Counter()
    facts_by: dict[tuple[object, ...], TransactionFacts] = {}
    for report in reports:
        counts: Counter[tuple[object, ...]] = Counter()
        for facts in report.entries:
            booked_on = facts.extra.get("posting_date")
            if facts.status == "pending" or (
                closed is not None and isinstance(booked_on, date) and booked_on <= closed
            ):
                continue
            same: tuple[object, ...] = (
                facts.provider_ref,
                facts.made_on,
                facts.amount_minor,
                facts.currency_code,
                facts.description,
            )
            counts[same] += 1
            facts_by[same] = facts
        for same, count in counts.items():
            most[same] = max(most[same], count)
    for same, count in most.items():
        yield from [facts_by[same]] * count
    yield from (facts for facts in reports[-1].entries if facts.status == "pending")


def connection_facts(access: Access, ref: str, next_refresh_possible_at: int) -> BankConnectionFacts:
    return BankConnectionFacts(
        provider_ref=ref,
        provider_code=CODE,
        provider_name=access.bank_name,
        country_code="DE",
        logo_url="",
        templates=("SEPA", "SEPA_INSTANT"),
        # Choice 40: the keys hold until somebody changes them.
        consent_expires_at=None,
        next_refresh_possible_at=next_refresh_possible_at,
        automatic_refresh=True,
    )
