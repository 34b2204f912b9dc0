"""Rules for what belongs to a ledger account, with what they would have hit; and what was learned, to be seen and forgotten."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.banking.transactions import store as transactions
from kontobahn.dashboard.books import as_written, writer
from kontobahn.dashboard.declare import ROOT, action, page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import PAGE_SIZE
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.errors import NotFound
from kontobahn.ledger import connections
from kontobahn.money import to_minor
from kontobahn.reconciliation import knowledge, store
from kontobahn.reconciliation.accounts import Konto
from kontobahn.reconciliation.core.model import Movement, Rule
from kontobahn.reconciliation.core.special_cases import Rules
from kontobahn.reconciliation.inputs import movement_of
from kontobahn.reconciliation.knowledge import (
    BooksQuery,
    Direction,
    KnowledgeQuery,
    MatchRule,
    NewMatchRule,
    NewMatchRules,
)
from kontobahn.reconciliation.store import Client

RULES, LEARNED = f"{ROOT}/reconciliation-rules", f"{ROOT}/reconciliation-knowledge"
DIRECTIONS = {"any": N_("money in and out"), "in": N_("money in"), "out": N_("money out")}
# The hits of a rule are searched for in this many days, and this many transactions of each account.
TRIED_DAYS, TRIED_TRANSACTIONS = 90, 1_000
SHOWN_HITS = 5


class RuleFilter(Struct):
    """The books, as their connection and client with a blank between them; and the rule to be changed."""

    books: str = ""
    rule: str = ""
    # From a transaction: what a new rule begins with.
    name: str = ""
    text: str = ""
    iban: str = ""
    direction: str = ""


class RuleForm(Struct):
    name: Annotated[str, Meta(max_length=100)]
    konto: Konto
    text: Annotated[str, Meta(max_length=140)] = ""
    iban: Annotated[str, Meta(max_length=42)] = ""
    direction: Direction = "any"
    min_amount: Decimal | None = None
    max_amount: Decimal | None = None
    automatic: bool = False


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
    return list(dict.fromkeys(row.client for row in store.all_settings(tx, organization_id)))


async def _rules(visit: Visit, client: Client) -> list[MatchRule]:
    """The client's rules, with accounts as the client writes them."""
    found: list[MatchRule] = (await visit.ask(knowledge.list_rules, query=_query(client))).data
    clients = await connections.list_clients(visit.context, visit.organization_id)
    written = as_written(clients, client.connection_id, client.client_id, *(rule.konto for rule in found))
    for rule, konto in zip(found, written, strict=True):
        rule.konto = konto
    return found


def _name(client: Client) -> str:
    return f"{client.connection_id} {client.client_id}"


def _query(client: Client) -> BooksQuery:
    return BooksQuery(connection_id=client.connection_id, client_id=client.client_id)


# --- Rules


@page("/reconciliation-rules", help="match-rules")
async def rule_list(visit: Visit) -> Response:
    wanted = visit.filters(RuleFilter).wanted
    clients = await visit.read(_clients, visit.organization_id)
    if not clients:
        return visit.show("match_rules.html", client=None)
    client = _chosen(clients, visit.form.text("books") or wanted.books)
    rules = await _rules(visit, client)
    changed = next((rule for rule in rules if rule.id == (visit.form.text("rule") or wanted.rule)), None)
    draft = _draft(visit.form) if visit.form.text("do") == "try" or _waits_for_trial(visit.form) else None
    movements = await visit.read(_recent, client, visit)
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
        draft_hits=await visit.off_loop(_hits, [draft], movements) if draft else None,
        waits=_waits_for_trial(visit.form),
        tried=_conditions(draft) if draft else visit.form.text("tried"),
        directions=[(value, _(text)) for value, text in DIRECTIONS.items()],
        days=TRIED_DAYS,
    )


def _recent(tx: Tx, client: Client, visit: Visit) -> list[Movement]:
    """The latest transactions of the client's bank accounts."""
    first = visit.today - timedelta(days=TRIED_DAYS)
    accounts = [row.account_id for row in store.all_settings(tx, client.organization_id) if row.client == client]
    found = [
        movement_of(transaction)
        for account_id in accounts
        for transaction in transactions.posted_between(
            tx, account_id, first, visit.today, TRIED_TRANSACTIONS, latest_first=True
        )
    ]
    return sorted(found, key=lambda movement: (movement.day, movement.id), reverse=True)


def _hits(rules: list[MatchRule], movements: list[Movement]) -> dict[str, Hits]:
    index = Rules([_for_matcher(rule) for rule in rules])
    found: dict[str, list[Movement]] = {rule.id: [] for rule in rules}
    for movement in movements:
        rule = index.first(movement)
        if rule is not None:
            found[rule.id].append(movement)
    return {id: Hits(len(hit), hit[:SHOWN_HITS]) for id, hit in found.items()}


