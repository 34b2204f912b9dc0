"""Received invoices by call: sent, listed, read, assigned to a creditor, released, rejected, held back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from io import BytesIO
from typing import Annotated, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Meta

from kontobahn.access import audit, factors
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get, post, put
from kontobahn.api.wire import Answer, Body, Download, ListQuery, OrganizationQuery, Query, Upload, Uuid, form
from kontobahn.banking.payments.wire import Amount
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.events import Events
from kontobahn.formats.invoices.model import Invoice
from kontobahn.ledger.connections import ERRORS, ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.konto import is_debitor, is_personenkonto, technical
from kontobahn.ledger.provider import ClientBooks
from kontobahn.money import from_minor, to_minor
from kontobahn.outbound import Refused, Unreached
from kontobahn.payables import booking, intake, rules, settlement, store
from kontobahn.payables.booking import Writing
from kontobahn.payables.document import Language, as_page
from kontobahn.payables.intake import Arrival, NoInvoice, Understood
from kontobahn.payables.rules import Action, KnownCreditor, Status, Stop
from kontobahn.payables.store import FileRow, Filter, PayableRow, SettingsRow, StepRow
from kontobahn.payables.wire import Payable, PayableStep, emit_rejected, emit_released, payable_view, step_view
from kontobahn.sentences import said

# Decisions of people about a received invoice: its creditor, its release, that it is rejected or waits. Units of work.
#
# Each looks at the payable again under the lock of its organisation, writes a step and an entry of the audit log, and
# takes no money.


# A unit that decides: of the transaction, the decision, and what else it needs.
Unit = Callable[..., PayableRow]
_IMPOSSIBLE: dict[Action, str] = {
    "release": "This invoice cannot be released as it stands.",
    "reject": "This invoice can no longer be rejected.",
    "hold": "This invoice can no longer be held back.",
    "assign": "The creditor of this invoice can no longer be changed.",
    "confirm_iban": "Nothing of this kind stops the invoice.",
    "confirm_another": "Nothing of this kind stops the invoice.",
}


class Decision(NamedTuple):
    """The payable, who decides about it, and a comment."""

    principal: Principal
    payable_id: str
    actor: Actor
    comment: str = ""

    @property
    def user_id(self) -> str:
        """The person, even where a key of theirs is used."""
        return self.principal.user_id or ""


def _take(tx: Tx, decision: Decision, action: Action) -> PayableRow:
    """Returns the payable under its lock. Raises Conflict if it does not stand where this can be done."""
    found = store.find(tx, decision.principal, decision.payable_id)
    store.lock(tx, found.organization_id)
    row = store.find(tx, decision.principal, decision.payable_id)
    if row.status not in rules.MAY[action]:
        raise Conflict(_IMPOSSIBLE[action], status=row.status)
    return row


def _record(tx: Tx, decision: Decision, action: Action, row: PayableRow) -> None:
    store.record_step(tx, row, action, decision.user_id, decision.actor.name, decision.comment)
    audit.record(
        tx, row.organization_id, decision.actor, f"payable.{action}", row.id,
        number=row.number, status=row.status, comment=decision.comment,
    )  # fmt: skip


def release(tx: Tx, decision: Decision) -> PayableRow:
    """Releases for payment; above the organisation's sum it takes two people, and until the second it stays where it is."""
    row = _take(tx, decision, "release")
    settings = store.settings_of(tx, row.organization_id)
    limit = None if settings is None else settings.two_people_minor
    needs_two = limit is not None and abs(row.payable_minor) > limit
    if needs_two:
        if not decision.user_id:
            raise Forbidden("Above the organisation's sum people release, and this key belongs to nobody.")
        earlier = _releases(store.steps_of(tx, row))
        if decision.user_id in earlier:
            raise Conflict("You have released this invoice: above the organisation's sum a second person does.")
        needs_two = not earlier
    _record(tx, decision, "release", row)
    row = store.PAYABLES.update(
        tx, row, status=row.status if needs_two else "released", hold_until=None, updated_at=tx.now
    )
    if needs_two:
        return row
    emit_released(tx, row)
    if row.match_id is None:
        return row
    # The bank was sooner: a direct debit, for example.
    settlement.mark_paid(tx, store.find_due(tx, decision.principal, row.id))
    return store.find(tx, decision.principal, row.id)


