"""Batches: matches handed over at once, into our own books and as a DATEV file, or as a list for the office that books."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call
from kontobahn.api.declare import get, post
from kontobahn.api.paging import page
from kontobahn.api.wire import Download, Uuid
from kontobahn.banking import accounts
from kontobahn.clock import berlin_date, berlin_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.errors import Conflict
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger.buchung import GebuchteBuchungen
from kontobahn.ledger.connections import ERRORS, open_books
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.provider import Author, ClientBooks, Effect, OpenAmounts
from kontobahn.money import amount_text, from_minor
from kontobahn.reconciliation import batch_file, batch_store, booking_rows, examples, store
from kontobahn.reconciliation.batch_file import BatchFile
from kontobahn.reconciliation.batch_plan import (
    INVOICED_BEFORE,
    MAX_MATCHES,
    Plan,
    Shown,
    Span,
    make_plan,
    shown_by,
    span_of,
)
from kontobahn.reconciliation.batch_store import BatchRow
from kontobahn.reconciliation.batch_wire import (
    NeuerStapel,
    NeuerStapelAntwort,
    Stapel,
    StapelAntwort,
    StapelListe,
    StapelMitZeilen,
    StapelPosten,
    StapelQuery,
    Stapelzeile,
    StoredRows,
    head,
    view,
)
from kontobahn.reconciliation.booking_rows import Transfer
from kontobahn.reconciliation.core.model import Key
from kontobahn.reconciliation.deciding import documents
from kontobahn.reconciliation.emitted import emit_batch_created
from kontobahn.reconciliation.gathering import MAX_MOVES, open_now
from kontobahn.reconciliation.settings import changed_meanwhile, of_account
from kontobahn.reconciliation.store import AccountSettings
from kontobahn.reconciliation.wire import BANK_SCOPE

# Windows-1252, to be kept byte for byte: as text a client would decode it.
EXTF_MEDIA_TYPE = "application/octet-stream"


@post(
    "/v2/reconciliation/batches",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    cost=1,
    errors=ERRORS,
    example=examples.NEW_BATCH,
    body_example={"account_id": examples.ACCOUNT, "to_date": "2026-03-31"},
)
async def create_batch(call: Call, body: NeuerStapel) -> NeuerStapelAntwort:
    """Hand over the matches of an account that are not handed over yet.

    If the account's `bucht` is `kontobahn`, they are booked in the books, and there is a DATEV file of the bookings. If it is
    `kanzlei`, the batch is a list, and nothing is booked. A match is in one batch only; one that is undone later is taken back by a
    Generalumkehr in the next. What cannot be booked is left out and named, with the figures if its document is not open by what was
    matched. 409 if there is nothing to hand over. At most 1,000 matches, all of one fiscal year.
    """
    settings = await call.read_inline(_settings, call.principal, body.account_id)
    access = await open_books(call.context, call.principal, settings.connection_id, settings.client_id)
    async with access.to("buchungen") as books, call.charge():
        now = call.context.clock.now()
        span = span_of(body, await books.geschaeftsjahre(), berlin_date(now))
        looked_at = await _look(call, books, settings, span)
        plan, rates = await call.read(looked_at.plan, settings, span), looked_at.shown.rates
        bookings = [(transfer, row) for transfer in plan.transfers for row in booking_rows.rows(transfer, rates)]
        records = [record for _, record in bookings]
        file, booked = None, None
        if settings.bucht == "kontobahn":
            made_at = berlin_datetime(now).replace(tzinfo=None)
            file = await call.off_loop(batch_file.make, records, settings.client_id, span.jahr, made_at)
            author = Author(call.request_id, call.quelle, call.actor.name)
            # What looks booked already is refused, unless we booked its like ourselves, for another transaction.
            another = await call.read(batch_store.have_twins, settings, plan.transfers)
            booked = await books.book(booking_rows.for_books(records), author, another=another)
        konten = {record.gegenkonto for record in records if is_personenkonto(record.gegenkonto)}
        batch = Batch(settings, span, looked_at, plan, bookings, file, booked, await books.offene_betraege(konten))
        return await call.commit(write, batch, call.actor)


@get(
    "/v2/reconciliation/batches",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=(403, 404),
    example=examples.BATCHES,
)
async def list_batches(call: Call, query: StapelQuery) -> StapelListe:
    """List the batches in the order in which they were made."""
    found = await call.read(listing, call.principal, query)
    return StapelListe(data=page(call, found, query.limit, lambda one: one.id))


@get(
    "/v2/reconciliation/batches/{id}",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example=examples.BATCH,
)
async def get_batch(call: Call, id: Uuid) -> StapelAntwort:
    """Read a batch with its rows, what was left out, and what is open of each document before and after."""
    return StapelAntwort(data=view(await call.read(batch_store.find, call.principal, id)))


@get(
    "/v2/reconciliation/batches/{id}/extf",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404, 409),
    media_types=(EXTF_MEDIA_TYPE,),
)
async def get_batch_file(call: Call, id: Uuid) -> Download:
    """Fetch the DATEV file of a batch, the same every time. 409 for a list: the office books, and would book it twice."""
    return download(await call.read(batch_store.find, call.principal, id))


def download(row: BatchRow) -> Download:
    if row.content is None or row.file_name is None:
        raise Conflict(
            "This batch is a list: the office books these payments itself, and a file would book them twice.",
            bucht=row.bucht,
        )
    return Download(bytes(row.content), EXTF_MEDIA_TYPE, row.file_name)


def _settings(tx: Tx, principal: Principal, account_id: str) -> AccountSettings:
    account = accounts.find(tx, principal, account_id)
    return of_account(tx, account.organization_id, account.id)


def listing(tx: Tx, principal: Principal, query: StapelQuery) -> list[Stapel]:
    account_id = None if query.account_id is None else accounts.find(tx, principal, query.account_id).id
    found = batch_store.listing(tx, principal, account_id, query.from_id, query.limit + 1)
    return [head(wire) for _, wire in found]


# --- What is handed over


class LookedAt(NamedTuple):
    """What the books show of documents, and what is open of them when it is asked: before, and again when it is written."""

    shown: Shown
    open_now: Effect[OpenAmounts]

    def plan(self, tx: Tx, settings: AccountSettings, span: Span) -> Plan:
        waiting = batch_store.waiting(tx, settings, span.first, span.last, MAX_MATCHES + 1)
        return make_plan(waiting, self.open_now(tx), self.shown, books_itself=settings.bucht == "kontobahn")


async def _look(call: Call, books: ClientBooks, settings: AccountSettings, span: Span) -> LookedAt:
    waiting = await call.read(batch_store.waiting, settings, span.first, span.last, MAX_MATCHES + 1)
    keys = {key for transfer in waiting for key in documents(transfer.lines)}
    elsewhere = await call.read(store.ledger_accounts_elsewhere, settings.client, settings.account_id)
    moves = await books.belegbewegungen(span.jahr.start - INVOICED_BEFORE, MAX_MOVES) if keys else []
    amounts = await open_now(call.context.db, books, settings.organization_id, keys)
    return LookedAt(shown_by((move for move in moves if (move.konto, move.beleg) in keys), elsewhere), amounts)


class Batch(NamedTuple):
    """`booked` is None for a list. `amounts` is what the books show of the documents when it is asked."""

    settings: AccountSettings
    span: Span
    looked_at: LookedAt
    plan: Plan
    # Each with the match that it books.
    bookings: list[tuple[Transfer, Buchungssatz]]
    file: BatchFile | None
    booked: Effect[GebuchteBuchungen] | None
    amounts: Effect[OpenAmounts]

    @property
    def records(self) -> list[Buchungssatz]:
        return [record for _, record in self.bookings]


def write(tx: Tx, batch: Batch, actor: Actor) -> NeuerStapelAntwort:
    """Raises Conflict if something was decided meanwhile, or if the books would not show what is predicted."""
    settings = batch.settings
    store.lock(tx, settings.organization_id)
    if store.account_settings(tx, settings.organization_id, settings.account_id) != settings:
        raise changed_meanwhile()
    if batch.looked_at.plan(tx, settings, batch.span).transfers != batch.plan.transfers:
        raise Conflict("Matches were made or undone meanwhile, or their documents paid: try it again.").retryable()
    changes = booking_rows.changes(batch.records)
    before = batch.amounts(tx)
    importe = batch.booked(tx).importe if batch.booked is not None else []
    _check_predicted(before, batch.amounts(tx), batch.records, berlin_date(tx.now))
    answer = _answer(tx, batch, before, changes, importe, actor)
    rows = StoredRows(zeilen=answer.zeilen, ausgelassen=answer.ausgelassen, posten=answer.posten)
    stapel = Stapel(**{name: getattr(answer, name) for name in Stapel.__struct_fields__})
    file = batch.file
    row = BatchRow(
        settings.organization_id, answer.id, settings.account_id, settings.connection_id, settings.client_id, settings.bucht,
        encode(stapel).decode(), encode(rows).decode(), file and file.name, file and file.sha256, file and file.content,
        actor.name, tx.now,
    )  # fmt: skip
    batch_store.insert(tx, row, batch.plan.transfers)
    audit.record(
        tx, row.organization_id, actor, "reconciliation.batch", row.id, zuordnungen=answer.zuordnungen, bucht=row.bucht
    )
    emit_batch_created(
        tx, row.organization_id, row.id, stapel.account_id, row.bucht, answer.zuordnungen, answer.stornos
    )
    return NeuerStapelAntwort(data=answer)


def _check_predicted(before: OpenAmounts, after: OpenAmounts, records: list[Buchungssatz], today: date) -> None:
    """Books that are ours show at once what was booked: to the cent what was predicted, or nothing is written.

    By account: carried balances that no document explains may move from one document to another.
    """
    if after == before:
        return
    shown = booking_rows.changes([record for record in records if record.belegdatum <= today.isoformat()])
    for konto in sorted({konto for konto, _ in shown}):
        predicted = _total(before, konto) + _total(shown, konto)
        if predicted != _total(after, konto):
            raise Conflict(
                f"The books would show {amount_text(_total(after, konto))} for account {konto}, not {amount_text(predicted)}:"
                " nothing was booked.",
                kontonummer=konto,
            )


def _total(amounts: Mapping[Key, int], konto: str) -> int:
    return sum(amount for key, amount in amounts.items() if key[0] == konto)


def _answer(
    tx: Tx, batch: Batch, before: OpenAmounts, changes: Mapping[Key, int], importe: list[str], actor: Actor
) -> StapelMitZeilen:
    settings, span, file = batch.settings, batch.span, batch.file
    zeilen = [_zeile(transfer, record) for transfer, record in batch.bookings]
    undone = sum(transfer.is_undone for transfer in batch.plan.transfers)
    return StapelMitZeilen(
        id=new_id(),
        account_id=str(settings.account_id),
        connectionId=settings.connection_id,
        clientId=settings.client_id,
        bucht=settings.bucht,
        geschaeftsjahrStartDatum=span.jahr.start,
        from_date=span.first,
        to_date=span.last,
        zuordnungen=len(batch.plan.transfers) - undone,
        stornos=undone,
        summe=sum((zeile.betrag for zeile in zeilen), Decimal(0)),
        dateiname=file and file.name,
        sha256=file and file.sha256,
        importe=importe,
        von=actor.name,
        am=to_datetime(tx.now),
        zeilen=zeilen,
        ausgelassen=batch.plan.left_out,
        posten=[
            StapelPosten(
                kontonummer=konto,
                beleg=beleg,
                vorher=from_minor(before.get((konto, beleg), 0)),
                nachher=from_minor(before.get((konto, beleg), 0) + change),
            )
            for (konto, beleg), change in sorted(changes.items())
            if beleg
        ],
    )


def _zeile(transfer: Transfer, record: Buchungssatz) -> Stapelzeile:
    return Stapelzeile(
        match_id=transfer.match_id,
        transaction_id=str(transfer.transaction_id),
        made_on=transfer.day,
        storno=transfer.is_undone,
        kontonummer=record.gegenkonto,
        beleg=record.belegfeld1,
        betrag=from_minor(record.umsatz if record.soll else -record.umsatz),
        skonto=from_minor(record.skonto),
        buchungstext=record.buchungstext,
    )
