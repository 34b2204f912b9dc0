"""Payments: made, authorised, followed step by step, cancelled."""

from __future__ import annotations

import asyncio
import datetime
import re
from datetime import date
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlencode

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn import log
from kontobahn.access import users
from kontobahn.access.principal import Principal
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow, AccountsQuery
from kontobahn.banking.payments import bank, order_files, releases, routes, store
from kontobahn.banking.payments.bank import CANCELLABLE
from kontobahn.banking.payments.links import payer_address
from kontobahn.banking.payments.rules import FINAL
from kontobahn.banking.payments.store import FoundPayments, Key, PaymentRow, PaymentSearch
from kontobahn.banking.payments.wire import NewPayment, PaymentApiQuery, PaymentEvent
from kontobahn.banking.provider import FILES, SANDBOX, Banking, Template
from kontobahn.banking.wire import LOOKED_THROUGH, NumericId
from kontobahn.dashboard import bank_words, books, figures, form_keys, security
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE, Filters, search_words
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, KontobahnError
from kontobahn.formats.pain import sepa
from kontobahn.sentences import said, same

PATH = f"{ROOT}/payments"
STATES = {
    "waiting": N_("waiting for you"),
    "underway": N_("on the way"),
    "settled": N_("paid"),
    "failed": N_("failed or rejected"),
}
TEMPLATES: dict[Template, str] = {"SEPA": N_("SEPA transfer"), "SEPA_INSTANT": N_("Instant transfer, within seconds")}
MAX_IBAN = 60
MAX_PAYEES = 10
# Fields of the form that stay while a payee is looked for.
_KEPT = ("account_id", "amount", "description", "date")
_IBAN_LENGTHS = {"DE": 22, "AT": 20, "CH": 21, "FR": 27, "IT": 27, "NL": 18, "ES": 24, "BE": 16, "LU": 20, "PL": 28}


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
    found: FoundPayments
    has_files: bool


class Facts(NamedTuple):
    row: PaymentRow
    account: AccountRow | None
    history: list[PaymentEvent]
    # Open orders of its kind from the same account, with itself, that may go into a file.
    bundle: int
    # The name of the payee that a bank has reported and somebody has accepted.
    known_name: str | None
    # The person who made a payment that waits for a release; empty if a key of nobody did.
    maker: str


class PayeeWords(NamedTuple):
    """A check of the payee, with the parts of both names and whether they differ."""

    state: bank_words.Shown
    submitted: list[tuple[str, bool]]
    returned: list[tuple[str, bool]]


@page("/payments", poll=5, help="payments")
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
        looked_through=LOOKED_THROUGH,
        names=names,
        states={state: _(text) for state, text in STATES.items()},
        chips=bank_words.chips(filters, names, STATES),
        spans=filters.days(visit.today),
        bank_words=bank_words,
        has_files=listed.has_files,
    )


def _listed(tx: Tx, organization_id: str, filters: Filters[PaymentFilters]) -> Listed:
    wanted = filters.wanted
    at, _mark, number = filters.after.partition("_")
    after = Key(int(at), int(number)) if all(part.isdecimal() and len(part) < 19 for part in (at, number)) else None
    search = PaymentSearch(
        wanted.from_date, wanted.to_date, wanted.state, wanted.account, search_words(wanted.q), after
    )
    return Listed(
        accounts.of_organization(tx, organization_id),
        store.search(tx, organization_id, search, PAGE_SIZE + 1),
        any(row.provider == FILES for row in connections.listing(tx, (organization_id,))),
    )


def _place(row: PaymentRow | Key) -> str:
    """Returns the place of a row in the list, for the address of the next page."""
    return f"{row.created_at}_{row.id}"


# --- Making one


