"""Assistants: whether they may act for the organisation, and what they have prepared for a person to approve or refuse."""

from __future__ import annotations

from typing import NamedTuple

from starlette.responses import Response

from kontobahn.access import audit
from kontobahn.assistants import access, grants, prepared
from kontobahn.assistants.prepared import PreparedRow, State
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments.wire import PaymentApiQuery
from kontobahn.dashboard import books as book_pages
from kontobahn.dashboard import once
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.pages.assistant_grants import PRESET_NAMES
from kontobahn.dashboard.pages.payments import created_words
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound, Refusal
from kontobahn.ledger.routes import duo
from kontobahn.ledger.routes.duo import NewEntryQuery
from kontobahn.money import to_minor

PATH = f"{ROOT}/assistants"
MAX_LISTED = 50
MAX_ID_LENGTH = 64
STATES: dict[State, tuple[str, str]] = {
    "waiting": (N_("waits for you"), "warn"),
    "approved": (N_("approved"), "good"),
    "refused": (N_("refused"), "plain"),
    "withdrawn": (N_("withdrawn"), "plain"),
    "expired": (N_("expired"), "plain"),
}


class Line(NamedTuple):
    """Something that was prepared, in the list."""

    row: PreparedRow
    title: str
    amount_minor: int
    state: tuple[str, str]


class Listed(NamedTuple):
    is_enabled: bool
    connected: list[grants.Listed]
    rows: list[PreparedRow]


class Facts(NamedTuple):
    row: PreparedRow
    # The account that is paid from; None for a cash entry, and for one that is gone.
    account: AccountRow | None
    maker: str


class Made(NamedTuple):
    """The outcome of an approval: the payment, if it was one, where it is shown, and the words for it."""

    payment_id: int | None
    path: str
    text: str


@page("/assistants", help="assistants")
async def assistants(visit: Visit) -> Response:
    listed = await visit.read(_listed, visit.organization_id)
    settings = visit.context.settings
    return visit.show(
        "assistants.html",
        is_enabled=listed.is_enabled,
        address=f"{settings.base_url}/mcp" if settings.mcp else "",
        base_url=settings.base_url,
        may_switch=visit.may("admin"),
        connected=listed.connected,
        preset_names=PRESET_NAMES,
        may_disconnect=lambda grant: visit.may("admin") or grant.user_id == visit.principal.user_id,
        rows=[_line(row, visit.now) for row in listed.rows],
    )


def _listed(tx: Tx, organization_id: str) -> Listed:
    return Listed(
        access.is_enabled(tx, organization_id),
        grants.listing(tx, organization_id),
        prepared.latest(tx, organization_id, MAX_LISTED),
    )


def _line(row: PreparedRow, now: int) -> Line:
    state = STATES[row.shown_state(now)]
    if row.kind == "payment":
        return Line(row, row.payment.creditor_name, to_minor(row.payment.amount), state)
    return Line(row, row.cash_entry.text, to_minor(row.cash_entry.amount), state)


@action("/assistants/enable", role="admin", confirm=True)
async def enable(visit: Visit) -> Response:
    await visit.write(access.switch, visit.organization_id, True, visit.actor)
    return visit.redirect(PATH, _("Assistants may act for the company now, with keys that you make for them."))


@action("/assistants/disable", role="admin")
async def disable(visit: Visit) -> Response:
    await visit.write(access.switch, visit.organization_id, False, visit.actor)
    return visit.redirect(PATH, _("Assistants are kept out."))


@page("/assistants/{id}", help="assistants")
async def prepared_item(visit: Visit, id: str) -> Response:
    facts = await visit.read(_facts, visit, id)
    row = facts.row
    entry = row.cash_entry if row.kind == "cash_entry" else None
    konto = entry.gegenkonto if entry else ""
    if entry is not None:
        konto = (await book_pages.writer(visit, entry.connection_id, entry.client_id or ""))(entry.gegenkonto)
    return visit.show(
        "prepared.html",
        row=row,
        line=_line(row, visit.now),
        payment=row.payment if row.kind == "payment" else None,
        entry=entry,
        konto=konto,
        account=facts.account,
        maker=facts.maker,
        may_decide=row.shown_state(visit.now) == "waiting" and visit.may("member" if entry is None else "bookkeeping"),
        is_unfinished=row.state == "approved" and row.done_at is None,
    )


def _facts(tx: Tx, visit: Visit, prepared_id: str) -> Facts:
    if len(prepared_id) > MAX_ID_LENGTH:
        raise NotFound("There is no such page.")
    row = prepared.find(tx, visit.principal, prepared_id)
    account = None
    if row.kind == "payment":
        account = accounts.look_up(tx, row.organization_id, int(row.payment.account_id))
    return Facts(row, account, audit.name_of(tx, row.organization_id, row.actor))


@action("/assistants/{id}/approve", factor=True)
async def approve(visit: Visit, id: str) -> Response:
    """Makes the call that was prepared, as the person, once: its idempotency key is the id of what was prepared."""
    digest = visit.form.text("digest")
    with visit.form.refusals():
        row = await visit.write(prepared.begin_approval, visit.principal, id, digest, visit.actor)
        visit.form.values[once.FIELD] = [f"prepared-{row.id}"]
        try:
            made = await (_pay(visit, row) if row.kind == "payment" else _book(visit, row))
        except Refusal:
            await visit.write(prepared.reopen, row)
            raise
        await visit.write(prepared.end_approval, row, made.payment_id)
        return visit.redirect(made.path, made.text)
    response: Response = await prepared_item.handler(visit, id)
    return response


async def _pay(visit: Visit, row: PreparedRow) -> Made:
    body = prepared.as_payment(row.payment)
    answer = await once.ask_once(visit, payment_routes.create_payment, query=PaymentApiQuery(), body=body)
    payment_id = answer["data"]["payment_id"]
    return Made(int(payment_id), f"{ROOT}/payments/{payment_id}", created_words(answer["data"]))


async def _book(visit: Visit, row: PreparedRow) -> Made:
    entry = row.cash_entry
    query = NewEntryQuery(connection_id=entry.connection_id, client_id=entry.client_id)
    await once.ask_once(visit, duo.create_kassenbucheintrag, query=query, body=prepared.as_cash_entry(entry))
    return Made(None, f"{PATH}/{row.id}", _("The entry is booked."))


@action("/assistants/{id}/refuse")
async def refuse(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.write(prepared.refuse, visit.principal, id, visit.actor)
        return visit.redirect(PATH, _("Refused. Nothing has happened."))
    response: Response = await prepared_item.handler(visit, id)
    return response
