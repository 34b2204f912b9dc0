"""`kontobahn` commands as real processes that need not import anything: forked from one that has imported everything.

Importing takes ten times as long as most commands and as the start of a server, and the tests run hundreds of them. Each is still a
process of its own, with its own environment, files and exit code. The process that is forked holds no thread and no connection.
"""

from __future__ import annotations

import array
import atexit
import functools
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from tests import cores
from tests.tidy_rules import ROOT
from tests.waiting import PATIENCE_SECONDS

_LENGTH = 8
# A command's own streams: what it prints, and what it complains of.
_OUTPUTS = 2
# Even the command that makes the demo ends by then, however busy the machine is.
_LONGEST_SECONDS = 5 * PATIENCE_SECONDS


class Commands:
    """The process that is forked, seen from the tests. `prepare` names a function, as module:function, that is called there first."""

    def __init__(self, prepare: str = "", ours: socket.socket | None = None) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if ours is None:
            ours, theirs = socket.socketpair()
            self._process = _start([theirs], prepare)
        self._ours = ours
        self._ours.settimeout(_LONGEST_SECONDS)
        self._asked = 0
        self._turn = threading.Lock()
        atexit.register(self.close)

    def run(self, arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs `kontobahn` with these arguments to its end, after whatever else was asked for."""
        with self._turn, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            self._ask([out.fileno(), err.fileno()], arguments, environment)
            code = self._end_of_the_last()
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(
                ["kontobahn", *arguments], code, out.read().decode(), err.read().decode()
            )

    def _end_of_the_last(self) -> int:
        """Waits for the exit code of what was asked for last: that of an earlier one, whom nobody waited for any more, may come first."""
        while True:
            told = self._ours.recv(2 * _LENGTH, socket.MSG_WAITALL)
            if len(told) < 2 * _LENGTH:
                raise RuntimeError("The process that commands are forked from has ended.")
            if _number_in(told[:_LENGTH]) == self._asked:
                return _number_in(told[_LENGTH:])

    def start(
        self, arguments: list[str], environment: Mapping[str, str], *, stdout: IO[Any] | int, stderr: IO[Any] | int
    ) -> Started:
        """Starts `kontobahn` with these arguments, in a session of its own."""
        ours, theirs = socket.socketpair()
        with theirs, open(os.devnull, "wb") as nowhere, self._turn:
            out = nowhere if stdout == subprocess.DEVNULL else stdout
            err = out if stderr == subprocess.STDOUT else nowhere if stderr == subprocess.DEVNULL else stderr
            files = [file if isinstance(file, int) else file.fileno() for file in (out, err)]
            self._ask([*files, theirs.fileno()], arguments, environment)
        return Started(arguments, ours)

    def _ask(self, files: list[int], arguments: list[str], environment: Mapping[str, str]) -> None:
        self._asked += 1
        asked = json.dumps([self._asked, arguments, dict(environment), os.getcwd()]).encode()
        rights = array.array("i", files)
        self._ours.sendmsg([len(asked).to_bytes(_LENGTH, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        self._ours.sendall(asked)

    def close(self) -> None:
        self._ours.close()
        if self._process is not None:
            self._process.wait()


def _start(theirs: list[socket.socket], prepare: str = "", **environment: str) -> subprocess.Popen[bytes]:
    files = [each.fileno() for each in theirs]
    with ExitStack() as stack:
        for each in theirs:
            stack.enter_context(each)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.forked_commands", ",".join(map(str, files)), prepare],
            pass_fds=files, cwd=ROOT, stdin=subprocess.DEVNULL, env=os.environ | environment,
        )  # fmt: skip


class CommandsOfWorkers:
    """One process that has imported everything, for all workers of a run: it is forked for each of them."""

    def __init__(self, workers: int, **environment: str) -> None:
        pairs = [socket.socketpair() for _ in range(workers)]
        self._ours = [ours for ours, _ in pairs]
        self._process = _start([theirs for _, theirs in pairs], **environment)

    def use(self, number: int) -> None:
        """In the worker of that number."""
        global _given
        _given = Commands(ours=self._ours[number])

    def close(self) -> None:
        for each in self._ours:
            each.close()
        self._process.wait()


_given: Commands | None = None


class Started:
    """A process that goes on, as `subprocess.Popen` has them."""

    def __init__(self, arguments: list[str], keeper: socket.socket) -> None:
        self.args = ["kontobahn", *arguments]
        self._keeper = keeper
        self._keeper.settimeout(PATIENCE_SECONDS)
        self.pid = self._number()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._keeper], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._keeper], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        # Its keeper buries it when it was told that its end is known: until then nobody else has its number.
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = self._number()
        self._keeper.close()

    def _number(self) -> int:
        told = self._keeper.recv(_LENGTH)
        if not told:
            raise RuntimeError("The process that keeps a command has ended.")
        return _number_in(told)


@functools.cache
def commands(prepare: str = "") -> Commands:
    """The only one of this process, started on first use."""
    return _given if _given is not None and not prepare else Commands(prepare)


def started(
    arguments: list[str], environment: Mapping[str, str], *, stdout: IO[Any] | int, stderr: IO[Any] | int
) -> Started | subprocess.Popen[bytes]:
    """`kontobahn` with these arguments, in a session of its own: forked, unless it starts processes that import for themselves."""
    start = imported if "--workers" in arguments else commands().start
    return start(arguments, environment, stdout=stdout, stderr=stderr)


def imported(
    arguments: list[str], environment: Mapping[str, str], *, stdout: IO[Any] | int, stderr: IO[Any] | int
) -> subprocess.Popen[bytes]:
    """`kontobahn` as an operator starts it, in a session of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kontobahn", *arguments], env=dict(environment), stdout=stdout, stderr=stderr,
        start_new_session=True,
    )  # fmt: skip


