"""The one way in for what providers report: from a delivery, from an answer to something we asked, or from a person's return.

A report of new data is completed first, by fetching outside any transaction; then all reports of one source are applied in one.
"""

from __future__ import annotations

import asyncio
import pickle
import tempfile
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from datetime import date
from functools import cache, partial
from typing import Any, BinaryIO, NamedTuple

from kontobahn import log
from kontobahn.access import users
from kontobahn.api.call import Context
from kontobahn.banking import ids
from kontobahn.banking.connections import accounts, rules, sources
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow, emit_refresh_complete
from kontobahn.banking.connections.flows import FLOWS, FlowRow, find
from kontobahn.banking.connections.store import CONNECTIONS, ConnectionRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.store import apply
from kontobahn.banking.provider import (
    OVERLAP,
    AccountFacts,
    Banking,
    BankProvider,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    NotRead,
    PaymentReported,
    PersonHere,
    ProviderDown,
    ProviderRefused,
    Report,
    Snapshot,
    TransactionFacts,
)
from kontobahn.banking.transactions import arrivals
from kontobahn.banking.transactions.arrivals import Ahead, Arrivals, Expected, Part
from kontobahn.banking.transactions.ingest import Counts, TransactionIngest
from kontobahn.banking.transactions.recognition import Delivery, references_of
from kontobahn.banking.transactions.wire import Reported, reported, texts_of
from kontobahn.clock import berlin_date
from kontobahn.db import Database, Tx

# The transactions of a fetch while they are gathered page by page: in memory while they are few, then in a file without
# a name.
#
# They are stored in one transaction, which may have to run again, so they can be read more than once. Others wait for
# it, so the slow part of each booking is done before, on the way into the file.


# At most this many are held in memory.
IN_MEMORY = 1_000
# The facts, and the fields made from them if they are already.
_Waiting = tuple[TransactionFacts, tuple[Any, ...] | None]


class Gathered(Collection[TransactionFacts]):
    def __init__(self, transactions: Iterable[TransactionFacts] = ()) -> None:
        self._file: BinaryIO | None = None
        # By account: where its blocks are in the file, and what is not in the file yet.
        self._blocks: dict[str, list[tuple[int, int]]] = {}
        self._waiting: dict[str, list[_Waiting]] = {}
        self._waiting_count = self._count = 0
        self._counts: Counter[str] = Counter()
        self.add(transactions)

    def add(self, transactions: Iterable[TransactionFacts]) -> None:
        for facts in transactions:
            # Once there is a file it goes there, and is finished while its description is still known to whoever parsed it.
            fields = None if self._file is None else _fields_of(facts)
            self._waiting.setdefault(facts.account_ref, []).append((facts, fields))
            self._count += 1
            self._counts[facts.account_ref] += 1
            self._waiting_count += 1
            if self._waiting_count >= IN_MEMORY:
                self._spill()

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
            weakref.finalize(self, self._file.close)
        at = self._file.seek(0, 2)
        for account_ref, waiting in self._waiting.items():
            # Only this process has ever seen the file, so what comes out of it is what went in.
            whole = [(tuple(facts), fields or _fields_of(facts)) for facts, fields in waiting]
            block = pickle.dumps(whole, pickle.HIGHEST_PROTOCOL)
            self._file.write(block)
            self._blocks.setdefault(account_ref, []).append((at, len(block)))
            at += len(block)
        self._waiting, self._waiting_count = {}, 0

    def of_account(self, account_ref: str) -> Iterator[Reported]:
        """The account's transactions in the order in which they came."""
        for at, length in self._blocks.get(account_ref, ()):
            assert self._file is not None
            self._file.seek(at)
            for facts, fields in pickle.loads(self._file.read(length)):
                yield _reported(TransactionFacts._make(facts), fields)
        for facts, fields in self._waiting.get(account_ref, ()):
            yield reported(facts) if fields is None else _reported(facts, fields)

    def __iter__(self) -> Iterator[TransactionFacts]:
        for account_ref in dict.fromkeys((*self._blocks, *self._waiting)):
            for booking in self.of_account(account_ref):
                yield booking.facts()

    def count_of(self, account_ref: str) -> int:
        """The number of the account's transactions."""
        return self._counts[account_ref]

    def __len__(self) -> int:
        return self._count

    def __contains__(self, facts: object) -> bool:
        return any(facts == one for one in self)


