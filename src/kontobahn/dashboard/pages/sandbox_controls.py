"""The sandbox bank in a browser: book, post, fail, expire, destroy, give payments a status, take order files, and move its clock.

Each does what the command of `kontobahn sandbox` does, to what belongs to the person's organisations. Only where connect flows go to
the sandbox bank.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, get_args

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.connections.routes import end_accesses
from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.provider import FILES, SANDBOX, Banking, PaymentStatus
from kontobahn.banking.sandbox import (
    HandedIn,
    NewBooking,
    OrderAccount,
    OrderDesk,
    SandboxClock,
    SandboxConnection,
    SandboxControls,
)
from kontobahn.clock import DAY, HOUR
from kontobahn.dashboard import bank_words
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, NotFound
from kontobahn.money import to_minor
from kontobahn.reconciliation import batches, matches, store
from kontobahn.reconciliation.batch_store import NewBatch
from kontobahn.reconciliation.matches import NewMatchUndo
from kontobahn.reconciliation.store import MatchRow

# --- Making things happen


PATH = f"{ROOT}/sandbox"
MAX_PAYMENTS = 20
MAX_AMOUNT = Decimal(1_000_000)
MAX_AHEAD = 400 * DAY
ErrorClass = Literal[
    "ProviderError", "InvalidCredentials", "AispConsentRevoked", "ProviderDisabled", "InvalidInteractiveCredentials"
]  # fmt: skip
What = Literal["report", "post-pending", "expire-consent", "destroy"]
DONE: dict[What, str] = {
    "report": N_("The bank reports new data."),
    "post-pending": N_("What was pending is booked."),
    "expire-consent": N_("The consent has ended."),
    "destroy": N_("The bank has ended the connection."),
}
STEPS = {
    "hour": (N_("an hour"), HOUR),
    "day": (N_("a day"), DAY),
    "week": (N_("a week"), 7 * DAY),
    "month": (N_("30 days"), 30 * DAY),
    "half-year": (N_("180 days"), 180 * DAY),
}


def _is_offered(context: Context) -> bool:
    return context.part(SandboxControls).provider in context.part(Banking).connect_providers


class Booking(Struct):
    # The connection and the account at the bank.
    account: Annotated[str, Meta(max_length=200)]
    amount: Decimal
    text: Annotated[str, Meta(max_length=140)]
    name: Annotated[str, Meta(max_length=70)] | None = None
    day: date | None = None
    is_pending: bool = False
    is_quiet: bool = False


class Failure(Struct):
    error_class: ErrorClass
    at_refresh: bool = False


class Status(Struct):
    status: PaymentStatus


class Step(Struct):
    step: Literal["hour", "day", "week", "month", "half-year", "reset"]


class Held(NamedTuple):
    row: ConnectionRow
    bank: SandboxConnection


class Facts(NamedTuple):
    connections: list[Held]
    payments: list[PaymentRow]
    clock: SandboxClock
    # Other organisations go by the same clock.
    is_shared: bool


@page("/sandbox", role="admin", offered=_is_offered, poll=5, help="sandbox")
async def sandbox_controls(visit: Visit) -> Response:
    facts = await visit.read(_facts, visit)
    return visit.show(
        "sandbox_controls.html",
        facts=facts,
        accounts=[
            (f"{held.row.id} {account.ref}", f"{bank_words.bank_name(held.row)}: {account.name}")
            for held in facts.connections
            for account in held.bank.accounts
        ],
        errors=[(name, bank_words.error_words(name)) for name in get_args(ErrorClass)],
        statuses=[(name, bank_words.payment_state(name).badge) for name in get_args(PaymentStatus)],
        steps=[(name, _(text)) for name, (text, _length) in STEPS.items()],
        bank_words=bank_words,
    )


def _facts(tx: Tx, visit: Visit) -> Facts:
    controls = visit.context.part(SandboxControls)
    rows = connections.listing(tx, (visit.organization_id,))
    looked = [(row, controls.look(tx, row.provider_ref)) for row in rows if row.provider == controls.provider]
    return Facts(
        [Held(row, found) for row, found in looked if found is not None],
        payments.under_way(tx, visit.organization_id, controls.provider, MAX_PAYMENTS),
        controls.clock(tx),
        connections.is_used_by_others(tx, controls.provider, visit.principal.scope),
    )


async def _again(visit: Visit) -> Response:
    response: Response = await sandbox_controls.handler(visit)
    return response


def _connection(tx: Tx, visit: Visit, connection_id: str) -> ConnectionRow:
    """Raises NotFound if it is not one of the person's organisations, or not at this bank."""
    row = connections.find(tx, visit.principal, connection_id)
    if row.provider != visit.context.part(SandboxControls).provider:
        raise visit.principal.missing("Connection")
    return row