def _for_matcher(rule: MatchRule) -> Rule:
    least, most = (None if amount is None else to_minor(amount) for amount in (rule.min_amount, rule.max_amount))
    iban = rule.iban.replace(" ", "").upper()
    return Rule(rule.id, rule.konto, rule.text.strip(), iban, rule.direction, least, most)


def _draft(form: Form) -> MatchRule | None:
    sent = form.read(RuleForm)
    return None if sent is None else MatchRule(id="", **_fields(sent))


def _conditions(rule: MatchRule | RuleForm) -> str:
    """The conditions that decide what a rule hits; a trial counts for the rule with the same ones."""
    least, most = ("" if amount is None else f"{amount:f}" for amount in (rule.min_amount, rule.max_amount))
    return "|".join((rule.konto, rule.text, rule.iban, rule.direction, least, most))


def _waits_for_trial(form: Form) -> bool:
    """Returns whether a rule that is to act alone was sent, and nobody has seen yet what it would have done."""
    sent = form.read(RuleForm) if form.text("do") and form.text("do") != "try" else None
    return sent is not None and sent.automatic and form.text("tried") != _conditions(sent)


@action("/reconciliation-rules")
async def save_rule(visit: Visit) -> Response:
    """Adds a rule, or changes one; or says what it would have hit, first of all for one that is to act alone."""
    sent = visit.form.read(RuleForm)
    if sent is not None and visit.form.text("do") != "try" and not _waits_for_trial(visit.form):
        client = await _client(visit)
        known = await _rules(visit, client)
        rules, ids = [NewMatchRule(**_fields(rule)) for rule in known], [rule.id for rule in known]
        place = ids.index(visit.form.text("rule")) if visit.form.text("rule") in ids else len(rules)
        rules[place : place + 1] = [NewMatchRule(**_fields(sent))]
        names = {f"rules[{place}].{name}": name for name in RuleForm.__struct_fields__}
        with visit.form.refusals(**names):
            await visit.ask(knowledge.put_rules, query=_query(client), body=NewMatchRules(rules=rules))
            return visit.redirect(f"{RULES}?{_address(client)}", _("The rule is saved. The next run uses it."))
    response: Response = await rule_list.handler(visit)
    return response


def _fields(rule: RuleForm | MatchRule) -> dict[str, Any]:
    return {name: getattr(rule, name) for name in NewMatchRule.__struct_fields__}


def _address(client: Client) -> str:
    return f"books={client.connection_id}+{client.client_id}"


@action("/reconciliation-rules/delete")
async def delete_rule(visit: Visit) -> Response:
    client = await _client(visit)
    found = await _rules(visit, client)
    left = [NewMatchRule(**_fields(rule)) for rule in found if rule.id != visit.form.text("rule")]
    with visit.form.refusals():
        await visit.ask(knowledge.put_rules, query=_query(client), body=NewMatchRules(rules=left))
        return visit.redirect(
            f"{RULES}?{_address(client)}", _("The rule is deleted. Matches that stand stay as they are.")
        )
    response: Response = await rule_list.handler(visit)
    return response


# --- Learned


@page("/reconciliation-knowledge", help="known-payers")
async def learned_list(visit: Visit) -> Response:
    filters = visit.filters(RuleFilter)
    clients = await visit.read(_clients, visit.organization_id)
    if not clients:
        return visit.show("match_learned.html", client=None)
    client = _chosen(clients, filters.wanted.books)
    after = filters.after if len(filters.after) == 36 else None
    query = KnowledgeQuery(
        connection_id=client.connection_id, client_id=client.client_id, from_id=after, limit=PAGE_SIZE + 1
    )
    found = (await visit.ask(knowledge.list_knowledge, query=query)).data
    return visit.show(
        "match_learned.html",
        client=client,
        books=_name(client),
        choices=[(_name(one), one.client_id) for one in clients],
        list=filters.first_page(found, lambda row: row.id),
        written=await writer(visit, client.connection_id, client.client_id),
    )


@action("/reconciliation-knowledge")
async def forget_learned(visit: Visit) -> Response:
    with visit.form.refusals():
        await visit.ask(knowledge.delete_knowledge, id=visit.form.text("learned"))
        books = visit.form.text("books").replace(" ", "+")
        return visit.redirect(f"{LEARNED}?books={books}", _("That is forgotten. Matches that stand stay as they are."))
    response: Response = await learned_list.handler(visit)
    return response
