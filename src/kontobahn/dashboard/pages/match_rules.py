"""Rules for what belongs to a ledger account, with what they would have hit; and what was learned, to be seen and forgotten."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.banking.transactions import listing
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.listing import PAGE_SIZE
from kontobahn.dashboard.views import reconciliation as views
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.ledger.connections import ClientQuery
from kontobahn.money import to_minor
from kontobahn.reconciliation import knowledge
from kontobahn.reconciliation.core.model import Movement, Rule
from kontobahn.reconciliation.core.special import Rules
from kontobahn.reconciliation.knowledge import GelerntQuery, GespeicherteRegel, NeueRegeln, Regel, Richtung
from kontobahn.reconciliation.movements import movement_of
from kontobahn.reconciliation.settings import Kontonummer
from kontobahn.reconciliation.store import Client

RULES, LEARNED = f"{ROOT}/reconciliation-rules", f"{ROOT}/reconciliation-knowledge"
DIRECTIONS = {"alle": N_("money in and out"), "eingang": N_("money in"), "ausgang": N_("money out")}
# What a rule would have hit is looked for in so many days, and so many transactions of each account.
TRIED_DAYS, TRIED_TRANSACTIONS = 90, 1_000
SHOWN_HITS = 5


class Which(Struct):
    """The books, as their connection and client with a blank between them; and the rule to be changed."""

    books: str = ""
    rule: str = ""
    # From a transaction: what a new rule begins with.
    name: str = ""
    text: str = ""
    iban: str = ""
    richtung: str = ""


class RuleForm(Struct):
    name: Annotated[str, Meta(max_length=100)]
    sachkonto: Kontonummer
    text: Annotated[str, Meta(max_length=140)] = ""
    iban: Annotated[str, Meta(max_length=42)] = ""
    richtung: Richtung = "alle"
    von: Decimal | None = None
    bis: Decimal | None = None


class Hits(NamedTuple):
    """Transactions that a rule would have been the first to fit, and the latest of them."""

    number: int
    latest: list[Movement]


async def _client(visit: Visit) -> Client:
    """The client that a form is about."""
    clients = await visit.read(_clients, visit.organization_id)
    if not clients:
        raise NotFound("There is no such page.")
    return _chosen(clients, visit.form.text("books"))


def _chosen(clients: list[Client], wanted: str) -> Client:
    return next((one for one in clients if _name(one) == wanted), clients[0])


def _clients(tx: Tx, organization_id: str) -> list[Client]:
    return list(dict.fromkeys(row.client for row in views.set_up(tx, organization_id)))


async def _rules(visit: Visit, client: Client) -> list[GespeicherteRegel]:
    """The client's rules, with accounts as the client writes them."""
    found: list[GespeicherteRegel] = (await visit.ask(knowledge.list_rules, query=_query(client))).data
    written = await visit.read(views.as_written, client, *(rule.sachkonto for rule in found))
    for rule, konto in zip(found, written, strict=True):
        rule.sachkonto = konto
    return found


def _name(client: Client) -> str:
    return f"{client.connection_id} {client.client_id}"


def _query(client: Client) -> ClientQuery:
    return ClientQuery(connection_id=client.connection_id, client_id=client.client_id)


# --- Rules


@page("/reconciliation-rules")
async def rule_list(visit: Visit) -> Response:
    wanted = visit.filters(Which).wanted
    clients = await visit.read(_clients, visit.organization_id)
    if not clients:
        return visit.show("match_rules.html", client=None)
    client = _chosen(clients, visit.form.text("books") or wanted.books)
    rules = await _rules(visit, client)
    changed = next((rule for rule in rules if rule.id == (visit.form.text("rule") or wanted.rule)), None)
    tried = _tried(visit.form) if visit.form.text("do") == "try" else None
    movements = await visit.read(_lately, client, visit)
    hits = await visit.off_loop(_hits, rules, movements)
    return visit.show(
        "match_rules.html",
        client=client,
        books=_name(client),
        choices=[(_name(one), one.client_id) for one in clients],
        rules=rules,
        hits=hits,
        changed=changed,
        start=changed or wanted,
        tried=await visit.off_loop(_hits, [tried], movements) if tried else None,
        directions=[(value, _(text)) for value, text in DIRECTIONS.items()],
        days=TRIED_DAYS,
    )


