"""What a refused call means at the port."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from kontobahn.banking.providers.enable_banking.client import Rejected
from kontobahn.banking.providers.enable_banking.codes import failure

T = TypeVar("T")


async def asked(call: Awaitable[T]) -> T:
    """Returns what a call returns. Raises what the port calls its failure."""
    try:
        return await call
    except Rejected as error:
        raise failure(error.status, error.refusal) from None
