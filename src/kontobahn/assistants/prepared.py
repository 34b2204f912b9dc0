"""Payments and cash entries that an assistant has prepared: they wait, and nothing happens, until a person approves them on a page.

What is prepared never changes. An approval names the hash of what the person saw, so that it approves this and nothing else.
"""

from __future__ import annotations

import asyncio
import datetime
import hashlib
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Scope, find_in_scope, in_scope
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post
from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid, form
from kontobahn.assistants import access
from kontobahn.banking.connections import accounts
from kontobahn.banking.payments.releases import check_has_factor
from kontobahn.banking.payments.routes import CURRENCY, check_key_limits, check_order
from kontobahn.banking.payments.wire import Amount, NewPayment
from kontobahn.banking.provider import Banking, Template
from kontobahn.banking.wire import NumericId
from kontobahn.clock import DAY, HOUR, berlin_date, start_of_day, to_datetime
from kontobahn.db import Table, Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.formats.pain import sepa
from kontobahn.ids import new_id
from kontobahn.json_text import encode
from kontobahn.ledger import kassenbuch
from kontobahn.ledger.connections import ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.kassenbuch import (
    Kassenname,
    Kurztext,
    NeueBelegzeile,
    NeuerKassenbucheintrag,
    Steuersatz,
)
from kontobahn.ledger.wire import Kontonummer, booked_amount
from kontobahn.money import amount_text, to_minor
from kontobahn.sentences import said

# An item that nobody has approved for so long is over: prices and accounts have changed since.
WAITING_DAYS = 7
# The same, prepared again within this time, is the same.
SAME_WITHIN = HOUR
MAX_WAITING = 200
S = TypeVar("S", bound=msgspec.Struct)
READERS: tuple[Scope, ...] = ("banking:read", "banking:write", "payments", "ledger:read", "ledger:write")
WRITERS: tuple[Scope, ...] = ("banking:write", "ledger:write")
Kind = Literal["payment", "cash_entry"]
State = Literal["waiting", "approved", "refused", "withdrawn", "expired"]
# The fields of a cash entry, by their paths in the body of the call that an approval makes.
_FIELDS = {
    "betrag": "amount",
    "belegzeilen[0].betrag": "amount",
    "belegzeilen[0].belegtext": "text",
    "belegzeilen[0].gegenkonto": "gegenkonto",
    "belegzeilen[0].belegNummer": "beleg",
    "belegzeilen[0].steuersatz.prozent": "steuer_prozent",
}
_SCOPES: dict[Kind, tuple[Scope, ...]] = {
    "payment": ("banking:read", "banking:write", "payments"),
    "cash_entry": ("ledger:read", "ledger:write"),
}


class NewPreparedPayment(Body, kw_only=True):
    account_id: NumericId
    amount: Amount
    creditor_name: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_NAME)]
    creditor_iban: Annotated[str, Meta(min_length=1, max_length=60, examples=["DE02120300000000202051"])]
    description: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_REMITTANCE)]
    reference: Annotated[str, Meta(min_length=1, max_length=sepa.MAX_ID)] | None = None
    template_identifier: Template = "SEPA"
    date: Annotated[datetime.date, Meta(description="Day of execution; as soon as possible when omitted.")] | None = (
        None
    )


class NewPreparedCashEntry(Body, kw_only=True):
    connection_id: Annotated[Uuid, Meta(description="The books.")]
    client_id: ClientId | None = None
    kassenname: Kassenname
    date: datetime.date
    amount: Annotated[Decimal, booked_amount(description="Positive: income; negative: expense.", examples=[-11.9])]
    text: Kurztext
    gegenkonto: Kontonummer
    beleg: (
        Annotated[str, form("up to 36 of the characters A-Z a-z 0-9 $ & % * + - /", r"^[a-zA-Z0-9$&%+*/-]{1,36}$")]
        | None
    ) = None
    steuer_prozent: Annotated[Decimal, Meta(description="Rate in percent.", examples=[19])] | None = None


