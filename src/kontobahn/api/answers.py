"""Answers as JSON. A long list is encoded in slices beside the event loop, so that other calls run in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kontobahn.json_text import encode
from kontobahn.threads import Pool

# So many items are encoded in less time than it takes to hand the work to another thread.
INLINE_ITEMS = 500
SLICE = 500


class Ready:
    """An answer that is JSON already, in one part or more: to put ten megabytes together costs more than to read them."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts


async def encode_answer(answer: Any, pool: Pool) -> bytes:
    # The effect is written and the price paid: an answer is never refused for want of a thread.
    if not _is_long(answer) or pool.is_full:
        return encode(answer)
    return await pool.run(_encode_in_slices, answer)


def _is_long(answer: Any) -> bool:
    if isinstance(answer, list):
        return len(answer) > INLINE_ITEMS
    for name in getattr(answer, "__struct_fields__", ()):
        value = getattr(answer, name)
        if isinstance(value, list) and len(value) > INLINE_ITEMS:
            return True
    return False


def _encode_in_slices(answer: Any) -> bytes:
    if isinstance(answer, list):
        return _encode_list(answer)
    # The encoder keeps Python's lock until it is done: only between slices can another thread have it.
    sliced = {
        name: msgspec.Raw(_encode_list(value))
        for name in answer.__struct_fields__
        if isinstance(value := getattr(answer, name), list) and len(value) > INLINE_ITEMS
    }
    return encode(msgspec.structs.replace(answer, **sliced))


def _encode_list(items: list[Any]) -> bytes:
    slices = [encode(items[start : start + SLICE])[1:-1] for start in range(0, len(items), SLICE)]
    return b"[" + b",".join(slices) + b"]"
