"""Handing matches over, as bookings or as a list for the office; and which books a bank account is matched with."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

import msgspec
from msgspec import Struct, field
from starlette.responses import Response

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as bank_connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.provider import SANDBOX
from kontobahn.banking.wire import NumericId
from kontobahn.dashboard import bank_words, figures, form_keys
from kontobahn.dashboard.bank_words import CLASSES
from kontobahn.dashboard.books import as_written, check_known, writer
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.pages.ledger_connections import STATES
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound, Refusal
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger.connections import LedgerConnection
from kontobahn.ledger.provider import LedgerClient, Transmission
from kontobahn.reconciliation import accounts as account_settings
from kontobahn.reconciliation import batch_store, batches, office_bookings, report, runs, store
from kontobahn.reconciliation.accounts import ActingClass, NewReconciliationSettings
from kontobahn.reconciliation.batch_store import Batch, BatchWithLines, NewBatch
from kontobahn.reconciliation.core.model import ACTING_CLASSES
from kontobahn.reconciliation.office_bookings import BatchBooking
from kontobahn.reconciliation.report import ReportQuery
from kontobahn.reconciliation.runs import NewRun, Run
from kontobahn.reconciliation.store import AccountSettings, BookedBy

HANDOVERS, ACCOUNTS = f"{ROOT}/handovers", f"{ROOT}/reconciliation-accounts"
# Transactions of a trial run that are searched for examples.
SHOWN_OF_TRIAL = 200
WHO_BOOKS = {
    "adviser": N_("the tax adviser (list to hand over)"),
    "kontobahn": N_("Kontobahn (bookings and a DATEV file)"),
}


class NoFilters(Struct):
    """The list has pages, and nothing to choose."""


OUTCOMES = {
    "as_matched": (N_("booked so"), "good"),
    "otherwise": (N_("booked otherwise"), "warn"),
    "not_booked": (N_("not booked"), "plain"),
}


class HandOver(Struct):
    account_id: NumericId
    from_date: date | None = None
    to_date: date | None = None


class Listed(NamedTuple):
    batches: list[Batch]
    accounts: list[AccountRow]
    settings: list[AccountSettings]
    # Matches that wait to be handed over, by account.
    waiting: dict[int, int]
    # The batches whose DATEV file nobody has fetched yet.
    to_fetch: frozenset[str]


@page("/handovers", help="hand-over")
async def handover_list(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    listed = await visit.read(_listed, visit.organization_id, filters.after, visit.today)
    names = {row.id: row.name for row in listed.accounts}
    return visit.show(
        "handovers.html",
        list=filters.first_page(listed.batches, lambda batch: batch.id),
        names={str(number): name for number, name in names.items()},
        sources=[(one.account_id, names[one.account_id]) for one in listed.settings if one.account_id in names],
        waiting=[(names[number], count) for number, count in listed.waiting.items() if number in names],
        to_fetch=listed.to_fetch,
        who_books=WHO_BOOKS,
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
    )


def _listed(tx: Tx, organization_id: str, before: str, today: date) -> Listed:
    found = batch_store.latest(tx, organization_id, before, PAGE_SIZE + 1)
    settings = store.all_settings(tx, organization_id)
    counts = {
        one.account_id: len(batch_store.waiting(tx, one, date.min, today, batches.MAX_MATCHES)) for one in settings
    }
    return Listed(
        [batch_store.head(wire) for wire in found],
        accounts.of_organization(tx, organization_id),
        settings,
        {account_id: count for account_id, count in counts.items() if count},
        batch_store.to_fetch(tx, organization_id),
    )


@action("/handovers")
async def hand_over(visit: Visit) -> Response:
    wanted = visit.form.read(HandOver)
    if wanted is not None:
        with visit.form.refusals():
            body = NewBatch(account_id=wanted.account_id, from_date=wanted.from_date, to_date=wanted.to_date)
            made = await form_keys.ask_once(visit, batches.create_batch, body=body)
            return visit.redirect(f"{HANDOVERS}/{made['data']['id']}", _("The matches are handed over."))
    response: Response = await handover_list.handler(visit)
    return response


@page("/handovers/{id}", help="hand-over")
async def handover(visit: Visit, id: str) -> Response:
    batch: BatchWithLines = (await visit.ask(batches.get_batch, id=id)).data
    written = await writer(visit, batch.connection_id, batch.client_id)
    bookings, problem = await _bookings(visit, id)
    sent = await visit.read(_sent, visit, id)
    return visit.show(
        "handover.html",
        batch=batch,
        sent=sent,
        states=STATES,
        waits=sent is not None and transmissions.waits_for_a_person(sent),
        who_books=WHO_BOOKS,
        written=written,
        bookings=bookings,
        outcomes=OUTCOMES,
        problem=problem,
    )


def _sent(tx: Tx, visit: Visit, batch_id: str) -> Transmission | None:
    return batch_store.sent_file(tx, batch_store.find(tx, visit.principal, batch_id))


async def _bookings(visit: Visit, id: str) -> tuple[list[BatchBooking], str]:
    """Returns what the office did with it; and what is in the way if the books cannot be asked."""
    try:
        return (await visit.ask(office_bookings.list_batch_bookings, id=id)).data, ""
    except Refusal as refusal:
        return [], str(refusal)


@page("/handovers/{id}/file")
async def handover_file(visit: Visit, id: str) -> Response:
    file = await visit.ask(batches.get_batch_file, id=id)
    return visit.download(file.content, file.media_type, file.file_name)


@page("/handovers/{id}/list.csv")
async def handover_csv(visit: Visit, id: str) -> Response:
    batch: BatchWithLines = (await visit.ask(batches.get_batch, id=id)).data
    written = await writer(visit, batch.connection_id, batch.client_id)
    head = [
        _("Day"),
        _("Account"),
        _("Document"),
        _("Amount"),
        _("Skonto"),
        _("Taken back"),
        _("Text"),
        _("Transaction"),
    ]
    rows = [
        (
            row.made_on, written(row.konto), row.beleg, row.amount, row.skonto, _("yes") if row.reversal else "",
            row.text, row.transaction_id,
        )
        for row in batch.lines
    ]  # fmt: skip
    listed = await visit.read(accounts.look_up, visit.organization_id, int(batch.account_id))
    at_sandbox = await visit.read(bank_connections.ids_at, visit.organization_id, SANDBOX)
    is_sandbox = listed is not None and listed.connection_id in at_sandbox
    return await visit.csv("sandbox-handover" if is_sandbox else "handover", head, rows)


# --- Settings of the account


# The first bank account of a chart of accounts.
_BANK = {"SKR03": "1200", "SKR04": "1800"}


class SetUp(Struct):
    account_id: NumericId
    # The connection and the client, with a blank between them.
    books: str
    konto: str
    fee_konto: str = ""
    transfer_konto: str = ""
    start_date: date | None = None
    booked_by: BookedBy = "adviser"
    automatic_classes: list[ActingClass] = field(default_factory=list)


class Known(NamedTuple):
    accounts: list[AccountRow]
    settings: list[AccountSettings]
    connections: list[LedgerConnection]


@page("/reconciliation-accounts", help="matching-setup")
async def set_up_list(visit: Visit) -> Response:
    return await _set_up_page(visit, None, None)


@page("/reconciliation-accounts/{account}", help="matching-setup")
async def account_set_up(visit: Visit, account: str) -> Response:
    """The settings of one account, to be changed, and what acting alone would have done."""
    return await _set_up_page(visit, int(numeric(account)), None)


async def _set_up_page(visit: Visit, account_id: int | None, trial: Run | None) -> Response:
    known = await visit.read(_known, visit.organization_id)
    clients = await connections.list_clients(visit.context, visit.organization_id)
    chosen = next((one for one in known.settings if one.account_id == account_id), None)
    if account_id is not None and chosen is None:
        raise NotFound("There is no such page.")
    names = {item.id: item.bezeichnung or item.id for item in known.connections}
    # Only books that can be read, and those that were chosen when they could.
    working = {item.id for item in known.connections if item.status == "connected"}
    own = chosen.connection_id if chosen else None
    books = [
        (f"{client.connection_id} {client.client_id}", f"{client.name or names.get(client.connection_id, '')} ({client.client_id})")
        for client in clients
        if client.connection_id in working or client.connection_id == own
    ] or [(item.id, names[item.id]) for item in known.connections if item.id in working or item.id == own]  # fmt: skip
    set_up_already = {one.account_id for one in known.settings}
    return visit.show(
        "reconciliation_accounts.html",
        accounts=[
            (row.id, f"{row.name} · {figures.iban(row.iban)}" if row.iban else row.name)
            for row in known.accounts
            if row.currency_code == "EUR" and (row.id not in set_up_already or row.id == account_id)
        ],
        names={row.id: row.name for row in known.accounts},
        known=known,
        chosen=chosen,
        written={one.account_id: _written(clients, one) for one in known.settings},
        trial=trial,
        report=(await visit.ask(report.get_report, query=ReportQuery(account_id=str(chosen.account_id)))).data
        if chosen
        else None,
        books=books,
        # Of the books that are chosen already: those that work come first.
        bank_konto=_BANK.get(next((one.kontenrahmen for one in clients if one.connection_id in working), ""), "1200"),
        book_names=names,
        who_books=WHO_BOOKS,
        words=bank_words,
        acting=[(evidence, _(CLASSES[evidence])) for evidence in ACTING_CLASSES],
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
    )


@action("/reconciliation-accounts/{account}/trial")
async def try_account(visit: Visit, account: str) -> Response:
    """A trial run over the last 90 days: nothing is stored."""
    trial = None
    with visit.form.refusals():
        body = NewRun(account_id=numeric(account), limit=SHOWN_OF_TRIAL)
        trial = msgspec.convert(
            (await form_keys.ask_once(visit, runs.run_matching, body=body))["data"], Run, strict=False
        )
    # The values that were sent are not those of the form on the page: that shows the settings.
    visit.form.values.clear()
    return await _set_up_page(visit, int(numeric(account)), trial)


def _written(clients: list[LedgerClient], one: AccountSettings) -> list[str]:
    """Returns the ledger accounts as the client writes them: the bank's, for fees, for transfers."""
    konten = (one.konto, one.fee_konto, one.transfer_konto)
    return as_written(clients, one.connection_id, one.client_id, *konten)


