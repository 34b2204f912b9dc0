"""Learned payers, to be seen and deleted: which IBAN and which name pays for which person account. And rules for what belongs to a
ledger account: rent, fees, wages.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import Meta

from kontobahn.access import audit
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, find_in_scope
from kontobahn.api.answers import Data, from_row
from kontobahn.api.call import Call, page
from kontobahn.api.declare import delete, get, put
from kontobahn.api.wire import Answer, Body, Name, Query, Timestamp, Uuid
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.ids import new_id
from kontobahn.ledger.connections import ERRORS, ClientId
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.partner_names import normal_name
from kontobahn.ledger.wire import one_line
from kontobahn.money import from_minor, to_minor
from kontobahn.reconciliation import store, wire
from kontobahn.reconciliation.accounts import Konto, konto_laenge, ledger_account, open_books
from kontobahn.reconciliation.core.evidence import CONFIRMATIONS
from kontobahn.reconciliation.core.model import Learned, Line
from kontobahn.reconciliation.store import Client, LearnedRow, MatchRow, RuleRow
from kontobahn.reconciliation.wire import BANK_SCOPE
from kontobahn.sentences import said

MAX_RULES = 200
# A text of one or two characters is in every purpose.
_MIN_TEXT = 3
Direction = Literal["in", "out", "any"]
# A run looks at this many of the latest.
MAX_LEARNED = 20_000
_LESSONS = ("item", "on_account")


class BooksQuery(Query):
    """Names the books that something was learned for, or that rules are for."""

    connection_id: Annotated[Uuid, Meta(description="The ledger connection, from its list of connections.")]
    client_id: ClientId | None = None


class KnowledgeQuery(BooksQuery):
    from_id: Annotated[Uuid, Meta(description="Only what has a higher id: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class LearnedPayer(Answer):
    id: Uuid
    kind: Literal["iban", "name"]
    value: str
    konto: str
    # The number of confirmations, and whether that is often enough to be used.
    confirmations: int
    effective: bool
    first_at: Timestamp
    last_at: Timestamp


class NewMatchRule(Body):
    name: Name
    konto: Annotated[Konto, Meta(description="The ledger account that such transactions belong to.")]
    text: Annotated[str, one_line(140), Meta(description="In purpose or name, in any case.")] = ""
    iban: Annotated[str, Meta(max_length=42, description="Of the other side.")] = ""
    direction: Direction = "any"
    min_amount: Annotated[Decimal, Meta(description="The least amount, without its sign.")] | None = None
    max_amount: Annotated[Decimal, Meta(description="The greatest amount, without its sign.")] | None = None
    automatic: Annotated[
        bool,
        Meta(description="Whether a run that is no trial matches by it without asking, where nothing better fits."),
    ] = False


class NewMatchRules(Body):
    rules: Annotated[
        list[NewMatchRule], Meta(max_length=MAX_RULES, description="All of them: the first that fits counts.")
    ]


class MatchRule(Answer):
    id: Uuid
    name: str
    konto: str
    text: str
    iban: str
    direction: Direction
    min_amount: Decimal | None
    max_amount: Decimal | None
    automatic: bool


# --- Learned


@get(
    "/v2/reconciliation/knowledge",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    pages_by="from_id",
    errors=ERRORS,
    example={"data": [wire.LEARNED]},
)
async def list_knowledge(call: Call, query: KnowledgeQuery) -> Data[list[LearnedPayer]]:
    """List what confirmations taught: which IBAN and which name pays for which person account.

    It is used from the second confirmation on.
    """
    client = await _client(call, query)
    rows = await call.read(_learned, client, query.from_id, query.limit + 1)
    return Data([_learned_view(row) for row in page(call, rows, query.limit, lambda row: row.id)])


@delete(
    "/v2/reconciliation/knowledge/{id}",
    scope="ledger:write",
    also_scope=BANK_SCOPE,
    errors=(403, 404),
    example={"data": wire.LEARNED},
)
async def delete_knowledge(call: Call, id: Uuid) -> Data[LearnedPayer]:
    """Forget something that was learned. Matches that stand stay as they are."""
    return await call.commit(forget, call.principal, id, call.actor)


def _learned(tx: Tx, client: Client, after: str | None, limit: int) -> list[LearnedRow]:
    return store.LEARNED.all(
        tx, "organization_id = ? AND connection_id = ? AND client_id = ? AND id > ? ORDER BY id LIMIT ?",
        *client, (after or "").lower(), limit,
    )  # fmt: skip


def forget(tx: Tx, principal: Principal, learned_id: str, actor: Actor) -> Data[LearnedPayer]:
    row = find_in_scope(tx, store.LEARNED, principal, "Knowledge", learned_id.lower())
    store.lock(tx, row.organization_id)
    _delete(tx, row)
    # Its value is personal, and is to be forgotten: the log says only that there was one.
    audit.record(tx, row.organization_id, actor, "reconciliation.forget", row.id, kind=row.kind, konto=row.konto)
    return Data(_learned_view(row))


def _learned_view(row: LearnedRow) -> LearnedPayer:
    return from_row(LearnedPayer, row, confirmations=row.times, effective=row.times >= CONFIRMATIONS)


# --- Rules


@get("/v2/reconciliation/rules", scope="ledger:read", errors=ERRORS, example=wire.RULES)
async def list_rules(call: Call, query: BooksQuery) -> Data[list[MatchRule]]:
    """List the client's rules in the order in which they are tried."""
    client = await _client(call, query)
    return Data([_rule_view(row) for row in await call.read(store.rules, client)])