def _releases(steps: list[StepRow]) -> set[str]:
    """Returns the people who have released it since anything else was done with it."""
    found: set[str] = set()
    for step in steps:
        found = found | {step.user_id} if step.action == "release" else set()
    return found


def reject(tx: Tx, decision: Decision) -> PayableRow:
    row = _take(tx, decision, "reject")
    _record(tx, decision, "reject", row)
    row = store.PAYABLES.update(tx, row, status="rejected", updated_at=tx.now)
    emit_rejected(tx, row, decision.comment)
    return row


def hold(tx: Tx, decision: Decision, until: date | None) -> PayableRow:
    """Lets it wait, and takes a release back."""
    row = _take(tx, decision, "hold")
    _record(tx, decision, "hold", row)
    return store.PAYABLES.update(
        tx, row, status=rules.status_of(row.konto, row.stops.split()),
        hold_until=until.isoformat() if until else None, updated_at=tx.now,
    )  # fmt: skip


def assign(tx: Tx, decision: Decision, creditor: rules.KnownCreditor) -> PayableRow:
    """Says whose invoice it is. If the creditor is known by other accounts than the invoice names, it stops."""
    row = _take(tx, decision, "assign")
    stops = set(row.stops.split()) - {"iban_changed"}
    known = {*creditor.ibans, *store.paid_to(tx, row.organization_id, creditor.konto)}
    if row.creditor_iban and rules.is_changed_iban((row.creditor_iban,), known):
        stops.add("iban_changed")
    row = row._replace(connection_id=creditor.connection_id, client_id=creditor.client_id, konto=creditor.konto)
    _record(tx, decision, "assign", row)
    return store.PAYABLES.update(
        tx, row, connection_id=row.connection_id, client_id=row.client_id, konto=row.konto,
        stops=" ".join(sorted(stops)), status=rules.status_of(row.konto, stops), updated_at=tx.now,
    )  # fmt: skip


def confirm(tx: Tx, decision: Decision, stop: Stop) -> PayableRow:
    """Says that what stopped an invoice is right: only a person with a second factor may."""
    action: Action = "confirm_iban" if stop == "iban_changed" else "confirm_another"
    principal = decision.principal
    if principal.session_id is None:
        raise Forbidden("Only a signed-in person may say so: send a session token instead of an API key.")
    if not factors.of_user(tx, principal.organization_id, decision.user_id):
        raise Forbidden("This needs a second factor. Add one under your profile first.").retryable()
    row = _take(tx, decision, action)
    if stop not in row.stops.split():
        raise Conflict(_IMPOSSIBLE[action], status=row.status)
    stops = set(row.stops.split()) - {stop}
    _record(tx, decision, action, row)
    return store.PAYABLES.update(
        tx, row, stops=" ".join(sorted(stops)), status=rules.status_of(row.konto, stops), updated_at=tx.now
    )


# A larger file is refused before it is read.
MAX_FILE_BYTES = 20_000_000
_NAMELESS = "invoice"
_FILE_TYPES = ("application/xml", "application/pdf", "application/octet-stream")
BookOn = Literal["acceptance", "release"]
_BOOK_ON = "when invoices are booked with their accepted accounts; null for not at all"
Comment = Annotated[str, Meta(max_length=500, description="For whoever looks at it later.")]


class FilesQuery(OrganizationQuery):
    file_name: Annotated[str, Meta(max_length=255, description="If the file comes without a name.")] | None = None
    connection_id: (
        Annotated[Uuid, Meta(description="The books it belongs to, if not those of the settings.")] | None
    ) = None
    client_id: ClientId | None = None


