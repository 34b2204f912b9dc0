"""Pages of a list: a call reads one row more than fits, and a `Link` header says where the next page is if there was one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from kontobahn.api.call import Call

Row = TypeVar("Row")


def one_more(limit: int | None) -> int | None:
    """How many rows to read for a page of so many; all of them without a limit."""
    return None if limit is None else limit + 1


def page(call: Call, rows: list[Row], limit: int | None, position: Callable[[Row], object]) -> list[Row]:
    """Cuts the rows to the page. If some are left over, the next page begins after the position of the last one shown."""
    if limit is None or len(rows) <= limit:
        return rows
    shown = rows[:limit]
    call.continues_after = str(position(shown[-1]))
    return shown


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
