"""The one way in for what providers report: from a delivery, from an answer to something we asked, or from a person's return.

A report of new data is completed first, by fetching outside any transaction; then all reports of one source are applied in one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

from kontobahn import log
from kontobahn.api.call import Context
from kontobahn.banking.connections import flows, status
from kontobahn.banking.connections import store as connections
from kontobahn.banking.gathered import Gathered, without_repeats
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.apply import apply
from kontobahn.banking.provider import (
    OVERLAP,
    Banking,
    BankProvider,
    ConnectionFailed,
    ConnectionFinished,
    ConnectionGone,
    PaymentReported,
    PersonHere,
    ProviderDown,
    ProviderRefused,
    Report,
    Snapshot,
)  # fmt: skip
from kontobahn.clock import berlin_date
from kontobahn.db import Tx

# What one fetch may bring.
MAX_PAGES, MAX_TRANSACTIONS = 2_000, 500_000


class NotKnownYet(Exception):
    """The report is about something that is not known here yet, but may be soon."""


class Prepared(NamedTuple):
    report: Report
    snapshot: Snapshot | None


async def take(
    context: Context, provider_name: str, reports: Sequence[Report], person: PersonHere | None = None
) -> None:
    """Applies reports that are not stored anywhere: what a provider answered to something we asked."""
    prepared = await prepare(context, provider_name, reports, person)
    await context.db.write(apply_all, provider_name, prepared)


async def prepare(
    context: Context, provider_name: str, reports: Sequence[Report], person: PersonHere | None = None
) -> list[Prepared]:
    provider = context.part(Banking).provider(provider_name)
    return [await _prepare(context, provider, report, person) for report in reports]


async def _prepare(context: Context, provider: BankProvider, report: Report, person: PersonHere | None) -> Prepared:
    if isinstance(report, ConnectionFailed) and report.provider_ref and not report.is_certain:
        return await _asked_again(context, provider, report, report.provider_ref)
    if not isinstance(report, ConnectionFinished) or report.snapshot is not None:
        return Prepared(report, report.snapshot if isinstance(report, ConnectionFinished) else None)
    since = await context.db.read(since_when, provider.name, report.provider_ref)
    try:
        return Prepared(report, await fetch_all(provider, report.provider_ref, since, person))
    except ProviderRefused as error:
        if not status.is_known(error.error_class):
            raise
        # The news was that there is data, and the bank does not hand it out: that is what there is to tell.
        return Prepared(
            ConnectionFailed(error.error_class, str(error), report.provider_ref, report.pending_token), None
        )


async def _asked_again(
    context: Context, provider: BankProvider, report: ConnectionFailed, provider_ref: str
) -> Prepared:
    """Returns what is so now: the failure, another one, or the success that overtook it."""
    since = await context.db.read(since_when, provider.name, provider_ref)
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
    found = await asyncio.to_thread(without_repeats, transactions)
    return snapshot._replace(transactions=found, is_partial=is_partial, next_page=None, since=since)


def since_when(tx: Tx, provider_name: str, provider_ref: str) -> date | None:
    """From which day on a connection is to be fetched; None for as far back as the bank allows."""
    row = connections.by_provider_ref(tx, provider_name, provider_ref)
    return None if row is None or row.fetched_at is None else berlin_date(row.fetched_at) - OVERLAP


def apply_all(
    tx: Tx, provider: str, prepared: list[Prepared], is_first: Callable[[Tx], bool] = lambda tx: True
) -> None:
    """Applies reports in one transaction, unless that was done before."""
    if not is_first(tx):
        return
    for report, snapshot in prepared:
        if not apply_report(tx, provider, report, snapshot):
            log.warning("report_of_unknown", provider=provider, report=type(report).__name__)


def apply_report(tx: Tx, provider: str, report: Report, snapshot: Snapshot | None) -> bool:
    """Applies a report. Returns False if it is about nothing known here."""
    match report:
        case ConnectionFinished():
            assert snapshot is not None
            return flows.apply_finished(tx, provider, snapshot, report.pending_token) is not None
        case ConnectionFailed():
            return flows.apply_failed(tx, provider, report)
        case ConnectionGone():
            return flows.apply_gone(tx, provider, report.provider_ref)
        case PaymentReported():
            payment = payments.by_provider_ref(tx, provider, report.provider_ref)
            if payment is None:
                # The webhook may be faster than the provider's answer to the creation.
                raise NotKnownYet(f"There is no payment {report.provider_ref} of {provider} here.")
            apply(tx, payment.organization_id, payment.id, report.report, "webhook")
            return True
