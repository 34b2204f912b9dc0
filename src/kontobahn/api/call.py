"""A call: who is asking, for what, and the three ways to answer.

`call.read(fn)` reads. `call.charge()` reserves credits around work that may fail and confirms them after it. `call.commit(fn)`
writes an effect of ours, its charge and its stored answer in one transaction. Only handlers know a Call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from kontobahn import credits, log
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.sessions import CONFIRMED
from kontobahn.access.users import UserRemoval
from kontobahn.api import idempotency
from kontobahn.api.answers import Platform
from kontobahn.api.declare import AS_OF, Endpoint
from kontobahn.api.idempotency import Claim, StoredAnswer
from kontobahn.api.wire import Query
from kontobahn.clock import Clock, to_datetime
from kontobahn.credits import Cause
from kontobahn.db import Database, ShortRead, Tx
from kontobahn.errors import Forbidden, KontobahnError, Unavailable
from kontobahn.json_text import encode
from kontobahn.sentences import said
from kontobahn.settings import Settings
from kontobahn.threads import Pool
from kontobahn.vault import Vault

P = ParamSpec("P")
T = TypeVar("T")
Row = TypeVar("Row")


class Context(NamedTuple):
    """Everything that calls and jobs work with."""

    db: Database
    vault: Vault
    settings: Settings
    clock: Clock
    # The parts that each area adds to the application (its providers behind their ports), by its type; see `part`.
    parts: Mapping[type, object]
    # Work of the areas in the transaction that deletes a user.
    user_removals: tuple[UserRemoval, ...] = ()

    def part(self, kind: type[T]) -> T:
        """An area's part of the application: ``context.part(Ledger)``."""
        found = self.parts[kind]
        assert isinstance(found, kind)
        return found


def check_allowed(endpoint: Endpoint, principal: Principal) -> None:
    """Raises Forbidden if the scopes of the caller's key or the caller's role do not suffice."""
    if not principal.has_scope(endpoint.scopes):
        # Choice 38: the refusal names the scope that is missing.
        if not endpoint.scopes:
            raise Forbidden("This call is not open to keys with a list of scopes.")
        needed, own = " or ".join(endpoint.scopes), ", ".join(principal.scopes or ())
        raise Forbidden(
            said("This call needs the scope {needed}; this key has {own}.", needed=needed, own=own),
            missing_scope=endpoint.scopes[0],
        )
    if endpoint.also_scope and not principal.has_scope((endpoint.also_scope,)):
        raise Forbidden(
            said("This call needs the scope {needed} as well.", needed=endpoint.also_scope),
            missing_scope=endpoint.also_scope,
        )
    by_scope = endpoint.scope_replaces_role and principal.scopes is not None and principal.may("bookkeeping")
    if principal.may(endpoint.role) or by_scope:
        return
    instead = f", or a key made with the scope {endpoint.scopes[0]}" if endpoint.scope_replaces_role else ""
    raise Forbidden(
        said(
            "This call needs the role {role}{instead}; this one is {own}.",
            role=endpoint.role,
            instead=instead,
            own=principal.role,
        )
    )


def check_session(endpoint: Endpoint, principal: Principal, now: int) -> None:
    """Raises Forbidden if a signed-in person has to add a second factor, or to confirm who they are, before this call."""
    if principal.must_add_factor and not endpoint.without_factor:
        raise Forbidden(
            "Your organisation requires a second factor, and you have none yet. Add one in the dashboard, under your profile."
        ).retryable()
    if endpoint.confirm and now - principal.confirmed_at > CONFIRMED:
        raise Forbidden(
            "This call needs a confirmation of the last ten minutes that it is you.",
            message="Send your password to POST /v2/auth/sessions/confirm, then call again with the token it answers with.",
        ).retryable()