@page("/payments/new", role="member", help="payments")
async def payment_form(visit: Visit) -> Response:
    sources = await visit.read(
        accounts.listing, visit.principal, AccountsQuery(payments_supported=True, organization_id=visit.organization_id)
    )
    if not visit.form.values:
        # A link may fill the form in: from an account, or to pay once more.
        visit.form = Form({name: visit.query[name] for name in Order.__struct_fields__ if name in visit.query})
    payees = await _payees(visit)
    price = visit.context.settings.prices.get(routes.create_payment.name, routes.create_payment.cost)
    return visit.show(
        "payment_form.html",
        sources=[
            (
                account.id,
                f"{bank_words.account_name(account, is_sandbox=provider == SANDBOX)} · {figures.iban(account.iban)} · {_balance(account)}",
            )
            for account, provider in sources
        ],
        templates=[(value, _(text)) for value, text in TEMPLATES.items()],
        payees=payees,
        payee=(visit.query.get("payee") or [""])[-1],
        kept={name: visit.form.text(name) for name in _KEPT if visit.form.text(name)},
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
        price=price,
        today=visit.today,
    )


class Payee(NamedTuple):
    name: str
    iban: str
    # The address of the form with this payee filled in.
    url: str


async def _payees(visit: Visit) -> list[Payee]:
    """Returns the partners whose name, number or IBAN has what was searched for; without a search, nobody."""
    search = (visit.query.get("payee") or [""])[-1].strip()[:MAX_IBAN]
    if not search:
        return []
    try:
        chosen = await books.choose(visit)
        async with asyncio.timeout(books.BOOKS_SECONDS):
            known = await books.ask(visit, chosen, "personenkonten", lambda opened: opened.geschaeftspartner())
    except (KontobahnError, TimeoutError) as error:
        log.info("payees_without_books", detail=str(error) or "too slow")
        return []
    words = search.casefold().split()
    kept = {name: visit.form.text(name) for name in _KEPT if visit.form.text(name)}
    found = []
    for partner in known:
        for iban in partner.ibans:
            text = f"{partner.name} {partner.nummer} {iban} {figures.iban(iban)}".casefold()
            if all(word in text for word in words):
                url = f"{PATH}/new?{urlencode({**kept, 'creditor_name': partner.name, 'creditor_iban': iban})}"
                found.append(Payee(partner.name, iban, url))
    return found[:MAX_PAYEES]


def _balance(account: AccountRow) -> str:
    return "–" if account.balance is None else figures.money(account.balance, account.currency_code)


@page("/payments/check-iban", role="member")
async def check_iban(visit: Visit) -> Response:
    """Answers with what is said beside the field while somebody types."""
    hint = await asyncio.to_thread(describe_iban, visit.query.get("value", [""])[-1][:MAX_IBAN])
    return Response(hint, 200, security.HEADERS, media_type="text/plain; charset=utf-8")


@action("/payments/new", role="member", confirm=True)
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
            answer = await form_keys.ask_once(visit, routes.create_payment, query=PaymentApiQuery(), body=body)
            made = answer["data"]
            return visit.redirect(f"{PATH}/{made['payment_id']}", created_words(made))
    response: Response = await payment_form.handler(visit)
    return response


def created_words(made: dict[str, Any]) -> str:
    """Says what is to be done with a payment that was just made."""
    if made["release"] and made["release"]["state"] == "waiting":
        return _("The payment has been created. Another person must release it now.")
    return _("The payment has been created. Authorise it now.")


# --- One payment


@page("/payments/return", role="member")
async def returned(visit: Visit) -> Response:
    """The page that the bank's page leads back to."""
    payment_id = visit.query.get("payment_id", [""])[-1]
    error = visit.query.get("error_class", [""])[-1][:100]
    where = f"{PATH}/{payment_id}" if payment_id.isdecimal() and len(payment_id) < 19 else PATH
    if error:
        return visit.redirect(where, _("Not paid: %(why)s", why=bank_words.error_words(error)), "bad")
    return visit.redirect(where)


