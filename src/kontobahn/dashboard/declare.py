"""Declarations of pages: `@page(path)` on an async function that shows something, `@action(path)` on one that changes something.

Routing, the menu and the tests that walk every page read the declaration.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from kontobahn.access.principal import Role
from kontobahn.api.call import Context
from kontobahn.errors import NotFound

ROOT = "/dashboard"
# Named on the terminal as well, when the service starts without a user.
FIRST_RUN = f"{ROOT}/first-run"
# A form of ordinary fields; what takes a file is bounded by the setting for uploads.
FORM_BYTES = 64 * 1024
Handler = Callable[..., Awaitable[Any]]
_PARAMETER = re.compile(r"\{(\w+)\}")


class Page(NamedTuple):
    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    # The visitors: a person who is signed in, with this role at least, or anybody. Without a role, everybody looks and whoever keeps
    # the books changes something.
    caller: Literal["user", "anybody"] = "user"
    role: Role = "read_only"
    # It concerns the person's own organisation, whichever client is looked at: keys, people, credits, the person.
    own: bool = False
    # The person must have confirmed who they are within the last ten minutes.
    confirm: bool = False
    # The person must show a second factor for this very step.
    factor: bool = False
    # Seconds between two looks at whether the page has changed; 0 for never.
    poll: int = 0
    takes_file: bool = False
    body_bytes: int = FORM_BYTES
    # The topic of the guide that explains it; without one, that of the page above it.
    help: str = ""
    # Its line in the menu is for people who look after clients.
    for_clients: bool = False
    # Tells whether an installation has this page.
    offered: Callable[[Context], bool] = lambda context: True

    @property
    def name(self) -> str:
        """In metrics and the log."""
        return f"{self.method} {self.path}"


class Options(TypedDict, total=False):
    caller: Literal["user", "anybody"]
    role: Role
    own: bool
    confirm: bool
    factor: bool
    poll: int
    takes_file: bool
    body_bytes: int
    help: str
    for_clients: bool
    offered: Callable[[Context], bool]


def page(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """A page to look at. `path` begins below /dashboard: ``@page("/keys", role="admin")``."""
    return lambda handler: _declare("GET", path, handler, options)


def action(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """Declares what a form does. It answers with a redirect, or shows the form again with what is wrong."""
    return lambda handler: _declare("POST", path, handler, options)


def _declare(method: Literal["GET", "POST"], path: str, handler: Handler, options: Options) -> Page:
    takes = list(inspect.signature(handler).parameters)[1:]
    if takes != _PARAMETER.findall(path):
        raise TypeError(f"{method} {path}: the handler takes {takes}, the path names {_PARAMETER.findall(path)}")
    options.setdefault("role", "read_only" if method == "GET" else "bookkeeping")
    found = Page(method, (ROOT + path).rstrip("/"), handler, **options)
    if (found.confirm or found.factor) and (method == "GET" or found.takes_file):
        raise TypeError(f"{method} {path}: only a form without a file can ask for a confirmation")
    return found


def numeric(text: str) -> str:
    """Returns an id in an address that is a number. Raises NotFound for everything else."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise NotFound("There is no such page.")
    return text
