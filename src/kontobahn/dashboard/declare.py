"""Declarations of pages: `@page(path)` on an async function that shows something, `@action(path)` on one that changes something.

Routing, the menu and the tests that walk every page read the declaration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import date
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from kontobahn.access.principal import Role
from kontobahn.api.call import Context
from kontobahn.db import Tx
from kontobahn.errors import NotFound

ROOT = "/dashboard"
# A form of ordinary fields; what takes a file is bounded by the setting for uploads.
FORM_BYTES = 64 * 1024
Handler = Callable[..., Awaitable[Any]]
_PARAMETER = re.compile(r"\{(\w+)\}")


class Page(NamedTuple):
    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    # The visitors: a person who is signed in, with this role at least, or anybody. Without a role, everybody looks and whoever keeps
    # the books changes something.
    caller: Literal["user", "anybody"] = "user"
    role: Role = "read_only"
    # It concerns the person's own organisation, whichever client is looked at: keys, people, credits, the person.
    own: bool = False
    # The person must have confirmed who they are within the last ten minutes.
    confirm: bool = False
    # The person must show a second factor for this very step.
    factor: bool = False
    # Seconds between two looks at whether the page has changed; 0 for never.
    poll: int = 0
    takes_file: bool = False
    body_bytes: int = FORM_BYTES
    # The topic of the guide that explains it; without one, that of the page above it.
    help: str = ""
    # Its line in the menu is for people who look after clients.
    for_clients: bool = False
    # Tells whether an installation has this page.
    offered: Callable[[Context], bool] = lambda context: True

    @property
    def name(self) -> str:
        """In metrics and the log."""
        return f"{self.method} {self.path}"


class Options(TypedDict, total=False):
    caller: Literal["user", "anybody"]
    role: Role
    own: bool
    confirm: bool
    factor: bool
    poll: int
    takes_file: bool
    body_bytes: int
    help: str
    for_clients: bool
    offered: Callable[[Context], bool]


def page(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """A page to look at. `path` begins below /dashboard: ``@page("/keys", role="admin")``."""
    return lambda handler: _declare("GET", path, handler, options)


def action(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """Declares what a form does. It answers with a redirect, or shows the form again with what is wrong."""
    return lambda handler: _declare("POST", path, handler, options)


def _declare(method: Literal["GET", "POST"], path: str, handler: Handler, options: Options) -> Page:
    takes = list(inspect.signature(handler).parameters)[1:]
    if takes != _PARAMETER.findall(path):
        raise TypeError(f"{method} {path}: the handler takes {takes}, the path names {_PARAMETER.findall(path)}")
    options.setdefault("role", "read_only" if method == "GET" else "bookkeeping")
    found = Page(method, (ROOT + path).rstrip("/"), handler, **options)
    if (found.confirm or found.factor) and (method == "GET" or found.takes_file):
        raise TypeError(f"{method} {path}: only a form without a file can ask for a confirmation")
    return found


def numeric(text: str) -> str:
    """Returns an id in an address that is a number. Raises NotFound for everything else."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise NotFound("There is no such page.")
    return text


# --- Controls: the port that the sandbox bank fills, so that pages need not know it. Functions on a transaction, which take the
# bank's own refs: whose they are, the page has found out.


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