def _fields_of(facts: TransactionFacts) -> tuple[Any, ...]:
    """Returns all fields of the booking, with its texts, without the facts themselves."""
    return (*reported(facts)[:-2], texts_of(facts))


def _reported(facts: TransactionFacts, fields: tuple[Any, ...]) -> Reported:
    return Reported._make((*fields, partial(_same, facts)))


def _same(facts: TransactionFacts) -> TransactionFacts:
    return facts


def without_repeats(transactions: Collection[TransactionFacts]) -> Collection[TransactionFacts]:
    """Returns each booking once, where pages overlap or a booking is reported as pending as well.

    What has the bank's id is the same if the amount is; an id that different bookings share identifies none of them.
    """
    repeated = _repeated(transactions)
    if not repeated:
        return transactions
    places: dict[tuple[str, str], list[tuple[int, TransactionFacts]]] = {}
    for place, facts in enumerate(transactions):
        if facts.provider_ref is not None and _digest(facts) in repeated:
            places.setdefault((facts.account_ref, facts.provider_ref), []).append((place, facts))
    dropped: set[int] = set()
    shared: set[int] = set()
    for found in places.values():
        if len({(facts.amount_minor, facts.currency_code) for _, facts in found}) > 1:
            shared.update(place for place, _ in found)
        else:
            kept = next((place for place, facts in reversed(found) if facts.status == "posted"), found[-1][0])
            dropped.update(place for place, _ in found if place != kept)
    return Gathered(
        facts._replace(provider_ref=None) if place in shared else facts
        for place, facts in enumerate(transactions)
        if place not in dropped
    )


def _digest(facts: TransactionFacts) -> int:
    """Returns a short digest of an id: there may be hundreds of thousands, and few occur twice."""
    return hash((facts.account_ref, facts.provider_ref))


def _repeated(transactions: Iterable[TransactionFacts]) -> set[int]:
    seen: set[int] = set()
    repeated: set[int] = set()
    for facts in transactions:
        if facts.provider_ref is not None:
            digest = _digest(facts)
            (repeated if digest in seen else seen).add(digest)
    return repeated


# Limits of one fetch.
MAX_PAGES, MAX_TRANSACTIONS = 2_000, 500_000


class NotKnownYet(Exception):
    """The report is about something that is not known here yet, but may be soon."""


class Prepared(NamedTuple):
    report: Report
    snapshot: Snapshot | None
    # The transactions of new accounts that are written already, by the provider's names of the accounts.
    arrivals: Arrivals = arrivals.NONE


async def apply_unstored(
    context: Context, provider_name: str, reports: Sequence[Report], person: PersonHere | None = None
) -> None:
    """Applies reports that are not stored anywhere: what a provider answered to something we asked."""
    prepared = await prepare(context, provider_name, reports, person)
    await context.db.write(apply_all, provider_name, prepared)


async def prepare(
    context: Context, provider_name: str, reports: Sequence[Report], person: PersonHere | None = None
) -> list[Prepared]:
    provider = context.part(Banking).provider(provider_name)
    prepared = [await _prepare(context, provider, report, person) for report in reports]
    return [await asyncio.to_thread(_arrived, context.db, provider_name, one) for one in prepared]


def _arrived(db: Database, provider: str, prepared: Prepared) -> Prepared:
    report, snapshot = prepared.report, prepared.snapshot
    if snapshot is None or not isinstance(report, ConnectionFinished) or len(snapshot.transactions) < arrivals.LARGE:
        return prepared
    if not isinstance(snapshot.transactions, Gathered):
        snapshot = snapshot._replace(transactions=Gathered(snapshot.transactions))
    return Prepared(report, snapshot, arrive(db, provider, snapshot, report.pending_token))


