"""The parts that benchmarks share: rounds that interleave, lines with a ratio and a target, server processes and a load generator.

Everything is measured beside what it is compared with, on the same machine in the same minute; nothing here knows
what is measured. Run on its own, it says how fast this machine is.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

import msgspec

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 30.0
# For one answer: the slowest pages take seconds on a busy machine, and a figure is better than none.
ANSWER_SECONDS = 120.0
STOP_SECONDS = 10.0
CONNECTIONS = 16
NOT_RUN = "not run"


class Row(msgspec.Struct, frozen=True):
    """One line of the table. `target` is missing if a line is for information only, `ratio` if nothing is compared."""

    question: str
    ours: str
    beside: str
    ratio: float | None
    target: str
    met: bool | None


def at_least(question: str, ours: str, beside: str, ratio: float, least: float) -> Row:
    return Row(question, ours, beside, ratio, f">= {least:g}", ratio >= least)


def at_most(question: str, ours: str, beside: str, ratio: float, most: float) -> Row:
    return Row(question, ours, beside, ratio, f"<= {most:g}", ratio <= most)


def for_information(question: str, ours: str, beside: str, ratio: float) -> Row:
    return Row(question, ours, beside, ratio, "", None)


def not_run(question: str, why: str, target: str = "") -> Row:
    """For what cannot be asked here, mostly because a peer is not installed: neither met nor missed."""
    return Row(question, NOT_RUN, why, None, target, None)


def interleave(rounds: int, *runs: Callable[[], float]) -> list[list[float]]:
    """Runs A B C, A B C, ... and returns the figures of each, round by round. The first round only warms up."""
    figures: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, found in zip(runs, figures, strict=True):
            figure = run()
            if number:
                found.append(figure)
    return figures


def median_ratio(ours: Sequence[float], beside: Sequence[float]) -> float:
    """The median of the rounds' own ratios: a slow minute slows both sides of its round."""
    return statistics.median(a / b for a, b in zip(ours, beside, strict=True))


def spread(figures: Sequence[float], unit: str = "", digits: int = 0) -> str:
    """The median, with the minimum and the maximum."""
    middle, least, most = statistics.median(figures), min(figures), max(figures)
    return f"{middle:,.{digits}f}{unit} ({least:,.{digits}f}-{most:,.{digits}f})"


def peak_memory(pid: int | Literal["self"] = "self") -> int:
    """Bytes of memory that a process had at most; 0 once it has ended. `getrusage` would report its parent's, if that had more."""
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    except FileNotFoundError:
        return 0
    return int(found[1]) * 1024 if found else 0


class Process:
    """A process of ours that ends with the `with` block, and whose standard error is kept. Python, if nothing else is said."""

    def __init__(
        self,
        *arguments: str,
        program: str = sys.executable,
        environ: dict[str, str] | None = None,
        stdout: int = subprocess.DEVNULL,
    ) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            [program, *arguments],
            cwd=ROOT,
            env=environment() | (environ or {}),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=self._errors,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, seconds: float) -> int:
        """Returns its exit code. Raises subprocess.TimeoutExpired if it does not end."""
        return self._process.wait(seconds)

    def peak_memory(self) -> int:
        """Bytes of memory it had at most, asked while it runs; 0 once it has ended."""
        return peak_memory(self.pid)

    def failed(self, sentence: str) -> RuntimeError:
        """An error with the last output of the process."""
        self._errors.seek(0)
        return RuntimeError(f"{sentence}\n{self._errors.read().decode(errors='replace')[-2000:]}")

    def stop(self) -> None:
        if self.running:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()


class Child(Process):
    """A server process that prints `ready PORT` when it serves."""

    def __init__(self, *arguments: str, program: str = sys.executable, environ: dict[str, str] | None = None) -> None:
        super().__init__(*arguments, program=program, environ=environ, stdout=subprocess.PIPE)
        try:
            self.port = self._wait_until_ready()
        except BaseException:
            self.stop()
            raise

    def cpu_seconds(self) -> float:
        """User and system time of all its threads so far, to the nanosecond: Linux has a clock for every process."""
        return time.clock_gettime(~self.pid << 3 | 2)

    def _wait_until_ready(self) -> int:
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        said = b""
        while (match := re.search(rb"^ready (\d+)\n", said, re.MULTILINE)) is None:
            readable, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 4096) if readable else b""
            if not more:
                raise self.failed("A server did not start:")
            said += more
        return int(match[1])


