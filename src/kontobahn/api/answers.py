"""Answers as JSON. A long list is encoded in slices beside the event loop, so that other calls run in between."""

from __future__ import annotations

from typing import Any

import msgspec

from kontobahn.json_text import encode
from kontobahn.threads import Pool

# So many items are encoded in less time than it takes to hand the work to another thread.
INLINE_ITEMS = 500
SLICE = 500


class Ready:
    """An answer that is JSON already. Of ten megabytes, each copy costs a third of what reading them did."""

    __slots__ = ("body",)

    def __init__(self, body: bytes) -> None:
        self.body = body


async def encode_answer(answer: Any, pool: Pool) -> bytes:
    if isinstance(answer, Ready):
        return answer.body
    is_long = any(isinstance(value, list) and len(value) > INLINE_ITEMS for value in _parts(answer))
    # The effect is written and the price paid: an answer is never refused for want of a thread.
    if not is_long or pool.is_full:
        return encode(answer)
    return await pool.run(_encode_in_slices, answer)


def _parts(answer: Any) -> list[Any]:
    if isinstance(answer, msgspec.Struct):
        return [getattr(answer, name) for name in answer.__struct_fields__]
    return [answer]


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