@page("/payments/{id}", poll=3, help="payments")
async def payment(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit.principal, id)
    row = facts.row
    address = payer_address(visit.context, row)
    provider = visit.context.part(Banking).providers.get(row.provider)
    is_file = provider is not None and provider.orders_are_files
    warnings = [refusal(warning.message) for warning in await bank.warnings_of(visit.context, row)]
    may_release = row.waits_for_release and releases.may_decide(row, visit.principal)
    return visit.show(
        "payment.html",
        row=row,
        account=facts.account,
        state=bank_words.shown_payment(row, may_release=may_release),
        may_release=may_release,
        is_maker=row.waits_for_release and row.maker_user_id == visit.principal.user_id,
        maker=facts.maker,
        steps=_steps(facts),
        reason=_reason(row.error_class, row.error_message, row.raw_provider_status),
        how=_(TEMPLATES[row.template_identifier]),
        bank=await asyncio.to_thread(bank_of, row.creditor_iban),
        url=address.url,
        url_until=address.expires_at,
        is_file=is_file,
        warnings=warnings,
        bundle=facts.bundle if is_file and visit.may("member") else 0,
        is_final=row.status in FINAL,
        may_cancel=row.status in CANCELLABLE,
        payee=_payee_words(row),
        may_take_name=row.payee_result == "close_match" and row.payee_returned_name not in (None, facts.known_name)
        and visit.may("member"),
        again={
            "account_id": row.account_id, "creditor_name": facts.known_name or row.creditor_name, "creditor_iban": row.creditor_iban,
            "amount": figures.plain_amount(row.amount_minor), "description": row.description,
        },
    )  # fmt: skip


def _payee_words(row: PaymentRow) -> PayeeWords | None:
    if row.payee_result is None:
        return None
    submitted, returned = row.payee_submitted_name or row.creditor_name, row.payee_returned_name
    return PayeeWords(
        bank_words.payee_result(row.payee_result),
        bank_words.differences(submitted, returned or submitted),
        bank_words.differences(returned, submitted) if returned else [],
    )


def _facts(tx: Tx, principal: Principal, payment_id: str) -> Facts:
    row = store.find(tx, principal, numeric(payment_id))
    account = accounts.look_up(tx, row.organization_id, row.account_id)
    free = order_files.free_of_account(tx, account, row.template_identifier) if account is not None else []
    bundle = len(free) if any(one.id == row.id for one in free) else 0
    known_name = store.payee_name(tx, row.organization_id, row.creditor_iban)
    maker = users.find(tx, row.maker_user_id) if row.maker_user_id else None
    return Facts(
        row, account, store.history(tx, principal, payment_id), bundle, known_name, maker.name if maker else ""
    )


def _reason(error_class: str | None, message: str | None, code: str | None) -> str:
    found = same(
        message or "",
        said("The bank reports {code}", code=code),
        said("The session at Enable Banking is {state}", state=code),
    )
    return bank_words.error_words(error_class, refusal(found))


def _steps(facts: Facts) -> list[tuple[str, str, Any, str]]:
    """Returns what has happened so far, and what is still to come."""
    row = facts.row
    steps: list[tuple[str, str, Any, str]] = [(_("Created"), "", row.created_at, "good")]
    if row.released_at is not None:
        steps.append((_("Released by a second person"), "", row.released_at, "good"))
    for event in facts.history:
        if event.outcome not in ("moved", "noted", "contradicts"):
            continue
        shown = bank_words.payment_state(event.status) if event.status else None
        reason = _reason(event.error_class, event.error_message, event.raw_provider_status)
        code = _("Code of the bank: %(code)s", code=event.raw_provider_status) if event.raw_provider_status else ""
        text = " · ".join(filter(None, (reason, code)))
        kind = "bad" if shown is None or shown.kind == "bad" else "good"
        steps.append((shown.badge if shown else _("not recognised"), text, event.at, kind))
    if row.status not in FINAL:
        steps.append((bank_words.shown_payment(row).sentence, "", None, "now"))
        steps.append((bank_words.payment_state("settled").badge, "", None, "later"))
    return steps


