"""A call: who is asking, for what, and the three ways to answer.

`call.read(fn)` reads. `call.charge()` reserves credits around work that may fail and confirms them after it. `call.commit(fn)`
writes an effect of ours, its charge and its stored answer in one transaction. Only handlers know a Call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from msgspec import Struct

from kontobahn import credits
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import UserRemoval
from kontobahn.api import idempotency
from kontobahn.api.declare import Endpoint
from kontobahn.api.idempotency import Claim, StoredAnswer
from kontobahn.api.later import Later
from kontobahn.clock import Clock
from kontobahn.credits import Cause
from kontobahn.db import Database, Tx
from kontobahn.json_text import encode
from kontobahn.settings import Settings
from kontobahn.threads import Pool
from kontobahn.vault import Vault

P = ParamSpec("P")
T = TypeVar("T")


class Platform(Struct, frozen=True):
    """The credit balance after the call."""

    neuesGuthaben: int


class Context(NamedTuple):
    """What calls and jobs work with."""

    db: Database
    vault: Vault
    settings: Settings
    clock: Clock
    # What each area adds to the application (its providers behind their ports), by its type; see `part`.
    parts: Mapping[type, object]
    # What areas do in the transaction that deletes a user.
    user_removals: tuple[UserRemoval, ...] = ()

    def part(self, kind: type[T]) -> T:
        """An area's part of the application: ``context.part(Ledger)``."""
        found = self.parts[kind]
        assert isinstance(found, kind)
        return found


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
        self.status = endpoint.statuses[0]
        self.price = endpoint.cost
        self.charged = 0
        # Headers of this answer, beside those that every answer has. A repeat under an idempotency key does not have them.
        self.headers: dict[bytes, bytes] = {}
        # Where the next page of a list begins, if there is one; see `paging.page`.
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
        """What the statement of credits says about this call; for every reservation, also one that outlives the call."""
        return Cause(self.request_id, self.endpoint.name, self.principal.key_id, self.quelle)

    async def read(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.context.db.read(fn, *args, **kwargs)

    def read_inline(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]:
        """Reads a few rows by their key; see `Database.read_inline`."""
        return self.context.db.read_inline(fn, *args, **kwargs)

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
        await self.context.part(Later).write(fn, *args, seconds=seconds, event=event, request_id=self.request_id)

    async def _reserve(self) -> credits.Hold | None:
        if not self.price:
            return None
        # Choice 33: an agency pays for what it does for its clients.
        return await self.context.db.write_together(
            credits.reserve,
            self.principal.organization_id,
            self.price,
            hold_seconds=self.context.settings.call_hold_seconds,
            cause=self.cause,
        )

    async def _release(self, hold: credits.Hold) -> None:
        # If it cannot, a job releases it when it expires.
        await self.context.part(Later).write(
            credits.expire, self.principal.organization_id, hold.id, seconds=self.context.settings.call_hold_seconds,
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
            self.confirmed(
                await call.context.db.write_together(credits.confirm, call.principal.organization_id, hold.id)
            )
