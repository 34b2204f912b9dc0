"""A pooler that lends connections to PostgreSQL for one transaction each, as PgBouncer does, and always the one that rested longest.

So whatever a client leaves behind in a session (a setting, a prepared statement) is missing in its next transaction.
"""

from __future__ import annotations

import select
import socket
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import Self

from psycopg.conninfo import conninfo_to_dict

_ENCRYPTION_REQUESTS = (80877103, 80877104)
_TERMINATE = b"X\x00\x00\x00\x04"
# PgBouncer's words to a client whose server is gone, before it closes the connection.
_CRASHED = b"SFATAL\x00C08P01\x00Mserver conn crashed?\x00\x00"


def _message(kind: bytes, content: bytes) -> bytes:
    return kind + (len(content) + 4).to_bytes(4, "big") + content


def _exactly(source: socket.socket, size: int) -> bytes:
    read = b""
    while len(read) < size:
        piece = source.recv(size - len(read))
        if not piece:
            raise ConnectionResetError
        read += piece
    return read


def _next_message(source: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(source, 5)
    return head[:1], _exactly(source, int.from_bytes(head[1:], "big") - 4)


class Pooler:
    def __init__(self, url: str, *, servers: int = 3) -> None:
        self._target = conninfo_to_dict(url)
        self._number_of_servers = servers
        self._free: SimpleQueue[socket.socket] = SimpleQueue()
        self._welcome = b""
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._starting = threading.Lock()
        # From now on each COMMIT is done, and the server lost before it can say so.
        self.loses_commits = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        own = {"host": "127.0.0.1", "port": self._listener.getsockname()[1]}
        self.url = "postgresql://?" + "&".join(f"{key}={value}" for key, value in ({**self._target, **own}).items())
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._open:
            connection.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(client)
                self._threads.append(threading.Thread(target=self._serve, args=(client,), daemon=True))
                self._threads[-1].start()

    def _connect(self, startup: bytes) -> socket.socket:
        server = socket.create_connection((str(self._target["host"]), int(str(self._target["port"]))))
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._open.append(server)
        server.sendall((len(startup) + 4).to_bytes(4, "big") + startup)
        welcome = b""
        while True:
            kind, content = _next_message(server)
            if kind == b"Z":
                self._welcome = welcome
                return server
            if kind in b"RS":
                welcome += _message(kind, content)

    def _greet(self, client: socket.socket) -> bytes:
        while True:
            startup = _exactly(client, int.from_bytes(_exactly(client, 4), "big") - 4)
            if int.from_bytes(startup[:4], "big") not in _ENCRYPTION_REQUESTS:
                break
            client.sendall(b"N")
        with self._starting:
            if not self._welcome:
                for _ in range(self._number_of_servers):
                    self._free.put(self._connect(startup))
        own_number = _message(b"K", (99_999_999).to_bytes(4, "big") + bytes(4))
        client.sendall(self._welcome + own_number + _message(b"Z", b"I"))
        return startup

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            startup = self._greet(client)
            while (asked := client.recv(65536)) not in (b"", _TERMINATE):
                server = self._free.get()
                server.sendall(asked)
                try:
                    self._lend(client, server, loses=self.loses_commits and b"COMMIT\0" in asked)
                except OSError:
                    server.close()
                    server = self._connect(startup)
                    raise
                finally:
                    self._free.put(server)

    def _lend(self, client: socket.socket, server: socket.socket, *, loses: bool) -> None:
        """Until the transaction is over."""
        while True:
            readable, _, _ = select.select([client, server], [], [])
            if client in readable:
                asked = client.recv(65536)
                if not asked:
                    raise ConnectionResetError
                loses = loses or (self.loses_commits and b"COMMIT\0" in asked)
                server.sendall(asked)
            if server in readable:
                kind, content = _next_message(server)
                if loses and kind == b"Z":
                    client.sendall(_message(b"E", _CRASHED))
                    raise ConnectionResetError
                if not loses:
                    client.sendall(_message(kind, content))
                if (kind, content) == (b"Z", b"I"):
                    return
