"""A trial run over an account's transactions: what would be matched to which open items, and why. Nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.access.principal import Principal
from kontobahn.api.call import Call, Platform
from kontobahn.api.declare import post
from kontobahn.api.wire import Answer, Body, Uuid
from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.fields import NumericId
from kontobahn.clock import berlin_date
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Conflict, Forbidden
from kontobahn.ledger.connections import ERRORS, ClientId, open_books
from kontobahn.ledger.connections import find as find_connection
from kontobahn.money import from_minor
from kontobahn.reconciliation.core.matcher import Matcher, Outcome, run
from kontobahn.reconciliation.core.model import ENGINE_VERSION, EvidenceClass, LineKind, Proposal
from kontobahn.reconciliation.gathering import Material, gather

MAX_LISTED = 500
# The best three are what a person chooses from.
LISTED_PROPOSALS = 3
_DEFAULT_DAYS = timedelta(days=90)
ClassOrNone = Literal["A1", "A2", "A3", "A4", "A5", "B1", "B2", "B3", "B4", "C", "-"]


class NeuerLauf(Body):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    connectionId: Annotated[Uuid, Meta(description="The ledger connection whose open items are looked at.")]
    clientId: ClientId | None = None
    from_date: Annotated[date, Meta(description="First value date; 90 days before the last when omitted.")] | None = (
        None
    )
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None
    probelauf: Annotated[bool, Meta(description="Must be true: nothing is stored yet.")] = True
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


class LaufGrund(Answer):
    signal: str
    wert: str
    # Where in which text: null if it is in none.
    feld: str | None
    von: int | None
    bis: int | None
    bits: Decimal


class LaufZeile(Answer):
    art: LineKind
    kontonummer: str
    beleg: str
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
    klassen: list[LaufKlasse]
    data: list[LaufTransaktion]


class LaufAntwort(Answer):
    data: Lauf
    platform: Platform


_EXAMPLE = {
    "data": {
        "engine_version": "1",
        "account_id": "1000000000001",
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
        "transaktionen": 1,
        "offene_posten": 12,
        "gebucht": 0,
        "stammdaten": True,
        "klassen": [{"klasse": "A2", "anzahl": 1, "eindeutig": 1, "betrag": 119.0}],
        "data": [
            {
                "id": "1000000000042",
                "made_on": "2026-03-02",
                "betrag": 119.0,
                "name": "Muster GmbH",
                "vorschlaege": [
                    {
                        "klasse": "A2",
                        "eindeutig": True,
                        "punkte": 41.9,
                        "zeilen": [
                            {"art": "posten", "kontonummer": "100100000", "beleg": "RE-2026-00123", "betrag": 119.0}
                        ],
                        "gruende": [
                            {
                                "signal": "number",
                                "wert": "RE-2026-00123",
                                "feld": "svwz",
                                "von": 9,
                                "bis": 22,
                                "bits": 9.9,
                            },
                            {
                                "signal": "amount",
                                "wert": "119.00",
                                "feld": None,
                                "von": None,
                                "bis": None,
                                "bits": 12.0,
                            },
                            {
                                "signal": "iban",
                                "wert": "2051 (master data)",
                                "feld": None,
                                "von": None,
                                "bis": None,
                                "bits": 20.0,
                            },
                        ],
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
    statuses=(200,),
    cost=1,
    errors=ERRORS,
    example=_EXAMPLE,
    body_example={
        "account_id": "1000000000001",
        "connectionId": "0193b2a0-0000-7000-8000-000000000001",
        "from_date": "2026-01-01",
        "to_date": "2026-03-31",
    },
)
async def trial_run(call: Call, body: NeuerLauf) -> LaufAntwort:
    """Try which transactions would be matched to which open items.

    Counts by class of evidence, and the proposals of the latest transactions with their reasons. Nothing is stored. A restricted
    key needs `banking:read` as well. At most 2,000 transactions at a time.
    """
    _check_scope(call.principal)
    from_date, to_date = _days(body, berlin_date(call.context.clock.now()))
    account = await call.read_inline(_account, call.principal, body)
    access = await open_books(call.context, call.principal, body.connectionId, body.clientId)
    async with call.charge() as charge, access.to("buchungen") as books:
        today = berlin_date(call.context.clock.now())
        material = await gather(call.context.db, books, account, today, from_date, to_date)
        outcomes = await call.off_loop(try_all, material)
    lauf = Lauf(
        engine_version=ENGINE_VERSION,
        account_id=str(account.id),
        from_date=from_date,
        to_date=to_date,
        transaktionen=len(outcomes),
        offene_posten=sum(item.open_minor != 0 for item in material.items),
        gebucht=sum(outcome.is_booked for outcome in outcomes),
        stammdaten=material.has_partners,
        klassen=classes(outcomes),
        data=[_transaction(outcome) for outcome in outcomes[::-1][: body.limit]],
    )
    return LaufAntwort(data=lauf, platform=charge.platform)


def _check_scope(principal: Principal) -> None:
    """Transactions are the bank's: what reads them needs that scope too."""
    if not principal.has_scope(("banking:read",)):
        raise Forbidden("This call needs the scope banking:read as well.", missing_scope="banking:read")


def _days(body: NeuerLauf, today: date) -> tuple[date, date]:
    if not body.probelauf:
        raise BadRequest("The field `probelauf` must be true: only trial runs can be made yet.", field="probelauf")
    to_date = body.to_date or today
    from_date = body.from_date or to_date - min(_DEFAULT_DAYS, to_date - date.min)
    if from_date > to_date:
        raise BadRequest("The field `from_date` must not be after `to_date`.", field="from_date")
    return from_date, to_date


def _account(tx: Tx, principal: Principal, body: NeuerLauf) -> AccountRow:
    account = accounts.find(tx, principal, body.account_id)
    connection = find_connection(tx, principal, body.connectionId)
    if connection.organization_id != account.organization_id:
        raise Conflict("The bank account and the books belong to different organisations.", field="connectionId")
    return account


def try_all(material: Material) -> list[Outcome]:
    return run(Matcher(material.items, material.knowledge), material.movements)


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


def _tenths(bits: float) -> Decimal:
    return Decimal(f"{bits:.1f}")


def _transaction(outcome: Outcome) -> LaufTransaktion:
    movement = outcome.movement
    return LaufTransaktion(
        id=movement.id,
        made_on=movement.day,
        betrag=from_minor(movement.amount_minor),
        name=movement.name,
        vorschlaege=[_proposal(proposal) for proposal in outcome.proposals[:LISTED_PROPOSALS]],
    )


def _proposal(proposal: Proposal) -> LaufVorschlag:
    return LaufVorschlag(
        klasse=proposal.evidence,
        eindeutig=proposal.acts,
        punkte=_tenths(proposal.score),
        zeilen=[
            LaufZeile(art=line.kind, kontonummer=line.konto, beleg=line.beleg, betrag=from_minor(line.amount_minor))
            for line in proposal.lines
        ],
        gruende=[
            LaufGrund(
                signal=reason.signal,
                wert=reason.value,
                feld=reason.field or None,
                von=reason.start if reason.field else None,
                bis=reason.end if reason.field else None,
                bits=_tenths(reason.bits),
            )
            for reason in proposal.reasons
        ],
    )