@action("/payments/{id}/ask")
async def ask_bank(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(routes.get_payment, id=numeric(id))
        return visit.redirect(f"{PATH}/{id}", _("The bank has been asked. This is the current status."))
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@action("/payments/{id}/order", role="member")
async def take_order(visit: Visit, id: str) -> Response:
    """The order as a file. It is recorded that it was taken, so this is not a link."""
    with visit.form.refusals():
        file = await visit.ask(routes.get_payment_order, id=numeric(id))
        return visit.download(file.content, file.media_type, file.file_name)
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@action("/payments/{id}/payee-name", role="member", confirm=True)
async def take_payee_name(visit: Visit, id: str) -> Response:
    """Takes the name that the bank returned into the payee's data."""

    def unit(tx: Tx) -> None:
        row = store.find(tx, visit.principal, numeric(id))
        store.take_payee_name(tx, row, visit.actor)

    with visit.form.refusals():
        await visit.write(unit)
        return visit.redirect(f"{PATH}/{id}", _("The name was taken over. Payments to this account will carry it."))
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


@action("/payments/{id}/release", role="member", factor=True)
async def release(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        row = await visit.write(releases.release, visit.principal, numeric(id), visit.actor)
        row = await bank.send_to_bank(visit.context, row)
        text = (
            _("The payment is released, but the bank did not take it.")
            if row.status in FINAL
            else _("The payment is released. Authorise it at the bank now.")
        )
        return visit.redirect(f"{PATH}/{id}", text, "bad" if row.status in FINAL else "good")
    return visit.redirect(f"{PATH}/{id}", visit.form.errors[""], "bad")


class Refusal(Struct):
    reason: Annotated[str, Meta(min_length=1, max_length=500)]


@page("/payments/{id}/refuse", role="member", help="payments")
async def ask_to_refuse(visit: Visit, id: str) -> Response:
    row = await visit.read(store.find, visit.principal, numeric(id))
    if not row.waits_for_release:
        return visit.redirect(f"{PATH}/{row.id}")
    return visit.show("payment_refusal.html", row=row)


@action("/payments/{id}/refuse", role="member", confirm=True)
async def refuse(visit: Visit, id: str) -> Response:
    wanted = visit.form.read(Refusal)
    if wanted is not None:
        with visit.form.refusals():
            await visit.write(releases.refuse, visit.principal, numeric(id), wanted.reason, visit.actor)
            return visit.redirect(f"{PATH}/{id}", _("The payment has been refused. The credits are returned."))
    response: Response = await ask_to_refuse.handler(visit, id)
    return response


@page("/payments/{id}/cancel", role="member", help="payments")
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


@action("/payments/{id}/cancel", role="member", confirm=True)
async def cancel(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(routes.cancel_payment, id=numeric(id))
        return visit.redirect(f"{PATH}/{id}", _("The payment has been cancelled."))
    response: Response = await ask_to_cancel.handler(visit, id)
    return response


# --- IBANs while somebody types: whether one is complete and right, and which bank it belongs to, where that is known


def describe_iban(typed: str) -> str:
    """One line for the hint beside the field."""
    text = re.sub(r"\s", "", typed).upper()
    length = _IBAN_LENGTHS.get(text[:2])
    if length is not None and len(text) < length:
        return (
            _("%(left)s more characters", left=length - len(text))
            if length - len(text) > 1
            else _("one more character")
        )
    try:
        iban = sepa.check_iban("iban", text)
    except BadRequest:
        return _("This is not a valid IBAN of the SEPA area. Please compare it with the invoice.")
    bank = bank_of(iban)
    return _("Valid: %(bank)s", bank=bank) if bank else _("This IBAN is valid.")


def bank_of(iban: str) -> str:
    """The bank's name; empty where it is not known."""
    # Loading the registry takes a moment, so not before it is needed.
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        found = IBAN(iban)
        bank = found.bank
        name = str(bank.name or "") if bank else ""
        bic = str(found.bic or "")
    except SchwiftyException:
        return ""
    return f"{name} ({bic})" if name and bic else name or bic
