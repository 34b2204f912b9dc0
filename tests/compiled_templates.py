"""Templates of pages, compiled by one process of a run for all of them."""

from __future__ import annotations

from pathlib import Path

import jinja2

from kontobahn.api.pages import LANGUAGES
from kontobahn.dashboard.page_templates import environment

# Tells the processes that tests start where they are.
FOLDER = "TESTS_COMPILED_TEMPLATES"


def keep_in(folder: Path) -> None:
    """The folder is one run's: what is compiled holds the words of the catalogues as they are now."""
    for language in LANGUAGES:
        place = folder / language
        place.mkdir(parents=True, exist_ok=True)
        environment(language).bytecode_cache = jinja2.FileSystemBytecodeCache(str(place))