async def _prepare(context: Context, provider: BankProvider, report: Report, person: PersonHere | None) -> Prepared:
    if isinstance(report, ConnectionFailed) and report.provider_ref and not report.is_certain:
        return await _ask_again(context, provider, report, report.provider_ref)
    if not isinstance(report, ConnectionFinished) or report.snapshot is not None:
        return Prepared(report, report.snapshot if isinstance(report, ConnectionFinished) else None)
    since = await context.db.read(first_day_to_fetch, provider.name, report.provider_ref)
    try:
        return Prepared(report, await fetch_all(provider, report.provider_ref, since, person))
    except ProviderRefused as error:
        if not rules.is_known(error.error_class):
            raise
        # The news was that there is data, and the bank does not hand it out: that is what there is to report.
        return Prepared(
            ConnectionFailed(error.error_class, str(error), report.provider_ref, report.pending_token), None
        )


async def _ask_again(context: Context, provider: BankProvider, report: ConnectionFailed, provider_ref: str) -> Prepared:
    """Returns what holds now: the failure, another one, or the success that overtook it."""
    since = await context.db.read(first_day_to_fetch, provider.name, provider_ref)
    try:
        snapshot = await fetch_all(provider, provider_ref, since)
    except ProviderRefused as error:
        if error.error_class != "ConnectionNotFound":
            report = report._replace(error_class=error.error_class, error_message=str(error))
        return Prepared(report, None)
    return Prepared(ConnectionFinished(provider_ref, report.pending_token), snapshot)


async def fetch_all(
    provider: BankProvider, provider_ref: str, since: date | None, person: PersonHere | None = None
) -> Snapshot:
    """Returns all pages as one. Raises ProviderDown if they do not end."""
    snapshot = await provider.fetch(provider_ref, since, person=person)
    page, pages, is_partial = snapshot.next_page, 1, snapshot.is_partial
    not_read = list(snapshot.not_read)
    # A long history does not fit into memory; one page does.
    transactions = snapshot.transactions if page is None else Gathered(snapshot.transactions)
    while page is not None:
        assert isinstance(transactions, Gathered)
        pages += 1
        if pages > MAX_PAGES or len(transactions) > MAX_TRANSACTIONS:
            raise ProviderDown("The provider's list of transactions does not end.")
        more = await provider.fetch(provider_ref, since, page, person)
        if more.next_page == page:
            raise ProviderDown("The provider's list of transactions does not end.")
        await asyncio.to_thread(transactions.add, more.transactions)
        is_partial, page = is_partial or more.is_partial, more.next_page
        not_read += more.not_read
    found = await asyncio.to_thread(without_repeats, transactions)
    return snapshot._replace(transactions=found, is_partial=is_partial, next_page=None, since=since, not_read=not_read)


def first_day_to_fetch(tx: Tx, provider_name: str, provider_ref: str) -> date | None:
    """Returns the day from which a connection is to be fetched; None for as far back as the bank allows."""
    row = connections.by_provider_ref(tx, provider_name, provider_ref)
    return None if row is None or row.fetched_at is None else berlin_date(row.fetched_at) - OVERLAP


def apply_all(
    tx: Tx, provider: str, prepared: list[Prepared], is_first: Callable[[Tx], bool] = lambda tx: True
) -> None:
    """Applies reports in one transaction, unless that was done before."""
    if not is_first(tx):
        return
    for report, snapshot, written in prepared:
        if not apply_report(tx, provider, report, snapshot, written):
            log.warning("report_of_unknown", provider=provider, report=type(report).__name__)


def apply_report(
    tx: Tx, provider: str, report: Report, snapshot: Snapshot | None, written: Arrivals = arrivals.NONE
) -> bool:
    """Applies a report. Returns False if it is about nothing known here."""
    match report:
        case ConnectionFinished():
            assert snapshot is not None
            return apply_finished(tx, provider, snapshot, report.pending_token, written) is not None
        case ConnectionFailed():
            return apply_failed(tx, provider, report)
        case ConnectionGone():
            return apply_gone(tx, provider, report.provider_ref)
        case PaymentReported():
            payment = payments.by_provider_ref(tx, provider, report.provider_ref)
            if payment is None:
                # The webhook may be faster than the provider's answer to the creation.
                raise NotKnownYet(f"There is no payment {report.provider_ref} of {provider} here.")
            apply(tx, payment.organization_id, payment.id, report.report, "webhook")
            return True