def _known(tx: Tx, organization_id: str) -> Known:
    found = store.all_settings(tx, organization_id)
    return Known(
        accounts.of_organization(tx, organization_id),
        found,
        connections.listing(tx, (organization_id,)),
    )


@action("/reconciliation-accounts")
async def set_up(visit: Visit) -> Response:
    wanted = visit.form.read(SetUp)
    if wanted is not None:
        connection_id, _blank, client_id = wanted.books.partition(" ")
        with visit.form.refusals(connection_id="books", client_id="books"):
            known = await visit.read(_known, visit.organization_id)
            if connection_id not in {item.id for item in known.connections}:
                raise NotFound("There is no such page.")
            body = NewReconciliationSettings(
                connection_id=connection_id,
                client_id=client_id or None,
                konto=wanted.konto,
                fee_konto=wanted.fee_konto or None,
                transfer_konto=wanted.transfer_konto or None,
                start_date=wanted.start_date,
                booked_by=wanted.booked_by,
                automatic_classes=wanted.automatic_classes,
            )
            named = {"konto": body.konto, "fee_konto": body.fee_konto, "transfer_konto": body.transfer_konto}
            await check_known(visit, connection_id, body.client_id, named, new_books=True)
            await visit.ask(account_settings.set_up_account, account_id=wanted.account_id, body=body)
            return visit.redirect(f"{ROOT}/reconciliation?account={wanted.account_id}", _("The account is set up."))
    chosen = wanted.account_id if wanted and visit.form.text("known") else None
    return await _set_up_page(visit, int(chosen) if chosen else None, None)
