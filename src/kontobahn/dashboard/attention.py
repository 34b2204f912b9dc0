"""Matters that need a person now: one line each, with the page to do something about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kontobahn.banking.connections import store
from kontobahn.clock import DAY
from kontobahn.db import Tx
from kontobahn.ledger import connections as ledger_connections
from kontobahn.webhooks import receiver

CONSENT_DAYS = 14
Kind = Literal["bank_reconnect", "bank_off", "consent_ends", "ledger_reconnect", "receiver_stopped"]


class Attention(NamedTuple):
    kind: Kind
    # A bank, a client, an address.
    name: str
    url: str
    at: int | None = None


def find(tx: Tx, organization_id: str) -> list[Attention]:
    found = []
    # Only these: this is asked for every page, and an organisation may have many connections.
    for bank in store.needing_a_person(tx, organization_id, tx.now + CONSENT_DAYS * DAY):
        name = bank.display_name or bank.provider_name or bank.provider_code
        url = f"/dashboard/connections/{bank.id}"
        if bank.status in ("inactive", "pending"):
            found.append(Attention("bank_reconnect", name, url))
        elif bank.status == "disabled":
            found.append(Attention("bank_off", name, url))
        else:
            found.append(Attention("consent_ends", name, url, bank.consent_expires_at))
    closed = ledger_connections.closed(tx, organization_id)
    for books in ledger_connections.listing(tx, (organization_id,)):
        if books.status in ("expired", "revoked", "error") and books.id not in closed:
            url = f"/dashboard/ledger/connections/{books.id}/reconnect"
            found.append(Attention("ledger_reconnect", books.bezeichnung or books.id, url))
    for item in receiver.listing(tx, organization_id):
        if item.state in ("paused", "gone"):
            found.append(Attention("receiver_stopped", item.url or "", "/dashboard/webhooks", item.stopped_at))
    return found
