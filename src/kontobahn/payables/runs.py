"""Payment runs: released invoices paid at once from one account, as payments of one kind and day. What they send and answer; calls.

The run, its payments with their reservations, and the status of each invoice are one transaction; banks are asked after it. An
invoice is in one payment at a time, because only a released one is taken, under the lock of its organisation.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple

from msgspec import Meta

from kontobahn import log
from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, Context, page
from kontobahn.api.declare import get, post
from kontobahn.api.idempotency import Claim
from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import bank, order_files
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.links import payer_address
from kontobahn.banking.payments.order_files import Selection
from kontobahn.banking.payments.routes import MAX_DAYS_AHEAD, check_order, create_pending
from kontobahn.banking.payments.rules import AWAITING_PAYER, FINAL
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.wire import NewPayment
from kontobahn.banking.provider import Banking, PaymentStatus, Template
from kontobahn.banking.wire import NumericId
from kontobahn.clock import berlin_date, to_datetime
from kontobahn.credits import Cause
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, KeyReused, KontobahnError
from kontobahn.formats.pain.sepa import MAX_NAME, as_far_as_carried
from kontobahn.ids import new_id
from kontobahn.ledger.buchungen import EUR
from kontobahn.ledger.connections import open_client
from kontobahn.ledger.errors import ProviderError
from kontobahn.money import amount_text, from_minor
from kontobahn.payables import rules, run_rules, run_store, settlement, store
from kontobahn.payables.rules import Status, Why
from kontobahn.payables.run_rules import Creditor, Plan, PlannedPayment, creditor_of
from kontobahn.payables.run_store import RUN_INVOICES, RUN_PAYMENTS, RUNS, RunInvoiceRow, RunPaymentRow, RunRow
from kontobahn.payables.store import DUE, DueRow
from kontobahn.payables.wire import RunLeftOut
from kontobahn.sentences import said

# Each is a payment at most, and banks are asked one after the other.
MAX_INVOICES = 200
_MAX_CHOSEN_FROM = 2_000
_WORDS: dict[Why, str] = {
    "not_released": "It is not released.",
    "iban_changed": "Its IBAN is another one than the creditor is known by, and nobody has confirmed it.",
    "not_to_be_paid": "Nothing is to be transferred for it: it is paid otherwise, or nothing is owed.",
    "not_euro": "It is not in euros.",
    "no_iban": "It names no valid IBAN.",
    "not_named": "Its number or its creditor's name has no character that a transfer can carry.",
    "credit_exceeds": "What the creditor owes is not less than what is to be paid.",
    "too_much": "It is more than a transfer can carry.",
}


class NewPaymentRun(Body, kw_only=True):
    account_id: Annotated[NumericId, Meta(description="The bank account to pay from.")]
    payable_ids: (
        Annotated[
            list[Uuid],
            Meta(
                min_length=1,
                max_length=MAX_INVOICES,
                description="These invoices, less these credit notes; or `due_by`.",
            ),
        ]
        | None
    ) = None
    due_by: (
        Annotated[
            date,
            Meta(
                description="All that is released and due, or loses its Skonto, up to this day, less the credit notes of its creditors."
            ),
        ]
        | None
    ) = None
    template_identifier: Template = "SEPA"
    date: Annotated[datetime.date, Meta(description="Day of execution; as soon as possible when omitted.")] | None = (
        None
    )
    take_skonto: Annotated[bool, Meta(description="Deduct Skonto where its day has not passed.")] = True
    trial: Annotated[bool, Meta(description="Only show what would be paid, and what not: nothing is written.")] = False


class PaymentRunsQuery(ListQuery):
    from_id: Annotated[Uuid, Meta(description="Only what was made after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class RunInvoice(Answer):
    payable_id: Uuid
    number: str
    amount: Annotated[Decimal, Meta(description="What it adds to the payment; of a credit note negative.")]
    skonto: Annotated[Decimal, Meta(description="Deducted before.")]


class RunPayment(Answer):
    payment_id: Annotated[str | None, Meta(description="Null in a trial.")]
    status: Annotated[PaymentStatus | None, Meta(description="Null in a trial.")]
    creditor_name: str
    creditor_iban: str
    amount: Decimal
    description: str
    waits_for_release: Annotated[bool, Meta(description="Above the organisation's limit: another person releases it.")]
    payment_url: Annotated[str | None, Meta(description="Where the payer goes on, if there is anything to do.")]
    payables: list[RunInvoice]


class PaymentRun(Answer, kw_only=True):
    id: Annotated[Uuid | None, Meta(description="Null in a trial.")]
    organization_id: Uuid
    trial: bool
    account_id: str
    template_identifier: Template
    date: datetime.date | None
    amount: Annotated[Decimal, Meta(description="The sum of its payments.")]
    currency_code: str
    balance: Annotated[Decimal | None, Meta(description="Of the account, as the bank reported it last.")]
    payments: list[RunPayment]
    left_out: list[RunLeftOut]
    order_file_ids: Annotated[
        list[str], Meta(description="Files to upload at the bank, if the account is kept by files.")
    ]
    created_at: Timestamp | None


# --- The calls


@post(
    "/v2/payables/payment-runs",
    scope="payables:write", also_scope="payments", role="member", moves_money=True,
    statuses=(201, 200), one_of=("payable_ids", "due_by"), errors=(402, 403, 404, 409),
    body_example={"account_id": "12", "due_by": "2026-03-31", "trial": True},
)  # fmt: skip
async def create_payment_run(call: Call, body: NewPaymentRun) -> Data[PaymentRun]:
    """Pay released invoices from one account, as payments of one kind and day: those named, or with `due_by` all that is due.

    Skonto is deducted up to and including its day; credit notes are deducted from what their creditor gets. Never paid: what is not
    released, what the creditor collects or has, and what goes to an account that nobody has confirmed. With `payable_ids` all of them
    are paid or none (409, with `left_out`). With `trial` nothing is written, and the answer is 200.

    Each payment costs what a payment costs, and one above the organisation's limit waits for another person. For an account that is
    kept by files there is one order file. Send an `Idempotency-Key`: repeated with it, nothing is paid twice. Without one neither,
    because an invoice in payment is in no other run.
    """
    today = berlin_date(call.context.clock.now())
    _check_days(body, today)
    account = await call.read_inline(accounts.find, call.principal, body.account_id)
    chosen = await call.read(_chosen, call.principal, account, body, today)
    order = RunOrder(call.principal, account.id, body, call.ip, await _known_accounts(call, chosen))
    if body.trial:
        call.status = 200
        return Data(await call.read(_trial, order))
    as_payment = payment_routes.create_payment
    price = call.context.settings.prices.get(as_payment.name, as_payment.cost)
    made = await call.context.db.write(
        make, order, call.context.part(Banking), price=price, cause=call.cause, claim=call.claim, actor=call.actor
    )
    if made.run is None:
        raise Conflict("These invoices cannot be paid as they stand: nothing was paid.", left_out=_left_out(made.plan))
    await _carry_out(call.context, call.principal, made.run, call.actor)
    answer = await call.read(view, call.context, made.run)
    answer.left_out = _left_out(made.plan)
    if await call.read(_is_unanswered, made.run):
        # It is not known yet whether the bank has all of them: a repeat looks again.
        await call.leave_key_open()
    return Data(answer)


@get("/v2/payables/payment-runs", scope="payables:read", pages_by="from_id", errors=(403, 404))
async def list_payment_runs(call: Call, query: PaymentRunsQuery) -> Data[list[PaymentRun]]:
    """List payment runs in the order in which they were made."""

    def unit(tx: Tx) -> list[PaymentRun]:
        from_id = query.from_id.lower() if query.from_id else None
        rows = run_store.listing(tx, call.principal.organizations(query.organization_id), from_id, query.limit + 1)
        return [view(tx, call.context, row) for row in rows]

    return Data(page(call, await call.read(unit), query.limit, lambda run: str(run.id)))


@get("/v2/payables/payment-runs/{id}", scope="payables:read", errors=(403, 404))
async def get_payment_run(call: Call, id: Uuid) -> Data[PaymentRun]:
    """Read a payment run: its payments as they stand, and the invoices in each."""

    def unit(tx: Tx) -> PaymentRun:
        return view(tx, call.context, run_store.find(tx, call.principal, id))

    return Data(await call.read(unit))


@post(
    "/v2/payables/payment-runs/{id}/order-file",
    scope="payables:write", also_scope="payments", role="member", errors=(403, 404, 409),
)  # fmt: skip
async def create_run_order_file(call: Call, id: Uuid) -> Data[PaymentRun]:
    """Put the payments of a run that are in no order file into one: those that another person has released since, for example."""

    def unit(tx: Tx) -> Data[PaymentRun]:
        run = run_store.find(tx, call.principal, id)
        if not _make_file(tx, call.context, call.principal, run, call.actor):
            raise Conflict("No payment of this run can be put into an order file now.")
        return Data(view(tx, call.context, run))

    return await call.commit(unit)


def _check_days(body: NewPaymentRun, today: date) -> None:
    if (body.payable_ids is None) == (body.due_by is None):
        raise BadRequest("Send `payable_ids`, or `due_by` for all that is due; not both.", field="payable_ids")
    if body.date is None:
        return
    if body.date < today:
        raise BadRequest("The field `date` must not be in the past.", field="date")
    if body.date > today + timedelta(days=MAX_DAYS_AHEAD):
        raise BadRequest("The field `date` must lie within a year.", field="date")
    if body.template_identifier == "SEPA_INSTANT" and body.date > today:
        raise BadRequest("The field `date` cannot be given for SEPA_INSTANT, which is executed at once.", field="date")


# --- Choosing


class RunOrder(NamedTuple):
    """A run that is asked for, and the bank accounts that the books know of the creditors."""

    principal: Principal
    account_id: int
    body: NewPaymentRun
    ip: str
    known: Mapping[Creditor, tuple[str, ...]]


def _chosen(tx: Tx, principal: Principal, account: AccountRow, body: NewPaymentRun, today: date) -> list[DueRow]:
    if body.payable_ids is not None:
        rows = [store.find_due(tx, principal, one) for one in dict.fromkeys(map(str.lower, body.payable_ids))]
        if any(row.organization_id != account.organization_id for row in rows):
            raise BadRequest(
                "The field `payable_ids` must name invoices of the organisation whose account pays.",
                field="payable_ids",
            )
        return rows
    day, due_by = body.date or today, body.due_by or today
    released = store.due(tx, account.organization_id, ("released",), _MAX_CHOSEN_FROM)
    invoices = [row for row in released if row.payable_minor > 0 and run_rules.pay_by(row, day) <= due_by]
    if len(invoices) > MAX_INVOICES:
        raise BadRequest(
            said("More than {most} invoices are due by then: choose an earlier day.", most=MAX_INVOICES), field="due_by"
        )
    creditors = {creditor_of(row) for row in invoices}
    return invoices + [row for row in released if row.payable_minor < 0 and creditor_of(row) in creditors]


async def _known_accounts(call: Call, rows: list[DueRow]) -> dict[Creditor, tuple[str, ...]]:
    """Returns the bank accounts that the books know of these creditors; nothing of books that cannot be asked now."""
    found: dict[Creditor, tuple[str, ...]] = {}
    for connection_id, client_id in {(row.connection_id, row.client_id) for row in rows if row.konto}:
        try:
            books = await open_client(call.context, call.principal, connection_id, client_id)
            for partner in await books.geschaeftspartner():
                found[Creditor(connection_id, client_id, partner.konto)] = partner.ibans
        except (ProviderError, KontobahnError) as error:
            log.info("creditors_not_asked", connection=connection_id, detail=str(error))
    return found


def _plan(tx: Tx, order: RunOrder, account: AccountRow) -> Plan:
    today = berlin_date(tx.now)
    rows = _chosen(tx, order.principal, account, order.body, today)
    changed = _changed(tx, rows, order.known)
    named = {row.id for row in rows} if order.body.payable_ids is not None else set[str]()
    return run_rules.plan(
        rows, order.body.date or today, takes_skonto=order.body.take_skonto, changed=changed, named=named
    )


def _changed(tx: Tx, rows: list[DueRow], known: Mapping[Creditor, tuple[str, ...]]) -> set[str]:
    """Returns the invoices that name an account which the creditor is not known by, unless a person has confirmed it.

    It was looked at when the invoice came; since then another account may have been paid. Of a creditor without any known account
    the oldest invoice says which it is.
    """
    found, accounts_of = set[str](), dict[Creditor, set[str]]()
    for row in sorted(rows, key=lambda row: row.id):
        creditor = creditor_of(row)
        if creditor not in accounts_of:
            paid = store.paid_to(tx, row.organization_id, row.konto)
            accounts_of[creditor] = {*known.get(creditor, ()), *paid}
        if row.payable_minor <= 0 or not row.creditor_iban:
            continue
        if not accounts_of[creditor] or _is_confirmed(tx, row):
            accounts_of[creditor].add(row.creditor_iban)
        if rules.is_changed_iban((row.creditor_iban,), accounts_of[creditor]):
            found.add(row.id)
    return found


def _is_confirmed(tx: Tx, row: DueRow) -> bool:
    return any(step.action == "confirm_iban" for step in store.steps_of(tx, row))


# --- Making


class Made(NamedTuple):
    run: RunRow | None
    plan: Plan


def make(
    tx: Tx, order: RunOrder, banking: Banking, *, price: int, cause: Cause, claim: Claim | None, actor: Actor
) -> Made:
    """Writes the run with its payments. Without any payment, or if one that was named cannot be paid, there is none.

    A call repeated with its key finds the run that it made.
    """
    account = accounts.find(tx, order.principal, str(order.account_id))
    store.lock(tx, account.organization_id)
    earlier = None if claim is None else _earlier(tx, order.principal, claim)
    if earlier is not None:
        return Made(earlier, Plan([], []))
    plan = _plan(tx, order, account)
    for left in plan.left_out:
        if left.why == "iban_changed":
            _stop(tx, left.row, actor)
    if not plan.payments or (plan.left_out and order.body.payable_ids is not None):
        return Made(None, plan)
    run = RunRow(
        organization_id=account.organization_id, id=new_id(), account_id=account.id,
        template=order.body.template_identifier,
        execution_date=order.body.date.isoformat() if order.body.date else None,
        payments=len(plan.payments), amount_minor=plan.amount_minor, actor=actor.name,
        caller_id=order.principal.organization_id, idempotency_key=claim.key if claim else None,
        idempotency_fingerprint=claim.fingerprint if claim else None, created_at=tx.now,
    )  # fmt: skip
    RUNS.insert(tx, run)
    for planned in plan.payments:
        body = _as_payment(tx, order, run, planned)
        checked = check_order(body, order.ip, berlin_date(tx.now))
        payment, _ = create_pending(tx, order.principal, checked, None, banking, price=price, cause=cause, claim=None)
        _take(tx, order.principal, run, planned, payment, actor)
    audit.record(
        tx, run.organization_id, actor, "payables.payment_run", run.id,
        payments=run.payments, amount=amount_text(run.amount_minor), account=str(run.account_id),
    )  # fmt: skip
    return Made(run, plan)


def _earlier(tx: Tx, principal: Principal, claim: Claim) -> RunRow | None:
    run = run_store.by_key(tx, principal.organization_id, claim.key, tx.now - claim.keep_microseconds)
    if run is not None and not (
        run.organization_id in principal.scope and run.idempotency_fingerprint == claim.fingerprint
    ):
        raise KeyReused("This idempotency key was used for another payment run.")
    return run


def _stop(tx: Tx, row: DueRow, actor: Actor) -> None:
    stops = " ".join(sorted({*row.stops.split(), "iban_changed"}))
    status: Status = "needs_person"
    store.record_step(tx, row, "stop", "", actor.name, "")
    DUE.update(tx, row, stops=stops, status=status, updated_at=tx.now)


def _as_payment(tx: Tx, order: RunOrder, run: RunRow, planned: PlannedPayment) -> NewPayment:
    # The name that a bank has reported is the one that its check of the payee finds.
    told = payments.payee_name(tx, run.organization_id, planned.iban)
    return NewPayment(
        account_id=str(run.account_id), amount=from_minor(planned.amount_minor),
        creditor_name=told or as_far_as_carried(planned.name, MAX_NAME), creditor_iban=planned.iban,
        description=planned.text, template_identifier=run.template, date=order.body.date,
    )  # fmt: skip


def _take(
    tx: Tx, principal: Principal, run: RunRow, planned: PlannedPayment, payment: PaymentRow, actor: Actor
) -> None:
    RUN_PAYMENTS.insert(tx, RunPaymentRow(run.organization_id, run.id, payment.id, "open"))
    status: Status = "in_payment"
    for share in planned.shares:
        RUN_INVOICES.insert(
            tx,
            RunInvoiceRow(
                run.organization_id, run.id, share.row.id, payment.id, share.amount_minor, share.skonto_minor
            ),
        )
        store.record_step(tx, share.row, "pay", principal.user_id or "", actor.name, amount_text(share.amount_minor))
        DUE.update(tx, share.row, status=status, payment_id=payment.id, updated_at=tx.now)


# --- Carrying out


async def _carry_out(context: Context, principal: Principal, run: RunRow, actor: Actor) -> None:
    """Hands the payments to the bank that it does not have yet, and puts them into an order file where there are such."""
    for row in await context.db.read(payments_of, run):
        if row.unsent and not row.waits_for_release:
            await bank.send_to_bank(context, row)
        elif row.provider_ref is None and row.status not in FINAL and not row.waits_for_release:
            await bank.recheck_unanswered(context, row)

    def unit(tx: Tx) -> None:
        if not any(row.order_file_id for row in payments_of(tx, run)):
            _make_file(tx, context, principal, run, actor)
        settlement.follow(tx, run.organization_id)

    await context.db.write(unit)


def _make_file(tx: Tx, context: Context, principal: Principal, run: RunRow, actor: Actor) -> bool:
    """Puts what is free into one order file. Returns False if nothing is, or the account is not kept by files."""
    free, banking = _free(payments_of(tx, run)), context.part(Banking)
    if not may_make_file(context, free):
        return False
    wanted = Selection(None, [row.id for row in free], run.template, include_taken=False)
    file = order_files.create(tx, principal, wanted, banking, context.settings.order_file_days)
    audit.record(tx, file.organization_id, actor, "order_file.create", str(file.id), payments=file.payments)
    return True


def may_make_file(context: Context, rows: Sequence[PaymentRow]) -> bool:
    """Returns whether some of these payments may go into an order file now."""
    free = _free(rows)
    return bool(free) and context.part(Banking).provider(free[0].provider).orders_are_files


def _free(rows: Sequence[PaymentRow]) -> list[PaymentRow]:
    return [
        row
        for row in rows
        if row.status in AWAITING_PAYER
        and row.provider_ref is not None
        and not row.waits_for_release
        and row.order_file_id is None
        and row.order_taken_at is None
    ]


def payments_of(tx: Tx, run: RunRow) -> list[PaymentRow]:
    return [payments.get(tx, run.organization_id, row.payment_id) for row in run_store.payments_of(tx, run)]


def _is_unanswered(tx: Tx, run: RunRow) -> bool:
    return any(
        row.provider_ref is None and row.status not in FINAL and not row.waits_for_release
        for row in payments_of(tx, run)
    )


# --- Shown


def _trial(tx: Tx, order: RunOrder) -> PaymentRun:
    account = accounts.find(tx, order.principal, str(order.account_id))
    plan = _plan(tx, order, account)
    return PaymentRun(
        id=None, organization_id=account.organization_id, trial=True, account_id=str(account.id),
        template_identifier=order.body.template_identifier, date=order.body.date, amount=from_minor(plan.amount_minor),
        currency_code=EUR, balance=None if account.balance is None else from_minor(account.balance),
        payments=[_planned_view(planned) for planned in plan.payments], left_out=_left_out(plan), order_file_ids=[],
        created_at=None,
    )  # fmt: skip


def _planned_view(planned: PlannedPayment) -> RunPayment:
    return RunPayment(
        payment_id=None, status=None, creditor_name=planned.name, creditor_iban=planned.iban,
        amount=from_minor(planned.amount_minor), description=planned.text, waits_for_release=False, payment_url=None,
        payables=[
            RunInvoice(
                payable_id=share.row.id, number=share.row.number, amount=from_minor(share.amount_minor),
                skonto=from_minor(share.skonto_minor),
            )
            for share in planned.shares
        ],
    )  # fmt: skip


def _left_out(plan: Plan) -> list[RunLeftOut]:
    return [
        RunLeftOut(payable_id=row.id, number=row.number, reason=why, message=_WORDS[why]) for row, why in plan.left_out
    ]


def view(tx: Tx, context: Context, run: RunRow) -> PaymentRun:
    account = accounts.look_up(tx, run.organization_id, run.account_id)
    rows = payments_of(tx, run)
    shares: dict[int, list[RunInvoice]] = {}
    invoices = run_store.invoices_of(tx, run)
    known = store.due_in(tx, run.organization_id, [one.payable_id for one in invoices])
    for one in invoices:
        shares.setdefault(one.payment_id, []).append(
            RunInvoice(
                payable_id=one.payable_id, number=known[one.payable_id].number, amount=from_minor(one.amount_minor),
                skonto=from_minor(one.skonto_minor),
            )
        )  # fmt: skip
    balance = account.balance if account is not None else None
    return PaymentRun(
        id=run.id, organization_id=run.organization_id, trial=False, account_id=str(run.account_id),
        template_identifier=run.template,
        date=date.fromisoformat(run.execution_date) if run.execution_date else None,
        amount=from_minor(run.amount_minor), currency_code=EUR, balance=None if balance is None else from_minor(balance),
        payments=[_payment_view(context, row, shares.get(row.id, [])) for row in rows], left_out=[],
        order_file_ids=sorted({str(row.order_file_id) for row in rows if row.order_file_id is not None}),
        created_at=to_datetime(run.created_at),
    )  # fmt: skip


def _payment_view(context: Context, row: PaymentRow, invoices: list[RunInvoice]) -> RunPayment:
    return from_row(
        RunPayment, row, payment_id=str(row.id), amount=from_minor(row.amount_minor),
        payment_url=payer_address(context, row).url, payables=invoices,
    )  # fmt: skip