def environment() -> dict[str, str]:
    """Our own environment without any Kontobahn settings in it, and with the folders that Python must find.

    Compiled modules are kept, as in every installation, even if this shell tells Python not to.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    folders = os.pathsep.join(filter(None, [kept.get("PYTHONPATH"), str(ROOT), str(ROOT / "src")]))
    return kept | {"PYTHONPATH": folders, "PYTHONPYCACHEPREFIX": str(ROOT / ".venv" / "pycache-of-benchmarks")}


class Load(NamedTuple):
    requests_a_second: float
    cpu_microseconds: float


def load(server: Child, path: str, headers: dict[str, str], seconds: float) -> Load:
    """Sends requests as fast as they are answered, over a few connections; every answer must be a 200."""
    cpu, started = server.cpu_seconds(), time.perf_counter()
    requests = _send(server.port, path, headers, seconds)
    elapsed, used = time.perf_counter() - started, server.cpu_seconds() - cpu
    return Load(requests / elapsed, used / requests * 1e6)


def rate(port: int, path: str, headers: dict[str, str], seconds: float) -> float:
    """Requests a second under the same load, for a service of several processes."""
    started = time.perf_counter()
    requests = _send(port, path, headers, seconds)
    return requests / (time.perf_counter() - started)


def _send(port: int, path: str, headers: dict[str, str], seconds: float) -> int:
    return (_load_by_wrk if shutil.which("wrk") else _load_by_ourselves)(port, path, headers, seconds)


def _load_by_wrk(port: int, path: str, headers: dict[str, str], seconds: float) -> int:
    lines = [part for name, value in headers.items() for part in ("-H", f"{name}: {value}")]
    # wrk takes whole seconds only.
    command = [
        "wrk",
        "-t1",
        f"-c{CONNECTIONS}",
        f"-d{max(1, round(seconds))}s",
        f"--timeout={ANSWER_SECONDS:.0f}s",
        *lines,
        f"http://127.0.0.1:{port}{path}",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counted = re.search(r"(\d+) requests in", said)
    if counted is None or "Non-2xx" in said or "Socket errors" in said or counted[1] == "0":
        raise RuntimeError(f"The load was not answered as it should be:\n{said}")
    return int(counted[1])


def _load_by_ourselves(port: int, path: str, headers: dict[str, str], seconds: float) -> int:
    """Without wrk: one thread, a request outstanding on each of several connections."""
    request = request_bytes(path, headers)
    poller = select.epoll()
    ends = time.monotonic() + seconds
    count = 0
    with contextlib.ExitStack() as stack:
        stack.callback(poller.close)
        connections, received = {}, {}
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connections[connection.fileno()] = connection
            received[connection.fileno()] = b""
            poller.register(connection.fileno(), select.EPOLLIN)
            connection.sendall(request)
        while time.monotonic() < ends:
            for descriptor, _ in poller.poll(1):
                received[descriptor] += connections[descriptor].recv(65536)
                answer = received[descriptor]
                if not _is_whole(answer):
                    continue
                if not answer.startswith(b"HTTP/1.1 200 "):
                    raise RuntimeError(f"The load was not answered as it should be:\n{answer[:500]!r}")
                count += 1
                received[descriptor] = b""
                connections[descriptor].sendall(request)
    return count


def request_bytes(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "host: 127.0.0.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def _is_whole(answer: bytes) -> bool:
    head, blank, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    if not answer or (blank and length is None):
        raise RuntimeError(f"The answer has no length, or the connection was closed:\n{answer[:500]!r}")
    return length is not None and bool(blank) and len(body) >= int(length[1])


def ask_once(port: int, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers (names in lower case) and body of one call. Raises OSError if there is no answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(request_bytes(path, {**headers, "connection": "close"}))
        with connection.makefile("rb") as answer:
            first = answer.readline().decode("latin-1")
            if not first:
                raise ConnectionError("The connection was closed without an answer.")
            lines = iter(lambda: answer.readline().decode("latin-1").strip(), "")
            found = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            # Of a known length it is read into one place, and not copied.
            return int(first.split()[1]), found, answer.read(int(found.get("content-length", -1)))


def operations_a_second(seconds: float, threads: int, step: Callable[[int], None]) -> float:
    """Returns how often per second `step(number of the thread)` is done by this many threads together."""
    ends = time.perf_counter() + seconds
    done = [0] * threads
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            while time.perf_counter() < ends:
                step(number)
                done[number] += 1
        except BaseException as failure:
            failures.append(failure)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]
    return sum(done) / (time.perf_counter() - started)


def describe_machine(directory: Path) -> str:
    """Cores, what a durable write costs in this directory, and what plain Python work costs."""
    with (directory / "probe").open("wb", buffering=0) as file:
        times = []
        for _ in range(200):
            started = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    (directory / "probe").unlink()
    started = time.perf_counter()
    sum(number * number for number in range(1_000_000))
    python_ms = (time.perf_counter() - started) * 1000
    return (
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; a durable write of 4 KiB takes"
        f" {statistics.median(times) * 1e6:,.0f} µs, a million squares {python_ms:.0f} ms"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as place:
        print(describe_machine(Path(place)))
