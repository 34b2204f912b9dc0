"""Bodies made to cost as much as they can, with and without a key, on every call that takes one. Others must be answered meanwhile.

python -m torture.bodies
"""

from __future__ import annotations

import base64
import json
import sys
import threading
from collections.abc import Callable

from torture.others import MEBIBYTE, Bystander, Target, call, target

LARGE = 28 * MEBIBYTE - 200
CASH_BOOK = "/v2/ledger-duo/kassenbuch-advanced?connectionId={connection}"


def _name(size: int) -> bytes:
    return b'{"' + b"x" * (size - 6) + b'":1}'


def _attacks(connection: str) -> dict[str, Callable[[Target], list[int]]]:
    entry = {
        "waehrung": "EUR", "kassenname": "Hauptkasse", "betrag": 1, "transaktionsdatum": "2026-03-02T10:00:00+01:00",
        "belegzeilen": [{"belegtext": "x", "gegenkonto": "8400", "betrag": 1}],
        "belegbilder": [{"content": base64.b64encode(b"%PDF-" + bytes(19_999_995)).decode(), "dateiname": "a.pdf"}],
    }  # fmt: skip
    cash_book = CASH_BOOK.format(connection=connection)
    line = b'{"belegtext":"x","gegenkonto":"4910","betrag":1},'
    lines = b'{"waehrung":"EUR","belegzeilen":[' + line * (LARGE // len(line)) + b"1]}"

    def to(path: str, body: bytes, times: int = 3, *, anonymous: bool = False) -> Callable[[Target], list[int]]:
        return lambda running: [
            call(running, "POST", path, body, key=None if anonymous else running.key) for _ in range(times)
        ]

    def at_once(path: str, body: bytes, number: int) -> Callable[[Target], list[int]]:
        def attack(running: Target) -> list[int]:
            statuses: list[int] = []
            threads = [
                threading.Thread(target=lambda: statuses.append(call(running, "POST", path, body, key=running.key)))
                for _ in range(number)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return statuses

        return attack

    deep = b'{"felder":' + b'{"a":' * 500 + b'"\\u0000"' + b"}" * 501
    return {
        "28 MB field name without a key": to("/v2/auth/sessions", _name(LARGE), anonymous=True),
        "28 MB body without a key": to(cash_book, lines, anonymous=True),
        "28 MB field name": to(cash_book, _name(LARGE)),
        "28 MB enum value": to(cash_book, b'{"waehrung":"' + b"x" * LARGE + b'"}'),
        "28 MB of lines": to(cash_book, lines),
        "28 MB of escapes": to(cash_book, b'{"kassenname":"' + b"\\u00e4" * (LARGE // 6) + b'"}'),
        "1 MB with NUL": to(cash_book, b'{"felder":["' + b"\\u0000" * 170_000 + b'"]}'),
        "NUL 500 levels deep": to(cash_book, deep),
        "1 MB of brackets": to("/v2/banking/payments", b'{"custom_fields":{"a":[' + b"[]," * 340_000 + b"1]}}"),
        "1e99999999": to(cash_book, json.dumps({**entry, "belegbilder": []}).replace(": 1,", ": 1e99999999,").encode()),
        "receipt of 20 MB, eight at once": at_once(cash_book, json.dumps(entry).encode(), 8),
    }  # fmt: skip


def main() -> int:
    with target() as running:
        connection = running.facts["ledger"]["connection_id"] if "ledger" in running.facts else _connection(running)
        holds = True
        for name, attack in _attacks(connection).items():
            with Bystander(running) as others:
                statuses = attack(running)
            holds &= others.verdict(f"{name} {sorted(set(statuses))}")
            holds &= 500 not in statuses
    return 0 if holds else 1


def _connection(running: Target) -> str:
    import httpx

    found = httpx.get(
        f"http://127.0.0.1:{running.port}/v2/ledger-duo/connections",
        headers={"x-api-key": running.key},
        trust_env=False,
    ).json()
    return str(found["data"][0]["id"])


if __name__ == "__main__":
    sys.exit(main())