@action("/sandbox/book", role="admin", offered=_is_offered)
async def book(visit: Visit) -> Response:
    wanted = visit.form.read(Booking)
    if wanted is not None:
        with visit.form.refusals():
            await visit.write(_book, visit, wanted)
            return visit.redirect(PATH, _("Booked. The bank reports it in a moment."))
    return await _again(visit)


def _book(tx: Tx, visit: Visit, wanted: Booking) -> None:
    if not wanted.amount or abs(wanted.amount) > MAX_AMOUNT:
        raise BadRequest("The field `amount` must not be 0, and must be at most a million.", field="amount")
    connection_id, _space, account_ref = wanted.account.partition(" ")
    row = _connection(tx, visit, connection_id)
    booking = NewBooking(
        _cents(wanted.amount), wanted.text, wanted.day, wanted.is_pending, None, wanted.name, wanted.is_quiet
    )
    visit.context.part(SandboxControls).book(tx, row.provider_ref, account_ref, booking)
    _record(tx, row, visit.actor, "sandbox.book")


def _cents(amount: Decimal) -> int:
    try:
        return to_minor(amount)
    except ValueError:
        raise BadRequest("The field `amount` must be exact to the cent.", field="amount") from None


def _record(tx: Tx, row: ConnectionRow | PaymentRow, actor: Actor, what: str, **details: Any) -> None:
    audit.record(tx, row.organization_id, actor, what, str(row.id), **details)


@action("/sandbox/connections/{id}/fail", role="admin", offered=_is_offered)
async def fail(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Failure)
    if wanted is None:
        return await _again(visit)
    await visit.write(_fail, visit, id, wanted)
    done = _("The next refresh will fail.") if wanted.at_refresh else _("The bank reports the failure in a moment.")
    return visit.redirect(PATH, done)


def _fail(tx: Tx, visit: Visit, connection_id: str, wanted: Failure) -> None:
    row = _connection(tx, visit, connection_id)
    visit.context.part(SandboxControls).fail(tx, row.provider_ref, wanted.error_class, wanted.at_refresh)
    _record(tx, row, visit.actor, "sandbox.fail", error_class=wanted.error_class)


@action("/sandbox/connections/{id}/do/{what}", role="admin", offered=_is_offered)
async def act(visit: Visit, id: str, what: str) -> Response:
    known = next((name for name in DONE if name == what), None)
    if known is None:
        raise NotFound("There is no such page.")
    await visit.write(_act, visit, id, known)
    return visit.redirect(PATH, _(DONE[known]))


def _act(tx: Tx, visit: Visit, connection_id: str, what: What) -> None:
    row = _connection(tx, visit, connection_id)
    controls = visit.context.part(SandboxControls)
    acts = {
        "report": controls.report,
        "post-pending": controls.post_pending,
        "expire-consent": controls.expire_consent,
        "destroy": controls.destroy,
    }
    acts[what](tx, row.provider_ref)
    _record(tx, row, visit.actor, f"sandbox.{what.replace('-', '_')}")


@action("/sandbox/payments/{id}", role="admin", offered=_is_offered)
async def set_status(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Status)
    if wanted is None:
        return await _again(visit)
    await visit.write(_set_status, visit, visit.principal, numeric(id), wanted.status)
    return visit.redirect(PATH, _("The bank reports it in a moment."))


def _set_status(tx: Tx, visit: Visit, principal: Principal, payment_id: str, status: PaymentStatus) -> None:
    row = payments.find(tx, principal, payment_id)
    controls = visit.context.part(SandboxControls)
    if row.provider != controls.provider or row.provider_ref is None:
        raise principal.missing("Payment")
    controls.set_payment_status(tx, row.provider_ref, status)
    _record(tx, row, visit.actor, "sandbox.payment", status=status)


