"""Assistants: whether they may act for the organisation, and what they have prepared for a person to approve or refuse."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from starlette.responses import Response

from kontobahn import limits
from kontobahn.access import audit
from kontobahn.access.principal import MEANINGS
from kontobahn.api.wire import Text
from kontobahn.assistants import access, authorization, grants, prepared
from kontobahn.assistants.authorization import FIELDS, ClientDocuments, Received, is_loopback
from kontobahn.assistants.grants import SCOPES_OF, Agreed, GrantedClient, Preset
from kontobahn.assistants.prepared import PreparedRow, State
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments.wire import PaymentApiQuery
from kontobahn.clock import DAY
from kontobahn.dashboard import books as book_pages
from kontobahn.dashboard import figures, form_keys, refusals
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.pages.payments import created_words
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound, Refusal
from kontobahn.ledger.connections import list_clients
from kontobahn.ledger.provider import LedgerClient
from kontobahn.ledger.routes import duo
from kontobahn.ledger.routes.duo import NewEntryQuery
from kontobahn.money import to_minor

# Connecting an assistant: the page on which a person decides what it may do in their name, and taking that back.


# More than these are not offered to choose from: a list of so many boxes is no choice.
MAX_CLIENTS = 200
PRESET_NAMES: dict[Preset, str] = {
    "read": N_("Ask questions"),
    "bookkeeping": N_("Ask questions, and help with the books"),
    "payments": N_("Ask questions, help with the books, and prepare payments"),
}


class Consent(Struct):
    """The form of a person who lets an assistant in."""

    preset: Text
    extent: Literal["all", "clients"] = "all"
    clients: list[str] = []
    daily_limit: Decimal | None = None


class Choice(NamedTuple):
    """A preset that the person may choose, and the meaning of its scopes."""

    preset: Preset
    text: str
    meanings: str


@page("/assistants/authorize", own=True, help="assistants")
async def authorize(visit: Visit) -> Response:
    return await _ask(visit, await _received(visit, visit.query))


async def _received(visit: Visit, given: dict[str, list[str]]) -> Received:
    settings = visit.context.settings
    if not settings.mcp:
        raise NotFound("There is no such page.")
    return await authorization.receive(visit.context.part(ClientDocuments), settings.base_url, given)


async def _ask(visit: Visit, received: Received) -> Response:
    organization_id, base_url = visit.principal.organization_id, visit.context.settings.base_url
    asked = received.asked
    if asked is None:
        back = authorization.answer_address(received, base_url, error=received.error)
        return visit.show(
            "assistant_refused.html", 400, client=received.client, reason=refusals.refusal(received.reason), back=back
        )
    group = visit.dependencies.groups[limits.API]
    clients = await list_clients(visit.context, organization_id)
    redirect = urlsplit(received.redirect_uri)
    assert visit.person is not None
    return visit.show(
        "assistant_consent.html",
        client=received.client,
        organization=visit.person.organization.name,
        is_enabled=await visit.read(access.is_enabled, organization_id),
        may_switch=visit.may("admin"),
        answer_host=None if is_loopback(received.redirect_uri) else redirect.hostname,
        choices=_choices(authorization.offered(visit.principal, asked)),
        wanted=grants.find_preset(visit.form.text("preset")) or authorization.offered(visit.principal, asked)[-1],
        days=grants.GRANT_TIME // DAY,
        group=group,
        minutes=figures.number((Decimal(group.window_seconds) / 60).quantize(Decimal("0.1")).normalize()),
        clients=[(_value_of(client), client.name, client.client_id) for client in clients[:MAX_CLIENTS]],
        more_clients=max(0, len(clients) - MAX_CLIENTS),
        fields={name: (visit.form.values or visit.query).get(name, [""])[-1] for name in FIELDS},
    )


def _choices(offered: Sequence[Preset]) -> list[Choice]:
    """Each says what it has beyond the one before it."""
    found: list[Choice] = []
    told: set[str] = set()
    for preset in offered:
        what = "; ".join(refusals.refusal(MEANINGS[scope]) for scope in SCOPES_OF[preset] if scope not in told)
        found.append(Choice(preset, _(PRESET_NAMES[preset]), _("also: %(what)s", what=what) if told else what))
        told.update(SCOPES_OF[preset])
    return found


def _value_of(client: LedgerClient) -> str:
    return f"{client.connection_id} {client.client_id}"


@action("/assistants/authorize", own=True, role="read_only", confirm=True)
async def decide(visit: Visit) -> Response:
    """Lets the assistant in, or sends it away; in both cases back to its address, with a code or a refusal."""
    received = await _received(visit, visit.form.values)
    base_url, client = visit.context.settings.base_url, received.client
    if visit.form.text("decision") == "refuse":
        back = authorization.answer_address(received, base_url, error="access_denied")
        return visit.leave(back, _("%(name)s is not connected", name=client.name), _("Nothing was passed on."))
    agreed = None if received.asked is None else await _agreed(visit)
    if received.asked is None or agreed is None:
        return await _ask(visit, received)
    with visit.form.refusals():
        code = await visit.write(
            authorization.agree, visit.context.vault, visit.principal, received.asked, agreed, visit.actor
        )
        back = authorization.answer_address(received, base_url, code=code)
        text = _("You find it in the list of connected assistants, where you can take this back.")
        return visit.leave(back, _("%(name)s is connected", name=client.name), text)
    return await _ask(visit, received)


async def _agreed(visit: Visit) -> Agreed | None:
    """Returns what the person has chosen; None if the form says what is wrong with it."""
    wanted = visit.form.read(Consent)
    if wanted is None:
        return None
    preset = grants.find_preset(wanted.preset)
    if preset is None:
        raise BadRequest("Choose what the assistant may do.", field="preset")
    limit = None if wanted.daily_limit is None else to_minor(wanted.daily_limit)
    if wanted.extent == "all":
        return Agreed(preset, None, limit)
    known = {_value_of(one): one for one in await list_clients(visit.context, visit.principal.organization_id)}
    chosen = [known[value] for value in dict.fromkeys(wanted.clients) if value in known]
    if not chosen or len(chosen) < len(set(wanted.clients)):
        visit.form.fail("clients", _("Choose at least one client."))
        return None
    return Agreed(preset, tuple(GrantedClient(one.connection_id, one.client_id, one.name) for one in chosen), limit)


@action("/assistants/grants/{id}/disconnect", role="read_only")
async def disconnect(visit: Visit, id: str) -> Response:
    grant = await visit.write(grants.disconnect, visit.principal, id, visit.actor)
    return visit.redirect(PATH, _("%(name)s is disconnected.", name=grant.client_name))


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
        visit.form.values[form_keys.FIELD] = [f"prepared-{row.id}"]
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
    answer = await form_keys.ask_once(visit, payment_routes.create_payment, query=PaymentApiQuery(), body=body)
    payment_id = answer["data"]["payment_id"]
    return Made(int(payment_id), f"{ROOT}/payments/{payment_id}", created_words(answer["data"]))


async def _book(visit: Visit, row: PreparedRow) -> Made:
    entry = row.cash_entry
    query = NewEntryQuery(connection_id=entry.connection_id, client_id=entry.client_id)
    await form_keys.ask_once(visit, duo.create_kassenbucheintrag, query=query, body=prepared.as_cash_entry(entry))
    return Made(None, f"{PATH}/{row.id}", _("The entry is booked."))


@action("/assistants/{id}/refuse")
async def refuse(visit: Visit, id: str) -> Response:
    with visit.form.refusals():
        await visit.write(prepared.refuse, visit.principal, id, visit.actor)
        return visit.redirect(PATH, _("Refused. Nothing has happened."))
    response: Response = await prepared_item.handler(visit, id)
    return response