@put(
    "/v2/reconciliation/rules",
    scope="ledger:write",
    errors=ERRORS,
    example=wire.RULES,
    body_example=wire.RULES_SENT,
)
async def put_rules(call: Call, query: BooksQuery, body: NewMatchRules) -> Data[list[MatchRule]]:
    """Set the client's rules, all at once: transactions of a kind that belong to a ledger account.

    A rule proposes. One that is `automatic` also acts alone, where nothing better is proposed: a trial run shows beforehand what it
    would match. A rule needs a text of at least three characters, or an IBAN.
    """
    connection = await call.read_inline(find_connection, call.principal, query.connection_id)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("stammdaten") as books:
        length = await konto_laenge(books)
        client = Client(connection.organization_id, connection.id, books.client_id)
    rows = [_row(client, place, rule, length) for place, rule in enumerate(body.rules)]
    return await call.commit(replace_rules, client, rows, call.actor)


def replace_rules(tx: Tx, client: Client, rows: list[RuleRow], actor: Actor) -> Data[list[MatchRule]]:
    store.lock(tx, client.organization_id)
    before = store.rules(tx, client)
    known: dict[tuple[Any, ...], str] = {row.meaning: row.id for row in before}
    # A rule that stays as it is keeps its id: reasons of proposals name it.
    rows = [row._replace(id=known.pop(row.meaning, row.id)) for row in rows]
    tx.run("DELETE FROM recon_rules WHERE organization_id = ? AND connection_id = ? AND client_id = ?", *client)
    store.RULES.insert_many(tx, rows)
    audit.record(
        tx, client.organization_id, actor, "reconciliation.rules", client.connection_id,
        client_id=client.client_id, rules=len(rows),
    )  # fmt: skip
    _record_acting(tx, client, before, rows, actor)
    return Data([_rule_view(row) for row in rows])


def _record_acting(tx: Tx, client: Client, before: list[RuleRow], rows: list[RuleRow], actor: Actor) -> None:
    """Records for each rule that somebody allowed to act alone, or no longer does."""
    acted, acts = ({row.id: row for row in some if row.acts} for some in (before, rows))
    for row in [*acted.values(), *acts.values()]:
        if (row.id in acted) != (row.id in acts):
            audit.record(
                tx, client.organization_id, actor, "reconciliation.rule_acts", row.id,
                name=row.name, konto=row.konto, automatic=row.id in acts,
            )  # fmt: skip


