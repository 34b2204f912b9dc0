"""Controls of a bank to develop against: the port that the sandbox bank fills, so that pages need not know it.

Functions on a transaction, which take the bank's own refs. Whose they are, the page has found out.
"""

from __future__ import annotations

from collections.abc import Callable
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
    clock: Callable[[Tx], SandboxClock]
    # The time by which it is to be ahead of ours, in microseconds.
    move_clock: Callable[[Tx, int], object]
