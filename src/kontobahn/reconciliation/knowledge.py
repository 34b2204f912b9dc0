"""What was learned, to be seen and deleted; and rules for what belongs to a ledger account: rent, fees, wages."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope
from kontobahn.api.call import Call
from kontobahn.api.declare import delete, get, put
from kontobahn.api.paging import page
from kontobahn.api.wire import Answer, Body, Name, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.ids import new_id
from kontobahn.ledger.accounting import one_line
from kontobahn.ledger.connections import ERRORS, ClientQuery, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.money import from_minor, to_minor
from kontobahn.reconciliation import examples, learning, store
from kontobahn.reconciliation.core.payer import CONFIRMATIONS
from kontobahn.reconciliation.settings import Kontonummer, konto_laenge, ledger_account
from kontobahn.reconciliation.store import Client, LearnedRow, RuleRow
from kontobahn.reconciliation.wire import BANK_SCOPE

MAX_RULES = 200
# A text of one or two characters is in every purpose.
_LEAST_TEXT = 3
Richtung = Literal["eingang", "ausgang", "alle"]
SIGN: dict[Richtung, Literal["in", "out", "any"]] = {"eingang": "in", "ausgang": "out", "alle": "any"}
_RICHTUNG = {sign: word for word, sign in SIGN.items()}


class GelerntQuery(ClientQuery):
    from_id: Annotated[Uuid, Meta(description="Only what has a higher id: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Gelernt(Answer):
    id: Uuid
    art: Literal["iban", "name"]
    wert: str
    kontonummer: str
    # How often it was confirmed, and whether that is often enough to be used.
    bestaetigt: int
    wirksam: bool
    zuerst: Timestamp
    zuletzt: Timestamp


class GelerntAntwort(Answer):
    data: Gelernt


class GelerntesAntwort(Answer):
    data: list[Gelernt]


class Regel(Body):
    name: Name
    sachkonto: Annotated[Kontonummer, Meta(description="The ledger account that such transactions belong to.")]
    text: Annotated[str, one_line(140), Meta(description="In purpose or name, in any case.")] = ""
    iban: Annotated[str, Meta(max_length=42, description="Of the other side.")] = ""
    richtung: Richtung = "alle"
    von: Annotated[Decimal, Meta(description="The least amount, without its sign.")] | None = None
    bis: Annotated[Decimal, Meta(description="The greatest amount, without its sign.")] | None = None


class NeueRegeln(Body):
    regeln: Annotated[list[Regel], Meta(max_length=MAX_RULES, description="All of them: the first that fits counts.")]


class GespeicherteRegel(Answer):
    id: Uuid
    name: str
    sachkonto: str
    text: str
    iban: str
    richtung: Richtung
    von: Decimal | None
    bis: Decimal | None


class RegelnAntwort(Answer):
    data: list[GespeicherteRegel]


# --- Learned


@get(
    "/v2/reconciliation/knowledge",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=ERRORS,
    example={"data": [examples.LEARNED]},
)
async def list_knowledge(call: Call, query: GelerntQuery) -> GelerntesAntwort:
    """List what confirmations taught: which IBAN and which name pays for which person account.

    It is used from the second confirmation on.
    """
    client = await _client(call, query)
    rows = await call.read(_learned, client, query.from_id, query.limit + 1)
    return GelerntesAntwort(data=[_gelernt(row) for row in page(call, rows, query.limit, lambda row: row.id)])


@delete(
    "/v2/reconciliation/knowledge/{id}",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example={"data": examples.LEARNED},
)
async def delete_knowledge(call: Call, id: Uuid) -> GelerntAntwort:
    """Forget something that was learned. Matches that stand stay as they are."""
    return await call.commit(forget, call.principal, id, call.actor)


def _learned(tx: Tx, client: Client, after: str | None, limit: int) -> list[LearnedRow]:
    return store.LEARNED.all(
        tx, "organization_id = ? AND connection_id = ? AND client_id = ? AND id > ? ORDER BY id LIMIT ?",
        *client, (after or "").lower(), limit,
    )  # fmt: skip


def forget(tx: Tx, principal: Principal, learned_id: str, actor: Actor) -> GelerntAntwort:
    row = find_in_scope(tx, store.LEARNED, principal, "Knowledge", learned_id.lower())
    store.lock(tx, row.organization_id)
    learning.delete(tx, row)
    # What it was is personal, and is to be forgotten: the log says only that it was.
    audit.record(tx, row.organization_id, actor, "reconciliation.forget", row.id, kind=row.kind, kontonummer=row.konto)
    return GelerntAntwort(data=_gelernt(row))


def _gelernt(row: LearnedRow) -> Gelernt:
    return Gelernt(
        id=row.id,
        art=row.kind,
        wert=row.value,
        kontonummer=row.konto,
        bestaetigt=row.times,
        wirksam=row.times >= CONFIRMATIONS,
        zuerst=to_datetime(row.first_at),
        zuletzt=to_datetime(row.last_at),
    )


# --- Rules


@get("/v2/reconciliation/rules", scope="ledger:read", errors=ERRORS, example=examples.RULES)
async def list_rules(call: Call, query: ClientQuery) -> RegelnAntwort:
    """List the client's rules in the order in which they are tried."""
    client = await _client(call, query)
    return RegelnAntwort(data=[_rule_view(row) for row in await call.read(store.rules, client)])


