"""One harmless question to a bank: who it is. Nobody signs in, and nothing is asked about any account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from kontobahn.banking.providers.fints.codes import failure


class Answered(Exception):
    """The bank answered, and refused."""


async def ask_who(
    post: Callable[[str, bytes], Coroutine[Any, Any, bytes]], *, blz: str, url: str, product_id: str
) -> str:
    """Returns the name by which the bank calls itself. Raises Answered if it refuses, and what `post` raises."""
    loop = asyncio.get_running_loop()

    def blocking_post(to: str, body: bytes) -> bytes:
        return asyncio.run_coroutine_threadsafe(post(to, body), loop).result()

    return await asyncio.to_thread(_ask_who, blocking_post, blz, url, product_id)


def _ask_who(post: Callable[[str, bytes], bytes], blz: str, url: str, product_id: str) -> str:
    from fints.exceptions import FinTSDialogInitError
    from fints.formals import CUSTOMER_ID_ANONYMOUS

    from kontobahn.banking.providers.fints.client import BankError, StrictClient

    client = StrictClient(
        post, blz=blz, url=url, user=CUSTOMER_ID_ANONYMOUS, customer=None, pin=None, product_id=product_id, data=None
    )
    try:
        # Not the client's own dialog, in which the library minds to learn which methods there are.
        with client._new_dialog():
            return str(client.get_information()["bank"].get("name") or blz)
    except BankError as error:
        raise Answered(str(failure(error.codes))) from None
    except FinTSDialogInitError as error:
        # The library wraps what the network said.
        raise (error.__cause__ or error) from None