# --- Connections


def apply_finished(
    tx: Tx, provider: str, snapshot: Snapshot, pending_token: str | None, written: Arrivals = arrivals.NONE
) -> ConnectionRow | None:
    """Stores what the bank reports of a connection. Returns None if neither the connection nor the flow is known."""
    facts = snapshot.connection
    flow = find(tx, provider, pending_token)
    if flow is not None:
        connections.lock(tx, flow.organization_id, flow.pending_token)
        flow = find(tx, provider, pending_token)
    row = connections.by_provider_ref(tx, provider, facts.provider_ref)
    if row is None and flow is not None and flow.connection_id is not None:
        # A reconnect, after which the provider uses another reference.
        row = connections.look_up(tx, flow.organization_id, flow.connection_id)
        if row is None:
            return None
    if row is not None:
        row = connections.look_up_locked(tx, row.organization_id, row.id)
        if row is None:
            # It was removed a moment ago; what the bank still reports of it is ignored.
            return None
    if row is None:
        if flow is None:
            return None
        # Before a number is taken for the connection.
        sources.lock(tx, flow.organization_id, snapshot.accounts)
        row = _replace_placeholder(tx, flow, snapshot, written.connections.get(facts.provider_ref))
        refresh_type, is_new = "manual", True
    else:
        refresh_type, is_new = row.refresh_type or "automatic", row.status != "active"
        if row.owner_user_id is None and flow is not None:
            row = connections.change(tx, row, owner_user_id=flow.owner_user_id)
        if row.consent_expires_at != facts.consent_expires_at:
            row = connections.change(tx, row, announced_days=None)
        row = connections.move(
            tx, row, "finished",
            **connections.columns_of(facts), error_class=None, error_message=None, refresh_type="", refresh_started_at=None,
        )  # fmt: skip
    if flow is not None and flow.connection_id is None:
        FLOWS.update(tx, flow, connection_id=row.id)
    before = accounts.of_connection(tx, row.organization_id, row.id)
    counts = ingest_snapshot(tx, row, snapshot, written)
    after = accounts.of_connection(tx, row.organization_id, row.id)
    if not snapshot.is_partial and not any(found.is_lost for found in snapshot.not_read):
        # An account that is new here has older transactions than were asked for: the next fetch goes back to the beginning.
        has_gap = snapshot.since is not None and len(after) > len(before)
        row = connections.change(tx, row, fetched_at=None if has_gap else tx.now)
    # Choice 43: only if something new was stored. That the connection works again is new as well.
    if is_new or any(counts) or accounts.differ(before, after):
        emit_refresh_complete(tx, row, refresh_type, after)
    return row


def _replace_placeholder(tx: Tx, flow: FlowRow, snapshot: Snapshot, number: str | None) -> ConnectionRow:
    # Choice 23: also after the clean-up has removed it.
    tx.run(
        f"DELETE FROM {CONNECTIONS.name} WHERE organization_id = ? AND id = ?", flow.organization_id, flow.pending_token
    )
    owner = flow.owner_user_id
    if owner is not None and not users.exists(tx, owner):
        owner = None
    return connections.create(
        tx, flow.organization_id, provider=flow.provider, api=flow.api, owner_user_id=owner, facts=snapshot.connection,
        number=number,
    )  # fmt: skip