@put(
    "/v2/reconciliation/rules",
    scope="ledger:write",
    errors=ERRORS,
    example=examples.RULES,
    body_example=examples.RULES_SENT,
)
async def put_rules(call: Call, query: ClientQuery, body: NeueRegeln) -> RegelnAntwort:
    """Set the client's rules, all at once: transactions of a kind that belong to a ledger account.

    A rule proposes and never acts alone. It needs a text of at least three characters, or an IBAN.
    """
    connection = await call.read_inline(find_connection, call.principal, query.connection_id)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("stammdaten") as books:
        laenge = await konto_laenge(books)
        client = Client(connection.organization_id, connection.id, books.client_id)
    rows = [_row(client, place, regel, laenge) for place, regel in enumerate(body.regeln)]
    return await call.commit(replace_rules, client, rows, call.actor)


def replace_rules(tx: Tx, client: Client, rows: list[RuleRow], actor: Actor) -> RegelnAntwort:
    store.lock(tx, client.organization_id)
    known: dict[tuple[Any, ...], str] = {row[5:]: row.id for row in store.rules(tx, client)}
    # A rule that stays as it is keeps its id: reasons of proposals name it.
    rows = [row._replace(id=known.pop(row[5:], row.id)) for row in rows]
    tx.run("DELETE FROM recon_rules WHERE organization_id = ? AND connection_id = ? AND client_id = ?", *client)
    store.RULES.insert_many(tx, rows)
    audit.record(
        tx, client.organization_id, actor, "reconciliation.rules", client.connection_id,
        clientId=client.client_id, regeln=len(rows),
    )  # fmt: skip
    return RegelnAntwort(data=[_rule_view(row) for row in rows])


def _row(client: Client, place: int, regel: Regel, laenge: int) -> RuleRow:
    at = f"regeln[{place}]"
    text, iban = regel.text.strip(), regel.iban.replace(" ", "").upper()
    if len(text) < _LEAST_TEXT and not iban:
        raise BadRequest(
            f"The field `{at}.text` must have at least {_LEAST_TEXT} characters, or `{at}.iban` be given.",
            field=f"{at}.text",
        )
    _check_iban(f"{at}.iban", iban)
    von, bis = (None if amount is None else to_minor(amount) for amount in (regel.von, regel.bis))
    if (von or 0) < 0 or (bis is not None and bis < (von or 0)):
        raise BadRequest(
            f"The field `{at}.bis` must not be less than `{at}.von`, nor either negative.", field=f"{at}.bis"
        )
    return RuleRow(
        *client, place, new_id(), regel.name, text, iban, SIGN[regel.richtung], von, bis,
        ledger_account(f"{at}.sachkonto", regel.sachkonto, laenge),
    )  # fmt: skip


def _check_iban(field: str, iban: str) -> None:
    try:
        if iban:
            sepa.check_iban(field, iban)
    except BadRequest as error:
        raise BadRequest(str(error), field=field) from None


def _rule_view(row: RuleRow) -> GespeicherteRegel:
    return GespeicherteRegel(
        id=row.id,
        name=row.name,
        sachkonto=row.sachkonto,
        text=row.text,
        iban=row.iban,
        richtung=_RICHTUNG[row.sign],
        von=None if row.least_minor is None else from_minor(row.least_minor),
        bis=None if row.most_minor is None else from_minor(row.most_minor),
    )


async def _client(call: Call, query: ClientQuery) -> Client:
    connection = await call.read_inline(find_connection, call.principal, query.connection_id)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("stammdaten") as books:
        return Client(connection.organization_id, connection.id, books.client_id)
