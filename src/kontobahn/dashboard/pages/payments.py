"""Payments: made, authorised, followed step by step, cancelled."""

from __future__ import annotations

import asyncio
import datetime
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.access.principal import Principal
from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow, AccountsQuery
from kontobahn.banking.connections import store as connections
from kontobahn.banking.fields import NumericId
from kontobahn.banking.payments import routes, store
from kontobahn.banking.payments.cancel import CANCELLABLE
from kontobahn.banking.payments.links import payer_address
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.transitions import FINAL
from kontobahn.banking.payments.wire import NewPayment, PaymentApiQuery, PaymentEvent
from kontobahn.banking.provider import FILES, Banking, Template
from kontobahn.dashboard import bank_words, figures, ibans, once, security
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.listing import PAGE_SIZE, Filters
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.searching import words_of
from kontobahn.dashboard.views import payments as views
from kontobahn.dashboard.views.banking import numeric
from kontobahn.dashboard.views.payments import Found, Key, Wanted
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx

PATH = f"{ROOT}/payments"
STATES = {
    "waiting": N_("waiting for you"),
    "underway": N_("on the way"),
    "settled": N_("paid"),
    "failed": N_("failed or rejected"),
}
TEMPLATES: dict[Template, str] = {"SEPA": N_("SEPA transfer"), "SEPA_INSTANT": N_("Instant transfer, within seconds")}


class PaymentFilters(Struct):
    q: str = ""
    account: str = ""
    state: Literal["", "waiting", "underway", "settled", "failed"] = ""
    from_date: date | None = None
    to_date: date | None = None


class Order(Struct):
    account_id: NumericId
    creditor_name: Annotated[str, Meta(max_length=200)]
    creditor_iban: Annotated[str, Meta(max_length=60)]
    amount: Decimal
    description: Annotated[str, Meta(max_length=1000)]
    template_identifier: Template = "SEPA"
    date: datetime.date | None = None
    reference: Annotated[str, Meta(max_length=200)] | None = None


class Listed(NamedTuple):
    accounts: list[AccountRow]
    found: Found
    has_files: bool


class Facts(NamedTuple):
    row: PaymentRow
    account: AccountRow | None
    history: list[PaymentEvent]


@page("/payments", poll=5)
async def payments(visit: Visit) -> Response:
    filters = visit.filters(PaymentFilters)
    listed = await visit.read(_listed, visit.organization_id, filters)
    names = {str(account.id): account.name for account in listed.accounts}
    stopped = listed.found.stopped_at
    rows = filters.first_page(listed.found.rows, _place, _place(stopped) if stopped else None)
    return visit.show(
        "payments.html",
        filters=filters,
        list=rows,
        stopped=stopped,
        looked_through=views.LOOKED_THROUGH,
        names=names,
        states={state: _(text) for state, text in STATES.items()},
        chips=filters.chips(
            bank_words.filter_labels(), lambda name, text: bank_words.filter_words(name, text, names, STATES)
        ),
        spans=filters.days(visit.today),
        bank_words=bank_words,
        has_files=listed.has_files,
    )


def _listed(tx: Tx, organization_id: str, filters: Filters[PaymentFilters]) -> Listed:
    wanted = filters.wanted
    at, _mark, number = filters.after.partition("_")
    after = Key(int(at), int(number)) if all(part.isdecimal() and len(part) < 19 for part in (at, number)) else None
    search = Wanted(wanted.from_date, wanted.to_date, wanted.state, wanted.account, words_of(wanted.q), after)
    return Listed(
        accounts.of_organization(tx, organization_id),
        views.payments(tx, organization_id, search, PAGE_SIZE + 1),
        any(row.provider == FILES for row in connections.listing(tx, (organization_id,))),
    )


def _place(row: PaymentRow | Key) -> str:
    """Where a row stands in the list, for the address of the next page."""
    return f"{row.created_at}_{row.id}"


# --- Making one


@page("/payments/new")
async def payment_form(visit: Visit) -> Response:
    sources = await visit.read(
        accounts.listing, visit.principal, AccountsQuery(payments_supported=True, organization_id=visit.organization_id)
    )
    if not visit.form.values:
        # A link may fill the form in: from an account, or to pay once more.
        visit.form = Form({name: visit.query[name] for name in Order.__struct_fields__ if name in visit.query})
    price = visit.context.settings.prices.get(routes.create_payment.name, routes.create_payment.cost)
    return visit.show(
        "payment_form.html",
        sources=[
            (account.id, f"{account.name} · {figures.iban(account.iban)} · {_balance(account)}") for account in sources
        ],
        templates=[(value, _(text)) for value, text in TEMPLATES.items()],
        once_field=once.FIELD,
        once_key=visit.form.text(once.FIELD) or once.new_key(),
        price=price,
        today=visit.today,
    )


def _balance(account: AccountRow) -> str:
    return "–" if account.balance is None else figures.money(account.balance, account.currency_code)


@page("/payments/check-iban")
async def check_iban(visit: Visit) -> Response:
    """What is said beside the field while somebody types."""
    said = await asyncio.to_thread(ibans.describe, visit.query.get("value", [""])[-1][: ibans.MAX_LENGTH])
    return Response(said, 200, security.HEADERS, media_type="text/plain; charset=utf-8")


