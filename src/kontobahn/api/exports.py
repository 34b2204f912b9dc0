"""Files that take a thread and room on the disk while they are written, and until they have been sent: few at once."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, BinaryIO

from kontobahn.api.call import Call
from kontobahn.api.wire import FileDownload
from kontobahn.errors import TooManyRequests, Unavailable

# This many at once in a process, and one of them for an organisation.
AT_ONCE = 2
ZIP = "application/zip"


class Exports:
    """The exports that this process is writing."""

    def __init__(self) -> None:
        self._organizations: set[str] = set()

    async def download(
        self, call: Call, name: str, write: Callable[[BinaryIO], Coroutine[Any, Any, None]]
    ) -> FileDownload:
        """Returns the zip that `write` writes. Raises TooManyRequests while the organisation's last one is being written or sent."""
        organization_id = call.principal.organization_id
        self.enter(organization_id)
        leave = partial(self.leave, organization_id)
        try:
            file = await _written(call, write)
        except BaseException:
            leave()
            raise
        return FileDownload(file, ZIP, name, leave)

    def enter(self, organization_id: str) -> None:
        if organization_id in self._organizations or len(self._organizations) >= AT_ONCE:
            raise TooManyRequests(
                "An export is already being written. Ask again when it is done.", retry_after_seconds=15
            )
        self._organizations.add(organization_id)

    def leave(self, organization_id: str) -> None:
        self._organizations.discard(organization_id)


async def _written(call: Call, write: Callable[[BinaryIO], Coroutine[Any, Any, None]]) -> BinaryIO:
    directory = call.context.settings.data_dir
    directory.mkdir(parents=True, exist_ok=True)
    # Beside the database: the system's own directory for temporary files may be in memory.
    file: BinaryIO = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
    work = asyncio.ensure_future(write(file))
    try:
        # A caller who goes away does not end the thread: what it writes into stays open, and its place taken.
        await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        file.close()
        raise
    except OSError as error:
        file.close()
        raise Unavailable("The export could not be written.", operator=str(error)) from error
    except BaseException:
        file.close()
        raise
    return file
