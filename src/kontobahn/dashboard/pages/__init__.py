"""One module a page, found by itself: what it declares with `page` and `action` is served. See docs/adding-a-page.md."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from kontobahn.dashboard.declare import Page


@cache
def every_page() -> tuple[Page, ...]:
    """All pages of all modules here."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return tuple(item for module in modules for item in vars(module).values() if isinstance(item, Page))
