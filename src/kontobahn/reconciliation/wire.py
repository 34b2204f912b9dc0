"""What several calls of reconciliation send and answer: lines, reasons, proposals, matches; and how proposals are stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Literal

import msgspec

from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.money import from_minor
from kontobahn.reconciliation.core.model import EvidenceClass, Line, LineKind, Proposal, Reason
from kontobahn.reconciliation.store import LineRow, MatchRow, ProposalRow, ProposalState, UndoRow

# What reads transactions needs this scope beside the ledger's.
BANK_SCOPE: Literal["banking:read"] = "banking:read"


class LaufZeile(Answer):
    art: LineKind
    kontonummer: str
    beleg: str
    betrag: Decimal


class LaufGrund(Answer):
    signal: str
    wert: str
    # Where in which text: null if it is in none.
    feld: str | None
    von: int | None
    bis: int | None
    bits: Decimal


class Vorschlag(Answer):
    id: Uuid
    transaction_id: str
    status: ProposalState
    platz: int
    klasse: EvidenceClass
    eindeutig: bool
    punkte: Decimal
    zeilen: list[LaufZeile]
    gruende: list[LaufGrund]
    engine_version: str


class Ruecknahme(Answer):
    id: Uuid
    grund: str
    von: str
    am: Timestamp


class Zuordnung(Answer):
    id: Uuid
    transaction_id: str
    account_id: str
    connectionId: Uuid
    clientId: str
    proposal_id: Uuid | None
    # Null if it was made by hand.
    klasse: EvidenceClass | None
    made_on: date
    betrag: Decimal
    name: str | None
    zeilen: list[LaufZeile]
    # `engine`, or who confirmed it as the audit log names them.
    von: str
    am: Timestamp
    ruecknahme: Ruecknahme | None


def zeilen(lines: Sequence[Line | LineRow]) -> list[LaufZeile]:
    return [
        LaufZeile(art=line.kind, kontonummer=line.konto, beleg=line.beleg, betrag=from_minor(line.amount_minor))
        for line in lines
    ]


def gruende(reasons: Sequence[Reason]) -> list[LaufGrund]:
    return [
        LaufGrund(
            signal=reason.signal,
            wert=reason.value,
            feld=reason.field or None,
            von=reason.start if reason.field else None,
            bis=reason.end if reason.field else None,
            bits=tenths(reason.bits),
        )
        for reason in reasons
    ]


def tenths(bits: float) -> Decimal:
    return Decimal(f"{bits:.1f}")


# --- Stored


_LINES = msgspec.json.Decoder(tuple[Line, ...])
_REASONS = msgspec.json.Decoder(tuple[Reason, ...])


def stored_lines(lines: Sequence[Line]) -> str:
    """As a proposal keeps them: equal lines have equal texts."""
    return _text([tuple(line) for line in lines])


def stored_reasons(proposal: Proposal) -> str:
    return _text([tuple(reason) for reason in proposal.reasons])


def lines_of(row: ProposalRow) -> tuple[Line, ...]:
    return _LINES.decode(row.lines)


def _text(rows: Any) -> str:
    return msgspec.json.encode(rows).decode()


def vorschlag(row: ProposalRow) -> Vorschlag:
    return Vorschlag(
        id=row.id,
        transaction_id=str(row.transaction_id),
        status=row.state,
        platz=row.place,
        klasse=row.evidence,
        eindeutig=bool(row.acts),
        punkte=Decimal(row.score_tenths).scaleb(-1),
        zeilen=zeilen(lines_of(row)),
        gruende=gruende(_REASONS.decode(row.reasons)),
        engine_version=row.engine_version,
    )


def zuordnung(row: MatchRow, lines: Sequence[LineRow], undo: UndoRow | None) -> Zuordnung:
    return Zuordnung(
        id=row.id,
        transaction_id=str(row.transaction_id),
        account_id=str(row.account_id),
        connectionId=row.connection_id,
        clientId=row.client_id,
        proposal_id=row.proposal_id,
        klasse=row.evidence or None,  # type: ignore[arg-type]
        made_on=date.fromisoformat(row.made_on),
        betrag=from_minor(row.amount_minor),
        name=row.payer or None,
        zeilen=zeilen(lines),
        von=row.made_by,
        am=to_datetime(row.made_at),
        ruecknahme=None
        if undo is None
        else Ruecknahme(id=undo.id, grund=undo.grund, von=undo.made_by, am=to_datetime(undo.made_at)),
    )
