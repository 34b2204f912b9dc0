"""The ledger area over HTTP."""

from __future__ import annotations

from kontobahn.api.call import Call
from kontobahn.api.declare import get
from kontobahn.api.wire import ListQuery
from kontobahn.ledger import connections
from kontobahn.ledger.model import LedgerConnections

_EXAMPLE = {
    "connections": [
        {
            "id": "01930000-0000-7000-8000-000000000001",
            "bezeichnung": "Muster GmbH",
            "status": "connected",
            "verbunden_seit": "2026-01-05T08:00:00Z",
            "erstellt_am": "2026-01-05T07:58:00Z",
        }
    ]
}


@get("/v2/ledger-rewe-read/connections", errors=(403, 404), example=_EXAMPLE)
async def list_rewe_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's accounting connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    return await _connections(call, query)


# Choice 14: as the rewe-read one.
@get("/v2/ledger-duo/connections", errors=(403, 404), example=_EXAMPLE)
async def list_duo_connections(call: Call, query: ListQuery) -> LedgerConnections:
    """List the organisation's cash book and document connections.

    Their ids are the `connectionId` of the other ledger calls.
    """
    return await _connections(call, query)


async def _connections(call: Call, query: ListQuery) -> LedgerConnections:
    organizations = call.principal.organizations(query.organization_id)
    return LedgerConnections(connections=await call.read(connections.listing, organizations))
