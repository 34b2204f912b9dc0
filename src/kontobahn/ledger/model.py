"""The ledger area on the wire, in the contract's spelling."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta

from kontobahn.api.wire import Answer, Uuid

# Choice 11: the full set of ledger connection statuses.
ConnectionStatus = Literal["pending", "connected", "expired", "revoked", "error"]


class LedgerConnection(Answer):
    id: Uuid
    bezeichnung: str | None
    status: ConnectionStatus
    verbunden_seit: Annotated[datetime, Meta(tz=True)] | None
    erstellt_am: Annotated[datetime, Meta(tz=True)]


class LedgerConnections(Answer):
    connections: list[LedgerConnection]
