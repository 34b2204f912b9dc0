"""Thousands of connections that send nothing, drip, or are held open. Others must be answered meanwhile.

python -m torture.connections --connections 2000
"""

from __future__ import annotations

import argparse
import resource
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from torture.others import Bystander, Target, target

HOLD_SECONDS = 8
BODY_BYTES = 27_000_000


def _open(running: Target, number: int, sent: bytes, *, addresses: int = 1) -> list[socket.socket]:
    opened = []
    for position in range(number):
        with suppress(OSError):
            raw = running.connect(f"127.0.1.{position % addresses + 1}", 5)
            opened.append(raw)
            raw.sendall(sent)
    return opened


def _drip(opened: list[socket.socket], seconds: float, piece: bytes) -> int:
    """Sends a byte on each now and then; returns how many of them are still open."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for raw in opened:
            raw.setblocking(False)
            with suppress(OSError):
                raw.send(piece)
        time.sleep(0.5)
    return sum(map(_is_open, opened))


def _is_open(raw: socket.socket) -> bool:
    try:
        while raw.recv(65536):
            pass  # an answer; whether the connection was ended comes after it
        return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def _attacks(number: int, key: str) -> dict[str, Callable[[Target], list[socket.socket]]]:
    form = b"POST /sandbox/connect/x HTTP/1.1\r\nhost: x\r\ncontent-length: 9000\r\n\r\na"
    path = "/v2/ledger-duo/kassenbuch-advanced?connectionId=00000000-0000-4000-8000-000000000000"
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nx-api-key: {key}\r\ncontent-length: {BODY_BYTES}\r\n\r\n".encode()
    return {
        "silent": lambda running: _open(running, number, b""),
        "silent, from 200 addresses": lambda running: _open(running, number, b"", addresses=200),
        "dripping headers": lambda running: _open(running, number, b"GET / HTTP/1.1\r\nx: "),
        "dripping headers, from 200 addresses": lambda running: _open(running, number, b"GET / HTTP/1.1\r\nx: ", addresses=200),
        "dripping forms of the sandbox": lambda running: _open(running, number, form),
        "uploads held open": lambda running: _open(running, 60, head + b" " * (BODY_BYTES - 1000)),
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=2000)
    number = parser.parse_args().connections
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    holds = True
    with target(body_seconds=5, header_seconds=20) as running:
        for name, attack in _attacks(number, running.key).items():
            with Bystander(running) as others:
                opened = attack(running)
                left = _drip(opened, HOLD_SECONDS, b"" if name.startswith("silent") else b"x")
            for raw in opened:
                raw.close()
            holds &= others.verdict(f"{len(opened)} {name}, {left} of them left after {HOLD_SECONDS} s")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
