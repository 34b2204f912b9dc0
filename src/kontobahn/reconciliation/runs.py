"""Runs over an account's transactions: what is matched to which open items, and why. A trial run writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Call, Context, Platform
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Uuid
from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.fields import NumericId
from kontobahn.clock import berlin_date
from kontobahn.db import Database, Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.json_text import encode
from kontobahn.ledger.accounting import NOT_YET_KNOWN
from kontobahn.ledger.connections import ERRORS, ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.ledger.provider import ClientBooks
from kontobahn.money import from_minor
from kontobahn.reconciliation import examples, knowing, store, writing
from kontobahn.reconciliation.core.matcher import Matcher, Outcome, run
from kontobahn.reconciliation.core.model import ACTING_CLASSES, ENGINE_VERSION, EvidenceClass, Key, Proposal
from kontobahn.reconciliation.deciding import documents
from kontobahn.reconciliation.gathering import Material, gather, open_now
from kontobahn.reconciliation.settings import not_set_up
from kontobahn.reconciliation.store import AccountSettings, Client
from kontobahn.reconciliation.wire import BANK_SCOPE, LaufGrund, LaufZeile, gruende, tenths, zeilen
from kontobahn.reconciliation.writing import KEPT_PROPOSALS, Findings
from kontobahn.threads import Pool

MAX_LISTED = 500
_DEFAULT_DAYS = timedelta(days=90)
ClassOrNone = Literal["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "B4", "C", "-"]


class NeuerLauf(Body):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    connectionId: (
        Annotated[
            Uuid,
            Meta(
                description="The ledger connection whose open items are looked at; that of the account's settings when omitted."
            ),
        ]
        | None
    ) = None
    clientId: ClientId | None = None
    from_date: Annotated[date, Meta(description="First value date; 90 days before the last when omitted.")] | None = (
        None
    )
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None
    probelauf: Annotated[
        bool, Meta(description="False: proposals are stored, and matches made where acting alone is switched on.")
    ] = True
    limit: Annotated[
        int,
        Meta(ge=0, le=MAX_LISTED, description="How many transactions to list with their proposals; all are counted."),
    ] = 100


class LaufKlasse(Answer):
    klasse: ClassOrNone
    anzahl: int
    # How many are clear enough to act alone, and their sum.
    eindeutig: int
    betrag: Decimal


class LaufVorschlag(Answer):
    klasse: EvidenceClass
    eindeutig: bool
    punkte: Decimal
    zeilen: list[LaufZeile]
    gruende: list[LaufGrund]


class LaufTransaktion(Answer):
    id: str
    made_on: date
    betrag: Decimal
    name: str | None
    vorschlaege: list[LaufVorschlag]


class Lauf(Answer):
    # Null for a trial run.
    id: Uuid | None
    probelauf: bool
    engine_version: str
    account_id: str
    from_date: date
    to_date: date
    transaktionen: int
    offene_posten: int
    # Transactions that the books show already: they have no proposals.
    gebucht: int
    # False if the books did not tell IBANs and names of partners.
    stammdaten: bool
    # Stored: matched without asking, proposed, and outdated before they could be matched. 0 in a trial run.
    zugeordnet: int
    vorgeschlagen: int
    ueberholt: int
    klassen: list[LaufKlasse]
    data: list[LaufTransaktion]


class LaufAntwort(Answer):
    data: Lauf
    platform: Platform


_EXAMPLE = {
    "data": {
        "id": None,
        "probelauf": True,
        "engine_version": ENGINE_VERSION,
        "account_id": examples.ACCOUNT,
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
        "transaktionen": 1,
        "offene_posten": 12,
        "gebucht": 0,
        "stammdaten": True,
        "zugeordnet": 0,
        "vorgeschlagen": 0,
        "ueberholt": 0,
        "klassen": [{"klasse": "A2", "anzahl": 1, "eindeutig": 1, "betrag": 119.0}],
        "data": [
            {
                "id": examples.TRANSACTION,
                "made_on": "2026-03-02",
                "betrag": 119.0,
                "name": "Muster GmbH",
                "vorschlaege": [
                    {
                        "klasse": "A2",
                        "eindeutig": True,
                        "punkte": 41.9,
                        "zeilen": examples.LINES,
                        "gruende": examples.REASONS,
                    }
                ],
            }
        ],
    },
    "platform": {"neuesGuthaben": 99},
}


@post(
    "/v2/reconciliation/runs",
    scope="ledger:read",
    also_scope=BANK_SCOPE,
    statuses=(200, 201),
    cost=1,
    errors=ERRORS,
    example=_EXAMPLE,
    body_example={
        "account_id": examples.ACCOUNT,
        "connectionId": examples.CONNECTION,
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
    },
)
async def run_matching(call: Call, body: NeuerLauf) -> LaufAntwort:
    """Find which transactions pay which open items.

    Counts by class of evidence, and the proposals of the latest transactions with their reasons. A trial run (the default) stores
    nothing and answers 200. With `probelauf: false` the proposals are stored for somebody to confirm, and where acting alone is
    switched on for the account and the class, matches are made: 201. A restricted key needs `ledger:write` as well if it is no
    trial. At most 2,000 transactions at a time.
    """
    if not body.probelauf and not call.principal.has_scope(("ledger:write",)):
        raise Forbidden("This call needs the scope ledger:write as well.", missing_scope="ledger:write")
    plan = await call.read_inline(make_plan, call.principal, body)
    access = await open_books(call.context, call.principal, plan.connection_id, plan.client_id)
    async with call.charge() as charge, access.to("buchungen") as books:
        found = await look(call.context, books, plan)
        lauf = answer_of(plan, found, body.limit)
        if not plan.is_trial:
            findings = await to_write(call.context.db, books, plan, found)
            call.status = 201
            return await call.commit(_write, findings, call.actor, lauf)
    return LaufAntwort(data=lauf, platform=charge.platform)


class Plan(NamedTuple):
    account: AccountRow
    settings: AccountSettings | None
    connection_id: str
    client_id: str | None
    first: date
    last: date
    is_trial: bool


class Found(NamedTuple):
    material: Material
    outcomes: list[Outcome]
    # Documents that matches took from and the books do not show yet.
    pending: frozenset[Key]


def make_plan(tx: Tx, principal: Principal, body: NeuerLauf) -> Plan:
    first, last = _days(body, berlin_date(tx.now))
    account = accounts.find(tx, principal, body.account_id)
    settings = store.account_settings(tx, account.organization_id, account.id)
    connection_id, client_id = body.connectionId, body.clientId
    if connection_id is None:
        if settings is None:
            raise not_set_up(account.id)
        connection_id, client_id = settings.connection_id, client_id or settings.client_id
    connection = find_connection(tx, principal, connection_id)
    if connection.organization_id != account.organization_id:
        raise Conflict("The bank account and the books belong to different organisations.", field="connectionId")
    if not body.probelauf:
        if settings is None:
            raise not_set_up(account.id)
        if connection.id != settings.connection_id or (client_id or settings.client_id) != settings.client_id:
            raise Conflict(
                "The account is set up for other books: only a trial run can look at these.",
                connectionId=settings.connection_id, clientId=settings.client_id,
            )  # fmt: skip
        client_id = settings.client_id
        if settings.start_date:
            first = max(first, date.fromisoformat(settings.start_date))
    return Plan(account, settings, connection.id, client_id, first, last, body.probelauf)


def _days(body: NeuerLauf, today: date) -> tuple[date, date]:
    to_date = body.to_date or today
    from_date = body.from_date or to_date - min(_DEFAULT_DAYS, to_date - date.min)
    if from_date > to_date:
        raise BadRequest("The field `from_date` must not be after `to_date`.", field="from_date")
    return from_date, to_date


async def look(context: Context, books: ClientBooks, plan: Plan) -> Found:
    """Matches what is not decided yet. Nothing is written."""
    db, account, settings = context.db, plan.account, plan.settings
    today = berlin_date(context.clock.now())
    client = Client(account.organization_id, plan.connection_id, books.client_id)
    elsewhere = await db.read(store.ledger_accounts_elsewhere, client, account.id)
    material = await gather(db, books, account, today, plan.first, plan.last, elsewhere)
    ids = [movement.id for movement in material.movements]
    known = await db.read(knowing.read, client, account.id, ids, plan.first, plan.last)
    material = knowing.with_known(
        material, known, today,
        fee_konto=settings.gebuehrenkonto if settings else "", transfer_konto=settings.transferkonto if settings else "",
    )  # fmt: skip
    acting = frozenset(ACTING_CLASSES) if plan.is_trial or settings is None else settings.acting
    outcomes = await context.part(Pool).run(try_all, material, acting, known.judged)
    return Found(material, outcomes, frozenset(known.taken))


async def to_write(db: Database, books: ClientBooks, plan: Plan, found: Found) -> Findings:
    """What `writing.write` needs of a run that is no trial."""
    assert plan.settings is not None
    acted = {key for outcome in found.outcomes if outcome.acted for key in documents(outcome.acted.lines)}
    amounts = await open_now(db, books, plan.account.organization_id, acted | found.pending)
    days = (plan.first.isoformat(), plan.last.isoformat())
    return Findings(plan.settings, *days, found.outcomes, found.pending, amounts)


def try_all(
    material: Material,
    acting: frozenset[EvidenceClass] = frozenset(ACTING_CLASSES),
    judged: frozenset[str] = frozenset(),
) -> list[Outcome]:
    return run(Matcher(material.items, material.knowledge), material.movements, acting, judged)


def _write(tx: Tx, findings: Findings, actor: Actor, lauf: Lauf) -> LaufAntwort:
    return LaufAntwort(data=write_run(tx, findings, actor, lauf), platform=NOT_YET_KNOWN)


def write_run(tx: Tx, findings: Findings, actor: Actor, lauf: Lauf) -> Lauf:
    """Stores what was found, and completes the answer."""
    written = writing.write(tx, findings, actor, encode(lauf.klassen).decode())
    lauf.id, lauf.zugeordnet, lauf.vorgeschlagen = written.run_id, written.matched, written.proposed
    lauf.ueberholt = written.outdated
    return lauf


def answer_of(plan: Plan, found: Found, limit: int) -> Lauf:
    return Lauf(
        id=None,
        probelauf=plan.is_trial,
        engine_version=ENGINE_VERSION,
        account_id=str(plan.account.id),
        from_date=plan.first,
        to_date=plan.last,
        transaktionen=len(found.outcomes),
        offene_posten=sum(item.open_minor != 0 for item in found.material.items),
        gebucht=sum(outcome.is_booked for outcome in found.outcomes),
        stammdaten=found.material.has_partners,
        zugeordnet=0,
        vorgeschlagen=0,
        ueberholt=0,
        klassen=classes(found.outcomes),
        data=[_transaction(outcome) for outcome in found.outcomes[::-1][:limit]],
    )


def classes(outcomes: Sequence[Outcome]) -> list[LaufKlasse]:
    """The classes of the best proposals, `-` for transactions that have none."""
    counted: dict[ClassOrNone, list[Outcome]] = {}
    for outcome in outcomes:
        counted.setdefault(outcome.proposals[0].evidence if outcome.proposals else "-", []).append(outcome)
    return [
        LaufKlasse(
            klasse=evidence,
            anzahl=len(found),
            eindeutig=sum(outcome.acted is not None for outcome in found),
            betrag=from_minor(sum(outcome.movement.amount_minor for outcome in found if outcome.acted is not None)),
        )
        for evidence, found in sorted(counted.items())
    ]


def _transaction(outcome: Outcome) -> LaufTransaktion:
    movement = outcome.movement
    return LaufTransaktion(
        id=movement.id,
        made_on=movement.day,
        betrag=from_minor(movement.amount_minor),
        name=movement.name,
        vorschlaege=[_proposal(proposal) for proposal in outcome.proposals[:KEPT_PROPOSALS]],
    )


def _proposal(proposal: Proposal) -> LaufVorschlag:
    return LaufVorschlag(
        klasse=proposal.evidence,
        eindeutig=proposal.acts,
        punkte=tenths(proposal.score),
        zeilen=zeilen(proposal.lines),
        gruende=gruende(proposal.reasons),
    )
