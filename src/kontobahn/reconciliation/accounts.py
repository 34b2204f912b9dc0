"""Settings of a bank account, with their calls: its books, who books, and which classes of evidence may act alone."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid, form
from kontobahn.banking.connections import accounts
from kontobahn.banking.wire import NumericId
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.ledger.connections import ERRORS, BooksAccess, ClientId
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.connections import open_books as open_ledger
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.provider import ClientBooks
from kontobahn.reconciliation import store, wire
from kontobahn.reconciliation.core.model import ACTING_CLASSES
from kontobahn.reconciliation.store import AccountSettings, BookedBy
from kontobahn.sentences import said

ActingClass = Literal["A1", "A2", "A3", "A4", "A5"]
Konto = Annotated[str, form("an account number of digits", r"^[0-9]{1,9}$", examples=["1200"])]


class NewReconciliationSettings(Body):
    connection_id: Annotated[Uuid, Meta(description="The ledger connection that the account's movements belong to.")]
    konto: Annotated[Konto, Meta(description="The bank's ledger account.")]
    client_id: ClientId | None = None
    fee_konto: Annotated[Konto, Meta(description="For fees of returns.")] | None = None
    transfer_konto: Annotated[Konto, Meta(description="For transfers between own accounts.")] | None = None
    start_date: Annotated[date, Meta(description="Earlier transactions were dealt with elsewhere.")] | None = None
    booked_by: Annotated[
        BookedBy,
        Meta(description="Who books: `adviser`, so that matches are a list for the adviser, or `kontobahn`."),
    ] = "adviser"
    automatic_classes: Annotated[
        list[ActingClass],
        Meta(max_length=5, description="The classes of evidence that are matched without asking; none when omitted."),
    ] = []  # noqa: RUF012 - msgspec copies it


class ReconciliationSettings(Answer):
    account_id: str
    connection_id: Uuid
    client_id: str
    konto: str
    fee_konto: str | None
    transfer_konto: str | None
    start_date: date | None
    booked_by: BookedBy
    automatic_classes: list[ActingClass]
    updated_by: str
    updated_at: Timestamp


@put(
    "/v2/reconciliation/accounts/{account_id}",
    scope="ledger:write",
    errors=ERRORS,
    example=wire.SETTINGS,
    body_example=wire.SETTINGS_SENT,
)
async def set_up_account(
    call: Call, account_id: NumericId, body: NewReconciliationSettings
) -> Data[ReconciliationSettings]:
    """Say which books a bank account belongs to, who books, and what may be matched without asking.

    Sets all fields at once; one that is left out has its default. Nothing acts alone until a class is named in `automatic_classes`: make
    a trial run first. Matches that stand stay as they are.
    """
    access = await open_books(call.context, call.principal, body.connection_id, body.client_id)
    async with access.to("stammdaten") as books:
        length = await konto_laenge(books)
        row = AccountSettings(
            organization_id="",
            account_id=int(account_id),
            connection_id=body.connection_id.lower(),
            client_id=books.client_id,
            konto=ledger_account("konto", body.konto, length),
            fee_konto=ledger_account("fee_konto", body.fee_konto, length),
            transfer_konto=ledger_account("transfer_konto", body.transfer_konto, length),
            start_date=body.start_date.isoformat() if body.start_date else "",
            booked_by=body.booked_by,
            automatic_classes=" ".join(name for name in ACTING_CLASSES if name in body.automatic_classes),
            changed_by=call.actor.name,
            changed_at=0,
        )
        return await call.commit(save, call.principal, row, call.actor)


@get("/v2/reconciliation/accounts", scope="ledger:read", errors=(403, 404), example=wire.ALL_SETTINGS)
async def list_set_up_accounts(call: Call, query: ListQuery) -> Data[list[ReconciliationSettings]]:
    """List the bank accounts that are set up for reconciliation."""
    organizations = call.principal.organizations(query.organization_id)
    return Data(await call.read(listing, organizations))


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[ReconciliationSettings]:
    condition = f"{in_scope(len(organizations))} ORDER BY organization_id, account_id"
    return [view(row) for row in store.ACCOUNTS.all(tx, condition, *organizations)]


def save(tx: Tx, principal: Principal, row: AccountSettings, actor: Actor) -> Data[ReconciliationSettings]:
    account = accounts.find(tx, principal, str(row.account_id))
    connection = find_connection(tx, principal, row.connection_id)
    if connection.organization_id != account.organization_id:
        raise Conflict("The bank account and the books belong to different organisations.", field="connection_id")
    store.lock(tx, account.organization_id)
    row = row._replace(organization_id=account.organization_id, account_id=account.id, changed_at=tx.now)
    if store.account_settings(tx, account.organization_id, account.id) is None:
        store.ACCOUNTS.insert(tx, row)
    else:
        store.ACCOUNTS.update(tx, row, **row._asdict())
    audit.record(
        tx, account.organization_id, actor, "reconciliation.settings", str(account.id),
        konto=row.konto, booked_by=row.booked_by, automatic_classes=row.automatic_classes,
    )  # fmt: skip
    return Data(view(row))


def view(row: AccountSettings) -> ReconciliationSettings:
    return from_row(
        ReconciliationSettings,
        row,
        account_id=str(row.account_id),
        fee_konto=row.fee_konto or None,
        transfer_konto=row.transfer_konto or None,
        start_date=date.fromisoformat(row.start_date) if row.start_date else None,
        automatic_classes=sorted(row.acting),
        updated_by=row.changed_by,
        updated_at=to_datetime(row.changed_at),
    )


def not_set_up(account_id: int) -> Conflict:
    """The error for an account that no books were named for."""
    return Conflict(
        said(
            "The account is not set up for reconciliation: say first which books it belongs to, with PUT"
            " /v2/reconciliation/accounts/{account_id}.",
            account_id=account_id,
        ),
        account_id=str(account_id),
    ).retryable()


def changed_meanwhile() -> Conflict:
    return Conflict("The settings of the account were changed meanwhile: try it again.").retryable()


def of_account(tx: Tx, organization_id: str, account_id: int) -> AccountSettings:
    """The settings of an account. Raises Conflict if it has none."""
    found = store.account_settings(tx, organization_id, account_id)
    if found is None:
        raise not_set_up(account_id)
    return found


async def open_books(
    context: Context, principal: Principal, connection_id: str, client_id: str | None = None
) -> BooksAccess:
    """Opens the books of a client. Raises BadRequest that names `client_id` if the connection has no such client."""
    try:
        return await open_ledger(context, principal, connection_id, client_id)
    except BadRequest as error:
        if error.extra.get("field") != "clientId":
            raise
        raise BadRequest(
            said("The field `client_id`: the connection has no client {client_id}.", client_id=client_id),
            field="client_id",
        ) from None


# --- Account numbers of a body


async def konto_laenge(books: ClientBooks) -> int:
    """Returns how many digits the client's own ledger accounts have, in its latest fiscal year."""
    years = await books.geschaeftsjahre()
    return max(years).konto_laenge if years else 4


def ledger_account(field: str, number: str | None, length: int) -> str:
    konto = in_full(field, number, length) if number else ""
    if konto and is_personenkonto(konto):
        raise BadRequest(
            said("The field `{field}` must be a ledger account, not a person account.", field=field), field=field
        )
    return konto


def in_full(field: str, number: str, length: int) -> str:
    try:
        return technical(number, length)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path=field, reason=error), field=field) from None
