"""Documents are made in a process of their own, with a limit to its memory and time: one that needs more ends alone.

The child (`python -m kontobahn.mobility.invoices.typesetter`) makes one document after another, each asked for and answered over its
pipes. It ends after a large one, after many, or when nobody has asked for a while: its memory goes back as a whole.
"""

from __future__ import annotations

import atexit
import os
import pickle
import resource
import select
import selectors
import signal
import struct
import subprocess
import time
from collections.abc import Callable
from typing import Any, BinaryIO, Literal, NamedTuple

import msgspec

from kontobahn import children
from kontobahn.clock import SECOND
from kontobahn.formats import cii
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.rules import Facts, to_cii

Kind = Literal["pdf", "xml"]
# The memory that 5,000 tickets need, with as much again in reserve.
MEMORY_BYTES = 1536 * 1024 * 1024
SECONDS = 120
# The child ends after this many documents, after one with more than this many lines, or after this many seconds without work.
MAX_DOCUMENTS = 100
LARGE_LINES = 2000
IDLE_SECONDS = 60
_LENGTH = struct.Struct(">Q")


class Document(NamedTuple):
    kind: Kind
    file_name: str
    content: bytes


class Failed(Exception):
    """The documents cannot be made; says why."""


class _Answer(NamedTuple):
    documents: list[Document]
    error: str | None


def render(facts: Facts, issued_at: int) -> list[Document]:
    """Returns both documents. The same facts give the same bytes."""
    invoice = to_cii(facts)
    profile = cii.profile_of(invoice)
    embedded, alone = cii.write(invoice, "en16931", profile)
    name = facts.number.replace("/", "-")
    return [
        Document("pdf", f"{name}.pdf", pdf.make(facts, embedded, issued_at // SECOND)),
        Document("xml", f"{name}-{profile}.xml", alone),
    ]


class Typesetter:
    """The child, started when there is something to do. Used by one thread."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._made = 0
        atexit.register(self.close)

    def render(self, facts: Facts, issued_at: int) -> list[Document]:
        """Returns both documents, made by the child. Raises Failed if it could not make them within its limits."""
        return self.run(render, facts, issued_at, is_large=len(facts.lines) > LARGE_LINES)

    def run(self, make: Callable[..., list[Document]], *args: Any, is_large: bool = False) -> list[Document]:
        """Returns what this function of a module makes in the child. Raises Failed if it could not within the limits."""
        request = pickle.dumps((make, args))
        # One that went because it was idle has done nothing; it is asked again as a new one.
        answer = self._ask(request) if self._child is not None and self._child.poll() is None else None
        if answer is None:
            self.close()
            answer = self._ask(request)
        if answer is None:
            raise Failed("The process that makes documents cannot be started.")
        self._made += 1
        if answer.error is not None or self._made >= MAX_DOCUMENTS or is_large:
            self.close()
        if answer.error is not None:
            raise Failed(answer.error)
        return answer.documents

    def close(self) -> None:
        child, self._child, self._made = self._child, None, 0
        if child is not None:
            child.kill()
            child.communicate()

    def _ask(self, request: bytes) -> _Answer | None:
        """Returns None if the child has ended by itself."""
        if self._child is None:
            self._child = _start()
        child = self._child
        reply = _exchange(child, _LENGTH.pack(len(request)) + request, time.monotonic() + SECONDS)
        if reply is not None:
            return msgspec.msgpack.decode(reply, type=_Answer)
        status = child.poll()
        if status is None:
            return _Answer([], f"It took longer than {SECONDS} seconds.")
        if status == 0:
            return None
        return _Answer([], f"The process that makes documents ended with {_described(status)}.")


def _described(status: int) -> str:
    if status == -signal.SIGXCPU:
        return f"more than {SECONDS} seconds of processor time"
    if status in (-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV):
        return f"{signal.Signals(-status).name}: it probably needed more than {MEMORY_BYTES // 1024**2} MiB"
    return f"status {status}"


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        children.command("kontobahn.mobility.invoices.typesetter"), env=children.environment(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def _exchange(child: subprocess.Popen[bytes], request: bytes, ends_at: float) -> bytes | None:
    """Sends the request and returns the reply; None if the child ended, or time is over."""
    assert child.stdin is not None
    assert child.stdout is not None
    left, reply = memoryview(request), bytearray()
    for stream in (child.stdin, child.stdout):
        os.set_blocking(stream.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdin, selectors.EVENT_WRITE)
        ready.register(child.stdout, selectors.EVENT_READ)
        while (seconds := ends_at - time.monotonic()) > 0:
            for key, _ in ready.select(seconds):
                try:
                    if key.fileobj is child.stdin:
                        left = left[os.write(child.stdin.fileno(), left[:65536]) :]
                        if not left:
                            ready.unregister(child.stdin)
                    elif chunk := os.read(child.stdout.fileno(), 1 << 20):
                        reply += chunk
                    else:
                        child.wait()
                        return None
                except BrokenPipeError:
                    child.wait()
                    return None
            if len(reply) >= _LENGTH.size and len(reply) - _LENGTH.size == _LENGTH.unpack_from(reply)[0]:
                return bytes(memoryview(reply)[_LENGTH.size :])
    return None


# --- In the child


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Whatever a library prints must not get between the answers.
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while (request := _receive(source)) is not None:
        _limit_time()
        answer = msgspec.msgpack.encode(_answer(request))
        sink.write(_LENGTH.pack(len(answer)) + answer)
        sink.flush()


def _receive(source: BinaryIO) -> bytes | None:
    if not select.select([source], [], [], IDLE_SECONDS)[0]:
        return None
    head = source.read(_LENGTH.size)
    return source.read(_LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else None


def _limit_time() -> None:
    """For each document anew. It also ends a child whose parent has died meanwhile."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    until = int(usage.ru_utime + usage.ru_stime) + SECONDS
    # The hard limit stays: without privileges it could never be raised again for the next document.
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (until if hard == resource.RLIM_INFINITY else min(until, hard), hard))


def _answer(request: bytes) -> _Answer:
    make, args = pickle.loads(request)
    try:
        return _Answer(make(*args), None)
    except MemoryError:
        return _Answer([], f"It needs more than {MEMORY_BYTES // 1024**2} MiB.")
    except Exception as error:
        return _Answer([], f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
