"""`python -m mutation.trial`: tries faults of some modules in forked copies of one process that has collected the tests already.

Reads a list of faults, plants each by giving the module's functions other code, runs the tests that reach the statement, the
shortest first, and tells after each whether a test noticed. What lies outside functions cannot be planted so: `Unplantable`.
"""

from __future__ import annotations

import ast
import gc
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from mutation.faults import Fault
from mutation.subjects import SOURCE
from tests.shared_services import FRESH

Verdict = str  # besides these: "hung", "not reached"
UNPLANTABLE = 3
VERDICTS: dict[int, Verdict] = {0: "unnoticed", UNPLANTABLE: "unplantable"}
# The time of a run that hangs, as a multiple of a run without a fault.
PATIENCE = 10


class Run(NamedTuple):
    """The time that one test took and which lines of the modules it reached, without any fault."""

    seconds: float
    lines: frozenset[tuple[str, int]]


class Job(NamedTuple):
    # Each with the path of its module.
    faults: list[tuple[str, Fault]]
    tests: tuple[str, ...]
    on_postgres: tuple[str, ...]
    workers: int


class Unplantable(Exception):
    """The fault lies outside functions: it must be there when the module is imported."""


def statement_of(source: bytes, fault: Fault) -> range:
    """Returns the lines of the innermost statement in a function that the fault lies in. Raises Unplantable if none does."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def holds(node: ast.stmt | ast.expr) -> bool:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        begin = starts[node.lineno - 1] + node.col_offset
        return begin <= fault.start and fault.end <= starts[node.end_lineno - 1] + node.end_col_offset

    found: ast.stmt | None = None
    bodies: list[ast.stmt] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bodies += [inner for statement in node.body for inner in ast.walk(statement) if isinstance(inner, ast.stmt)]
    for statement in bodies:
        if holds(statement) and (found is None or statement.lineno >= found.lineno):
            found = statement
    if found is None:
        raise Unplantable
    header = getattr(found, "test", None) or getattr(found, "iter", None)
    last = header.end_lineno if isinstance(header, ast.expr) else found.end_lineno
    return range(found.lineno, (last or found.lineno) + 1)


def replace_code(path: str, source: bytes, changed: bytes) -> None:
    """Gives every living function of the module the code that it has in the changed source. Raises Unplantable if none lives."""
    before, after = (list(_codes(compile(text, path, "exec", dont_inherit=True))) for text in (source, changed))
    if [code.co_qualname for code in before] != [code.co_qualname for code in after]:
        raise Unplantable
    new = {old: code for old, code in zip(before, after, strict=True) if old != code}
    # What was frozen after the collection of the tests is not among the objects.
    gc.unfreeze()
    living = [
        found
        for found in gc.get_objects()
        if isinstance(found, FunctionType) and found.__code__.co_filename == path and found.__code__ in new
    ]
    if not living:
        raise Unplantable
    for function in living:
        function.__code__ = new[function.__code__]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class Trial:
    """A plugin of pytest: instead of the tests once, it runs some of them for every fault."""

    def __init__(self, job: Job, tell: Callable[[int, Verdict], None]) -> None:
        self._job, self._tell = job, tell
        self._sources = {path: Path(path).read_bytes() for path, _ in job.faults}
        self._items: list[pytest.Item] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """On PostgreSQL only what SQLite with its one writer cannot show, and what runs there alone."""
        on_sqlite = {item.nodeid for item in items if "[sqlite" in item.nodeid}
        items[:] = [
            item
            for item in items
            if item.nodeid.replace("[postgres", "[sqlite") not in on_sqlite - {item.nodeid}
            or item.nodeid.startswith(self._job.on_postgres)
        ]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = session.items
        for path in self._sources:
            # What is imported when it is first needed must be there to be changed.
            relative = Path(path).relative_to(SOURCE.parent).with_suffix("")
            import_module(".".join(relative.parts).removesuffix(".__init__"))
        _warm_up(any("postgres" in item.nodeid for item in self._items))
        runs = self._reached()
        waiting = list(enumerate(self._job.faults))
        running: dict[int, tuple[int, float]] = {}
        while waiting or running:
            while waiting and len(running) < self._job.workers:
                number, (path, fault) = waiting.pop(0)
                chosen = self._chosen(path, fault, runs)
                if not chosen:
                    self._tell(number, "not reached")
                    continue
                patience = 60 + PATIENCE * sum(runs[index].seconds for index in chosen)
                running[self._fork(path, fault, chosen)] = (number, time.monotonic() + patience)
            if running:
                self._collect(running)
        return True

    def _reached(self) -> list[Run]:
        """Runs every test without a fault."""
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _in_silence(lambda: _measure(self._items, frozenset(self._sources), writing))
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            content = pipe.read()
        os.waitpid(pid, 0)
        runs: list[Run | str] = pickle.loads(content) if content else ["all"]
        failed = [run for run in runs if isinstance(run, str)]
        if failed:
            raise pytest.UsageError(f"Tests fail without any fault: {', '.join(failed)}")
        return [run for run in runs if isinstance(run, Run)]

    def _chosen(self, path: str, fault: Fault, runs: list[Run]) -> list[int]:
        lines = {(path, line) for line in statement_of(self._sources[path], fault)}
        return sorted((i for i, run in enumerate(runs) if run.lines & lines), key=lambda i: runs[i].seconds)

    def _fork(self, path: str, fault: Fault, chosen: list[int]) -> int:
        pid = os.fork()
        if pid == 0:
            _in_silence(lambda: self._try(path, fault, [self._items[index] for index in chosen]))
        return pid

    def _try(self, path: str, fault: Fault, items: list[pytest.Item]) -> int:
        try:
            replace_code(path, self._sources[path], fault.planted_in(self._sources[path]))
        except (Unplantable, ValueError):
            return UNPLANTABLE
        os.environ.pop(
            FRESH, None
        )  # needed to see which test reaches what; from here on they share services as in `make test`
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                item.session._setupstate.teardown_exact(None)
                return 1
        return 0

    def _collect(self, running: dict[int, tuple[int, float]]) -> None:
        for pid, (number, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                self._tell(number, VERDICTS.get(os.waitstatus_to_exitcode(status), "noticed"))
            elif time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                del running[pid]
                self._tell(number, "hung")
        time.sleep(0.05)


def _measure(items: list[pytest.Item], paths: frozenset[str], writing: int) -> int:
    runs: list[Run | str] = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        lines: set[tuple[str, int]] = set()
        started = time.monotonic()
        _watch(paths, lines)
        reports = runtestprotocol(item, log=False, nextitem=following)
        _watch(paths, None)
        if any(report.failed for report in reports):
            runs.append(item.nodeid)
        else:
            runs.append(Run(time.monotonic() - started, frozenset(lines)))
    with os.fdopen(writing, "wb") as pipe:
        pickle.dump(runs, pipe)
    return 0


def _watch(paths: frozenset[str], lines: set[tuple[str, int]] | None) -> None:
    """Notes the lines of the modules that this thread and new ones reach, or stops doing so."""

    def in_module(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))  # type: ignore[union-attr]
        return in_module

    def anywhere(frame: FrameType, event: str, argument: Any) -> Any:
        return in_module if frame.f_code.co_filename in paths else None

    threading.settrace(anywhere if lines is not None else None)
    sys.settrace(anywhere if lines is not None else None)


def _warm_up(with_postgres: bool) -> None:
    """Does once what every copy would do for itself."""
    from tests.harness import migrated_sqlite
    from tests.services import shared_postgres

    migrated_sqlite()
    if with_postgres:
        from tests.emptied_database import migrated_template

        migrated_template(shared_postgres())


def _in_silence(work: Callable[[], int]) -> None:
    """Ends this forked copy with what `work` returns, as a process group of its own and without a word."""
    status = 2
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        with tempfile.TemporaryDirectory(prefix="kontobahn-mutant-") as folder:
            os.environ["PYTEST_DEBUG_TEMPROOT"] = folder
            status = work()
    finally:
        os._exit(status)


def main() -> int:
    """Takes a Job, pickled, from the standard input; writes lines of number and verdict."""
    job = Job(*pickle.load(sys.stdin.buffer))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    trial = Trial(job, lambda number, verdict: print(number, verdict, file=answers))
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *job.tests, *job.on_postgres], plugins=[trial]))


if __name__ == "__main__":
    sys.exit(main())
