"""Account numbers of a body: which account of the client one means."""

from __future__ import annotations

from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger.books.store import Client, is_known
from kontobahn.ledger.konto import functional, readings


def find_konto(tx: Tx, client: Client, nummer: str, path: str) -> str:
    """Returns the technical number. Raises BadRequest that names the field if it may mean nothing, or two accounts."""
    try:
        found = readings(nummer, client.konto_laenge)
    except ValueError as error:
        raise BadRequest(f"The field `{path}` {error}.", field=path) from None
    if len(found) > 1:
        # A ledger account in full or a person account: prefer the one that exists.
        found = [konto for konto in found if is_known(tx, client, konto)] or found
    if len(found) > 1:
        raise BadRequest(
            f"The field `{path}` may be the ledger account {functional(found[0], client.konto_laenge)} or the person account"
            f" {found[1]}: write it one of these ways.",
            field=path,
        )
    return found[0]
