"""The smallest components of a page: as functions, because they stand in every row and a macro costs several times as much.

Templates know them as `parts.icon`, `parts.money` and so on, beside the macros.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple

from markupsafe import Markup, escape

from kontobahn.api.docs import tokens_css
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT

# The static files of the dashboard, by their content's hash.


STATIC = Path(__file__).parent / "static"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# The space around a sign that separates rules, their parts, or a property from its value.
_SPACE = re.compile(rb"\s*([{};,>]|(?<=[\w-]):(?= ))\s*")
# The last sign of a rule, and the nought before a point.
_NEEDLESS = re.compile(rb";(?=\})|(?<![\d.])0(?=\.\d)")
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
        body = _NEEDLESS.sub(b"", _SPACE.sub(rb"\1", body))
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


_NOTHING = Markup("–")
# Short words joined by hyphens, with a figure among the first; an IBAN in its groups.
_NUMBER = re.compile(
    r"\b(?=[\w-]{0,11}\d)\w{1,10}(?:-\w{1,8}){1,2}\b(?!-)|\b[A-Z]{2}\d\d(?: [A-Z\d]{4}){2,7}(?: [A-Z\d]{1,3})?\b"
)
# The beginning of a part of an address, of the domain of an e-mail address and its parts, and what follows a sign that joins.
_PART_OF_ADDRESS, _PART_OF_MAIL = re.compile(r"(?<=[^/\s])/(?=\w|\{)"), re.compile(r"(?<=@)(?=\w)|\.(?=\w)")
_PART_OF_NAME = re.compile(r"(?<=[_:])(?=\w)")


@cache
def icon(name: str) -> Markup:
    use = Markup('<use href="{}#{}"></use>').format(static_url("icons.svg"), name)
    return Markup('<svg class="icon" aria-hidden="true" focusable="false">{}</svg>').format(use)


def money(amount: int | Decimal | None, currency: str = "EUR", sign: bool = False) -> Markup:
    """None is an amount that nobody has reported, which is not zero."""
    if amount is None:
        return _NOTHING
    kind = " minus" if amount < 0 else " plus" if sign and amount > 0 else ""
    return Markup(f'<span class="money{kind}">{escape(figures.money(amount, currency))}</span>')


def money_in_text(amount: int | Decimal, currency: str = "EUR") -> str:
    """Returns an amount within a sentence. One that begins with a minus and the sign of its currency would break between them."""
    text = figures.money(amount, currency)
    return text if text[-1].isalpha() or text[1:2].isdigit() else Markup(f'<span class="whole">{escape(text)}</span>')


def moment(instant: datetime | int | None, *, seconds: bool = False) -> Markup:
    if not instant:
        return _NOTHING
    text = figures.in_one_line(figures.moment(instant, seconds=seconds))
    return Markup(f'<time datetime="{figures.machine_time(instant)}">{text}</time>')


def day(value: date | datetime | int | None) -> Markup:
    return Markup(f"<time>{figures.in_one_line(figures.day(value))}</time>") if value else _NOTHING


def iban(text: str | None) -> Markup:
    return Markup(f'<span class="iban">{escape(figures.iban(text))}</span>') if text else Markup("")


def unbroken(text: str | None) -> Markup:
    """Returns the text with numbers of documents, such as RE-2026-0138, and IBANs in one line each."""
    return Markup(_NUMBER.sub(_in_one_line, str(escape(text or ""))))


def _in_one_line(number: re.Match[str]) -> str:
    return f'<span class="{"iban" if " " in number[0] else "whole"}">{number[0]}</span>'


def breakable(text: str | None) -> Markup:
    """Returns an address, a name of a file or an ID, which breaks between its parts where there is no room for all of them."""
    written = str(escape(text or ""))
    part = _PART_OF_ADDRESS if "/" in written else _PART_OF_MAIL if "@" in written else _PART_OF_NAME
    return Markup(part.sub(r"<wbr>\g<0>", written))


def badge(text: str, kind: Literal["good", "warn", "bad", "plain"] = "plain") -> Markup:
    return Markup(f'<span class="badge {escape(kind)}">{escape(text)}</span>')


def cells(columns: Mapping[str, tuple[str, str] | None]) -> SimpleNamespace:
    """Returns the attributes of each column's cells by its name: the class, and the title as a label for narrow screens.

    A column of the kind `bare` has no label: its content speaks for itself.
    """
    return SimpleNamespace(**{name: _attributes(*column) for name, column in columns.items() if column is not None})


def _attributes(title: str, kind: str) -> Markup:
    name = column_class(kind)
    attributes = Markup(' class="{}"').format(name) if name else Markup("")
    return attributes + Markup(' data-label="{}"').format(title) if title and "bare" not in kind.split() else attributes


def column_class(kind: str) -> str:
    """The class of a column's head and cells."""
    return " ".join(word for word in kind.split() if word != "bare")
