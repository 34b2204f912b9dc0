"""The picture of the rooms is the one that the imports give."""

from __future__ import annotations

import runpy

from tests.tidy_rules import ROOT


def test_the_picture_shows_the_imports_as_they_are() -> None:
    drawn = runpy.run_path(str(ROOT / "scripts" / "rooms.py"))["draw"]()
    assert (ROOT / "docs" / "rooms.svg").read_text("utf-8") == drawn, "out of date: run `make rooms`"