def arrive(db: Database, provider: str, snapshot: Snapshot, pending_token: str | None) -> Arrivals:
    """Writes many transactions of an account in slices, before the transaction that stores what the bank reports: those of a new account
    where nobody sees them."""
    found = snapshot.transactions
    if not isinstance(found, Gathered):
        return arrivals.NONE
    owner = db.read_now(_owner_of, provider, snapshot, pending_token)
    if owner is None:
        return arrivals.NONE
    organization_id, connection_id = owner
    name = snapshot.connection.provider_ref
    expected = [
        Expected(
            facts.iban, connection_id, name,
            [Part(facts.provider_ref, found.count_of(facts.provider_ref), partial(found.of_account, facts.provider_ref))],
        )
        for facts in snapshot.accounts
        if db.read_now(sources.find, organization_id, connection_id or "", facts) is None
    ]  # fmt: skip
    arrived = arrivals.arrive(db, organization_id, expected)
    large = [facts for facts in snapshot.accounts if found.count_of(facts.provider_ref) >= arrivals.LARGE]
    if connection_id is None and len(large) > len(arrived.by_key) and name not in arrived.connections:
        # The number that the connection is going to have.
        number = str(db.write_now(ids.take, organization_id, "connection"))
        arrived = arrived._replace(connections={**arrived.connections, name: number})
    number = connection_id or arrived.connections.get(name, "")
    reporter = _Reporter(organization_id, number, pending_token if connection_id is None else None, provider, snapshot)
    left = [facts for facts in large if facts.provider_ref not in arrived.by_key]
    return arrived._replace(
        ahead={key: ahead for facts in left for key, ahead in _store_ahead(db, reporter, facts, found)}
    )


class _Reporter(NamedTuple):
    """A connection that reports, by the number that it has or is going to have."""

    organization_id: str
    connection_id: str
    # The token of the flow that makes the connection, if that does not exist yet.
    pending_token: str | None
    provider: str
    snapshot: Snapshot

    def account(self, facts: AccountFacts, tx: Tx) -> AccountRow | None:
        """Returns the account under its lock, if it is there and the connection is as it was."""
        organization_id, connection_id = self.organization_id, self.connection_id
        if self.pending_token is None:
            if connections.look_up_locked(tx, organization_id, connection_id) is None:
                return None
        else:
            connections.lock(tx, organization_id, self.pending_token)
            name = self.snapshot.connection.provider_ref
            if connections.by_provider_ref(tx, self.provider, name) or not find(tx, self.provider, self.pending_token):
                return None
        sources.lock(tx, organization_id, self.snapshot.accounts)
        return sources.find_certain(tx, organization_id, connection_id, self.snapshot.accounts, facts)


def _store_ahead(
    db: Database, reporter: _Reporter, facts: AccountFacts, found: Gathered
) -> Iterator[tuple[Hashable, Ahead]]:
    """Stores most of what is reported of an existing account."""
    delivery = _delivery(reporter.connection_id, reporter.snapshot, facts, found)
    bookings, later = found.of_account(facts.provider_ref), list[Reported]()
    if reporter.pending_token is not None:
        # Should the connection never be made, nothing would withdraw what it has announced: pending bookings are stored together with it.
        later = [one for one in found.of_account(facts.provider_ref) if one.status == "pending"]
        bookings = (one for one in found.of_account(facts.provider_ref) if one.status != "pending")
    ahead = arrivals.store_ahead(db, partial(reporter.account, facts), delivery, bookings)
    if ahead is not None and ahead.account_id:
        yield facts.provider_ref, ahead._replace(rest=[*ahead.rest, *later])


def _delivery(connection_id: str, snapshot: Snapshot, facts: AccountFacts, found: Gathered) -> Delivery:
    is_whole = not snapshot.is_partial and not any(part.is_lost for part in _not_read(snapshot, facts))
    references = cache(lambda: references_of(found.of_account(facts.provider_ref)))
    return Delivery(connection_id, is_whole=is_whole, references=references)


def _not_read(snapshot: Snapshot, facts: AccountFacts) -> list[NotRead]:
    return [part for part in snapshot.not_read if part.account_ref == facts.provider_ref]


def _owner_of(tx: Tx, provider: str, snapshot: Snapshot, pending_token: str | None) -> tuple[str, str | None] | None:
    """Returns the organisation, and the connection if it is there already; None if neither it nor its flow is."""
    row = connections.by_provider_ref(tx, provider, snapshot.connection.provider_ref)
    if row is not None:
        return row.organization_id, row.id
    flow = find(tx, provider, pending_token)
    return None if flow is None else (flow.organization_id, flow.connection_id)


