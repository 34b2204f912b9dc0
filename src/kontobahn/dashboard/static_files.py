"""The static files of the dashboard, by their content's hash."""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from kontobahn.api.docs import tokens_css
from kontobahn.dashboard.declare import ROOT

STATIC = Path(__file__).parent / "static"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# The space around a sign that separates rules, their parts, or a property from its value.
_SPACE = re.compile(rb"\s*([{};,]|(?<=[\w-]):(?= ))\s*")
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


class StaticFile(NamedTuple):
    body: bytes
    compressed: bytes
    media_type: str
    version: str


@cache
def static_file(name: str) -> StaticFile | None:
    path = STATIC / name
    if "/" in name or path.suffix not in _TYPES or not path.is_file():
        return None
    body = path.read_bytes()
    if name == "dashboard.css":
        # The colours and type that all our pages share come first.
        body = tokens_css() + b"\n" + body
    if path.suffix in (".css", ".js"):
        body = _without_comments(body.decode()).encode()
    if path.suffix == ".css":
        body = _SPACE.sub(rb"\1", body)
    return StaticFile(body, gzip.compress(body, 9, mtime=0), _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])


def _without_comments(text: str) -> str:
    """Returns the text without what only its readers need: comments of whole lines, and the space before each line."""
    lines = (line.strip() for line in _COMMENT.sub("", text).splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


@cache
def static_url(name: str) -> str:
    found = static_file(name)
    assert found is not None, name
    return f"{ROOT}/static/{name}?v={found.version}"