class PayablesQuery(ListQuery):
    status: Status | None = None
    due_before: Annotated[date, Meta(description="Only what is due before this day.")] | None = None
    creditor: Annotated[str, Meta(max_length=9, description="Only of this person account, in full.")] | None = None
    number: Annotated[str, Meta(max_length=200, description="Only with this number.")] | None = None
    from_id: Annotated[Uuid, Meta(description="Only what came after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class DocumentQuery(Query):
    language: Annotated[Language, Meta(description="Of the headings; what the seller wrote stays as it is.")] = "de"


class NewRelease(Body):
    comment: Comment = ""


class NewRejection(Body):
    reason: Annotated[str, Meta(min_length=1, max_length=500, description="Why, for whoever looks at it later.")]


class NewHold(Body):
    until: Annotated[date, Meta(description="The day it is looked at again.")] | None = None
    comment: Comment = ""


class NewCreditor(Body):
    konto: Annotated[str, form("a person account of 5 to 9 digits", r"^[0-9]{5,9}$", examples=["70001"])]
    connection_id: (
        Annotated[
            Uuid,
            Meta(
                description="The books, if it belongs to none yet. Left out: those of the settings, or the only ones."
            ),
        ]
        | None
    ) = None
    client_id: ClientId | None = None


class NewConfirmation(Body):
    stop: Annotated[Stop, Meta(description="The stop that is right as it is.")]
    comment: Comment = ""


class NewPayablesSettings(Body):
    two_people_above: (
        Annotated[Amount, Meta(description="Above this sum two people release; null for one at any sum.")] | None
    ) = None
    connection_id: Annotated[Uuid, Meta(description="The books that received invoices belong to.")] | None = None
    client_id: ClientId | None = None
    book_on: Annotated[BookOn, Meta(description=_BOOK_ON)] | None = None


class PayablesSettings(Answer):
    two_people_above: Decimal | None
    connection_id: Uuid | None
    client_id: str | None
    book_on: Annotated[BookOn | None, Meta(description=_BOOK_ON)]


# --- Coming in


@post(
    "/v2/payables/files",
    scope="payables:write",
    statuses=(201, 200),
    errors=(403, 404, 409, 413, 422),
    max_body_bytes=MAX_FILE_BYTES,
)
async def receive_file(call: Call, query: FilesQuery, body: Upload) -> Data[Payable]:
    """Send a received invoice: XML (XRechnung, ZUGFeRD, Factur-X, Peppol), or a PDF with one inside.

    200 with the payable there is, if it is known in this or another form. 422 with what was found if no invoice can be read; the
    file is kept under `file_id`.
    """
    organization_id = await _organization(call, query.organization_id, query.connection_id)
    content = await call.off_loop(body.file.read)
    arrival = Arrival(
        organization_id, body.name or query.file_name or _NAMELESS, body.sha256, content, call.actor,
        call.principal.user_id or "",
    )  # fmt: skip
    books = await intake.books_for(call.context, call.principal, organization_id, query.connection_id, query.client_id)
    try:
        understood = await intake.understand(call.context, arrival, books)
    except NoInvoice as refusal:
        file = await call.context.db.write(intake.keep_refused, arrival, refusal)
        refusal.extra["file_id"] = file.id
        raise
    return await call.commit(_enter, call, arrival, understood)


async def _organization(call: Call, organization_id: str | None, connection_id: str | None) -> str:
    """Returns the organisation asked for, else that of the books, else the caller's own. Raises Conflict if both are given and differ."""
    if connection_id is None:
        return call.principal.organization(organization_id)
    connection = await call.read_inline(find_connection, call.principal, connection_id)
    if organization_id is not None and call.principal.organization(organization_id) != connection.organization_id:
        raise Conflict("The books belong to another organisation.", field="connection_id")
    return connection.organization_id


def _enter(tx: Tx, call: Call, arrival: Arrival, understood: Understood) -> Data[Payable]:
    row, is_new = intake.enter(tx, arrival, understood)
    call.status = 201 if is_new else 200
    return Data(payable_view(row))


@get("/v2/payables/files/{id}", scope="payables:read", errors=(403, 404), media_types=_FILE_TYPES)
async def get_received_file(call: Call, id: Uuid) -> Download:
    """Read a received file back by its own id, also one that no invoice could be read from."""

    def unit(tx: Tx) -> tuple[FileRow, bytes]:
        file = store.find_file(tx, call.principal, id)
        return file, store.content_of(tx, file)

    file, content = await call.read(unit)
    return Download(content, file.media_type, file.file_name)


# --- Reading


@get("/v2/payables", scope="payables:read", pages_by="from_id", errors=(403, 404))
async def list_payables(call: Call, query: PayablesQuery) -> Data[list[Payable]]:
    """List received invoices in the order in which they came."""
    wanted = Filter(
        query.status,
        query.due_before.isoformat() if query.due_before else None,
        query.creditor,
        query.number,
        query.from_id.lower() if query.from_id else None,
    )
    organizations = call.principal.organizations(query.organization_id)
    rows = await call.read(store.listing, organizations, wanted, query.limit + 1)
    return Data([payable_view(row) for row in page(call, rows, query.limit, lambda row: row.id)])


@get("/v2/payables/{id}", scope="payables:read", errors=(403, 404))
async def get_payable(call: Call, id: Uuid) -> Data[Payable]:
    """Read one received invoice, with what was found in it."""
    return Data(payable_view(await call.read_inline(store.find, call.principal, id)))


@get("/v2/payables/{id}/history", scope="payables:read", errors=(403, 404))
async def get_payable_history(call: Call, id: Uuid) -> Data[list[PayableStep]]:
    """Read what was done with an invoice, by whom."""

    def unit(tx: Tx) -> list[PayableStep]:
        return [step_view(step) for step in store.steps_of(tx, store.find(tx, call.principal, id))]

    return Data(await call.read(unit))


@get("/v2/payables/{id}/file", scope="payables:read", errors=(403, 404), media_types=_FILE_TYPES)
async def get_payable_file(call: Call, id: Uuid) -> Download:
    """Read the file back as it came, byte for byte."""

    def unit(tx: Tx) -> tuple[FileRow, bytes]:
        file = store.files_of(tx, store.find(tx, call.principal, id))[0]
        return file, store.content_of(tx, file)

    file, content = await call.read(unit)
    return Download(content, file.media_type, file.file_name)


@get("/v2/payables/{id}/document", scope="payables:read", errors=(403, 404), media_types=("text/html",))
async def get_payable_document(call: Call, query: DocumentQuery, id: Uuid) -> Download:
    """Read the invoice as a page for people: all that the file says, whatever its format."""
    row = await call.read_inline(store.find, call.principal, id)
    content = await call.off_loop(_document, row, query.language)
    return Download(content, "text/html", f"{row.id}.html")


def _document(row: PayableRow, language: Language) -> bytes:
    return as_page(msgspec.json.decode(row.invoice, type=Invoice), language)


# --- Decisions


@post("/v2/payables/{id}/release", scope="payables:write", role="member", statuses=(200,), errors=ERRORS)
async def release_payable(call: Call, id: Uuid, body: NewRelease) -> Data[Payable]:
    """Release an invoice for payment.

    Above the organisation's sum it takes two people; after the first it stays `to_release`. Nothing is paid by it. If the settings
    say so, it is booked with the accounts that were accepted for it.
    """
    writing = await booking.prepare_release(call, id)
    decision = Decision(call.principal, id, call.actor, body.comment)
    return await call.commit(_released, decision, writing)


def _released(tx: Tx, decision: Decision, writing: Writing | None) -> Data[Payable]:
    row = release(tx, decision)
    booking.book_released(tx, row, writing, decision.actor)
    return Data(payable_view(row))


@post("/v2/payables/{id}/reject", scope="payables:write", statuses=(200,), errors=(403, 404, 409))
async def reject_payable(call: Call, id: Uuid, body: NewRejection) -> Data[Payable]:
    """Reject an invoice, for good, with the reason."""
    return await _decide(call, reject, id, body.reason)


@post("/v2/payables/{id}/hold", scope="payables:write", statuses=(200,), errors=(403, 404, 409))
async def hold_payable(call: Call, id: Uuid, body: NewHold) -> Data[Payable]:
    """Let an invoice wait. A release of it is taken back."""
    return await _decide(call, hold, id, body.comment, body.until)


@post("/v2/payables/{id}/creditor", scope="payables:write", statuses=(200,), errors=(403, 404, 409))
async def assign_creditor(call: Call, id: Uuid, body: NewCreditor) -> Data[Payable]:
    """Say whose invoice it is: the person account of a creditor.

    If the invoice names a bank account that this creditor is not known by, it stops until a person confirms it.
    """
    row = await call.read_inline(store.find, call.principal, id)
    connection_id, client_id = (body.connection_id or row.connection_id).lower(), body.client_id or row.client_id
    if not connection_id:
        found = await intake.books_for(call.context, call.principal, row.organization_id, None, None)
        if found is None:
            raise BadRequest(
                "The field `connection_id` is required: the invoice belongs to no books yet.", field="connection_id"
            )
        connection_id, client_id = found.connection_id, found.client.client_id
    await _organization(call, row.organization_id, connection_id)
    access = await open_books(call.context, call.principal, connection_id, client_id or None)
    async with access.to("personenkonten") as books:
        creditor = KnownCreditor(connection_id, books.client_id, *await _creditor(books, body.konto))
    return await _decide(call, assign, id, "", creditor)


async def _creditor(books: ClientBooks, number: str) -> tuple[str, tuple[str, ...]]:
    """Returns the account in full, and the bank accounts it is known by. Raises BadRequest if it is no creditor of the books."""
    years = await books.geschaeftsjahre()
    try:
        konto = technical(number, max(years).konto_laenge if years else 4)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path="konto", reason=error), field="konto") from None
    if not is_personenkonto(konto) or is_debitor(konto):
        raise BadRequest("The field `konto` must be the person account of a creditor.", field="konto")
    for partner in await books.geschaeftspartner():
        if partner.konto == konto:
            return konto, partner.ibans
    raise BadRequest("The field `konto`: the books have no such creditor.", field="konto")


