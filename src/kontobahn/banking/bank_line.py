"""The port of a line that the organisation has to its bank by keys of its own: rights, orders that wait there for signatures, keys.

Nothing here is done by a machine: a person with a second factor signs, cancels, changes the keys or locks the access.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple, Protocol, runtime_checkable

from kontobahn.db import Tx


class Ability(NamedTuple):
    """Something that a user may do at the bank, or may not. `ask_for` is the bank's name for it."""

    kind: str
    is_allowed: bool
    # The worth of the user's signature for it: E alone, A and B with another, T nothing. Empty where nothing is signed.
    signature_class: str
    ask_for: str


class LineFacts(NamedTuple):
    version: str
    host_id: str
    partner_id: str
    user_id: str
    user_name: str
    # None if the bank does not tell.
    abilities: tuple[Ability, ...] | None
    # The bank's names for what there was to fetch when it was last asked.
    to_fetch: tuple[str, ...]
    asked_at: int
    # True if people may sign orders by this line.
    signs: bool
    # By version: the hashes of our public keys.
    hashes: tuple[tuple[str, str], ...]
    keys_since: int
    # New keys were sent, and the bank has not taken them so far.
    has_new_keys: bool
    suspended_at: int | None


class WaitingOrder(NamedTuple):
    """An order that waits at the bank for signatures. Sums are the bank's; None if it does not tell."""

    order_id: str
    # Such as checked_transfers; the bank's own name for what we do not send.
    kind: str
    amount: Decimal | None
    currency_code: str | None
    payments: int | None
    needed: int
    done: int
    sender: str
    signers: tuple[str, ...]
    # The hash of its data; empty in a list without details.
    digest: str
    # The message id of our own file, if the bank's data are those that we sent.
    message_id: str | None
    # The reason why it cannot be signed here; empty if it can.
    why_not: str


@runtime_checkable
class BankLine(Protocol):
    async def line(self, organization_id: str, connection_ref: str) -> LineFacts:
        """Returns what is known here, without asking the bank."""

    async def ask_rights(self, organization_id: str, connection_ref: str) -> None:
        """Asks the bank what the user may do, and what there is to fetch."""

    def allow_signing(self, tx: Tx, organization_id: str, connection_ref: str, *, allowed: bool) -> None:
        """Lets people sign by this line, or no longer."""

    async def waiting(self, organization_id: str, connection_ref: str) -> list[WaitingOrder]:
        """Asks the bank for the orders that wait."""

    async def waiting_order(self, organization_id: str, connection_ref: str, order_id: str) -> WaitingOrder:
        """Asks for one of them, with the hash of its data."""

    async def sign(self, organization_id: str, connection_ref: str, order_id: str, digest: str) -> None:
        """Signs the order with these data. Raises ProviderDown if it is unknown whether the bank has the signature."""

    async def cancel(self, organization_id: str, connection_ref: str, order_id: str, digest: str) -> None:
        """Cancels the order with these data. Raises ProviderDown if it is unknown whether the bank did."""

    async def change_keys(self, organization_id: str, connection_ref: str) -> bool:
        """Gives the bank new keys. The old ones hold until it has confirmed them; False if it has not."""

    async def suspend(self, organization_id: str, connection_ref: str) -> None:
        """Has the bank lock the user, for good: a new one begins with a new letter."""