class Call:
    __slots__ = (
        "_charge",
        "_principal",
        "charged",
        "claim",
        "context",
        "continues_after",
        "endpoint",
        "headers",
        "ip",
        "patience_seconds",
        "price",
        "quelle",
        "request_id",
        "status",
        "stored_answer",
    )

    def __init__(
        self, context: Context, endpoint: Endpoint, principal: Principal | None, request_id: str, ip: str, quelle: str
    ) -> None:
        self.context = context
        self.endpoint = endpoint
        self.request_id = request_id
        self.ip = ip
        self.quelle = quelle
        # For so long the caller waits for an outcome that may take minutes; None for as long as the call itself says.
        self.patience_seconds: float | None = None
        self.status = endpoint.statuses[0]
        self.price = endpoint.cost
        self.charged = 0
        # Headers of this answer, beside those that every answer has. A repeat under an idempotency key does not have them.
        self.headers: dict[bytes, bytes] = {}
        # The position after which the next page of a list begins, if there is one; see `page`.
        self.continues_after: str | None = None
        self.claim: Claim | None = None
        self.stored_answer: bytes | None = None
        self._charge: Charge | None = None
        self._principal = principal

    @property
    def principal(self) -> Principal:
        assert self._principal is not None, "an endpoint open to anybody has no principal"
        return self._principal

    @property
    def actor(self) -> Actor:
        name = self._principal.actor if self._principal else "anybody"
        return Actor(name, self.request_id, self.ip)

    @property
    def cause(self) -> Cause:
        """The words of the credit statement about this call; for every reservation, also one that outlives the call."""
        return Cause(self.request_id, self.endpoint.name, self.principal.caller_id, self.quelle)

    async def read(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.context.db.read(fn, *args, **kwargs)

    def read_inline(self, read: ShortRead[P, T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Reads a few rows by their key; see `Database.read_inline`."""
        return self.context.db.read_inline(read, *args, **kwargs)

    async def off_loop(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Does work that may take more than a few milliseconds beside the event loop."""
        return await self.context.part(Pool).run(fn, *args, **kwargs)

    def charge(self) -> Charge:
        return Charge(self)

    async def commit(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Writes the effect, the confirmation of its price and the answer to repeats: all of them or none.

        May be called inside `charge()`, after the provider's part of the work.
        """
        if self._charge is None:
            async with Charge(self, reads_balance=False):
                return await self.commit(fn, *args, **kwargs)
        charge = self._charge
        answer, balance = await self.context.db.write(self._commit, charge.hold, fn, args, kwargs)
        if charge.hold is not None:
            charge.confirmed(balance)
        return answer  # type: ignore[no-any-return]

    def _commit(self, tx: Tx, hold: credits.Hold | None, fn: Any, args: Any, kwargs: Any) -> tuple[Any, int]:
        answer = fn(tx, *args, **kwargs)
        balance = credits.confirm(tx, self.principal.organization_id, hold.id) if hold else 0
        if hasattr(answer, "platform"):
            if not hold:
                balance = credits.balance(tx, self.principal.organization_id).available
            answer.platform = Platform(neuesGuthaben=balance)
        if self.claim is not None:
            self.stored_answer = encode(answer)
            idempotency.complete(tx, self.context.vault, self.claim, StoredAnswer(self.status, self.stored_answer))
        return answer, balance

    async def leave_key_open(self) -> None:
        """Stores no answer under the idempotency key, because it is not final: a repeat runs the handler again."""
        if self.claim is None:
            return
        claim, self.claim = self.claim, None
        await self.settle_claim(idempotency.release, claim)

    async def settle_claim(self, fn: Callable[..., object], *args: Any) -> None:
        """Says what becomes of the idempotency key of a call that failed; later, if the database is away."""
        seconds, event = self.context.settings.call_hold_seconds, "idempotency_key_left_to_expire"
        organization_id = self._principal.organization_id if self._principal else ""
        await self.context.part(DeferredWrites).write(
            organization_id, fn, *args, seconds=seconds, event=event, request_id=self.request_id
        )

    async def _reserve(self) -> credits.Hold | None:
        if not self.price:
            return None
        # Choice 33: an agency pays for what it does for its clients.
        organization_id = self.principal.organization_id
        return await self.context.db.write_together(
            organization_id,
            credits.reserve,
            organization_id,
            self.price,
            hold_seconds=self.context.settings.call_hold_seconds,
            cause=self.cause,
        )

    async def _release(self, hold: credits.Hold) -> None:
        # If it cannot, a job releases it when it expires.
        organization_id = self.principal.organization_id
        await self.context.part(DeferredWrites).write(
            organization_id, credits.expire, organization_id, hold.id, seconds=self.context.settings.call_hold_seconds,
            event="reservation_left_to_expire", request_id=self.request_id, hold_id=hold.id,
        )  # fmt: skip


class Charge:
    """Reserves on the way in, confirms on the way out (unless `commit` did), releases if the body fails."""

    __slots__ = ("_call", "_is_confirmed", "_platform", "_reads_balance", "hold")

    def __init__(self, call: Call, *, reads_balance: bool = True) -> None:
        self._call = call
        self._reads_balance = reads_balance
        self._platform: Platform | None = None
        self._is_confirmed = False
        self.hold: credits.Hold | None = None

    @property
    def platform(self) -> Platform:
        """The balance after the call; known once the charge is closed."""
        assert self._platform is not None, "the charge is still open"
        return self._platform

    def confirmed(self, balance: int) -> None:
        assert self.hold is not None
        self._is_confirmed = True
        self._call.charged = self.hold.amount
        self._platform = Platform(neuesGuthaben=balance)

    async def __aenter__(self) -> Charge:
        self.hold = await self._call._reserve()
        self._call._charge = self
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call, hold = self._call, self.hold
        call._charge = None
        if self._is_confirmed:
            return
        if hold is None:
            if error is None and self._reads_balance:
                balance = await call.read_inline(credits.balance, call.principal.organization_id)
                self._platform = Platform(neuesGuthaben=balance.available)
        elif error is not None:
            await call._release(hold)
        else:
            organization_id = call.principal.organization_id
            self.confirmed(
                await call.context.db.write_together(organization_id, credits.confirm, organization_id, hold.id)
            )


# --- Tidying up


PAUSE_SECONDS = 1.0
# Of a process. More calls than these can hardly have been running when the database went away.
MAX_WAITING = 2000


class DeferredWrites:
    """Writes by which a call that failed is tidied up: made at once, or as soon as the database is back.

    A key or a reservation that nobody frees is free again when its lease ends, minutes later; until then repeats are refused.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: set[asyncio.Task[None]] = set()

    async def write(
        self, organization_id: str, fn: Callable[..., object], *args: Any, seconds: float, event: str, **fields: Any
    ) -> None:
        """Runs the unit now, otherwise within so many seconds, after which it is pointless. The event is logged if it gives up."""
        try:
            await self._db.write_together(organization_id, fn, *args)
        except Unavailable as error:
            if len(self._waiting) >= MAX_WAITING:
                log.warning(event, detail=error.operator or str(error), **fields)
                return
            task = asyncio.create_task(
                self._repeat(organization_id, fn, args, time.monotonic() + seconds, event, fields)
            )
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        except KontobahnError as error:
            log.warning(event, detail=str(error), **fields)

    async def _repeat(
        self,
        organization_id: str,
        fn: Callable[..., object],
        args: tuple[Any, ...],
        ends_at: float,
        event: str,
        fields: dict[str, Any],
    ) -> None:
        failure: KontobahnError | None = None
        while time.monotonic() < ends_at:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                await self._db.write_together(organization_id, fn, *args)
                return
            except Unavailable as error:
                failure = error
            except KontobahnError as error:
                failure = error
                break
        log.warning(event, detail=str(failure), **fields)

    async def close(self) -> None:
        """Leaves whatever still waits to expire."""
        for task in tuple(self._waiting):
            task.cancel()
        await asyncio.gather(*self._waiting, return_exceptions=True)


# --- Pages of a list: a call reads one row more than fits, and `Link` says where the next page is if there was one


def one_more(limit: int | None) -> int | None:
    """Returns how many rows to read for a page of so many; all of them without a limit."""
    return None if limit is None else limit + 1


def page(call: Call, rows: list[Row], limit: int | None, position: Callable[[Row], object]) -> list[Row]:
    """Cuts the rows to the page. If some are left over, the next page begins after the position of the last one shown."""
    if limit is None or len(rows) <= limit:
        return rows
    shown = rows[:limit]
    call.continues_after = str(position(shown[-1]))
    return shown


def tell_age(call: Call, as_of: int | None) -> None:
    """Says in a header as of when the figures are, in microseconds; nothing if they are of now."""
    if as_of is not None:
        call.headers[AS_OF.lower().encode()] = f"{to_datetime(as_of):%Y-%m-%dT%H:%M:%SZ}".encode()


def stated_age(call: Call) -> datetime | None:
    told = call.headers.get(AS_OF.lower().encode())
    return None if told is None else datetime.fromisoformat(told.decode())


def warning(endpoint: Endpoint, query: Query) -> dict[bytes, bytes]:
    """The header of an answer to a walk that will miss rows: in another order than that of the ids, late ones have no place."""
    if not endpoint.walk_warning or getattr(query, "from_id", None) is None or getattr(query, "sort", "id") == "id":
        return {}
    return {b"warning": f'299 - "{endpoint.walk_warning}"'.encode("ascii")}


def next_page(base_url: str, path: str, query: bytes, parameter: str, after: str) -> bytes:
    """The header's value: the same call, continued after the position."""
    # As everywhere, case and underscores of a parameter's name do not count.
    kept = [
        (name, value)
        for name, value in parse_qsl(query.decode("latin-1"))
        if name.replace("_", "").lower() != parameter.replace("_", "")
    ]
    address = f"{base_url}{quote(path)}?{urlencode([*kept, (parameter, after)])}"
    return f'<{address}>; rel="next"'.encode("ascii")
