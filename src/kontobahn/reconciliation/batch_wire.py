"""Batches of matches as they are sent, answered and stored."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated

import msgspec
from msgspec import Meta

from kontobahn.api.call import Platform
from kontobahn.api.wire import Answer, Body, Query, Timestamp, Uuid
from kontobahn.banking.fields import NumericId
from kontobahn.ledger.accounting import NOT_YET_KNOWN
from kontobahn.reconciliation.batch_store import BatchRow
from kontobahn.reconciliation.store import Bucht


class NeuerStapel(Body):
    account_id: Annotated[NumericId, Meta(description="The bank account.")]
    from_date: (
        Annotated[date, Meta(description="First value date; that of the fiscal year of `to_date` when omitted.")] | None
    ) = None
    to_date: Annotated[date, Meta(description="Last value date; today when omitted.")] | None = None


class StapelQuery(Query):
    account_id: Annotated[NumericId, Meta(description="Only of this bank account.")] | None = None
    from_id: Annotated[Uuid, Meta(description="Only what was made after this one: the last id seen.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=500)] = 100


class Stapel(Answer):
    id: Uuid
    account_id: str
    connectionId: Uuid
    clientId: str
    bucht: Bucht
    geschaeftsjahrStartDatum: date
    from_date: date
    to_date: date
    zuordnungen: int
    # Matches that an earlier batch had, and that were undone since.
    stornos: int
    # What moved at the bank.
    summe: Decimal
    # Null for a list.
    dateiname: str | None
    sha256: str | None
    # What the bookings in our own books can be undone by.
    importe: list[Uuid]
    von: str
    am: Timestamp


class Stapelzeile(Answer):
    match_id: Uuid
    transaction_id: str
    made_on: date
    storno: bool
    kontonummer: str
    beleg: str
    # Signed as at the bank.
    betrag: Decimal
    skonto: Decimal
    buchungstext: str


class StapelAuslassung(Answer):
    match_id: Uuid
    transaction_id: str
    grund: str
    # Of a document that is not open by what was matched: what is open, and what was matched. Null for any other reason.
    kontonummer: str | None = None
    beleg: str | None = None
    offen: Decimal | None = None
    betrag: Decimal | None = None


class StapelPosten(Answer):
    """What is open of a document before and after: SOLL positive, as in the open items."""

    kontonummer: str
    beleg: str
    vorher: Decimal
    nachher: Decimal


class StapelMitZeilen(Stapel, kw_only=True):
    zeilen: list[Stapelzeile]
    ausgelassen: list[StapelAuslassung]
    posten: list[StapelPosten]


class NeuerStapelAntwort(Answer):
    data: StapelMitZeilen
    platform: Platform = NOT_YET_KNOWN


class StapelAntwort(Answer):
    data: StapelMitZeilen


class StapelListe(Answer):
    data: list[Stapel]


class StoredRows(Answer):
    """As they are stored."""

    zeilen: list[Stapelzeile]
    ausgelassen: list[StapelAuslassung]
    posten: list[StapelPosten]


def head(wire: str) -> Stapel:
    return msgspec.json.decode(wire, type=Stapel)


def view(row: BatchRow) -> StapelMitZeilen:
    rows = msgspec.json.decode(row.rows, type=StoredRows)
    return StapelMitZeilen(**msgspec.structs.asdict(head(row.wire)), **msgspec.structs.asdict(rows))
