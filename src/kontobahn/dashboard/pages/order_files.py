"""Order files: several payments from one account in one pain.001 file, to upload at the bank."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple, get_args

from msgspec import Struct
from starlette.responses import Response

from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.banking.bank_line import BankLine
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import order_files, submissions
from kontobahn.banking.payments.order_files import NewOrderFile, OrderFileRow, OrderFileStatus
from kontobahn.banking.payments.store import PaymentRow
from kontobahn.banking.payments.wire import OrderWarning
from kontobahn.banking.provider import Banking, OrderLine, Template
from kontobahn.banking.wire import NumericId
from kontobahn.dashboard import bank_words, figures, form_keys
from kontobahn.dashboard.declare import ROOT, action, numeric, page
from kontobahn.dashboard.figures import money
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.refusals import refusal
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict

PATH = f"{ROOT}/payments/order-files"
STATES = {
    "open": (N_("to be uploaded"), "warn"),
    "sent": (N_("sent to the bank"), "warn"),
    "void": (N_("must no longer be uploaded"), "bad"),
    "discarded": (N_("discarded"), "plain"),
}


# By the state of a file that was sent to the bank by us.
SUBMISSIONS = {
    "sending": (N_("It is being sent to the bank."), "warn"),
    "unknown": (
        N_("Whether the bank has it is not known yet: its protocol decides at the next fetch. Nothing is sent again until then."),
        "warn",
    ),
    "waiting": (N_("The bank has the file, where it waits for signatures."), "warn"),
    "accepted": (N_("The bank has accepted the file."), "good"),
    "refused": (N_("The bank has refused the file."), "bad"),
    "missing": (N_("The bank does not have the file. It can be sent again, or discarded."), "bad"),
}  # fmt: skip


class NoFilters(Struct):
    """The list has pages, and nothing to choose."""


class FromAccount(Struct):
    account_id: NumericId


class Content(NamedTuple):
    file: OrderFileRow
    account: AccountRow | None
    payments: list[PaymentRow]
    warnings: list[OrderWarning]


class Line(NamedTuple):
    file: OrderFileRow
    status: str


class Listed(NamedTuple):
    files: list[Line]
    sources: list[AccountRow]


@page("/payments/order-files", help="order-files")
async def order_file_list(visit: Visit) -> Response:
    filters = visit.filters(NoFilters)
    if not visit.form.values and "account_id" in visit.query:
        # The page of a payment proposes its account.
        visit.form = Form({"account_id": visit.query["account_id"]})
    before = int(filters.after) if filters.after.isdigit() and len(filters.after) < 19 else None
    banking = visit.context.part(Banking)
    by_files = {name for name, provider in banking.providers.items() if provider.orders_are_files}
    listed = await visit.read(_listed, visit.organization_id, by_files, before)
    return visit.show(
        "order_files.html",
        list=filters.first_page(listed.files, lambda line: line.file.id),
        names={account.id: account.name for account in listed.sources},
        sources=[(account.id, account.name) for account in listed.sources],
        states=STATES,
        once_field=form_keys.FIELD,
        once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
    )


def _listed(tx: Tx, organization_id: str, providers: Collection[str], before: int | None) -> Listed:
    files = order_files.latest(tx, organization_id, before, PAGE_SIZE + 1)
    lines = [Line(file, _state(file, order_files.status_of(file, order_files.payments_of(tx, file)))) for file in files]
    return Listed(lines, _sources(tx, organization_id, providers))


def _state(file: OrderFileRow, status: OrderFileStatus) -> str:
    """Returns the state that pages show: an open file may be at the bank already."""
    return "sent" if status == "open" and file.submitted_at is not None else status


def _sources(tx: Tx, organization_id: str, providers: Collection[str]) -> list[AccountRow]:
    by_files = {row.id for row in connections.listing(tx, (organization_id,)) if row.provider in providers}
    return [row for row in accounts.of_organization(tx, organization_id) if row.connection_id in by_files]


@action("/payments/order-files", role="member", confirm=True)
async def make_order_file(visit: Visit) -> Response:
    wanted = visit.form.read(FromAccount)
    if wanted is not None:
        key = visit.form.text(form_keys.FIELD)
        with visit.form.refusals():
            made = await _make_by_kind(visit, wanted.account_id, key)
            if len(made) > 1:
                text = _("Transfers and instant transfers are in a file each: banks take one kind in a file.")
                return visit.redirect(PATH, text)
            text = ngettext("The file holds one order.", "The file holds %(num)s orders.", len(made[0]["payment_ids"]))
            return visit.redirect(f"{PATH}/{made[0]['id']}", text)
        visit.form.values[form_keys.FIELD] = [key]
    response: Response = await order_file_list.handler(visit)
    return response


async def _make_by_kind(visit: Visit, account_id: str, key: str) -> list[dict[str, Any]]:
    """Puts the open orders of an account into a file of each kind. Raises Conflict if there are none."""
    made: list[dict[str, Any]] = []
    refused: Conflict | None = None
    for template in get_args(Template):
        # Sent again, none is made twice.
        visit.form.values[form_keys.FIELD] = [f"{key}-{template}" if key else ""]
        body = NewOrderFile(account_id=account_id, template_identifier=template)
        try:
            made.append((await form_keys.ask_once(visit, order_files.create_order_file, body=body))["data"])
        except Conflict as error:
            refused = error
    if refused is not None and not made:
        raise refused
    return made


@page("/payments/order-files/{id}", help="order-files")
async def order_file(visit: Visit, id: str) -> Response:
    content = await visit.read(_content, visit.context, visit.principal, numeric(id))
    status = order_files.status_of(content.file, content.payments)
    provider = visit.context.part(Banking).provider(content.file.provider)
    can_send = isinstance(provider, OrderLine)
    sent = await submissions.find(visit.context, content.file)
    line_of = content.account.connection_id if content.account and isinstance(provider, BankLine) else ""
    return visit.show(
        "order_file.html",
        file=content.file,
        content=content,
        is_open=status == "open" and content.file.submitted_at is None,
        can_send=can_send,
        sign_at=f"{ROOT}/connections/{line_of}/line/orders" if line_of and sent and sent.state == "waiting" else "",
        sent=None if sent is None else (sent, *SUBMISSIONS[sent.state]),
        warnings=[refusal(warning.message) for warning in content.warnings],
        state=STATES[_state(content.file, status)],
        bank_words=bank_words,
    )


def _content(tx: Tx, context: Context, principal: Principal, file_id: str) -> Content:
    file = order_files.find(tx, principal, file_id)
    account = accounts.look_up(tx, file.organization_id, file.account_id)
    rows = order_files.payments_of(tx, file)
    is_open = order_files.status_of(file, rows) == "open"
    return Content(file, account, rows, order_files.warnings_of(tx, context, file, rows) if is_open else [])


@page("/payments/order-files/{id}/submit", role="member", help="order-files")
async def ask_to_submit(visit: Visit, id: str) -> Response:
    content = await visit.read(_content, visit.context, visit.principal, numeric(id))
    return visit.ask_first(
        title=_(
            "Send the order file of %(when)s to the bank?",
            when=figures.in_one_line(figures.moment(content.file.created_at)),
        ),
        text=_("The file goes to the bank by EBICS, unsigned, and waits there. Nothing is paid before somebody has signed it."),
        removes=[
            ngettext("One order, %(sum)s.", "%(num)s orders, %(sum)s.", len(content.payments), sum=money(content.file.amount_minor))
        ],
        button=_("Send to the bank"),
        ends=False,
        back=f"{PATH}/{content.file.id}",
    )  # fmt: skip


@action("/payments/order-files/{id}/submit", role="member", confirm=True)
async def submit(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        file = await visit.read(order_files.find, visit.principal, numeric(id))
        sent = await submissions.submit(visit.context, file, visit.actor)
        return visit.redirect(f"{PATH}/{file.id}", _(SUBMISSIONS[sent.state][0]))
    response: Response = await ask_to_submit.handler(visit, id)
    return response


@page("/payments/order-files/{id}/at-bank", role="member", help="order-files")
async def ask_to_decide(visit: Visit, id: str) -> Response:
    file = await visit.read(order_files.find, visit.principal, numeric(id))
    sent = await submissions.find(visit.context, file)
    if sent is None or not (sent.may_be_decided or visit.form.errors):
        return visit.redirect(f"{PATH}/{file.id}")
    return visit.show("order_file_at_bank.html", file=file, sent=sent)


@action("/payments/order-files/{id}/at-bank", role="member", confirm=True)
async def decide(visit: Visit, id: str) -> Response:
    file = await visit.read(order_files.find, visit.principal, numeric(id))
    word = visit.form.text("at_bank")
    with visit.form.refusals():
        if word not in ("yes", "no"):
            raise BadRequest("The form cannot be read.")
        await submissions.decide(visit.context, file, visit.actor, has_it=word == "yes")
        return visit.redirect(f"{PATH}/{file.id}", _("Noted."))
    response: Response = await ask_to_decide.handler(visit, id)
    return response


@page("/payments/order-files/{id}/file", role="member")
async def order_file_content(visit: Visit, id: str) -> Response:
    file = await visit.ask(order_files.get_order_file_content, id=numeric(id))
    return visit.download(file.content, file.media_type, file.file_name)


@page("/payments/order-files/{id}/discard", role="member", help="order-files")
async def ask_to_discard(visit: Visit, id: str) -> Response:
    content = await visit.read(_content, visit.context, visit.principal, numeric(id))
    return visit.ask_first(
        title=_(
            "Discard the order file of %(when)s?", when=figures.in_one_line(figures.moment(content.file.created_at))
        ),
        text=_("Discard a file only if it was not uploaded at the bank: otherwise its orders could be paid twice."),
        removes=[
            ngettext(
                "Its order can go into another file.",
                "Its %(num)s orders can go into another file.",
                len(content.payments),
            )
        ],
        button=_("Discard the file"),
        back=f"{PATH}/{content.file.id}",
    )


@action("/payments/order-files/{id}/discard", role="member", confirm=True)
async def discard(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.ask(order_files.discard_order_file, id=numeric(id))
        return visit.redirect(PATH, _("The file has been discarded."))
    response: Response = await ask_to_discard.handler(visit, id)
    return response
