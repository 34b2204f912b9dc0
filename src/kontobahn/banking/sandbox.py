"""The port that the sandbox bank fills beside that of every provider: what a person, or a command, lets it do.

Functions on a transaction, which take the bank's own refs: whose they are, the caller has found out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import NamedTuple

from kontobahn.db import Tx


class SandboxAccount(NamedTuple):
    ref: str
    name: str
    iban: str | None
    balance_minor: int


class SandboxConnection(NamedTuple):
    ref: str
    user_name: str
    # By the bank's clock.
    consent_expires_at: int
    accounts: list[SandboxAccount]


class NewBooking(NamedTuple):
    amount_minor: int
    text: str
    # Today at the bank if left out.
    day: date | None = None
    is_pending: bool = False
    end_to_end_id: str | None = None
    # The payer, or the payee.
    name: str | None = None
    # Reported only at the next refresh.
    is_quiet: bool = False


class SandboxClock(NamedTuple):
    now: int
    ahead: int


class OrderAccount(NamedTuple):
    """An account that order files may be paid from."""

    # At the bank; None for an account that is kept by files.
    ref: str | None
    balance_minor: int


class HandedIn(NamedTuple):
    """An order file at the bank."""

    ref: str
    message_id: str
    iban: str
    created_at: int
    accepted: int
    refused: int
    # The bank's reasons.
    codes: str
    amount_minor: int
    # By the bank's clock, when everything is booked; None once it is.
    settles_at: int | None


class SandboxStatement(NamedTuple):
    iban: str
    number: int
    day: date
    opening_minor: int
    closing_minor: int
    bookings: int


class OrderDesk(NamedTuple):
    files: list[HandedIn]
    statements: list[SandboxStatement]


class SandboxControls(NamedTuple):
    """Calls whose results do not matter, but for those that are looked at."""

    # The name of the provider.
    provider: str
    # None if the bank has ended it.
    look: Callable[[Tx, str], SandboxConnection | None]
    book: Callable[[Tx, str, str, NewBooking], object]
    post_pending: Callable[[Tx, str], object]
    report: Callable[[Tx, str], object]
    expire_consent: Callable[[Tx, str], object]
    # With an error class, and whether it happens at the next refresh only.
    fail: Callable[[Tx, str, str, bool], object]
    destroy: Callable[[Tx, str], object]
    set_payment_status: Callable[[Tx, str, str], object]
    # For a customer, with the accounts by their IBAN.
    hand_in: Callable[[Tx, str, Mapping[str, OrderAccount], bytes], HandedIn]
    order_desk: Callable[[Tx, str], OrderDesk]
    # A status report by the file, a statement by IBAN and number; None if the customer has none such.
    order_report: Callable[[Tx, str, str], bytes | None]
    order_statement: Callable[[Tx, str, str, int], bytes | None]
    forget_orders: Callable[[Tx, str], object]
    clock: Callable[[Tx], SandboxClock]
    # The time by which it is to be ahead of ours, in microseconds.
    move_clock: Callable[[Tx, int], object]
