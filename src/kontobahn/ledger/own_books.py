"""Books that this installation keeps itself: the port through which pages create and name clients, so that they need not know which
adapter keeps them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Literal, NamedTuple

from kontobahn.db import Tx
from kontobahn.ledger.provider import ConnectionRef

# The moment at which sales are taxed: when they are invoiced, when they are paid, or not at all (§ 19 UStG).
Versteuerung = Literal["soll", "ist", "kleinunternehmer"]
# Numbers for whoever has none from an adviser yet. The smallest that the format knows.
NO_ADVISER = "1001-1"


class NewClient(NamedTuple):
    name: str
    kontenrahmen: str
    konto_laenge: int
    # The adviser's number and the client's.
    client_id: str
    year_start: date
    versteuerung: Versteuerung = "soll"


class OwnBooks(NamedTuple):
    # The name of the provider.
    provider: str
    # Creates a client in a connection, or in a new one, and returns the connection's id.
    create: Callable[[Tx, str, str | None, NewClient], str]
    # Gives a client another name.
    rename: Callable[[Tx, ConnectionRef, str, str], object]
    # The taxation of a connection's clients, by their ids.
    versteuerungen: Callable[[Tx, ConnectionRef], dict[str, Versteuerung]]