def _lately(tx: Tx, client: Client, visit: Visit) -> list[Movement]:
    """The latest transactions of the client's bank accounts."""
    first = visit.today - timedelta(days=TRIED_DAYS)
    accounts = [row.account_id for row in views.set_up(tx, client.organization_id) if row.client == client]
    found = [
        movement_of(transaction)
        for account_id in accounts
        for transaction in listing.posted_between(
            tx, account_id, first, visit.today, TRIED_TRANSACTIONS, latest_first=True
        )
    ]
    return sorted(found, key=lambda movement: (movement.day, movement.id), reverse=True)


def _hits(rules: list[GespeicherteRegel], movements: list[Movement]) -> dict[str, Hits]:
    index = Rules([_for_matcher(rule) for rule in rules])
    found: dict[str, list[Movement]] = {rule.id: [] for rule in rules}
    for movement in movements:
        rule = index.first(movement)
        if rule is not None:
            found[rule.id].append(movement)
    return {id: Hits(len(hit), hit[:SHOWN_HITS]) for id, hit in found.items()}


def _for_matcher(rule: GespeicherteRegel) -> Rule:
    cents = [None if amount is None else to_minor(amount) for amount in (rule.von, rule.bis)]
    iban = rule.iban.replace(" ", "").upper()
    return Rule(rule.id, rule.sachkonto, rule.text.strip(), iban, knowledge.SIGN[rule.richtung], *cents)


def _tried(form: Form) -> GespeicherteRegel | None:
    sent = form.read(RuleForm)
    return None if sent is None else GespeicherteRegel(id="", **_fields(sent))


@action("/reconciliation-rules")
async def save_rule(visit: Visit) -> Response:
    """Adds a rule, or changes one; or says what it would have hit."""
    sent = visit.form.read(RuleForm)
    if sent is not None and visit.form.text("do") != "try":
        client = await _client(visit)
        known = await _rules(visit, client)
        rules, ids = [Regel(**_fields(rule)) for rule in known], [rule.id for rule in known]
        place = ids.index(visit.form.text("rule")) if visit.form.text("rule") in ids else len(rules)
        rules[place : place + 1] = [Regel(**_fields(sent))]
        names = {f"regeln[{place}].{name}": name for name in RuleForm.__struct_fields__}
        with visit.form.refusals(**names):
            await visit.ask(knowledge.put_rules, query=_query(client), body=NeueRegeln(regeln=rules))
            return visit.redirect(f"{RULES}?{_address(client)}", _("The rule is saved. The next run uses it."))
    response: Response = await rule_list.handler(visit)
    return response


def _fields(rule: RuleForm | GespeicherteRegel) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in Regel.__struct_fields__}


def _address(client: Client) -> str:
    return f"books={client.connection_id}+{client.client_id}"


@action("/reconciliation-rules/delete")
async def delete_rule(visit: Visit) -> Response:
    client = await _client(visit)
    found = await _rules(visit, client)
    left = [Regel(**_fields(rule)) for rule in found if rule.id != visit.form.text("rule")]
    with visit.form.refusals():
        await visit.ask(knowledge.put_rules, query=_query(client), body=NeueRegeln(regeln=left))
        return visit.redirect(
            f"{RULES}?{_address(client)}", _("The rule is deleted. Matches that stand stay as they are.")
        )
    response: Response = await rule_list.handler(visit)
    return response


# --- Learned


@page("/reconciliation-knowledge")
async def learned_list(visit: Visit) -> Response:
    filters = visit.filters(Which)
    clients = await visit.read(_clients, visit.organization_id)
    if not clients:
        return visit.show("match_learned.html", client=None)
    client = _chosen(clients, filters.wanted.books)
    after = filters.after if len(filters.after) == 36 else None
    query = GelerntQuery(
        connection_id=client.connection_id, client_id=client.client_id, from_id=after, limit=PAGE_SIZE + 1
    )
    found = (await visit.ask(knowledge.list_knowledge, query=query)).data
    return visit.show(
        "match_learned.html",
        client=client,
        books=_name(client),
        choices=[(_name(one), one.client_id) for one in clients],
        list=filters.first_page(found, lambda row: row.id),
    )


@action("/reconciliation-knowledge")
async def forget_learned(visit: Visit) -> Response:
    with visit.form.refusals():
        await visit.ask(knowledge.delete_knowledge, id=visit.form.text("learned"))
        books = visit.form.text("books").replace(" ", "+")
        return visit.redirect(f"{LEARNED}?books={books}", _("That is forgotten. Matches that stand stay as they are."))
    response: Response = await learned_list.handler(visit)
    return response