def ingest_snapshot(tx: Tx, row: ConnectionRow, snapshot: Snapshot, written: Arrivals = arrivals.NONE) -> Counts:
    found = snapshot.transactions
    transactions = found if isinstance(found, Gathered) else Gathered(found)
    counts = Counts(0, 0, 0)
    sources.lock(tx, row.organization_id, snapshot.accounts)

    def number(facts: AccountFacts) -> int | None:
        arrived = written.by_key.get(facts.provider_ref)
        return arrived.account_id if arrived is not None and arrived.appear(tx, row.id) else None

    reached = sources.open_some(tx, row.organization_id, row.id, snapshot.accounts, number)
    for account_facts, known in zip(snapshot.accounts, reached, strict=True):
        account = sources.tell_balance(tx, known, row.id, account_facts.balance_minor, account_facts.balance_on)
        account = accounts.tell_not_read(tx, account, [part.sentence for part in _not_read(snapshot, account_facts)])
        delivery = _delivery(row.id, snapshot, account_facts, transactions)
        ref = account_facts.provider_ref
        arrived, ahead = written.by_key.get(ref), written.ahead.get(ref)
        ahead = ahead if ahead is not None and ahead.account_id == account.id else None
        ingest = TransactionIngest(tx, account, delivery, ahead and ahead.seen)
        if arrived is not None and arrived.account_id == account.id:
            ingest.take_in(*arrived.parts[ref])
        else:
            ingest.add(ahead.rest if ahead else transactions.of_account(ref))
        if delivery.is_whole:
            ingest.remove_missing_pending()
        counts = counts.joined(ingest.finish())
        counts = counts.joined(ahead.counts) if ahead else counts
    _tell_of_others(tx, row, snapshot)
    _tell_of_strangers(tx, row, snapshot)
    return counts


def _tell_of_others(tx: Tx, row: ConnectionRow, snapshot: Snapshot) -> None:
    """Says what could not be read of accounts that the bank does not report this time."""
    reported = {facts.provider_ref for facts in snapshot.accounts}
    for source in sources.of_connection(tx, row.organization_id, row.id):
        sentences = [found.sentence for found in snapshot.not_read if found.account_ref == source.provider_ref]
        account = accounts.look_up(tx, row.organization_id, source.account_id)
        if sentences and source.provider_ref not in reported and account is not None:
            accounts.tell_not_read(tx, account, sentences)


def _tell_of_strangers(tx: Tx, row: ConnectionRow, snapshot: Snapshot) -> None:
    """Says with the connection what could not be read of accounts that have never been read, so that there is no page of theirs."""
    known = {source.provider_ref for source in sources.of_connection(tx, row.organization_id, row.id)}
    connections.tell_not_read(
        tx, row, [found.sentence for found in snapshot.not_read if found.account_ref not in known]
    )


def apply_failed(tx: Tx, provider: str, report: ConnectionFailed) -> bool:
    """Records that a flow or a refresh failed. Returns False if neither the connection nor the flow is known."""
    row = connections.by_provider_ref(tx, provider, report.provider_ref) if report.provider_ref else None
    flow = find(tx, provider, report.pending_token)
    if row is None:
        if flow is None:
            return False
        row = connections.look_up(tx, flow.organization_id, flow.connection_id or flow.pending_token)
    if row is not None:
        row = connections.look_up_locked(tx, row.organization_id, row.id)
    if row is None:
        return True
    if row.status == "pending_connect":
        # Nothing was connected; the person may try again until the clean-up.
        connections.change(tx, row, error_class=report.error_class[:100], error_message=report.error_message[:1000])
    elif row.status == "active" and flow is not None:
        # A reconnect failed; the access is as good as it was before.
        connections.change(tx, row, refresh_type="", refresh_started_at=None)
    else:
        connections.fail(tx, row, report.error_class, report.error_message)
    return True


def apply_gone(tx: Tx, provider: str, provider_ref: str) -> bool:
    """Removes a connection that the provider has ended. Returns False if it is not known."""
    row = connections.by_provider_ref(tx, provider, provider_ref)
    if row is None:
        return False
    connections.remove(tx, row.organization_id, row.id, "automatic", at_provider=False)
    return True
