"""What is known of a login and of the work that is done with it. Nothing here needs the library."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

import msgspec

from kontobahn.banking.provider import OVERLAP

Doing = Literal["", "start", "accounts", "balance", "bookings"]
# What banks usually hand out without a TAN.
DAYS_WITHOUT_TAN = 89


class Login(msgspec.Struct):
    """What is kept of a login, sealed."""

    blz: str
    url: str
    bank_name: str
    user: str
    customer: str | None = None
    # None if the person did not want it to be kept.
    pin: str | None = None
    # What the library knows of bank and user: system id, parameters, chosen method and device.
    data: bytes | None = None
    # When everything was read last.
    read_on: date | None = None


class SeenAccount(msgspec.Struct):
    iban: str
    bic: str
    number: str
    sub: str
    blz: str
    name: str = ""
    holder: str | None = None
    type: int = 1
    currency: str = "EUR"
    balance_minor: int | None = None
    has_balance: bool = False
    has_bookings: bool = False


class Challenge(msgspec.Struct):
    """What the bank wants confirmed."""

    text: str
    is_decoupled: bool
    # A code for an optical generator, or an image with its type.
    flicker: str | None = None
    image_type: str | None = None
    image: bytes | None = None
    # For a confirmation elsewhere: how often it may be asked for, when first, and how long between.
    max_polls: int = 60
    first_seconds: int = 5
    next_seconds: int = 3
    by_itself: bool = True
    by_hand: bool = True


class Work(msgspec.Struct):
    login: Login
    pin: str
    product_id: str
    since: date | None = None
    doing: Doing = ""
    accounts: list[SeenAccount] | None = None
    # A dialog that waits for the person: what was read before, its frozen state and the bank's request.
    documents: bytes = b""
    dialog: bytes = b""
    request: bytes = b""
    is_decoupled: bool = False


class Method(msgspec.Struct):
    code: str
    name: str


def since_when(today: date, read_on: date | None = None) -> date:
    """From which day on bookings are asked for: what banks hand out without a TAN, or everything since the last time."""
    first = today - timedelta(days=DAYS_WITHOUT_TAN)
    return first if read_on is None else min(first, read_on - OVERLAP)
