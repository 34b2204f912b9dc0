"""A folder that is watched for invoices: a file is taken in once it is complete, and then moved, to `done` or with the reason to `refused`.

It is moved after it was taken in, so whoever is killed in between finds it again, and what came in it is known by then.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kontobahn import log
from kontobahn.access import organizations
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.db import Tx
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.payables import intake
from kontobahn.payables.intake import Arrival
from kontobahn.threads import work_for

FOLDER = Actor("folder")
DONE, REFUSED = "done", "refused"
# Nobody has written to it for so long: it is complete.
QUIET_SECONDS = 10.0
AT_ONCE = 100
_ENDINGS = (".xml", ".pdf")
# Beginnings and endings of names that programs give to files that they have not finished.
_HIDDEN = (".", "~")
_PARTIAL = (".part", ".partial", ".tmp", ".crdownload", ".filepart")


class Place(NamedTuple):
    """A folder, and the organisation whose invoices are put there."""

    organization_id: str
    path: Path


class Found(NamedTuple):
    place: Place
    path: Path
    size: int


async def take_in(context: Context) -> None:
    """Takes in what lies in the folder of the setting, if there is one."""
    if not context.settings.payables_folder:
        return
    folder = Path(context.settings.payables_folder).expanduser()
    places = await context.db.read(_places, folder)
    for found in await asyncio.to_thread(_complete, places):
        try:
            await _take(context, found)
        except OSError as error:
            # It stays where it is, and is tried again.
            log.warning("invoice_file_not_taken", path=str(found.path), detail=str(error))


def _places(tx: Tx, folder: Path) -> list[Place]:
    """A folder for each organisation, by its id; the only organisation's is the folder itself as well."""
    known = organizations.all_organizations(tx)
    own = [Place(known[0].id, folder)] if len(known) == 1 else []
    return [*own, *(Place(one.id, folder / one.id) for one in known)]


def _complete(places: list[Place]) -> list[Found]:
    """Returns the files that nobody writes to any more, the oldest first."""
    found = [(changed, file) for place in places for changed, file in _files(place)]
    ready = sorted(item for item in found if item[0] <= time.time() - QUIET_SECONDS)
    return [file for _, file in ready[:AT_ONCE]]


def _files(place: Place) -> Iterator[tuple[float, Found]]:
    try:
        entries = list(os.scandir(place.path))
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("invoice_folder_not_read", path=str(place.path), detail=str(error))
        return
    for entry in entries:
        name = entry.name.lower()
        if name.startswith(_HIDDEN) or name.endswith(_PARTIAL) or not entry.is_file(follow_symlinks=False):
            continue
        facts = entry.stat(follow_symlinks=False)
        yield facts.st_mtime, Found(place, Path(entry.path), facts.st_size)


async def _take(context: Context, found: Found) -> None:
    organization_id = found.place.organization_id
    work_for(organization_id)
    if found.path.suffix.lower() not in _ENDINGS:
        await asyncio.to_thread(_refuse, found, "", "Only XML and PDF files are taken.")
        return
    if found.size > MAX_FILE_BYTES:
        await asyncio.to_thread(_refuse, found, "", f"The file is larger than {MAX_FILE_BYTES} bytes.")
        return
    content = await asyncio.to_thread(found.path.read_bytes)
    if len(content) != found.size:
        # Somebody writes to it after all.
        return
    digest = hashlib.sha256(content).hexdigest()
    arrival = Arrival(organization_id, found.path.name, digest, content, FOLDER, "")
    taken = await intake.take(context, Principal(organization_id, "admin", (organization_id,)), arrival)
    if taken.refusal is None:
        await asyncio.to_thread(_move, found, DONE, digest)
        return
    reasons = [str(taken.refusal), *(one.message("de") for one in taken.refusal.findings[:3])]
    await asyncio.to_thread(_refuse, found, digest, "\n".join(reasons))


def _refuse(found: Found, digest: str, reason: str) -> None:
    target = _target(found, REFUSED, digest)
    # First the reason: a file never lies there without one.
    target.with_name(f"{target.name}.reason.txt").write_text(f"{reason}\n", "utf-8")
    found.path.replace(target)


def _move(found: Found, folder: str, digest: str) -> None:
    found.path.replace(_target(found, folder, digest))


def _target(found: Found, folder: str, digest: str) -> Path:
    """Returns a name that no other file has; one of the same content may be replaced."""
    target = found.place.path / folder / found.path.name
    target.parent.mkdir(exist_ok=True)
    number = 1
    while target.exists():
        mark = digest[:12] or str(number)
        target = target.with_name(f"{found.path.stem}-{mark}{found.path.suffix}")
        if digest:
            break
        number += 1
    return target