class PreparedPayment(Answer):
    account_id: str
    amount: Decimal
    creditor_name: str
    creditor_iban: str
    description: str
    reference: str | None
    template_identifier: Template
    date: datetime.date | None


class PreparedCashEntry(Answer):
    connection_id: Uuid
    client_id: str | None
    kassenname: str
    date: datetime.date
    amount: Decimal
    text: str
    gegenkonto: str
    beleg: str | None
    steuer_prozent: Decimal | None


class Prepared(Answer):
    """Something that waits for a person, or waited for one."""

    id: Uuid
    organization_id: Uuid
    kind: Kind
    state: Annotated[State, Meta(description="`waiting`: nothing has happened yet. `approved`: a person did it.")]
    approval_url: Annotated[str, Meta(description="The page on which a person approves it with a second factor.")]
    payment: PreparedPayment | None
    cash_entry: PreparedCashEntry | None
    payment_id: Annotated[str | None, Meta(description="The payment that the approval made.")]
    created_at: Timestamp
    expires_at: Timestamp
    decided_at: Timestamp | None


class PreparedQuery(ListQuery):
    state: State | None = None
    from_id: Annotated[Uuid, Meta(description="Only what was prepared after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class PreparedRow(NamedTuple):
    organization_id: str
    id: str
    kind: Kind
    state: State
    content: str
    digest: str
    actor: str
    user_id: str
    created_at: int
    expires_at: int
    decided_by: str | None
    decided_at: int | None
    payment_id: int | None
    done_at: int | None
    # The first of a row of rotated keys, or the grant, that limits of a day count by.
    counted_by: str
    amount_minor: int

    def shown_state(self, now: int) -> State:
        return "expired" if self.state == "waiting" and self.expires_at <= now else self.state

    @property
    def payment(self) -> NewPreparedPayment:
        return msgspec.json.decode(self.content, type=NewPreparedPayment)

    @property
    def cash_entry(self) -> NewPreparedCashEntry:
        return msgspec.json.decode(self.content, type=NewPreparedCashEntry)


PREPARED = Table("assistants_prepared", PreparedRow)


# --- Preparing


@post("/v2/assistants/payments", scope="banking:write", statuses=(201, 200), errors=(403, 404, 409))
async def prepare_payment(call: Call, body: NewPreparedPayment) -> Data[Prepared]:
    """Prepare a payment for a person to approve. No money moves, and no bank hears of it, before that.

    It is in no order file either. The person opens `approval_url` and approves it with a second factor, as it stands: a different
    amount, IBAN or name is another one. 200 with the same one if it was prepared within the hour.
    """
    order = await asyncio.to_thread(check_order, as_payment(body), call.ip, berlin_date(call.context.clock.now()))

    def unit(tx: Tx) -> Data[Prepared]:
        account = accounts.find(tx, call.principal, body.account_id)
        return _prepare(tx, call, account.organization_id, "payment", encode(body), order.amount_minor)

    return await call.commit(unit)


@post(
    "/v2/assistants/cash-entries",
    scope="ledger:write",
    statuses=(201, 200),
    errors=(403, 404, 409),
    body_example={
        "connection_id": "01930000-0000-7000-8000-00000dd03f01",
        "kassenname": "Hauptkasse",
        "date": "2026-03-31",
        "amount": 119,
        "text": "Barverkauf",
        "gegenkonto": "8400",
    },
)
async def prepare_cash_entry(call: Call, body: NewPreparedCashEntry) -> Data[Prepared]:
    """Prepare an entry of a cash book for a person to approve. Nothing is booked before that."""
    try:
        await call.off_loop(kassenbuch.check, as_cash_entry(body))
    except BadRequest as error:
        raise _named_as_here(error) from None
    connection = await call.read_inline(find_connection, call.principal, body.connection_id)
    access_to_books = await open_books(call.context, call.principal, body.connection_id, body.client_id)
    async with access_to_books.to("kassenbuch"):
        pass

    def unit(tx: Tx) -> Data[Prepared]:
        return _prepare(tx, call, connection.organization_id, "cash_entry", encode(body), to_minor(body.amount))

    return await call.commit(unit)


def _named_as_here(error: BadRequest) -> BadRequest:
    """Returns the refusal of an entry with the names that the fields have here."""
    field = str(error.extra.get("field", ""))
    name = _FIELDS.get(field, field)
    return BadRequest(str(error).replace(f"`{field}`", f"`{name}`"), field=name)


def as_payment(body: NewPreparedPayment) -> NewPayment:
    """Returns the body of the call that makes the payment."""
    return NewPayment(**{name: getattr(body, name) for name in body.__struct_fields__})


def as_cash_entry(body: NewPreparedCashEntry) -> NeuerKassenbucheintrag:
    """Returns the body of the call that books the entry."""
    line = NeueBelegzeile(
        belegtext=body.text,
        gegenkonto=body.gegenkonto,
        betrag=body.amount,
        belegNummer=body.beleg,
        steuersatz=None if body.steuer_prozent is None else Steuersatz(prozent=body.steuer_prozent),
    )
    return NeuerKassenbucheintrag(
        waehrung="EUR",
        kassenname=body.kassenname,
        betrag=body.amount,
        transaktionsdatum=to_datetime(start_of_day(body.date) + DAY // 2),
        belegzeilen=[line],
    )


def _prepare(tx: Tx, call: Call, organization_id: str, kind: Kind, content: bytes, amount_minor: int) -> Data[Prepared]:
    access.check_enabled(tx, organization_id)
    tx.lock("assistants", organization_id)
    digest = _digest(kind, content)
    known = PREPARED.one(
        tx,
        "organization_id = ? AND digest = ? AND state = 'waiting' AND created_at > ? ORDER BY id DESC LIMIT 1",
        organization_id, digest, tx.now - SAME_WITHIN,
    )  # fmt: skip
    if known is not None:
        call.status = 200
        return Data(shown(known, tx.now, call.context.settings.base_url))
    if kind == "payment":
        _check_limits(tx, call, amount_minor)
    tx.run(
        "UPDATE assistants_prepared SET state = 'expired' WHERE organization_id = ? AND state = 'waiting' AND expires_at <= ?",
        organization_id, tx.now,
    )  # fmt: skip
    if len(waiting(tx, organization_id)) >= MAX_WAITING:
        raise Conflict(
            said("{number} prepared items wait already. Decide about some of them first.", number=MAX_WAITING)
        )
    row = PreparedRow(
        organization_id, new_id(), kind, "waiting", content.decode(), digest, call.actor.name, call.principal.user_id or "",
        tx.now, tx.now + WAITING_DAYS * DAY, None, None, None, None, _counted_by(call.principal), amount_minor,
    )  # fmt: skip
    PREPARED.insert(tx, row)
    audit.record(tx, organization_id, call.actor, f"assistants.prepare_{kind}", row.id, **_facts(row))
    return Data(shown(row, tx.now, call.context.settings.base_url))


def _check_limits(tx: Tx, call: Call, amount_minor: int) -> None:
    try:
        check_key_limits(tx, call.principal, amount_minor, CURRENCY, call.context.part(Banking))
    except Forbidden as error:
        # Its sentence has the figures; the fields beside it are those of a call for payments.
        raise Forbidden(error.args[0], field="amount").retryable() from None


def _digest(kind: Kind, content: bytes) -> str:
    return hashlib.sha256(kind.encode() + b"\0" + content).hexdigest()


def _counted_by(principal: Principal) -> str:
    return principal.first_key_id or principal.grant_id or ""


def ordered_today(tx: Tx, principal: Principal) -> int:
    """Returns the cents of the payments that this caller has prepared today, in Berlin, and that wait or were approved."""
    [(ordered,)] = tx.all(
        f"SELECT COALESCE(SUM(amount_minor), 0) FROM assistants_prepared WHERE {in_scope(len(principal.scope))}"
        " AND counted_by = ? AND created_at >= ? AND kind = 'payment' AND (state = 'waiting' OR state = 'approved')",
        *principal.scope, _counted_by(principal), start_of_day(berlin_date(tx.now)),
    )  # fmt: skip
    return int(ordered)


def _facts(row: PreparedRow) -> dict[str, str]:
    if row.kind == "payment":
        payment = row.payment
        return {"amount": amount_text(to_minor(payment.amount)), "iban": payment.creditor_iban}
    return {"amount": amount_text(to_minor(row.cash_entry.amount))}


# --- Reading


@get("/v2/assistants/prepared", scope=READERS, pages_by="from_id", errors=(403, 404))
async def list_prepared(call: Call, query: PreparedQuery) -> Data[list[Prepared]]:
    """List what was prepared, the earliest first."""
    rows = await call.read(_listing, call.principal, query)
    now, base_url = call.context.clock.now(), call.context.settings.base_url
    return Data([shown(row, now, base_url) for row in page(call, rows, query.limit, attrgetter("id"))])


def _listing(tx: Tx, principal: Principal, query: PreparedQuery) -> list[PreparedRow]:
    organizations, kinds = principal.organizations(query.organization_id), _kinds(principal)
    where = f"{in_scope(len(organizations))} AND kind IN ({', '.join('?' * len(kinds))})"
    values: list[object] = [*organizations, *kinds]
    if query.state is not None:
        where, values = f"{where} AND state = ?", [*values, query.state]
    if query.from_id is not None:
        where, values = f"{where} AND id > ?", [*values, query.from_id.lower()]
    if principal.clients is None:
        return PREPARED.all(tx, f"{where} ORDER BY id LIMIT ?", *values, query.limit + 1)
    return [row for row in PREPARED.all(tx, f"{where} ORDER BY id", *values) if _may_see(principal, row)]


@get("/v2/assistants/prepared/{id}", scope=READERS, errors=(403, 404))
async def get_prepared(call: Call, id: Uuid) -> Data[Prepared]:
    """Read something that was prepared, and what a person has decided about it."""
    row = await call.read(find, call.principal, id)
    return Data(shown(row, call.context.clock.now(), call.context.settings.base_url))


@post("/v2/assistants/prepared/{id}/withdraw", scope=WRITERS, statuses=(200,), errors=(403, 404, 409))
async def withdraw_prepared(call: Call, id: Uuid) -> Data[Prepared]:
    """Take back something that waits, before a person has decided about it."""

    def unit(tx: Tx) -> Data[Prepared]:
        row = _waiting(tx, call.principal, id)
        row = PREPARED.update(tx, row, state="withdrawn", decided_by=call.actor.name, decided_at=tx.now)
        audit.record(tx, row.organization_id, call.actor, "assistants.withdraw", row.id, **_facts(row))
        return Data(shown(row, tx.now, call.context.settings.base_url))

    return await call.commit(unit)


def _kinds(principal: Principal) -> list[Kind]:
    """Returns what the scopes of a key let it see: payments with those of banking, cash entries with those of the ledger."""
    return [kind for kind, scopes in _SCOPES.items() if principal.has_scope(scopes)]


def _may_see(principal: Principal, row: PreparedRow) -> bool:
    """Whoever is restricted to the books of some clients sees the cash entries of these, and no payments."""
    if principal.clients is None:
        return True
    return row.kind == "cash_entry" and principal.may_open(row.cash_entry.connection_id, row.cash_entry.client_id)


def find(tx: Tx, principal: Principal, prepared_id: str) -> PreparedRow:
    row = find_in_scope(tx, PREPARED, principal, "Prepared item", prepared_id.lower())
    if row.kind not in _kinds(principal) or not _may_see(principal, row):
        raise principal.missing("Prepared item")
    return row


def waiting(tx: Tx, organization_id: str) -> list[PreparedRow]:
    """Returns what waits for a person, the oldest first."""
    return PREPARED.all(
        tx, "organization_id = ? AND state = 'waiting' AND expires_at > ? ORDER BY id", organization_id, tx.now
    )


def latest(tx: Tx, organization_id: str, limit: int) -> list[PreparedRow]:
    return PREPARED.all(tx, "organization_id = ? ORDER BY id DESC LIMIT ?", organization_id, limit)


def shown(row: PreparedRow, now: int, base_url: str) -> Prepared:
    return from_row(
        Prepared,
        row,
        state=row.shown_state(now),
        approval_url=f"{base_url}/dashboard/assistants/{row.id}",
        payment=_copy(PreparedPayment, row.payment) if row.kind == "payment" else None,
        cash_entry=_copy(PreparedCashEntry, row.cash_entry) if row.kind == "cash_entry" else None,
        payment_id=None if row.payment_id is None else str(row.payment_id),
    )


def _copy(kind: type[S], body: msgspec.Struct) -> S:
    return kind(**{name: getattr(body, name) for name in body.__struct_fields__})


# --- Deciding


def begin_approval(tx: Tx, principal: Principal, prepared_id: str, digest: str, actor: Actor) -> PreparedRow:
    """Claims something that waits for this person, who may then make the call. Nobody else can refuse or withdraw it any more.

    The same person may begin again if the call was never answered. Raises Conflict if it is not what the person saw.
    """
    row = find(tx, principal, prepared_id)
    tx.lock("assistants", row.organization_id)
    row = find(tx, principal, prepared_id)
    if principal.session_id is None or principal.user_id is None:
        raise Forbidden("A person approves this in the dashboard, not a key.")
    check_has_factor(tx, principal)
    if not row.digest == digest == _digest(row.kind, row.content.encode()):
        raise Conflict("This is not what was shown. Look at it once more.")
    if row.state == "approved" and row.done_at is None and row.decided_by == actor.name:
        return row
    _check_waiting(tx, row)
    row = PREPARED.update(tx, row, state="approved", decided_by=actor.name, decided_at=tx.now)
    audit.record(tx, row.organization_id, actor, "assistants.approve", row.id, **_facts(row))
    return row


def end_approval(tx: Tx, row: PreparedRow, payment_id: int | None) -> None:
    """Notes that the call of the approval was answered."""
    PREPARED.update(tx, row, payment_id=payment_id, done_at=tx.now)


def reopen(tx: Tx, row: PreparedRow) -> None:
    """Lets something wait again, because the call of the approval was refused and has changed nothing."""
    PREPARED.update(tx, row, state="waiting", decided_by=None, decided_at=None)


def refuse(tx: Tx, principal: Principal, prepared_id: str, actor: Actor) -> PreparedRow:
    row = _waiting(tx, principal, prepared_id)
    row = PREPARED.update(tx, row, state="refused", decided_by=actor.name, decided_at=tx.now)
    audit.record(tx, row.organization_id, actor, "assistants.refuse", row.id, **_facts(row))
    return row


def _waiting(tx: Tx, principal: Principal, prepared_id: str) -> PreparedRow:
    """Returns something that still waits, under the lock: of two who decide at once, one does."""
    row = find(tx, principal, prepared_id)
    tx.lock("assistants", row.organization_id)
    row = find(tx, principal, prepared_id)
    _check_waiting(tx, row)
    return row


def _check_waiting(tx: Tx, row: PreparedRow) -> None:
    if row.state != "waiting":
        raise Conflict("This no longer waits: somebody has decided about it.")
    if row.expires_at <= tx.now:
        raise Conflict("This has waited too long. Let it be prepared once more.")
