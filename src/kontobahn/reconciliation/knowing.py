"""What was decided and learned before, given to the matcher: documents that are paid already, payers, rules, matches to return."""

from __future__ import annotations

from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.reconciliation import learning, store
from kontobahn.reconciliation.booking_rows import reference_of
from kontobahn.reconciliation.core.model import (
    Key,
    Learned,
    Line,
    MatchedMovement,
    OpenItem,
    Rule,
)
from kontobahn.reconciliation.gathering import Material
from kontobahn.reconciliation.store import Client, Taken

# A direct debit can be returned for 13 months.
_RETURNED_WITHIN = timedelta(days=400)
MAX_MATCHED = 5_000
_DECIDED = ("matched", "ignored")


class Known(NamedTuple):
    """`judged` are transactions that a person has said something about: they are never acted on without asking."""

    taken: dict[Key, Taken]
    learned: tuple[Learned, ...]
    rules: tuple[Rule, ...]
    matched: tuple[MatchedMovement, ...]
    decided: frozenset[str]
    judged: frozenset[str]
    rejected: dict[str, frozenset[str]]
    undone: frozenset[str]


def read(tx: Tx, client: Client, account_id: int, movement_ids: list[str], first: date, last: date) -> Known:
    ids = [int(id) for id in movement_ids]
    organization_id = client.organization_id
    states = store.states_of(tx, organization_id, ids)
    rejected = store.proposals_of(tx, organization_id, ids, "rejected")
    undone = store.undone_of(tx, organization_id, ids)
    return Known(
        taken=store.taken_from(tx, client),
        learned=learning.for_matcher(tx, client),
        rules=tuple(
            Rule(row.id, row.sachkonto, row.text, row.iban, row.sign, row.least_minor, row.most_minor)
            for row in store.rules(tx, client)
        ),
        matched=_matched(tx, organization_id, account_id, first, last),
        decided=frozenset(str(id) for id, state in states.items() if state in _DECIDED),
        judged=frozenset(str(id) for id in {*rejected, *undone}),
        rejected={str(id): frozenset(row.lines for row in rows) for id, rows in rejected.items()},
        undone=frozenset(map(reference_of, undone)),
    )


def _matched(tx: Tx, organization_id: str, account_id: int, first: date, last: date) -> tuple[MatchedMovement, ...]:
    since = first - min(_RETURNED_WITHIN, first - date.min)
    rows = store.matches_between(
        tx, organization_id, account_id, since.isoformat(), last.isoformat(), limit=MAX_MATCHED
    )
    lines = store.lines_of(tx, organization_id, [row.id for row in rows])
    return tuple(
        MatchedMovement(
            str(row.transaction_id),
            row.amount_minor,
            tuple(Line(line.kind, line.konto, line.beleg, line.amount_minor) for line in lines[row.id]),
            row.end_to_end_id,
            row.mandate,
            row.bank_reference,
        )
        for row in rows
    )


def with_known(material: Material, known: Known, today: date, *, fee_konto: str, transfer_konto: str) -> Material:
    """The material less what is decided: movements that are matched, and what live matches took from documents."""
    knowledge = material.knowledge._replace(
        learned=known.learned,
        rules=known.rules,
        matched=known.matched,
        # What we booked of a match that was undone is taken back by the next batch: it stands for no movement.
        booked=tuple(payment for payment in material.knowledge.booked if payment.reference not in known.undone),
        # Matched, it may be what the books show: then another of the same amount is a second payment.
        earlier=(
            *material.knowledge.earlier,
            *(movement for movement in material.movements if movement.id in known.decided),
        ),
        fee_konto=fee_konto or material.knowledge.fee_konto,
        transfer_konto=transfer_konto or material.knowledge.transfer_konto,
    )
    items = [_left(item, known.taken.get(item.key)) for item in material.items]
    present = {item.key for item in items}
    # Settled in the books, and opened again by a return that they do not show yet.
    items += [
        OpenItem(konto, beleg, today, left)
        for (konto, beleg), taken in known.taken.items()
        if (konto, beleg) not in present and (left := -taken.left_of(0).pending_minor)
    ]
    movements = [movement for movement in material.movements if movement.id not in known.decided]
    return material._replace(items=items, knowledge=knowledge, movements=movements)


def _left(item: OpenItem, taken: Taken | None) -> OpenItem:
    pending = 0 if taken is None else taken.left_of(item.open_minor).pending_minor
    if not pending:
        return item
    # What is left of a part payment has no discount: whether one was meant is for a person to say.
    return item._replace(open_minor=item.open_minor - pending, discounts=())
