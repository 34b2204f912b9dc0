"""Memory that a large body takes while it is read: one block for its bytes, one for its text, one for the file in it, and none twice."""

from __future__ import annotations

import asyncio
import base64
import json
import tracemalloc
from collections.abc import Callable
from typing import TypeVar

from kontobahn.api.bodies import Pace, read_body
from kontobahn.api.idempotency import make_claim
from kontobahn.api.wire import BodyDecoder
from kontobahn.ledger.kassenbuch import NeuerKassenbucheintrag, check
from kontobahn.settings import load

T = TypeVar("T")
FILE = b"%PDF-" + bytes(range(256)) * 20_000
TEXT = base64.b64encode(FILE).decode()
ENTRY = {
    "waehrung": "EUR", "kassenname": "Hauptkasse", "betrag": 1, "transaktionsdatum": "2026-03-02T10:00:00+01:00",
    "belegzeilen": [{"belegtext": "x", "gegenkonto": "8400", "betrag": 1}],
    "belegbilder": [{"content": f"data:application/pdf;base64,{TEXT}", "dateiname": "a.pdf"}],
}  # fmt: skip
BODY = json.dumps(ENTRY).encode()
# A block that grows may be an eighth larger than what is in it.
ROOM = 1.15


def decode() -> NeuerKassenbucheintrag:
    decoded = BodyDecoder(NeuerKassenbucheintrag).decode(BODY)
    assert isinstance(decoded, NeuerKassenbucheintrag)
    return decoded


def measured(work: Callable[[], T]) -> tuple[T, int, int]:
    """Returns what the work returns, the bytes that it leaves, and the most that it had at any time."""
    tracemalloc.start()
    try:
        result = work()
        return result, *tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()


def test_a_body_that_arrives_in_parts_is_in_memory_once() -> None:
    size = 64 * 1024
    starts = iter(range(0, len(BODY), size))

    async def receive() -> dict[str, object]:
        start = next(starts)
        return {"type": "http.request", "body": BODY[start : start + size], "more_body": start + size < len(BODY)}

    async def read_and_measure() -> tuple[bytes, int]:
        tracemalloc.start()
        try:
            return await read_body(receive, {}, len(BODY), pace), tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    pace = Pace(load({}))
    body, peak = asyncio.run(read_and_measure())
    assert body == BODY
    assert peak < len(BODY) * ROOM + 10 * size


def test_a_text_in_a_body_is_in_memory_once_besides_its_bytes() -> None:
    _, _, peak = measured(decode)
    assert peak < len(BODY) * ROOM


def test_an_idempotency_key_is_bound_to_a_body_without_a_copy_of_it() -> None:
    settings = load({})
    _, _, peak = measured(
        lambda: make_claim(
            scope="x", raw_key="k", method="POST", target=b"/", body=BODY, organizations=(), owner="o", money=False,
            settings=settings,
        )
    )  # fmt: skip
    assert peak < 100_000


def test_a_file_takes_the_place_of_its_text() -> None:
    def decode_and_check() -> bytes:
        (image,) = check(decode()).images
        return image.content

    body = decode()
    (image,) = check(body).images
    assert image.content == FILE
    # Whoever has sent it holds the body to the end of the call.
    assert [belegbild.content for belegbild in body.belegbilder] == [""]
    content, left, peak = measured(decode_and_check)
    assert left < len(content) * ROOM
    assert peak < len(TEXT) + len(FILE) * ROOM + 10 * 256 * 1024