def _row(client: Client, place: int, rule: NewMatchRule, length: int) -> RuleRow:
    at = f"rules[{place}]"
    text, iban = rule.text.strip(), rule.iban.replace(" ", "").upper()
    if len(text) < _MIN_TEXT and not iban:
        raise BadRequest(
            said(
                "The field `{at}.text` must have at least {least} characters, or `{again}.iban` be given.",
                at=at,
                least=_MIN_TEXT,
                again=at,
            ),
            field=f"{at}.text",
        )
    _check_iban(f"{at}.iban", iban)
    least, most = (None if amount is None else to_minor(amount) for amount in (rule.min_amount, rule.max_amount))
    if (least or 0) < 0 or (most is not None and most < (least or 0)):
        raise BadRequest(
            said(
                "The field `{at}.max_amount` must not be less than `{again}.min_amount`, nor either negative.",
                at=at,
                again=at,
            ),
            field=f"{at}.max_amount",
        )
    return RuleRow(
        *client, place, new_id(), rule.name, text, iban, rule.direction, least, most,
        ledger_account(f"{at}.konto", rule.konto, length), int(rule.automatic),
    )  # fmt: skip


def _check_iban(field: str, iban: str) -> None:
    try:
        if iban:
            sepa.check_iban(field, iban)
    except BadRequest as error:
        raise BadRequest(str(error), field=field) from None


def _rule_view(row: RuleRow) -> MatchRule:
    return from_row(
        MatchRule,
        row,
        direction=row.sign,
        min_amount=None if row.least_minor is None else from_minor(row.least_minor),
        max_amount=None if row.most_minor is None else from_minor(row.most_minor),
        automatic=bool(row.acts),
    )


async def _client(call: Call, query: BooksQuery) -> Client:
    connection = await call.read_inline(find_connection, call.principal, query.connection_id)
    access = await open_books(call.context, call.principal, query.connection_id, query.client_id)
    async with access.to("stammdaten") as books:
        return Client(connection.organization_id, connection.id, books.client_id)


# --- Lessons of confirmations; undoing a match takes its lesson back


def learn(tx: Tx, client: Client, row: MatchRow, lines: Iterable[Line]) -> None:
    """Counts the payer for the person account, if the match has exactly one: a payer for two says nothing about either."""
    for kind, value, konto in _lesson(row, lines):
        tx.run(
            "INSERT INTO recon_learned (organization_id, id, connection_id, client_id, kind, value, konto, times, first_at, last_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (organization_id, connection_id, client_id, kind, value, konto)"
            " DO UPDATE SET times = recon_learned.times + 1, last_at = excluded.last_at",
            client.organization_id, new_id(), client.connection_id, client.client_id, kind, value, konto, tx.now, tx.now,
        )  # fmt: skip


def unlearn(tx: Tx, client: Client, row: MatchRow, lines: Iterable[Line]) -> None:
    """Takes the lesson of a match back; what somebody deleted meanwhile stays deleted."""
    if row.made_by == "engine":
        return
    for kind, value, konto in _lesson(row, lines):
        known = store.LEARNED.one(
            tx, "organization_id = ? AND connection_id = ? AND client_id = ? AND kind = ? AND value = ? AND konto = ?",
            *client, kind, value, konto,
        )  # fmt: skip
        if known is None or known.first_at > row.made_at:
            continue
        if known.times > 1:
            store.LEARNED.update(tx, known, times=known.times - 1)
        else:
            _delete(tx, known)


def _delete(tx: Tx, known: LearnedRow) -> None:
    tx.run("DELETE FROM recon_learned WHERE organization_id = ? AND id = ?", known.organization_id, known.id)


def learned_for_matcher(tx: Tx, client: Client) -> tuple[Learned, ...]:
    found = store.learned(tx, client, MAX_LEARNED)
    return tuple(
        Learned(row.konto, row.times, iban=row.value)
        if row.kind == "iban"
        else Learned(row.konto, row.times, name=row.value)
        for row in sorted(found, key=lambda row: row.id)
    )


def _lesson(row: MatchRow, lines: Iterable[Line]) -> list[tuple[Literal["iban", "name"], str, str]]:
    kontos = {line.konto for line in lines if line.kind in _LESSONS}
    if len(kontos) != 1:
        return []
    [konto] = kontos
    found: list[tuple[Literal["iban", "name"], str, str]] = []
    if row.iban:
        found.append(("iban", row.iban.replace(" ", "").upper(), konto))
    name = normal_name(row.payer)
    if name:
        found.append(("name", name, konto))
    return found
