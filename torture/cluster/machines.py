"""Machines to run programs on: network namespaces where we may make them, otherwise addresses of the loopback device.

With namespaces, the whole trial runs in namespaces of its own for network, mounts and processes: whatever happens to it, the kernel
ends its processes and removes its networks with it, and nothing of it can be seen or reached from outside.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services import _children

# As in the files of deploy/cluster.
NETWORK = "10.77.0."
ADDRESSES = {
    "outside": 1,
    "balancer": 10,
    "host1": 11,
    "host2": 12,
    "host3": 13,
    "pool": 20,
    "db1": 21,
    "db2": 22,
    "cache": 30,
    "jobs1": 31,
    "jobs2": 32,
}
# Callers whose requests are counted come from further addresses outside.
CALLERS = range(101, 120)
_INSIDE = "TORTURE_CLUSTER_INSIDE"
_UNSHARE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def enter_namespaces(arguments: Sequence[str]) -> bool:
    """Runs the trial again inside namespaces of its own, if that is allowed. Returns True there."""
    if os.environ.get(_INSIDE):
        return True
    if (
        os.geteuid() != 0
        or not shutil.which("ip")
        or subprocess.run([*_UNSHARE, "true"], check=False, stderr=-3).returncode
    ):
        return False
    os.environ[_INSIDE] = "1"
    sys.stdout.flush()
    os.execvp("unshare", [*_UNSHARE, sys.executable, "-m", "torture.cluster", *arguments])


class Machines:
    """`prefix` is how their addresses begin."""

    def __init__(self, directory: Path, *, namespaces: bool) -> None:
        self.directory = directory
        self.namespaces = namespaces
        self.prefix = NETWORK if namespaces else f"127.{os.getpid() % 200 + 20}.{os.getpid() // 200 % 250}."
        self.programs: list[Program] = []
        if namespaces:
            self._connect()

    def address(self, machine: str) -> str:
        return f"{self.prefix}{ADDRESSES[machine]}"

    def source(self, machine: str) -> str:
        """The address that its connections come from: on the loopback device all have the same."""
        return self.address(machine) if self.namespaces else "127.0.0.1"

    def caller(self, number: int) -> str:
        return f"{self.prefix}{CALLERS[number]}"

    def _connect(self) -> None:
        # Only our own view of /run changes: that is where `ip` keeps the names of namespaces.
        _ip("link", "set", "lo", "up")
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
        _ip("link", "add", "net0", "type", "bridge")
        for number in (ADDRESSES["outside"], *CALLERS):
            _ip("addr", "add", f"{self.prefix}{number}/24", "dev", "net0")
        _ip("link", "set", "net0", "up")
        for name in ADDRESSES:
            if name == "outside":
                continue
            _ip("netns", "add", name)
            _ip("link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("link", "set", f"to-{name}", "master", "net0", "up")
            _ip("-n", name, "addr", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")

    def unplug(self, machine: str) -> bool:
        """Takes the machine off the network, so that not even its refusals are heard. Not possible on the loopback device."""
        if self.namespaces:
            _ip("link", "set", f"to-{machine}", "down")
        return self.namespaces

    def plug_in(self, machine: str) -> None:
        if self.namespaces:
            _ip("link", "set", f"to-{machine}", "up")

    def run(
        self, machine: str, command: Sequence[str], *, account: str = "", environment: Mapping[str, str] | None = None
    ) -> Program:
        """Starts a program that goes on until it is ended; under another account if we are root."""
        program = Program(machine, self.prepared(machine, command, account), environment or {}, self.directory)
        self.programs.append(program)
        program.start()
        return program

    def prepared(self, machine: str, command: Sequence[str], account: str = "") -> list[str]:
        """The command as it is run on a machine. Nothing here forks: the process is the program itself."""
        inside = ["nsenter", f"--net=/run/netns/{machine}"] if self.namespaces else []
        # It must not outlive the trial, however that ends.
        as_user = ["setpriv", "--pdeathsig", "KILL"]
        if account and os.geteuid() == 0:
            entry = pwd.getpwnam(account)
            as_user += [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        return [*inside, *as_user, *command]

    def close(self) -> None:
        for program in reversed(self.programs):
            program.kill()


class Program:
    def __init__(self, machine: str, command: Sequence[str], environment: Mapping[str, str], directory: Path) -> None:
        self.machine = machine
        self.log = directory / f"{machine}.log"
        self._command = command
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("KONTOBAHN_")},
            **environment,
        }
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """The end of a machine: the program and those it started, all at once."""
        if self._process is None or self._process.poll() is not None:
            return
        for pid in (self._process.pid, *_children(self._process.pid)):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._process.wait()

    def stop(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(seconds)

    def tail(self) -> str:
        return self.log.read_text("utf-8", "replace")[-1500:]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def wait_until(what: str, is_so: object, seconds: float = 60) -> float:
    """Returns how long it took."""
    began = time.monotonic()
    while not is_so():  # type: ignore[operator]
        if time.monotonic() > began + seconds:
            raise RuntimeError(f"It took longer than {seconds:.0f} seconds until {what}.")
        time.sleep(0.05)
    return time.monotonic() - began
