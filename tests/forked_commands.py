"""`kontobahn` commands as real processes that need not import anything: forked from one that has imported everything.

Importing takes ten times as long as most commands, and the tests run hundreds of them. Each is still a process of its own, with its
own environment, files and exit code. The process that is forked holds no thread and no connection.
"""

from __future__ import annotations

import array
import atexit
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import NoReturn

from tests.tidy_rules import ROOT
from tests.waiting import PATIENCE_SECONDS

_LENGTH = 8
_MAX_BYTES = 1 << 20


class Commands:
    """The process that is forked, seen from the tests."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked_commands", str(theirs.fileno())], pass_fds=[theirs.fileno()],
                cwd=ROOT, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        self._ours.settimeout(PATIENCE_SECONDS)
        self._turn = threading.Lock()
        atexit.register(self.close)

    def run(self, arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs `kontobahn` with these arguments to its end, after whatever else was asked for."""
        with self._turn, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            asked = json.dumps([arguments, dict(environment), os.getcwd()]).encode()
            files = array.array("i", [out.fileno(), err.fileno()])
            self._ours.sendmsg([len(asked).to_bytes(_LENGTH, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            self._ours.sendall(asked)
            ended = self._ours.recv(_LENGTH)
            if not ended:
                raise RuntimeError("The process that commands are forked from has ended.")
            for file in (out, err):
                file.seek(0)
            return subprocess.CompletedProcess(
                ["kontobahn", *arguments],
                int.from_bytes(ended, "big", signed=True),
                out.read().decode(),
                err.read().decode(),
            )

    def close(self) -> None:
        self._ours.close()
        self._process.wait()


@functools.cache
def commands() -> Commands:
    """The only one of this process, started on first use."""
    return Commands()


def _serve(asking: socket.socket) -> None:
    """Forks for every command that is asked for, one after another, until nobody asks any more."""
    while True:
        head, ancillary, *_ = asking.recvmsg(_LENGTH, socket.CMSG_SPACE(2 * array.array("i").itemsize))
        if not head:
            return
        files = array.array("i", ancillary[0][2])
        asked = b""
        while len(asked) < int.from_bytes(head, "big"):
            asked += asking.recv(_MAX_BYTES)
        pid = os.fork()
        if pid == 0:
            asking.close()
            _become_a_command(files, *json.loads(asked))
        for file in files:
            os.close(file)
        _, status = os.waitpid(pid, 0)
        asking.sendall(os.waitstatus_to_exitcode(status).to_bytes(_LENGTH, "big", signed=True))


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
    main()
    sys.exit(0)


def _import_everything() -> None:
    import psycopg  # noqa: F401
    import redis.asyncio  # noqa: F401

    from kontobahn import app, demo, serve  # noqa: F401
    from kontobahn.cli.entry import COMMANDS, FAMILIES, command_line

    for member in (*COMMANDS, *FAMILIES):
        command_line(member.name)
    command_line()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _import_everything()
    _serve(socket.socket(fileno=int(sys.argv[1])))
