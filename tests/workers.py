"""Runs tests in processes side by side, forked from the one that has collected them.

To import and collect all tests takes as long as hundreds of them, and processes that start from nothing would each do so. Those forked
here take tests in turn, a few neighbours at a time, and tell the first process what came of each.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import groupby
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import pytest
from _pytest.capture import FDCapture

from tests import cores, run_folder

# So many neighbours are taken at once: they share what is made for a module, and at the end nobody has many left.
TAKEN_AT_ONCE = 30
_NUMBER = 4
T = TypeVar("T")


def portions(things: Sequence[T], *, by: Callable[[T], Any], most: int = TAKEN_AT_ONCE) -> list[Sequence[T]]:
    """Neighbours that belong together, and no more than so many."""
    found: list[Sequence[T]] = []
    for _, group in groupby(things, key=by):
        together = list(group)
        found += [together[start : start + most] for start in range(0, len(together), most)]
    return found


def run_side_by_side(
    session: pytest.Session,
    workers: int,
    shares: list[Sequence[pytest.Item]],
    begin: Callable[[int], None] = lambda number: None,
) -> None:
    """Runs all of them; a test that a process died over, or did not come to, has failed. Each process is begun with its number."""
    reporter = _Reporter(session)
    queue = _Queue(len(shares))
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    os.environ[run_folder.FOLDER] = str(folder)
    forking = multiprocessing.get_context("fork")
    listening: list[Connection] = []
    processes = []
    try:
        for number in range(workers):
            ours, theirs = forking.Pipe(duplex=False)
            begun = partial(_begin, begin, number)
            process = forking.Process(target=_work, args=(session, shares, queue, theirs, [*listening, ours], begun))
            process.start()
            theirs.close()
            listening.append(ours)
            processes.append(process)
        while listening:
            for told in wait(listening):
                assert isinstance(told, Connection)
                try:
                    reporter.tell(told.recv())
                except EOFError:
                    listening.remove(told)
                    told.close()
            if session.shouldfail or session.shouldstop:
                queue.clear()
    finally:
        # Whoever is at a test when this is broken off ends after it, because nobody listens.
        queue.clear()
        for connection in listening:
            connection.close()
        for process in processes:
            process.join()
        queue.close()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    reporter.tell_of_missing([item for share in shares for item in share])
    reporter.tell_of_ends([process.exitcode for process in processes])


class _Queue:
    """The numbers of shares that nobody has taken. A pipe gives each of its readers whole numbers, and each to one of them."""

    def __init__(self, length: int) -> None:
        self._reading, writing = os.pipe()
        os.set_blocking(writing, False)  # there is room for thousands; more would be an error, and not silence
        numbers = b"".join(number.to_bytes(_NUMBER, "big") for number in range(length))
        if os.write(writing, numbers) != len(numbers):
            raise ValueError(f"{length} shares are too many.")
        os.close(writing)

    def take(self) -> int | None:
        taken = os.read(self._reading, _NUMBER)
        return int.from_bytes(taken, "big") if taken else None

    def clear(self) -> None:
        while self.take() is not None:
            pass

    def close(self) -> None:
        os.close(self._reading)


class _Reporter:
    """Hands on what processes tell of their tests, as if they had run in this one."""

    def __init__(self, session: pytest.Session) -> None:
        self._config = session.config
        self._finished: set[str] = set()

    def tell(self, told: tuple[str, tuple[str, int | None, str], list[dict[str, Any]]]) -> None:
        name, location, reports = told
        self._finished.add(name)
        hook = self._config.hook
        hook.pytest_runtest_logstart(nodeid=name, location=location)
        for data in reports:
            report = hook.pytest_report_from_serializable(config=self._config, data=data)
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=name, location=location)

    def tell_of_missing(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.nodeid not in self._finished:
                why = "The process that took this test died, over it or over one before it."
                report = pytest.TestReport(item.nodeid, item.location, {}, "failed", why, "call")
                self._config.hook.pytest_runtest_logreport(report=report)

    def tell_of_ends(self, codes: list[int | None]) -> None:
        for number, code in enumerate(codes):
            if code != 0:
                name = f"process-{number}"
                why = f"The process ended with {code}. If no test has failed for it, its reason is printed above."
                report = pytest.TestReport(name, (name, None, name), {}, "failed", why, "teardown")
                self._config.hook.pytest_runtest_logreport(report=report)


class _Messenger:
    """Tells the first process what came of each test, in place of printing it."""

    def __init__(self, config: pytest.Config, telling: Connection) -> None:
        self._config, self._telling = config, telling
        self._reports: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._telling.send((nodeid, location, self._reports))
        self._reports = []


def _work(
    session: pytest.Session,
    shares: list[Sequence[pytest.Item]],
    queue: _Queue,
    telling: Connection,
    others: list[Connection],
    begin: Callable[[], None],
) -> None:
    """Runs tests until there are no more, or nobody listens; then ends all that they share."""
    atexit._clear()
    for connection in others:
        connection.close()
    _part_from_the_first(session.config, telling)
    begin()
    items = _taken(queue, shares)
    item = next(items, None)
    try:
        while item is not None:
            following = next(items, None)
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following
    except BrokenPipeError:
        pass  # nobody listens any more
    finally:
        session._setupstate.teardown_exact(None)
        session.config._ensure_unconfigure()  # finds what no test has closed
        atexit._run_exitfuncs()


def _begin(begin: Callable[[int], None], number: int) -> None:
    cores.stay_on_one(number)
    begin(number)


def _taken(queue: _Queue, shares: list[Sequence[pytest.Item]]) -> Iterator[pytest.Item]:
    while (number := queue.take()) is not None:
        yield from shares[number]


def _part_from_the_first(config: pytest.Config, telling: Connection) -> None:
    plugins = config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(_Messenger(config, telling))
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.mktemp("worker")
    _capture_apart(plugins.getplugin("capturemanager"))


def _capture_apart(manager: Any) -> None:
    """Gives this process files of its own for what is printed, which forked processes share. Modules that were imported may hold the
    objects that print: they stay, and only the files behind them are exchanged."""
    capturing = manager._global_capturing
    for captured in (capturing.out, capturing.err) if capturing is not None else ():
        if isinstance(captured, FDCapture):
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), captured.tmpfile.fileno(), inheritable=False)