@post(
    "/v2/payables/{id}/confirmations",
    scope="payables:write",
    caller="key or session",
    role="member",
    confirm=True,
    statuses=(200,),
    errors=(403, 404, 409),
    body_example={"stop": "iban_changed", "comment": "am Telefon bestätigt"},
)
async def confirm_stop(call: Call, id: Uuid, body: NewConfirmation) -> Data[Payable]:
    """Say that what stopped an invoice is right: a changed IBAN, or a number that is known with other sums.

    Only a signed-in person with a second factor may, having shown within ten minutes who they are; never a key.
    """
    return await _decide(call, confirm, id, body.comment, body.stop)


async def _decide(call: Call, unit: Unit, payable_id: str, comment: str, *more: object) -> Data[Payable]:
    decision = Decision(call.principal, payable_id, call.actor, comment)
    return await call.commit(_decided, unit, decision, more)


def _decided(tx: Tx, unit: Unit, decision: Decision, more: tuple[object, ...]) -> Data[Payable]:
    return Data(payable_view(unit(tx, decision, *more)))


# --- Settings


@get("/v2/payables/settings", scope="payables:read", errors=(403, 404))
async def get_payables_settings(call: Call, query: OrganizationQuery) -> Data[PayablesSettings]:
    """Read above which sum two people release, which books received invoices belong to, and when they are booked."""
    row = await call.read(store.settings_of, call.principal.organization(query.organization_id))
    return Data(_settings_view(row))