def _serve_each(asking: list[socket.socket]) -> None:
    """Serves the last by itself, after a process was forked for each of the others: on the core of the worker that asks."""
    for number, each in enumerate(asking[:-1]):
        if os.fork() == 0:
            cores.stay_on_one(number)
            for other in asking[number + 1 :]:
                other.close()
            _serve(each)
            os._exit(0)
        each.close()
    if len(asking) > 1:
        cores.stay_on_one(len(asking) - 1)
    _serve(asking[-1])


def _serve(asking: socket.socket) -> None:
    """Forks for every command that is asked for until nobody asks any more. With two files it is run to its end, and the end is told;
    with a third, which is a socket, it has a keeper that tells there who it is and how it ended."""
    while True:
        _bury_keepers()
        head, ancillary, *_ = asking.recvmsg(_LENGTH, socket.CMSG_SPACE(3 * array.array("i").itemsize))
        if not head:
            return
        files = array.array("i", ancillary[0][2])
        asked = b""
        while len(asked) < int.from_bytes(head, "big"):
            asked += asking.recv(int.from_bytes(head, "big") - len(asked))
        pid = os.fork()
        if pid == 0:
            asking.close()
            if len(files) > _OUTPUTS:
                _keep(files)
            _become_a_command(files, *json.loads(asked)[1:])
        for file in files:
            os.close(file)
        if len(files) == _OUTPUTS:
            _, status = os.waitpid(pid, 0)
            asking.sendall(_said(json.loads(asked)[0]) + _said(os.waitstatus_to_exitcode(status)))


def _keep(files: array.array[int]) -> None:
    """Returns in the command's own process. The keeper stays until it is over and that was heard."""
    if (pid := os.fork()) == 0:
        os.setsid()
        return
    os.closerange(0, files[_OUTPUTS])
    with socket.socket(fileno=files[_OUTPUTS]) as listener:
        listener.sendall(_said(pid))
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        with suppress(OSError):
            listener.sendall(_said(code))
            listener.recv(1)
    os.waitpid(pid, 0)
    os._exit(0)


def _bury_keepers() -> None:
    """Those who have gone."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _said(number: int) -> bytes:
    return number.to_bytes(_LENGTH, "big", signed=True)


def _number_in(said: bytes) -> int:
    return int.from_bytes(said, "big", signed=True)


def _become_a_command(
    files: array.array[int], arguments: list[str], environment: dict[str, str], folder: str
) -> NoReturn:
    from kontobahn.__main__ import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(files[0], 1)
    os.dup2(files[1], 2)
    os.closerange(3, max(files) + 1)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["kontobahn", *arguments]
    try:
        main()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise
        _end(ended.code or 0)
    _end(0)


def _end(code: int) -> NoReturn:
    """Ends as an interpreter does, but leaves the memory to the system: to take apart all that was imported takes longer than most
    commands, and copies what is shared with the process that was forked."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads, as nothing public does
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _import_everything() -> None:
    import aiohttp  # noqa: F401
    import granian.server.embed  # noqa: F401
    import psycopg  # noqa: F401
    import redis.asyncio  # noqa: F401
    import schwifty  # noqa: F401
    import uvloop  # noqa: F401

    from kontobahn import app, demo, serve  # noqa: F401
    from kontobahn.cli.entry import COMMANDS, FAMILIES, command_line
    from kontobahn.dashboard import dispatch  # noqa: F401
    from kontobahn.dashboard.pages import every_page
    from kontobahn.guide import routes  # noqa: F401
    from kontobahn.mcp import http  # noqa: F401
    from tests import compiled_templates

    for member in (*COMMANDS, *FAMILIES):
        command_line(member.name)
    command_line()
    every_page()
    if folder := os.environ.get(compiled_templates.FOLDER):
        compiled_templates.keep_in(Path(folder))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    if sys.argv[2]:
        where, _, function = sys.argv[2].partition(":")
        getattr(importlib.import_module(where), function)()
    _serve_each([socket.socket(fileno=int(number)) for number in sys.argv[1].split(",")])