@action("/sandbox/clock", role="admin", offered=_is_offered)
async def move_clock(visit: Visit) -> Response:
    wanted = visit.form.read(Step)
    if wanted is not None:
        with visit.form.refusals():
            await visit.write(_move_clock, visit, wanted.step)
            return visit.redirect(PATH, _("The bank's clock has been set."))
    return await _again(visit)


def _move_clock(tx: Tx, visit: Visit, step: str) -> None:
    controls = visit.context.part(SandboxControls)
    tx.lock("sandbox_bank")
    if connections.is_used_by_others(tx, controls.provider, visit.principal.scope):
        raise Conflict("Other organisations use the sandbox bank too: its clock is moved by the operator.")
    ahead = 0 if step == "reset" else controls.clock(tx).ahead + STEPS[step][1]
    if ahead > MAX_AHEAD:
        raise Conflict("The bank's clock can be at most 400 days ahead. Set it back first.")
    controls.move_clock(tx, ahead)
    audit.record(tx, visit.principal.organization_id, visit.actor, "sandbox.clock", step)


# --- Order files, handed in as in a bank's online banking


ORDERS = f"{PATH}/orders"
MAX_FILE_BYTES = 20_000_000


@page("/sandbox/orders", role="admin", offered=_is_offered, poll=5, help="sandbox")
async def sandbox_orders(visit: Visit) -> Response:
    desk, names = await visit.read(_desk, visit)
    return visit.show("sandbox_orders.html", desk=desk, names=names)


def _desk(tx: Tx, visit: Visit) -> tuple[OrderDesk, dict[str, str]]:
    controls = visit.context.part(SandboxControls)
    names = {row.iban: row.name for row in accounts.of_organization(tx, visit.organization_id) if row.iban}
    return controls.order_desk(tx, visit.organization_id), names


@action("/sandbox/orders", role="admin", offered=_is_offered, takes_file=True)
async def hand_in_orders(visit: Visit) -> Response:
    upload = await visit.receive_file()
    with visit.form.refusals():
        if upload.size > MAX_FILE_BYTES:
            raise BadRequest("The file is too large.", field="file")
        upload.file.seek(0)
        taken = await visit.write(_hand_in, visit, upload.file.read())
        return visit.redirect(ORDERS, _outcome(taken), "good" if taken.accepted else "bad")
    response: Response = await sandbox_orders.handler(visit)
    return response


def _outcome(taken: HandedIn) -> str:
    accepted = ngettext("The bank has accepted one order.", "The bank has accepted %(num)s orders.", taken.accepted)
    if not taken.refused:
        return accepted
    refused = ngettext(
        "The bank has refused one order: %(codes)s.", "The bank has refused %(num)s orders: %(codes)s.", taken.refused,
        codes=taken.codes,
    )  # fmt: skip
    return f"{accepted} {refused}" if taken.accepted else refused


def _hand_in(tx: Tx, visit: Visit, content: bytes) -> HandedIn:
    controls, organization_id = visit.context.part(SandboxControls), visit.organization_id
    taken = controls.hand_in(tx, organization_id, _order_accounts(tx, controls, organization_id), content)
    audit.record(tx, organization_id, visit.actor, "sandbox.orders", taken.message_id)
    return taken


def _order_accounts(tx: Tx, controls: SandboxControls, organization_id: str) -> dict[str, OrderAccount]:
    """The accounts that are kept by files, and those at the sandbox bank. Accounts at other banks are not its business."""
    rows = connections.listing(tx, (organization_id,))
    by_files = {row.id for row in rows if row.provider == FILES}
    found = {
        row.iban: OrderAccount(None, row.balance_minor)
        for row in accounts.of_organization(tx, organization_id)
        if row.iban and row.connection_id in by_files
    }
    for row in rows:
        held = controls.look(tx, row.provider_ref) if row.provider == controls.provider else None
        for account in held.accounts if held else ():
            if account.iban:
                found[account.iban] = OrderAccount(account.ref, account.balance_minor)
    return found


@page("/sandbox/orders/reports/{ref}", role="admin", offered=_is_offered, help="sandbox")
async def order_report(visit: Visit, ref: str) -> Response:
    report = await visit.read(visit.context.part(SandboxControls).order_report, visit.organization_id, ref)
    return _file(visit, report, f"pain.002 {ref}.xml")


