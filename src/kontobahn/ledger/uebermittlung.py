"""A transmission on the wire: what was sent to the accounting provider, and what became of it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.api.wire import Answer, Timestamp, Uuid
from kontobahn.clock import to_datetime
from kontobahn.ledger.provider import Transmission, TransmissionKind, TransmissionState
from kontobahn.ledger.transmissions import messages_of
from kontobahn.ledger.wire import Meldung


class Uebermittlung(Answer, kw_only=True):
    id: Uuid
    clientId: str
    art: TransmissionKind
    bezeichnung: str
    status: Annotated[
        TransmissionState,
        Meta(
            description="`OPEN`: not sent yet. `IN_PROGRESS`: the provider has it. `PARTIAL_SUCCESS`: it took a part, as the messages say."
            " `FAILED`: it took nothing. `UNKNOWN`: nobody can tell any more; look there before you send it again."
        ),
    ]
    meldungen: Annotated[list[Meldung], Meta(description="The provider's protocol.")]
    erstelltAm: Timestamp
    aktualisiertAm: Timestamp


def view(row: Transmission) -> Uebermittlung:
    return Uebermittlung(
        id=row.id,
        clientId=row.client_id,
        art=row.kind,
        bezeichnung=row.title,
        status=row.state,
        meldungen=messages_of(row),
        erstelltAm=to_datetime(row.created_at),
        aktualisiertAm=to_datetime(row.updated_at),
    )