@put("/v2/payables/settings", scope="payables:write", role="admin", errors=(403, 404))
async def set_payables_settings(
    call: Call, query: OrganizationQuery, body: NewPayablesSettings
) -> Data[PayablesSettings]:
    """Say above which sum two people release, which books received invoices belong to, and when they are booked. Sets all at once."""
    organization_id = await _organization(call, query.organization_id, body.connection_id)
    limit = None if body.two_people_above is None else to_minor(body.two_people_above)
    if limit is not None and limit < 0:
        raise BadRequest("The field `two_people_above` must not be negative.", field="two_people_above")
    client_id = ""
    if body.connection_id is not None:
        access = await open_books(call.context, call.principal, body.connection_id, body.client_id)
        async with access.to("stammdaten") as books:
            client_id = books.client_id
    elif body.client_id is not None:
        raise BadRequest("The field `client_id` needs `connection_id`.", field="connection_id")
    row = SettingsRow(organization_id, limit, (body.connection_id or "").lower(), client_id, call.actor.name, 0,
        body.book_on or "",
    )  # fmt: skip
    return await call.commit(_save_settings, row, call.actor)


def _save_settings(tx: Tx, row: SettingsRow, actor: Actor) -> Data[PayablesSettings]:
    store.lock(tx, row.organization_id)
    store.save_settings(tx, row._replace(changed_at=tx.now))
    audit.record(
        tx, row.organization_id, actor, "payables.settings", row.organization_id,
        two_people_above=row.two_people_minor, connection_id=row.connection_id, client_id=row.client_id,
        book_on=row.book_on,
    )  # fmt: skip
    return Data(_settings_view(row))


