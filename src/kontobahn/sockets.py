"""Connections to the server, and which of them to end so that there is room for others.

The server accepts connections below Python and shows the application a request only when its header has arrived. So those that
send none are found from outside: by the process's own sockets. A connection is ended by shutting its socket down; the server then
sees that the caller has gone.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import stat
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Container
from contextlib import closing, suppress
from typing import NamedTuple

from kontobahn import log
from kontobahn.ids import block_of

Peer = tuple[str, int]

SWEEP_SECONDS = 0.2
# The use of connections is looked at less often than their number.
ACTIVITY_SECONDS = 5.0
# From this part of all places on, those without a request are ended, oldest first, until only the second part is taken.
CROWDED, ROOMY = 0.9, 0.75
# Files and connections of ours beside those of callers.
OWN_FILES = 256
_FILES = "/dev/fd"
# The place in Linux's tcp_info of the bytes that were acknowledged and received.
_PROGRESS = struct.Struct("=QQ")
_PROGRESS_OFFSET = 120


class Bounds(NamedTuple):
    connections: int
    per_network: int
    idle_seconds: float


class _Seen:
    """A connection of a caller."""

    __slots__ = ("descriptor", "idle_since", "peer", "progress")

    def __init__(self, descriptor: int, peer: Peer, now: float) -> None:
        self.descriptor = descriptor
        self.peer = peer
        self.idle_since = now
        self.progress = b""


class ConnectionWatch:
    """Looks at the connections a few times a second, in a thread of its own, so even when the event loop is busy."""

    def __init__(
        self,
        bounds: Bounds,
        running: Container[Peer],
        is_proxy: Callable[[str], bool],
        port: int | None = None,
        now: Callable[[], float] = time.monotonic,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """`running` are the connections with a request, as the calls on the event loop tell. Without a port, those of every
        listening socket are watched."""
        self._bounds = bounds
        self._running = running
        self._is_proxy = is_proxy
        self._port = port
        self._now = now
        self._loop = loop
        self._loop_answers = threading.Event()
        self._loop_answers.set()
        self._seen: dict[int, _Seen] = {}
        # Other files and sockets, by what they are: looked at once.
        self._others: set[int] = set()
        # Those that broke a bound when the event loop was last asked for a turn.
        self._suspected: set[int] = set()
        self._next_look = 0.0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def open_connections(self) -> int:
        return len(self._seen)

    def start(self) -> None:
        if os.path.isdir(_FILES):
            self._thread = threading.Thread(target=self._repeat, name="connections", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self) -> None:
        while not self._stopping.wait(SWEEP_SECONDS):
            try:
                self.sweep()
            except Exception as error:
                log.exception("connection_watch_failed", error)

    def sweep(self) -> None:
        """Finds new connections, and ends those that broke a bound in the sweep before too, with a turn of the event loop
        between: a request that had arrived by then would be running."""
        now = self._now()
        self._find(now)
        if now >= self._next_look:
            self._next_look = now + ACTIVITY_SECONDS
            self._note_activity(now)
        if not self._loop_answers.is_set():
            # Requests that have arrived wait to be shown to the application: nobody can tell which connections have one.
            return
        breaking = self._breaking_a_bound(now)
        ended = breaking & self._suspected
        for inode in ended:
            self._end(inode)
        if ended:
            log.info("connections_ended", ended=len(ended), left=len(self._seen))
        self._suspected = breaking - ended
        self._ask_for_a_turn()

    def _breaking_a_bound(self, now: float) -> set[int]:
        for seen in self._seen.values():
            if seen.peer in self._running:
                seen.idle_since = now
        idle = [
            (inode, seen)
            for inode, seen in sorted(self._seen.items(), key=lambda item: item[1].idle_since)
            if seen.peer not in self._running
        ]
        too_many = self._too_many_of_a_network(idle) | self._too_many_in_all(idle)
        return too_many | {
            inode
            for inode, seen in idle
            if now - seen.idle_since > self._bounds.idle_seconds and not self._has_moved(inode, seen, now)
        }

    def _ask_for_a_turn(self) -> None:
        """Requests that have arrived by now are in `running` once the event loop has answered."""
        if self._loop is not None:
            self._loop_answers.clear()
            self._loop.call_soon_threadsafe(self._loop_answers.set)

    def _find(self, now: float) -> None:
        """Brings the list of connections up to date."""
        current: dict[int, int] = {}
        for name in os.listdir(_FILES):
            with suppress(OSError):
                found = os.fstat(int(name))
                if stat.S_ISSOCK(found.st_mode):
                    current[found.st_ino] = int(name)
        self._seen = {inode: seen for inode, seen in self._seen.items() if current.get(inode) == seen.descriptor}
        self._others &= current.keys()
        new = {inode: fd for inode, fd in current.items() if inode not in self._seen and inode not in self._others}
        ports = {self._port or 0}
        if self._port is None and new:
            ports = self._listening_ports(current)
        for inode, descriptor in new.items():
            peer = self._peer_of(inode, descriptor, ports)
            if peer is None:
                self._others.add(inode)
            else:
                self._seen[inode] = _Seen(descriptor, peer, now)

    def _listening_ports(self, current: dict[int, int]) -> set[int]:
        ports: set[int] = set()
        for inode, descriptor in current.items():
            own = _own_copy(inode, descriptor)
            if own is not None:
                with closing(own), suppress(OSError):
                    if own.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        ports.add(own.getsockname()[1])
        return ports

    def _peer_of(self, inode: int, descriptor: int, ports: set[int]) -> Peer | None:
        own = _own_copy(inode, descriptor)
        if own is None:
            return None
        with closing(own):
            try:
                here, there = own.getsockname(), own.getpeername()
            except OSError:  # it listens, or its caller has gone already
                return None
            is_tcp = isinstance(here, tuple) and isinstance(there, tuple)
            # The server leaves out the interface of a link-local address.
            return (there[0].partition("%")[0], there[1]) if is_tcp and here[1] in ports else None

    def _note_activity(self, now: float) -> None:
        for inode, seen in self._seen.items():
            self._has_moved(inode, seen, now)

    def _has_moved(self, inode: int, seen: _Seen, now: float) -> bool:
        """Notes a look, and returns whether bytes have gone either way since the one before."""
        own = _own_copy(inode, seen.descriptor)
        if own is None:
            return False
        with closing(own):
            progress = _progress_of(own)
        if progress is not None and progress == seen.progress:
            return False
        seen.progress, seen.idle_since = progress or b"", now
        return True

    def _too_many_of_a_network(self, idle: list[tuple[int, _Seen]]) -> set[int]:
        if len(self._seen) <= self._bounds.per_network:
            return set()
        counted: dict[str, int] = defaultdict(int)
        for seen in self._seen.values():
            counted[block_of(seen.peer[0])] += 1
        over = {
            network: count - self._bounds.per_network
            for network, count in counted.items()
            if count > self._bounds.per_network
        }
        ended = set()
        for inode, seen in idle:
            network = block_of(seen.peer[0])
            # A proxy's connections are those of many callers.
            if over.get(network, 0) > 0 and not self._is_proxy(seen.peer[0]):
                over[network] -= 1
                ended.add(inode)
        return ended

    def _too_many_in_all(self, idle: list[tuple[int, _Seen]]) -> set[int]:
        if len(self._seen) < self._bounds.connections * CROWDED:
            return set()
        surplus = len(self._seen) - int(self._bounds.connections * ROOMY)
        return {inode for inode, _ in idle[:surplus]}

    def _end(self, inode: int) -> None:
        seen = self._seen.pop(inode)
        own = _own_copy(inode, seen.descriptor)
        if own is not None:
            with closing(own), suppress(OSError):
                own.shutdown(socket.SHUT_RDWR)


def _own_copy(inode: int, descriptor: int) -> socket.socket | None:
    """A descriptor of our own for the same socket; None if the number belongs to something else by now."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return None
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, fileno=copy)
    if os.fstat(copy).st_ino == inode:
        return own
    own.close()
    return None


def _progress_of(own: socket.socket) -> bytes | None:
    """Changes whenever a byte goes either way. None if the system does not tell."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return None
    try:
        info = own.getsockopt(socket.IPPROTO_TCP, option, _PROGRESS_OFFSET + _PROGRESS.size)
    except OSError:
        return None
    return info[_PROGRESS_OFFSET:] if len(info) == _PROGRESS_OFFSET + _PROGRESS.size else None


def allow_files(connections: int) -> int:
    """Raises the limit of open files of this process as far as needed and allowed; returns how many connections fit."""
    wanted = connections + OWN_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        possible = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
            soft = possible
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    fitting = max(1, soft - OWN_FILES)
    log.warning("connections_limited_by_open_files", connections=fitting, wanted=connections, open_files=soft)
    return fitting
