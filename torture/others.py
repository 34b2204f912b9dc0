"""A real `kontobahn serve`, and somebody else who goes on calling it during an attack."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.forked_commands import Commands, imported

# The bound that must hold on an idle machine.
MAX_WAIT_MILLISECONDS = 250
MAX_GROWTH_BYTES = 50_000_000
START_SECONDS = 120
MEBIBYTE = 1024 * 1024


class Target:
    """The service under attack."""

    def __init__(
        self, data: Path, *arguments: str, stderr: Any = None, python_path: str = "", wait: bool = True,
        forked_from: Commands | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        """If it is forked it need not import anything: for trials that start it again and again, and look at nothing of the process."""
        self.data = data
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")}
        environment |= {f"KONTOBAHN_{name.upper()}": str(value) for name, value in settings.items()}
        if python_path:
            environment["PYTHONPATH"] = os.pathsep.join((python_path, environment.get("PYTHONPATH", "")))
        self.log = data / "serve.log"
        # Those of the process before this one lead to its port.
        self._old_facts = self._stamp()
        command = ["serve", "--demo", "--port", "0", "--data", str(data), *arguments]
        start = forked_from.start if forked_from else imported
        with open(self.log, "wb") as log:
            self.process = start(
                command, environment, stdout=subprocess.DEVNULL, stderr=log if stderr is None else stderr
            )
        if wait:
            self.wait_until_it_accepts()

    def wait_until_it_accepts(self) -> None:
        self.facts = self._wait_for_facts()
        self.key = str(self.facts["api_key"])
        self.port = int(self.facts["base_url"].rsplit(":", 1)[1])

    def _stamp(self) -> int:
        path = self.data / "demo.json"
        return path.stat().st_mtime_ns if path.exists() else 0

    def _wait_for_facts(self) -> dict[str, Any]:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self._stamp() == self._old_facts:
                    raise LookupError
                facts: dict[str, Any] = json.loads((self.data / "demo.json").read_text("utf-8"))
                socket.create_connection(("127.0.0.1", int(facts["base_url"].rsplit(":", 1)[1])), 5).close()
                return facts
            except (OSError, ValueError, LookupError):
                time.sleep(0.05)
        self.process.kill()
        raise RuntimeError(f"The service did not start: {self.log.read_text('utf-8', 'replace')[-2000:]}")

    def connect(self, source: str = "127.0.0.1", seconds: float = 60) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), seconds, (source, 0))

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        if code:
            raise RuntimeError(f"The service ended with {code}.")


@contextmanager
def target(prepare: Callable[[Path], None] = lambda data: None, **options: Any) -> Iterator[Target]:
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        running = Target(Path(folder), limit_api_requests=10**9, limit_auth_requests=10**9, **options)
        try:
            yield running
        finally:
            running.stop()


def call(
    running: Target, method: str, path: str, body: bytes = b"", *, key: str | None = None, source: str = "127.0.0.1",
    seconds: float = 60,
) -> int:  # fmt: skip
    """Makes one call on a connection of its own, and returns the status; 0 if it got none."""
    head = [f"{method} {path} HTTP/1.1", "host: x", "connection: close", f"content-length: {len(body)}"]
    head += ["content-type: application/json", *([f"x-api-key: {key}"] if key else [])]
    try:
        with running.connect(source, seconds) as raw:
            try:
                raw.sendall("\r\n".join((*head, "", "")).encode() + body)
            except (BrokenPipeError, ConnectionResetError):
                pass  # refused before it was through
            answer = raw.recv(64)
    except OSError:
        return 0
    return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/") else 0


class Bystander:
    """Calls from another address, one call after the other, and notes how long each waits."""

    def __init__(self, running: Target) -> None:
        self._target = running
        self._stopping = threading.Event()
        self.calls = 0
        self.failed = 0
        self.waits: list[float] = []
        self._thread = threading.Thread(target=self._repeat, daemon=True)

    def __enter__(self) -> Bystander:
        for path in ("/healthz", "/v2/auth/users"):
            call(self._target, "GET", path, key=self._target.key, source="127.0.0.9")
        self._before = self._target.resident_bytes()
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopping.set()
        self._thread.join(90)

    def _repeat(self) -> None:
        while not self._stopping.is_set():
            for path in ("/healthz", "/v2/auth/users"):
                started = time.monotonic()
                status = call(self._target, "GET", path, key=self._target.key, source="127.0.0.9", seconds=90)
                self.waits.append(time.monotonic() - started)
                self.calls += 1
                self.failed += status != 200
            time.sleep(0.01)

    def verdict(self, name: str) -> bool:
        """Says what was seen, and whether it holds. Memory is given some time to go back."""
        deadline = time.monotonic() + 20
        while (growth := self._target.resident_bytes() - self._before) > MAX_GROWTH_BYTES:
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)
        ordered = sorted(self.waits)
        longest, usual = ordered[-1] * 1000, ordered[len(ordered) // 2] * 1000
        holds = self.failed == 0 and longest < MAX_WAIT_MILLISECONDS and growth < MAX_GROWTH_BYTES
        print(
            f"{'holds' if holds else 'FAILS'}  {name}: {self.calls} other calls, {self.failed} failed,"
            f" longest wait {longest:.0f} ms (usual {usual:.1f} ms), memory {growth / MEBIBYTE:+.0f} MiB"
        )
        return holds
