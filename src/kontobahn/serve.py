"""Runs the HTTP server: in this process for one worker, in several processes otherwise."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kontobahn import log
from kontobahn.errors import SetupError
from kontobahn.settings import PREFIX, Settings
from kontobahn.sockets import allow_files

if TYPE_CHECKING:
    from kontobahn.app import Application

BACKLOG = 1024
# For the header of a request, and for a part of a body.
BUFFER_BYTES = 64 * 1024
LARGE_BLOCK_BYTES = 256 * 1024
_PR_SET_PDEATHSIG = 1
_M_MMAP_THRESHOLD = -3


def reserve_port(host: str, port: int) -> tuple[socket.socket, int]:
    """Reserves the port, so that no other process can bind it; 0 chooses a free one. The server binds beside the returned socket."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # The server shares its port among workers, and would silently share it with a second service too.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise SetupError(_cannot_listen(host, port, error)) from None
    holder = socket.socket(family, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind((host, port))
    return holder, holder.getsockname()[1]


def _cannot_listen(host: str, port: int, error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"Cannot listen on {host}: there is no such name or address. Choose another one with --host."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"Cannot listen on {host}: it is no address of this machine. Choose another one with --host."
    return f"Cannot listen on {host}:{port}: {error.strerror}. Choose another one with --port."


def check_workers(settings: Settings, workers: int) -> None:
    if workers < 2:
        return
    if not settings.on_postgres:
        raise SetupError(
            "More than one worker needs PostgreSQL: the embedded SQLite database has one writer."
            f" Set {PREFIX}DATABASE_URL=postgresql://…, or leave out --workers."
        )
    if not settings.redis_url:
        raise SetupError(
            "More than one worker needs Redis, or each would count rate limits on its own."
            f" Set {PREFIX}REDIS_URL=redis://…, or leave out --workers."
        )


def return_large_blocks() -> None:
    """Tells the C library to give blocks of a megabyte's size back when they are freed: a large body must not stay in memory.

    By itself it begins to keep them after the first.
    """
    with suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)


def http1_settings(settings: Settings) -> Any:
    from granian.http import HTTP1Settings

    return HTTP1Settings(header_read_timeout=settings.header_seconds * 1000, max_buffer_size=BUFFER_BYTES)


class EmbeddedServer:
    """One worker on the running event loop."""

    def __init__(self, application: Application, host: str, port: int) -> None:
        from granian.constants import HTTPModes, Interfaces
        from granian.server.embed import Server

        return_large_blocks()
        connections = allow_files(application.settings.connections)
        self._watch = application.watch_connections(connections, port)
        self._server: Any = Server(
            application,
            address=host,
            port=port,
            interface=Interfaces.ASGINL,  # we start and stop the application ourselves: its errors at start must reach the command line
            http=HTTPModes.http1,
            websockets=False,
            backlog=BACKLOG,
            backpressure=connections,
            http1_settings=http1_settings(application.settings),
            log_enabled=False,
        )

    async def serve(self) -> None:
        self._watch.start()
        try:
            await self._server.serve()
        finally:
            self._watch.stop()

    def stop(self) -> None:
        self._server.stop()


def serve_one(application: Application, host: str, port: int, ready: Callable[[], None]) -> None:
    """Serves until told to stop, then finishes running calls."""

    async def main() -> None:
        told_to_stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, told_to_stop.set)
        await application.startup()
        server = EmbeddedServer(application, host, port)
        serving = asyncio.create_task(server.serve())
        # A server can be stopped once it has started.
        await wait_until_accepting(host, port, serving)
        if not told_to_stop.is_set():
            ready()
        stopping = asyncio.create_task(told_to_stop.wait())
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        application.about_to_stop()
        server.stop()
        await serving
        await application.shutdown()

    run(main())


def run(main: Coroutine[Any, Any, None]) -> None:
    """`asyncio.run` on the faster event loop. Workers run on it too: the server looks for it by itself."""
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] | None = None
    with suppress(ImportError):  # there is none for every system
        from uvloop import new_event_loop
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


async def wait_until_accepting(host: str, port: int, serving: asyncio.Task[None]) -> None:
    for _ in range(2000):
        if serving.done():
            return await serving
        try:
            _, writer = await asyncio.open_connection(host if host not in ("0.0.0.0", "::") else "localhost", port)
        except OSError:
            await asyncio.sleep(0.005)
            continue
        writer.close()
        return
    raise SetupError(f"The server does not answer on {host}:{port}.")


def create_worker() -> Application:
    """Makes the application in a worker process, which ends with the one that started it: nobody else would tell it to."""
    import multiprocessing

    from kontobahn import app

    with suppress(OSError, AttributeError):  # not Linux
        # Not SIGTERM: while a worker starts it is lost, and when calls are running the server may wait for itself for ever. The
        # parent would end such a worker after the time for running calls; nobody else does.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        # It was killed before it could be watched: nothing is open yet, and nobody waits for us.
        os._exit(1)
    return app.create()


def serve_many(settings: Settings, host: str, port: int, workers: int) -> None:
    """Serves with several worker processes on one port; each makes its own application from the environment."""
    from granian.constants import HTTPModes, Interfaces
    from granian.server import Server

    os.environ[PREFIX + "DATA"] = str(settings.data_dir)
    os.environ[PREFIX + "BASE_URL"] = settings.base_url
    os.environ[PREFIX + "CONNECT_PROVIDER"] = settings.connect_provider
    os.environ[PREFIX + "RUN_JOBS"] = str(settings.run_jobs).lower()
    log.info("starting_workers", workers=workers, host=host, port=port)
    Server(
        "kontobahn.serve:create_worker",
        factory=True,
        address=host,
        port=port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=workers,
        backlog=BACKLOG,
        backpressure=allow_files(settings.connections),
        http1_settings=http1_settings(settings),
        respawn_failed_workers=True,
        workers_kill_timeout=settings.shutdown_grace_seconds,
        log_enabled=False,
    ).serve()
