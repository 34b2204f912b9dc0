"""How a page is declared: `@page(path)` on an async function that shows something, `@action(path)` on one that changes something.

Routing, the menu and the tests that walk every page read the declaration.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

from kontobahn.access.principal import Role
from kontobahn.api.call import Context

ROOT = "/dashboard"
# A form of ordinary fields; what takes a file is bounded by the setting for uploads.
FORM_BYTES = 64 * 1024
Handler = Callable[..., Awaitable[Any]]
_PARAMETER = re.compile(r"\{(\w+)\}")


class Page(NamedTuple):
    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    # Who may come: a person who is signed in, with this role at least, or anybody.
    caller: Literal["user", "anybody"] = "user"
    role: Role = "member"
    # The person must have confirmed who they are within the last ten minutes.
    confirm: bool = False
    # Seconds between two looks at whether the page has changed; 0 for never.
    poll: int = 0
    takes_file: bool = False
    body_bytes: int = FORM_BYTES
    # Whether an installation has this page.
    offered: Callable[[Context], bool] = lambda context: True

    @property
    def name(self) -> str:
        """In metrics and the log."""
        return f"{self.method} {self.path}"


class Options(TypedDict, total=False):
    caller: Literal["user", "anybody"]
    role: Role
    confirm: bool
    poll: int
    takes_file: bool
    body_bytes: int
    offered: Callable[[Context], bool]


def page(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """A page to look at. `path` begins below /dashboard: ``@page("/keys", role="admin")``."""
    return lambda handler: _declare("GET", path, handler, options)


def action(path: str, **options: Unpack[Options]) -> Callable[[Handler], Page]:
    """What a form does. It answers with a redirect, or shows the form again with what is wrong."""
    return lambda handler: _declare("POST", path, handler, options)


def _declare(method: Literal["GET", "POST"], path: str, handler: Handler, options: Options) -> Page:
    takes = list(inspect.signature(handler).parameters)[1:]
    if takes != _PARAMETER.findall(path):
        raise TypeError(f"{method} {path}: the handler takes {takes}, the path names {_PARAMETER.findall(path)}")
    found = Page(method, (ROOT + path).rstrip("/"), handler, **options)
    if found.confirm and (method == "GET" or found.takes_file):
        raise TypeError(f"{method} {path}: only a form without a file can ask for a confirmation")
    return found


@cache
def every_page() -> tuple[Page, ...]:
    """All pages of all modules in `pages/`."""
    from kontobahn.dashboard import pages

    modules = [import_module(f"{pages.__name__}.{found.name}") for found in pkgutil.iter_modules(pages.__path__)]
    return tuple(item for module in modules for item in vars(module).values() if isinstance(item, Page))