@page("/sandbox/orders/statements/{iban}/{number}", role="admin", offered=_is_offered, help="sandbox")
async def order_statement(visit: Visit, iban: str, number: str) -> Response:
    read = visit.context.part(SandboxControls).order_statement
    statement = await visit.read(read, visit.organization_id, iban, int(numeric(number)))
    return _file(visit, statement, f"camt.053 {iban} {number}.xml")


def _file(visit: Visit, content: bytes | None, name: str) -> Response:
    if content is None:
        raise NotFound("There is no such page.")
    return visit.download(content, "application/xml", name)


# Removing everything of the sandbox bank: what was matched is undone, in the books too, then its accounts and payments
# go.
#
# The page is there wherever something of that bank is, also after it was switched off.


BACK = f"{ROOT}/connections"
REASON = "sandbox"
FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"
# Fiscal years whose bookings are taken back, each with as many batches as it takes.
MAX_BATCHES = 200


class Found(NamedTuple):
    connections: list[ConnectionRow]
    accounts: list[AccountRow]


@page("/sandbox/remove", role="admin", help="sandbox")
async def ask_to_remove(visit: Visit) -> Response:
    found = await visit.read(_found, visit.organization_id)
    if not found.connections:
        return visit.redirect(BACK, _("There is nothing of the sandbox bank here."))
    removes = [
        _("%(bank)s with %(count)s", bank=bank_words.bank_name(row), count=ngettext(
            "one account", "%(num)s accounts", sum(one.connection_id == row.id for one in found.accounts)))
        for row in found.connections
    ]  # fmt: skip
    removes += [
        _("Their transactions, and all payments at the sandbox bank."),
        _(
            "Matches with documents are undone. What was booked from them is reversed in the books, and stays visible there."
        ),
    ]
    return visit.ask_first(
        title=_("Remove all sandbox data?"),
        text=_("No real account is touched. This cannot be undone. This will be removed:"),
        removes=removes,
        button=_("Remove all sandbox data"),
        back=BACK,
    )


def _found(tx: Tx, organization_id: str) -> Found:
    rows = [row for row in connections.listing(tx, (organization_id,)) if row.provider == SANDBOX]
    ids = {row.id for row in rows}
    return Found(rows, [row for row in accounts.of_organization(tx, organization_id) if row.connection_id in ids])


@action("/sandbox/remove", role="admin", confirm=True)
async def remove(visit: Visit) -> Response:
    """Each step leaves everything in order: whoever is interrupted begins again."""
    with visit.form.refusals():
        for account in (await visit.read(_found, visit.organization_id)).accounts:
            await _take_back(visit, account)
        await visit.write(_remove, visit.organization_id, visit.actor)
        await visit.write(visit.context.part(SandboxControls).forget_orders, visit.organization_id)
        await end_accesses(visit.context)
        return visit.redirect(BACK, _("Everything of the sandbox bank has been removed."))
    response: Response = await ask_to_remove.handler(visit)
    return response


async def _take_back(visit: Visit, account: AccountRow) -> None:
    """Undoes the account's matches, and has the books reverse what they have of them."""
    while found := await visit.read(_live, account):
        for row in found:
            await visit.ask(matches.undo_match, id=row.id, body=NewMatchUndo(reason=REASON))
    for _batch in range(MAX_BATCHES):
        day = await visit.read(store.reversal_wanted_on, account.organization_id, account.id)
        if day is None:
            return
        body = NewBatch(account_id=str(account.id), to_date=date.fromisoformat(day))
        await visit.ask(batches.create_batch, body=body)


def _live(tx: Tx, account: AccountRow) -> list[MatchRow]:
    return store.matches_between(tx, account.organization_id, account.id, FIRST_DAY, LAST_DAY)


def _remove(tx: Tx, organization_id: str, actor: Actor) -> None:
    found = _found(tx, organization_id)
    for account in found.accounts:
        store.forget_account(tx, organization_id, account.id)
    for row in found.connections:
        connections.remove(tx, organization_id, row.id)
    paid = payments.remove_of_provider(tx, organization_id, SANDBOX)
    audit.record(
        tx, organization_id, actor, "sandbox.remove", organization_id,
        connections=len(found.connections), accounts=len(found.accounts), payments=paid,
    )  # fmt: skip
