"""A process that asks for tokens of a sign-in at DATEV, many at once, as a worker of its own does; for tests."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
from msgspec import Struct

from kontobahn import app
from kontobahn.clock import ManualClock
from kontobahn.datev.adapter import DatevProvider
from kontobahn.db import open_database
from kontobahn.ledger.provider import ConnectionRef
from kontobahn.settings import Settings
from kontobahn.vault import open_vault


class Task(Struct):
    settings: dict[str, Any]
    now: int
    connection: ConnectionRef
    calls: int


async def ask(provider: DatevProvider, task: Task) -> list[str]:
    found = await asyncio.gather(*(provider._sessions.access(task.connection) for _ in range(task.calls)))
    await provider.close()
    return [one.token for one in found]


def main() -> None:
    """Says that it is ready, waits for a word, and answers with the tokens."""
    task = msgspec.json.decode(sys.stdin.readline(), type=Task)
    settings, clock = msgspec.convert(task.settings, Settings), ManualClock(task.now)
    db = open_database(settings, clock)
    provider = app.set_up_ledger(settings, db, open_vault(settings), clock).providers[DatevProvider.name]
    assert isinstance(provider, DatevProvider)
    print("ready", flush=True)
    sys.stdin.readline()
    print(msgspec.json.encode(asyncio.run(ask(provider, task))).decode(), flush=True)
    db.close()


if __name__ == "__main__":
    main()
