"""Batches: matches handed over at once, into our own books and as a DATEV file, or as a list for the office that books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Charged, Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Download, Uuid
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.provider import SANDBOX
from kontobahn.clock import berlin_date, berlin_datetime, to_datetime
from kontobahn.days import days_later
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ids import new_id
from kontobahn.json_text import encode, encode_kept
from kontobahn.ledger import transmissions
from kontobahn.ledger.buchungen import BookingFile, GebuchteBuchungen, make_file
from kontobahn.ledger.connections import ERRORS
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.opos import Belegbewegung
from kontobahn.ledger.provider import Author, ClientBooks, Effect, OpenAmounts, TransmittingBooks
from kontobahn.ledger.wire import Geschaeftsjahr
from kontobahn.money import amount_text, from_minor
from kontobahn.reconciliation import batch_store, booking_rows, store
from kontobahn.reconciliation import wire as examples
from kontobahn.reconciliation.accounts import changed_meanwhile, of_account, open_books
from kontobahn.reconciliation.batch_store import (
    Batch,
    BatchesQuery,
    BatchItem,
    BatchLine,
    BatchRow,
    BatchWithLines,
    LeftOutMatch,
    NewBatch,
    StoredRows,
    head,
    view,
)
from kontobahn.reconciliation.booking_rows import MAX_BELEGFELD2, Rates, Transfer, reference_of
from kontobahn.reconciliation.core.model import Key, Line
from kontobahn.reconciliation.core.special_cases import BOOKED_DAYS
from kontobahn.reconciliation.decisions import OF_ITEMS, documents
from kontobahn.reconciliation.inputs import MAX_MOVES, is_bank_payment, open_now
from kontobahn.reconciliation.store import AccountSettings
from kontobahn.reconciliation.wire import BANK_SCOPE, emit_batch_created
from kontobahn.sentences import said

# Windows-1252, to be kept byte for byte: as text a client would decode it.
EXTF_MEDIA_TYPE = "application/octet-stream"
# A month of a small company; the rest goes into a second batch.
MAX_MATCHES = 1_000
# Days before the year in which the invoice of a discount may have been booked.
INVOICED_BEFORE = timedelta(days=400)


@post(
    "/v2/reconciliation/batches",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    cost=1,
    errors=ERRORS,
    example=examples.NEW_BATCH,
    body_example={"account_id": examples.ACCOUNT, "to_date": "2026-03-31"},
)
async def create_batch(call: Call, body: NewBatch) -> Charged[BatchWithLines]:
    """Hand over the matches of an account that are not handed over yet.

    If the account's `booked_by` is `kontobahn`, they are booked in the books, and there is a DATEV file of the bookings; over a
    connection to DATEV that file is sent there, where the client has booked that, and `import_ids` are its transmissions. If it is
    `adviser`, the batch is a list, and nothing is booked. A match is in one batch only; one that is undone later is taken back by a
    Generalumkehr in the next. What cannot be booked is left out and named, with the figures if its document is not open by what was
    matched. 409 if there is nothing to hand over. At most 1,000 matches, all of one fiscal year.
    """
    settings = await call.read(_settings, call.principal, body.account_id)
    access = await open_books(call.context, call.principal, settings.connection_id, settings.client_id)
    async with access.to("buchungen") as books, call.charge():
        now = call.context.clock.now()
        span = span_of(body, await books.geschaeftsjahre(), berlin_date(now))
        state = await _inspect_documents(call, books, settings, span)
        plan = await call.read(state.plan, settings, span)
        # The office divides a discount itself; a list has each payment once.
        rates = state.facts.rates if settings.booked_by == "kontobahn" else {}
        bookings = [(transfer, row) for transfer in plan.transfers for row in booking_rows.rows(transfer, rates)]
        records = [record for _, record in bookings]
        file, booked = None, None
        if settings.booked_by == "kontobahn":
            made_at = berlin_datetime(now).replace(tzinfo=None)
            title = await call.read(_title, settings)
            file = await call.off_loop(make_file, records, settings.client_id, span.year, made_at, title)
            author = Author(call.request_id, call.quelle, call.actor.name)
            # A row that looks already booked is refused, unless we booked one like it ourselves, for another transaction.
            another = await call.read(batch_store.have_twins, settings, plan.transfers)
            booked = await _booking(books, file, records, author, another=another)
        konten = {record.gegenkonto for record in records if is_personenkonto(record.gegenkonto)}
        is_sent = booked is not None and isinstance(books, TransmittingBooks)
        amounts = await books.offene_betraege(konten)
        handover = Handover(settings, span, state, plan, bookings, file, booked, is_sent, amounts)
        return await call.commit(write, handover, call.actor)


async def _booking(
    books: ClientBooks, file: BookingFile, records: list[Buchungssatz], author: Author, *, another: bool
) -> Effect[GebuchteBuchungen] | None:
    """Returns the booking of a batch in the books, or its file on the way to a provider; None if a person has to hand the file over."""
    if not isinstance(books, TransmittingBooks):
        return await books.book(booking_rows.for_books(records), author, another=another)
    outgoing, answer = books.outgoing_file(file.name, file.content), books.bookings_answer
    if outgoing is None:
        return None

    def effect(tx: Tx) -> GebuchteBuchungen:
        return answer(transmissions.insert(tx, outgoing, author, outgoing.connection.organization_id))

    return effect


@get(
    "/v2/reconciliation/batches",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=(403, 404),
    example=examples.BATCHES,
)
async def list_batches(call: Call, query: BatchesQuery) -> Data[list[Batch]]:
    """List the batches in the order in which they were made."""
    found = await call.read(listing, call.principal, query)
    return Data(page(call, found, query.limit, lambda one: one.id))


@get(
    "/v2/reconciliation/batches/{id}",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example=examples.BATCH,
)
async def get_batch(call: Call, id: Uuid) -> Data[BatchWithLines]:
    """Read a batch with its rows, what was left out, and what is open of each document before and after."""
    return Data(view(await call.read(batch_store.find, call.principal, id)))


@get(
    "/v2/reconciliation/batches/{id}/extf",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    errors=(403, 404, 409),
    media_types=(EXTF_MEDIA_TYPE,),
)
async def get_batch_file(call: Call, id: Uuid) -> Download:
    """Fetch the DATEV file of a batch, the same every time. 409 for a list: the office books, and would book it twice."""
    row = await call.read(batch_store.find, call.principal, id)
    file = download(row)
    await call.context.db.write(batch_store.note_fetched, row)
    return file


def download(row: BatchRow) -> Download:
    if row.content is None or row.file_name is None:
        raise Conflict(
            "This batch is a list: the office books these payments itself, and a file would book them twice.",
            booked_by=row.booked_by,
        )
    return Download(bytes(row.content), EXTF_MEDIA_TYPE, row.file_name)


def _title(tx: Tx, settings: AccountSettings) -> str:
    account = accounts.look_up(tx, settings.organization_id, settings.account_id)
    at_sandbox = connections.ids_at(tx, settings.organization_id, SANDBOX)
    is_sandbox = account is not None and account.connection_id in at_sandbox
    return booking_rows.SANDBOX_TITLE if is_sandbox else booking_rows.TITLE


def _settings(tx: Tx, principal: Principal, account_id: str) -> AccountSettings:
    account = accounts.find(tx, principal, account_id)
    return of_account(tx, account.organization_id, account.id)


def listing(tx: Tx, principal: Principal, query: BatchesQuery) -> list[Batch]:
    account_id = None if query.account_id is None else accounts.find(tx, principal, query.account_id).id
    organizations = principal.organizations(query.organization_id)
    found = batch_store.listing(tx, organizations, account_id, query.from_id, query.limit + 1)
    return [head(wire) for _, wire in found]


# --- The content


class DocumentState(NamedTuple):
    """The documents as the books show them, and how much of each is open: asked before, and again when the batch is written."""

    facts: BookFacts
    open_now: Effect[OpenAmounts]

    def plan(self, tx: Tx, settings: AccountSettings, span: Span) -> Plan:
        waiting = batch_store.waiting(tx, settings, span.first, span.last, MAX_MATCHES + 1)
        return make_plan(waiting, self.open_now(tx), self.facts, books_itself=settings.booked_by == "kontobahn")


async def _inspect_documents(call: Call, books: ClientBooks, settings: AccountSettings, span: Span) -> DocumentState:
    waiting = await call.read(batch_store.waiting, settings, span.first, span.last, MAX_MATCHES + 1)
    keys = {key for transfer in waiting for key in documents(transfer.lines)}
    elsewhere = await call.read(store.ledger_accounts_elsewhere, settings.client, settings.account_id)
    moves = await books.belegbewegungen(days_later(span.year.start, -INVOICED_BEFORE.days), MAX_MOVES) if keys else []
    amounts = await open_now(call.context.db, books, settings.organization_id, keys)
    return DocumentState(book_facts((move for move in moves if (move.konto, move.beleg) in keys), elsewhere), amounts)


class Handover(NamedTuple):
    """`booked` is None for a list, and for a file that a person hands over; `is_sent`: it is the file on its way to a provider.

    `amounts` returns what the books show of the documents at that moment.
    """

    settings: AccountSettings
    span: Span
    state: DocumentState
    plan: Plan
    # Each with the match that it books.
    bookings: list[tuple[Transfer, Buchungssatz]]
    file: BookingFile | None
    booked: Effect[GebuchteBuchungen] | None
    is_sent: bool
    amounts: Effect[OpenAmounts]

    @property
    def records(self) -> list[Buchungssatz]:
        return [record for _, record in self.bookings]


def write(tx: Tx, handover: Handover, actor: Actor) -> Charged[BatchWithLines]:
    """Raises Conflict if something was decided meanwhile, or if the books would not show what is predicted."""
    settings = handover.settings
    store.lock(tx, settings.organization_id)
    if store.account_settings(tx, settings.organization_id, settings.account_id) != settings:
        raise changed_meanwhile()
    if handover.state.plan(tx, settings, handover.span).transfers != handover.plan.transfers:
        raise Conflict("Matches were made or undone meanwhile, or their documents paid: try it again.").retryable()
    changes = booking_rows.changes(handover.records)
    before = handover.amounts(tx)
    import_ids = handover.booked(tx).importe if handover.booked is not None else []
    _check_predicted(before, handover.amounts(tx), handover.records, berlin_date(tx.now))
    answer = _answer(tx, handover, before, changes, import_ids, actor)
    rows = StoredRows(lines=answer.lines, left_out=answer.left_out, items=answer.items)
    summary = Batch(**{name: getattr(answer, name) for name in Batch.__struct_fields__})
    file = handover.file
    row = BatchRow(
        settings.organization_id, answer.id, settings.account_id, settings.connection_id, settings.client_id, settings.booked_by,
        encode(summary).decode(), encode_kept(rows).decode(), file and file.name, file and file.sha256, file and file.content,
        actor.name, tx.now,
    )  # fmt: skip
    sent_as = import_ids[0] if handover.is_sent else None
    batch_store.insert(tx, row, handover.plan.transfers, sent_as)
    audit.record(
        tx, row.organization_id, actor, "reconciliation.batch", row.id, matches=answer.matches, booked_by=row.booked_by
    )
    emit_batch_created(
        tx, row.organization_id, row.id, summary.account_id, row.booked_by, answer.matches, answer.reversals
    )
    return Charged(answer)


def _check_predicted(before: OpenAmounts, after: OpenAmounts, records: list[Buchungssatz], today: date) -> None:
    """Raises Conflict unless the books show at once, to the cent, what was predicted; books of others show it later.

    By account: carried balances that no document explains may move from one document to another.
    """
    if after == before:
        return
    shown = booking_rows.changes([record for record in records if record.belegdatum <= today.isoformat()])
    for konto in sorted({konto for konto, _ in shown}):
        predicted = _total(before, konto) + _total(shown, konto)
        if predicted != _total(after, konto):
            raise Conflict(
                said(
                    "The books would show {found} for account {konto}, not {predicted}: nothing was booked.",
                    found=amount_text(_total(after, konto)),
                    konto=konto,
                    predicted=amount_text(predicted),
                ),
                konto=konto,
            )


def _total(amounts: Mapping[Key, int], konto: str) -> int:
    return sum(amount for key, amount in amounts.items() if key[0] == konto)


def _answer(
    tx: Tx, handover: Handover, before: OpenAmounts, changes: Mapping[Key, int], import_ids: list[str], actor: Actor
) -> BatchWithLines:
    settings, span, file = handover.settings, handover.span, handover.file
    lines = [_line(transfer, record) for transfer, record in handover.bookings]
    undone = sum(transfer.is_undone for transfer in handover.plan.transfers)
    return BatchWithLines(
        id=new_id(),
        account_id=str(settings.account_id),
        connection_id=settings.connection_id,
        client_id=settings.client_id,
        booked_by=settings.booked_by,
        fiscal_year_start=span.year.start,
        from_date=span.first,
        to_date=span.last,
        matches=len(handover.plan.transfers) - undone,
        reversals=undone,
        total=sum((line.amount for line in lines), Decimal(0)),
        file_name=file and file.name,
        sha256=file and file.sha256,
        import_ids=import_ids,
        created_by=actor.name,
        created_at=to_datetime(tx.now),
        lines=lines,
        left_out=handover.plan.left_out,
        items=[
            BatchItem(
                konto=konto,
                beleg=beleg,
                open_before=from_minor(before.get((konto, beleg), 0)),
                open_after=from_minor(before.get((konto, beleg), 0) + change),
            )
            for (konto, beleg), change in sorted(changes.items())
            if beleg
        ],
    )


def _line(transfer: Transfer, record: Buchungssatz) -> BatchLine:
    return BatchLine(
        match_id=transfer.match_id,
        transaction_id=str(transfer.transaction_id),
        made_on=transfer.day,
        reversal=transfer.is_undone,
        konto=record.gegenkonto,
        beleg=record.belegfeld1,
        amount=from_minor(record.umsatz if record.soll else -record.umsatz),
        skonto=from_minor(record.skonto),
        text=record.buchungstext,
    )


# --- The plan: days of one fiscal year, and matches whose documents are still open. Pure.
#
# A match is left out if less of its document is open than was matched: something else has paid it since, cash for example, and a
# booking would pay it twice.


class Span(NamedTuple):
    """Days of one fiscal year."""

    first: date
    last: date
    year: Geschaeftsjahr


def span_of(body: NewBatch, years: list[Geschaeftsjahr], today: date) -> Span:
    last = body.to_date or today
    year = next((one for one in years if one.start <= last <= one.end), None)
    if year is None:
        raise Conflict(
            said("The client has no fiscal year for {day}: it is opened in the books first.", day=last.isoformat()),
            field="to_date",
        ).retryable()
    first = body.from_date or year.start
    if not year.start <= first <= last:
        raise BadRequest(
            said(
                "The field `from_date` must be a day of the fiscal year from {start} on, and not after `to_date`.",
                start=year.start,
            ),
            field="from_date",
        )
    return Span(first, last, year)


class BookFacts(NamedTuple):
    """Facts of the books about documents: the rates of their tax, and which payments of a bank they show."""

    rates: dict[Key, Rates]
    paid: dict[Key, list[Belegbewegung]]


def book_facts(moves: Iterable[Belegbewegung], elsewhere: frozenset[str]) -> BookFacts:
    """`elsewhere` are the ledger accounts of other bank accounts."""
    facts = BookFacts({}, defaultdict(list))
    for move in moves:
        key = (move.konto, move.beleg)
        if move.steuersatz is not None:
            facts.rates[key] = ((move.steuersatz, 1),)
        elif move.anteile:
            facts.rates[key] = move.anteile
        if is_bank_payment(move, elsewhere):
            facts.paid[key].append(move)
    return facts


class Plan(NamedTuple):
    transfers: list[Transfer]
    left_out: list[LeftOutMatch]


def make_plan(waiting: list[Transfer], amounts: Mapping[Key, int], facts: BookFacts, *, books_itself: bool) -> Plan:
    """Raises Conflict if there is nothing to hand over, BadRequest if there is too much.

    `amounts` is what is open of the documents, without these matches. `books_itself` is false for a list: the office books, and
    may have booked already.
    """
    if len(waiting) > MAX_MATCHES:
        raise BadRequest(
            said("There are more than {most} matches up to `to_date`: ask for fewer days.", most=MAX_MATCHES),
            field="to_date",
        )
    plan, judge = Plan([], []), _Judge(amounts, facts, books_itself=books_itself)
    for transfer in waiting:
        refused = judge.refuses(transfer)
        if refused is None:
            plan.transfers.append(transfer)
        else:
            plan.left_out.append(refused)
    if not plan.transfers:
        first = plan.left_out[0] if plan.left_out else None
        names = () if first is None or first.open_amount is None else ("konto", "beleg", "open_amount", "amount")
        why = f" {first.reason}" if first else ""
        raise Conflict(
            said("There is nothing to hand over in these days.{why}", why=why),
            left_out=len(plan.left_out),
            **{name: getattr(first, name) for name in names},
        ).retryable()
    return plan


class _Judge:
    """Looks at matches in the order of the batch; each that is accepted reduces what is open for the next."""

    def __init__(self, amounts: Mapping[Key, int], facts: BookFacts, *, books_itself: bool) -> None:
        self._left = dict(amounts)
        self._rates = facts.rates
        self._paid = {key: list(moves) for key, moves in facts.paid.items()}
        self._books_itself = books_itself

    def refuses(self, transfer: Transfer) -> LeftOutMatch | None:
        reason = booking_rows.problem(transfer)
        if reason is None and transfer.is_removed:
            reason = "The bank has removed this transaction: undo the match."
        if reason is None and self._books_itself:
            reason = self._taxed_unknown(transfer)
        if reason is not None:
            return _left_out(transfer, reason)
        taken: dict[Key, int] = defaultdict(int)
        for line in transfer.lines:
            if line.kind not in OF_ITEMS or not line.beleg:
                continue
            key = (line.konto, line.beleg)
            if line.kind == "item" and not transfer.is_undone:
                booked = self._booked(transfer, line)
                if booked is not None and not self._books_itself:
                    continue
                left = self._left.get(key, 0) - taken[key]
                low, high = sorted((0, left))
                if booked is not None or not low <= line.amount_minor <= high:
                    return _left_out(transfer, _not_open(line, left, booked), line, left)
            taken[key] += -line.amount_minor if transfer.is_undone else line.amount_minor
        for key, amount in taken.items():
            self._left[key] = self._left.get(key, 0) - amount
        return None

    def _taxed_unknown(self, transfer: Transfer) -> str | None:
        for konto, beleg in booking_rows.untaxed_documents(transfer, self._rates):
            return said(
                "The discount on document {beleg} of account {konto} cannot be booked: which tax it reduces is not known, as with"
                " reverse charge or a balance carried forward. Match it by hand, with a line for the discount's ledger account.",
                beleg=beleg, konto=konto,
            )  # fmt: skip
        return None

    def _booked(self, transfer: Transfer, line: Line) -> Belegbewegung | None:
        """Returns the payment in the books that is this one; each stands for one match."""
        moves = self._paid.get((line.konto, line.beleg), [])
        own = reference_of(transfer.transaction_id)
        for move in moves:
            # A payment that carries the id of another movement was booked for that one.
            is_others = len(move.belegfeld2) == MAX_BELEGFELD2 and move.belegfeld2.isdigit() and move.belegfeld2 != own
            if (
                -move.betrag == line.amount_minor
                and abs(move.belegdatum - transfer.day) <= BOOKED_DAYS
                and not is_others
            ):
                moves.remove(move)
                return move
        return None


def _not_open(line: Line, left: int, booked: Belegbewegung | None) -> str:
    if booked is not None:
        return said(
            "The books show the payment of {amount} for document {beleg} of account {konto} already,"
            " on {day}: undo the match.",
            amount=amount_text(line.amount_minor),
            beleg=line.beleg,
            konto=line.konto,
            day=booked.belegdatum.isoformat(),
        )
    return said(
        "Of document {beleg} of account {konto} only {amount_left} is open, not {amount}: something"
        " else was booked on it since. Undo the match, or take that booking back.",
        beleg=line.beleg,
        konto=line.konto,
        amount_left=amount_text(left),
        amount=amount_text(line.amount_minor),
    )


def _left_out(transfer: Transfer, reason: str, line: Line | None = None, left: int = 0) -> LeftOutMatch:
    answer = LeftOutMatch(match_id=transfer.match_id, transaction_id=str(transfer.transaction_id), reason=reason)
    if line is not None:
        answer.konto, answer.beleg = line.konto, line.beleg
        answer.open_amount, answer.amount = from_minor(left), from_minor(line.amount_minor)
    return answer