@action("/payments/new", confirm=True)
async def make_payment(visit: Visit) -> Response:
    order = visit.form.read(Order)
    if order is not None:
        with visit.form.refusals():
            body = NewPayment(
                account_id=order.account_id,
                amount=order.amount,
                creditor_name=order.creditor_name,
                creditor_iban=order.creditor_iban,
                description=order.description,
                template_identifier=order.template_identifier,
                reference=order.reference,
                date=order.date,
                return_to=f"{visit.context.settings.base_url}{PATH}/return",
            )
            answer = await once.ask_once(visit, routes.create_payment, query=PaymentApiQuery(), body=body)
            return visit.redirect(
                f"{PATH}/{answer['data']['payment_id']}", _("The payment has been created. Authorise it now.")
            )
    response: Response = await payment_form.handler(visit)
    return response


# --- One payment


@page("/payments/return")
async def returned(visit: Visit) -> Response:
    """Where the bank's page leads back to."""
    payment_id = visit.query.get("payment_id", [""])[-1]
    error = visit.query.get("error_class", [""])[-1][:100]
    where = f"{PATH}/{payment_id}" if payment_id.isdecimal() and len(payment_id) < 19 else PATH
    if error:
        return visit.redirect(where, _("Not paid: %(why)s", why=bank_words.error_words(error)), "bad")
    return visit.redirect(where)


@page("/payments/{id}", poll=3)
async def payment(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    row = facts.row
    address = payer_address(visit.context, row)
    provider = visit.context.part(Banking).providers.get(row.provider)
    return visit.show(
        "payment.html",
        row=row,
        account=facts.account,
        state=bank_words.payment_state(row.status),
        steps=_steps(facts),
        reason=bank_words.error_words(row.error_class, refusal(row.error_message or "")),
        how=_(TEMPLATES[row.template_identifier]),
        bank=await asyncio.to_thread(ibans.bank_of, row.creditor_iban),
        url=address.url,
        url_until=address.expires_at,
        is_file=provider is not None and provider.orders_are_files,
        is_final=row.status in FINAL,
        may_cancel=row.status in CANCELLABLE,
        again={
            "account_id": row.account_id, "creditor_name": row.creditor_name, "creditor_iban": row.creditor_iban,
            "amount": figures.plain_amount(row.amount_minor), "description": row.description,
        },
    )  # fmt: skip


def _facts(tx: Tx, principal: Principal, payment_id: str) -> Facts:
    row = store.find(tx, principal, numeric(payment_id))
    account = accounts.ACCOUNTS.one(tx, "organization_id = ? AND id = ?", row.organization_id, row.account_id)
    return Facts(row, account, store.history(tx, principal, payment_id))


def _steps(facts: Facts) -> list[tuple[str, str, Any, str]]:
    """What has happened so far, and what is still to come."""
    row = facts.row
    steps: list[tuple[str, str, Any, str]] = [(_("Created"), "", row.created_at, "good")]
    for event in facts.history:
        if event.outcome not in ("moved", "noted", "contradicts"):
            continue
        shown = bank_words.payment_state(event.status) if event.status else None
        reason = bank_words.error_words(event.error_class, refusal(event.error_message or ""))
        code = _("Code of the bank: %(code)s", code=event.raw_provider_status) if event.raw_provider_status else ""
        text = " · ".join(filter(None, (reason, code)))
        kind = "bad" if shown is None or shown.kind == "bad" else "good"
        steps.append((shown.badge if shown else _("not recognised"), text, event.at, kind))
    if row.status not in FINAL:
        state = bank_words.payment_state(row.status)
        steps.append((state.sentence, "", None, "now"))
        steps.append((bank_words.payment_state("settled").badge, "", None, "later"))
    return steps


@action("/payments/{id}/ask")
async def ask_bank(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(routes.get_payment, id=numeric(id))
        return visit.redirect(f"{PATH}/{id}", _("The bank has been asked. This is the current status."))
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@action("/payments/{id}/order")
async def take_order(visit: Visit, id: str) -> Response:
    """The order as a file. It is recorded that it was taken, so this is not a link."""
    with visit.form.refusals():
        file = await visit.ask(routes.get_payment_order, id=numeric(id))
        return visit.download(file.content, file.media_type, file.file_name)
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@page("/payments/{id}/cancel")
async def ask_to_cancel(visit: Visit, id: str) -> Response:
    row = await visit.read(store.find, visit.principal, numeric(id))
    amount = figures.money(row.amount_minor, row.currency_code)
    return visit.ask_first(
        title=_("Cancel this payment?"),
        text=_("%(amount)s to %(name)s will not be paid. The credits are returned.", amount=amount, name=row.creditor_name),
        removes=[_("If you have already uploaded its file at the bank, cancel it at the bank as well.")]
        if row.order_taken_at else [],
        button=_("Cancel the payment"),
        back=f"{PATH}/{row.id}",
    )  # fmt: skip


@action("/payments/{id}/cancel", confirm=True)
async def cancel(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(routes.cancel_payment, id=numeric(id))
        return visit.redirect(f"{PATH}/{id}", _("The payment has been cancelled."))
    response: Response = await ask_to_cancel.handler(visit, id)
    return response
