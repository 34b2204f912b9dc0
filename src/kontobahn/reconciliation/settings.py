"""Which books a bank account belongs to, who books, and what may act alone: the settings of an account, with their calls."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import get, put
from kontobahn.api.wire import Answer, Body, ListQuery, Timestamp, Uuid, form
from kontobahn.banking import accounts
from kontobahn.banking.fields import NumericId
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict
from kontobahn.ledger.connections import ERRORS, ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.konto import is_personenkonto, technical
from kontobahn.ledger.provider import ClientBooks
from kontobahn.reconciliation import examples, store
from kontobahn.reconciliation.core.model import ACTING_CLASSES
from kontobahn.reconciliation.store import AccountSettings, Bucht

ActingClass = Literal["A1", "A2", "A3", "A4", "A5"]
Kontonummer = Annotated[str, form("an account number of digits", r"^[0-9]{1,9}$", examples=["1200"])]


class NeueEinstellungen(Body):
    connectionId: Annotated[Uuid, Meta(description="The ledger connection that the account's movements belong to.")]
    sachkonto: Annotated[Kontonummer, Meta(description="The bank's ledger account.")]
    clientId: ClientId | None = None
    gebuehrenkonto: Annotated[Kontonummer, Meta(description="For fees of returns.")] | None = None
    transferkonto: Annotated[Kontonummer, Meta(description="For transfers between own accounts.")] | None = None
    start_date: Annotated[date, Meta(description="Earlier transactions were dealt with elsewhere.")] | None = None
    bucht: Annotated[
        Bucht,
        Meta(description="Who books: `kanzlei`, so that matches are a list for the adviser, or `kontobahn`."),
    ] = "kanzlei"
    automatisch: Annotated[
        list[ActingClass],
        Meta(max_length=5, description="The classes of evidence that are matched without asking; none when omitted."),
    ] = []  # noqa: RUF012 - msgspec copies it


class Kontoeinstellungen(Answer):
    account_id: str
    connectionId: Uuid
    clientId: str
    sachkonto: str
    gebuehrenkonto: str | None
    transferkonto: str | None
    start_date: date | None
    bucht: Bucht
    automatisch: list[ActingClass]
    geaendert_von: str
    geaendert_am: Timestamp


class EinstellungenAntwort(Answer):
    data: Kontoeinstellungen


class EinstellungenListe(Answer):
    data: list[Kontoeinstellungen]


@put(
    "/v2/reconciliation/accounts/{account_id}",
    scope="ledger:write",
    errors=ERRORS,
    example=examples.SETTINGS,
    body_example=examples.SETTINGS_SENT,
)
async def set_up_account(call: Call, account_id: NumericId, body: NeueEinstellungen) -> EinstellungenAntwort:
    """Say which books a bank account belongs to, who books, and what may be matched without asking.

    Sets all fields at once; one that is left out has its default. Nothing acts alone until a class is named in `automatisch`: make
    a trial run first. Matches that stand stay as they are.
    """
    access = await open_books(call.context, call.principal, body.connectionId, body.clientId)
    async with access.to("stammdaten") as books:
        laenge = await konto_laenge(books)
        row = AccountSettings(
            organization_id="",
            account_id=int(account_id),
            connection_id=body.connectionId.lower(),
            client_id=books.client_id,
            sachkonto=ledger_account("sachkonto", body.sachkonto, laenge),
            gebuehrenkonto=ledger_account("gebuehrenkonto", body.gebuehrenkonto, laenge),
            transferkonto=ledger_account("transferkonto", body.transferkonto, laenge),
            start_date=body.start_date.isoformat() if body.start_date else "",
            bucht=body.bucht,
            automatisch=" ".join(name for name in ACTING_CLASSES if name in body.automatisch),
            changed_by=call.actor.name,
            changed_at=0,
        )
        return await call.commit(save, call.principal, row, call.actor)


@get("/v2/reconciliation/accounts", scope="ledger:read", errors=(403, 404), example=examples.ALL_SETTINGS)
async def list_set_up_accounts(call: Call, query: ListQuery) -> EinstellungenListe:
    """List the bank accounts that are set up for reconciliation."""
    organizations = call.principal.organizations(query.organization_id)
    return EinstellungenListe(data=await call.read(listing, organizations))


def listing(tx: Tx, organizations: tuple[str, ...]) -> list[Kontoeinstellungen]:
    condition = f"{in_scope(len(organizations))} ORDER BY organization_id, account_id"
    return [view(row) for row in store.ACCOUNTS.all(tx, condition, *organizations)]


def save(tx: Tx, principal: Principal, row: AccountSettings, actor: Actor) -> EinstellungenAntwort:
    account = accounts.find(tx, principal, str(row.account_id))
    connection = find_connection(tx, principal, row.connection_id)
    if connection.organization_id != account.organization_id:
        raise Conflict("The bank account and the books belong to different organisations.", field="connectionId")
    store.lock(tx, account.organization_id)
    row = row._replace(organization_id=account.organization_id, changed_at=tx.now)
    if store.account_settings(tx, account.organization_id, account.id) is None:
        store.ACCOUNTS.insert(tx, row)
    else:
        store.ACCOUNTS.update(tx, row, **row._asdict())
    audit.record(
        tx, account.organization_id, actor, "reconciliation.settings", str(account.id),
        sachkonto=row.sachkonto, bucht=row.bucht, automatisch=row.automatisch,
    )  # fmt: skip
    return EinstellungenAntwort(data=view(row))


def view(row: AccountSettings) -> Kontoeinstellungen:
    return Kontoeinstellungen(
        account_id=str(row.account_id),
        connectionId=row.connection_id,
        clientId=row.client_id,
        sachkonto=row.sachkonto,
        gebuehrenkonto=row.gebuehrenkonto or None,
        transferkonto=row.transferkonto or None,
        start_date=date.fromisoformat(row.start_date) if row.start_date else None,
        bucht=row.bucht,
        automatisch=sorted(row.acting),  # type: ignore[arg-type]
        geaendert_von=row.changed_by,
        geaendert_am=to_datetime(row.changed_at),
    )


def not_set_up(account_id: int) -> Conflict:
    """The error for an account that no books were named for."""
    return Conflict(
        "The account is not set up for reconciliation: say first which books it belongs to, with"
        f" PUT /v2/reconciliation/accounts/{account_id}.",
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


# --- Account numbers of a body


async def konto_laenge(books: ClientBooks) -> int:
    """How many digits the client's own ledger accounts have, in its latest fiscal year."""
    years = await books.geschaeftsjahre()
    return max(years).konto_laenge if years else 4


def ledger_account(field: str, nummer: str | None, laenge: int) -> str:
    konto = in_full(field, nummer, laenge) if nummer else ""
    if konto and is_personenkonto(konto):
        raise BadRequest(f"The field `{field}` must be a ledger account, not a person account.", field=field)
    return konto


def in_full(field: str, nummer: str, laenge: int) -> str:
    try:
        return technical(nummer, laenge)
    except ValueError as error:
        raise BadRequest(f"The field `{field}` {error}.", field=field) from None
