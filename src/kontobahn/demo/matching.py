"""The demo's rules of matching: what the bank shows regularly, and no document in the books is about."""

from __future__ import annotations

from kontobahn.access.audit import Actor
from kontobahn.db import Tx
from kontobahn.demo.ledger import CLIENT_ID, LENGTH
from kontobahn.ids import new_id
from kontobahn.ledger.konto import technical
from kontobahn.reconciliation import knowledge
from kontobahn.reconciliation.store import Client, RuleRow

# Name, text of the movement, ledger account.
_RULES = (
    ("Kontoführung", "Entgelte vom", "4970"),
    ("Löhne und Gehälter", "Lohn/Gehalt", "1740"),
    ("Miete", "Miete", "4210"),
)


def add_rules(tx: Tx, organization_id: str, connection_id: str, actor: Actor) -> None:
    client = Client(organization_id, connection_id, CLIENT_ID)
    rows = [
        RuleRow(*client, place, new_id(), name, text, "", "out", None, None, technical(konto, LENGTH))
        for place, (name, text, konto) in enumerate(_RULES)
    ]
    knowledge.replace_rules(tx, client, rows, actor)
