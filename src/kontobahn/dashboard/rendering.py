"""Templates to HTML: one environment, escaping on, a missing name is an error. Also the static files, by their content's hash."""

from __future__ import annotations

import gzip
import hashlib
from contextvars import ContextVar
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup

from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.api.docs import icon_url, tokens_css
from kontobahn.dashboard import charts, devices, figures, menu, refusals, words
from kontobahn.dashboard.declare import ROOT

_HERE = Path(__file__).parent
TEMPLATES = _HERE / "templates"
STATIC = _HERE / "static"
_visit: ContextVar[Any] = ContextVar("visit")
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
    return StaticFile(body, gzip.compress(body, 9, mtime=0), _TYPES[path.suffix], hashlib.sha256(body).hexdigest()[:16])


@cache
def static_url(name: str) -> str:
    found = static_file(name)
    assert found is not None, name
    return f"{ROOT}/static/{name}?v={found.version}"


@cache
def environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        extensions=["jinja2.ext.i18n"],
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    found.install_gettext_callables(words.gettext, words.plural_form, newstyle=True)  # type: ignore[attr-defined]
    found.filters.update(
        money=figures.money,
        number=figures.number,
        day=figures.day,
        moment=figures.moment,
        machine_time=figures.machine_time,
        months=figures.months,
        iban=figures.iban,
        size=figures.size,
        query=urlencode,
        device=devices.words_of,
    )
    found.globals.update(
        here=_visit.get,
        static=static_url,
        icon_url=icon_url,
        language=words.language,
        languages=words.LANGUAGES,
        menu=menu_html,
        menu_of=menu.menu_of,
        may_open=menu.may_open,
        line_chart=charts.line,
        bar_chart=charts.bars,
        plain_amount=figures.plain_amount,
        refusal=refusals.refusal,
    )
    return found


def menu_html(principal: Principal, path: str, context: Context) -> Markup:
    """The entries of the menu, which are most of a page and the same on every page of an entry."""
    return _menu_html(menu.open_entries(principal, context), menu.here(path), words.language())


@lru_cache(maxsize=1024)
def _menu_html(opened: frozenset[str], here: str, language: words.Language) -> Markup:
    return Markup(environment().get_template("menu.html").render(sections=menu.sections(opened, here)))


def render(template: str, values: dict[str, Any]) -> str:
    """`visit` among the values is also what the components see as `here()`: they are made once, not once a page."""
    _visit.set(values.get("visit"))
    return environment().get_template(template).render(values)