def _settings_view(row: SettingsRow | None) -> PayablesSettings:
    if row is None:
        return PayablesSettings(two_people_above=None, connection_id=None, client_id=None, book_on=None)
    limit = None if row.two_people_minor is None else from_minor(row.two_people_minor)
    return PayablesSettings(
        two_people_above=limit,
        connection_id=row.connection_id or None,
        client_id=row.client_id or None,
        book_on="acceptance" if row.book_on == "acceptance" else "release" if row.book_on else None,
    )


# Received invoices that are handed over by their address: fetched here, within bounds, and received as any other file.


FETCH_SECONDS = 20
MAX_NAME = 255


class NewFileAddress(Body):
    address: Annotated[
        str,
        Meta(min_length=8, max_length=2000, description="Where the file lies, public and over TLS; redirects are not followed."),
    ]  # fmt: skip
    file_name: Annotated[str, Meta(min_length=1, max_length=MAX_NAME)] | None = None


@post(
    "/v2/payables/files/by-address",
    scope="payables:write",
    statuses=(201, 200),
    errors=(403, 404, 409, 413, 422),
    body_example={"address": "https://files.example.com/invoices/RE-2026-118.xml"},
)
async def receive_by_address(call: Call, query: OrganizationQuery, body: NewFileAddress) -> Data[Payable]:
    """Send a received invoice by its address instead of its bytes. The answers are those of `POST /v2/payables/files`."""
    organization_id = call.principal.organization(query.organization_id)
    content = await _fetch(call, body.address)
    name = body.file_name or unquote(urlsplit(body.address).path.rpartition("/")[2])[:MAX_NAME]
    upload = Upload(BytesIO(content), name, len(content), hashlib.sha256(content).hexdigest())
    answer: Data[Payable] = await receive_file.handler(
        call, query=FilesQuery(organization_id=organization_id), body=upload
    )
    return answer


async def _fetch(call: Call, address: str) -> bytes:
    try:
        reply = await call.context.part(Events).outbound.send(
            "GET", address, seconds=FETCH_SECONDS, max_bytes=MAX_FILE_BYTES, whole=True
        )
    except Refused as error:
        raise BadRequest(str(error), field="address") from None
    except Unreached as error:
        raise Conflict(said("The file could not be fetched. {reason}", reason=str(error)), field="address") from None
    if reply.status != 200:
        raise Conflict(said("The address answered with {status}.", status=reply.status), field="address")
    return reply.content
