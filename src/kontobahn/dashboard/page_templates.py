"""Templates to HTML: one environment, escaping on, a missing name is an error."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from contextvars import ContextVar
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer
from markupsafe import Markup

from kontobahn.access.client_access import Client
from kontobahn.api.call import Context
from kontobahn.api.docs import icon_url
from kontobahn.api.pages import LANGUAGES, Language
from kontobahn.dashboard import charts, components, figures, menu, refusals, words
from kontobahn.dashboard.components import static_url
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.menu import Menu
from kontobahn.dashboard.people import Person

GUIDE: dict[Language, str] = {"de": "/docs/guide/de", "en": "/docs/guide"}
TEMPLATES = Path(__file__).parent / "templates"
# The head of a page is kept only for people with at most so many organisations: the list of an agency can be long.
_KEPT_ORGANISATIONS = 20
_KEPT_TEXTS = 8192
# Colours of clients, `tint-1` and so on.
TINTS = 8
_visit: ContextVar[Any] = ContextVar("visit")
# The first that occurs counts: most browsers also claim to be others.
_BROWSERS = (
    ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("Edg/", "Edge"), ("EdgA/", "Edge"), ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"), ("CriOS/", "Chrome"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


class _Translating(NodeTransformer):
    """Puts the words of a language in place of `_("…")`: most of a page's texts, which would be looked up again in every row."""

    def __init__(self, language: Language) -> None:
        self._language = language

    def visit_Call(self, node: nodes.Call) -> nodes.Node:
        self.generic_visit(node)
        if not (isinstance(node.node, nodes.Name) and node.node.name == "_" and len(node.args) == 1):
            return node
        text = node.args[0]
        if node.kwargs or not isinstance(text, nodes.Const):
            return node
        return nodes.Const(_without_values(self._language, text.value), lineno=node.lineno)


class _Environment(jinja2.Environment):
    language: Language

    def _generate(self, source: nodes.Template, *args: Any, **kwargs: Any) -> str:
        return super()._generate(_Translating(self.language).visit(source), *args, **kwargs)


@cache
def environment(language: Language = words.DEFAULT) -> jinja2.Environment:
    found = _Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        extensions=["jinja2.ext.i18n"],
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        auto_reload=False,
    )
    found.language = language
    found.install_gettext_callables(words.gettext, words.plural_form, newstyle=True)  # type: ignore[attr-defined]
    found.filters.update(
        money=components.money_in_text,
        number=figures.number,
        day=lambda value: figures.in_one_line(figures.day(value)),
        iso_day=lambda text: figures.in_one_line(figures.day(date.fromisoformat(text))),
        moment=lambda value: figures.in_one_line(figures.moment(value)),
        machine_time=figures.machine_time,
        months=figures.months,
        iban=components.iban,
        unbroken=components.unbroken,
        breakable=components.breakable,
        size=figures.size,
        query=urlencode,
        device=browser_words,
    )
    found.globals.update(
        here=_visit.get,
        static=static_url,
        icon_url=icon_url,
        language=words.language,
        languages=LANGUAGES,
        _=translated,
        components=components,
        tints=tints,
        top=top_html,
        look=look_html,
        menu_of=menu_of,
        may_open=may_open,
        guide=guide_url,
        help_url=help_url,
        line_chart=charts.line,
        bar_chart=charts.bars,
        plain_amount=figures.plain_amount,
        refusal=refusals.refusal,
    )
    return found


def _menu() -> Menu:
    found: Menu = _visit.get().dependencies.menu
    return found


def may_open(person: Person, path: str) -> bool:
    return _menu().may_open(person, path)


def guide_url() -> str:
    """The guide in the language of the request."""
    return GUIDE[words.language()]


def help_url(path: str) -> str:
    """The section of the guide that explains a page; its start for a page that is not known."""
    topic = _menu().help_of(path)
    return f"{guide_url()}/help/{topic}" if topic else guide_url()


def menu_of(person: Person, path: str, context: Context) -> list[menu.ShownSection]:
    """The sections with what this person may open, in the language of the request."""
    return menu.sections(_menu().open_entries(person, context), menu.here(path))


def top_html(person: Person, path: str, context: Context) -> Markup:
    """The head of a page with the menu: most of its markup, and the same on every page of an entry."""
    organisations = (
        (person.organization.id, person.organization.name),
        *((one.id, one.name) for one in person.clients),
    )
    make = _top_html if len(organisations) <= _KEPT_ORGANISATIONS else _top_html.__wrapped__
    opened, on_profile = _menu().open_entries(person, context), path.startswith(f"{ROOT}/profile")
    return make(
        words.language(), opened, menu.here(path), on_profile, organisations, person.looking_at.id, person.user.name
    )


@lru_cache(maxsize=512)
def _top_html(
    _language: Language, opened: frozenset[str], here: str, on_profile: bool,
    organisations: tuple[tuple[str, str], ...], looking_at: str, user_name: str,
) -> Markup:  # fmt: skip
    return _part(
        "top.html",
        sections=menu.sections(opened, here), here=here, on_profile=on_profile,
        organisations=organisations, looking_at=looking_at, user_name=user_name,
    )  # fmt: skip


def tints(clients: Iterable[Client]) -> dict[str, int]:
    """Returns the number of each client's colour, by its ID.

    A client keeps its colour whoever comes after it, and no two share one before every colour is used.
    """
    found: dict[str, int] = {}
    free: list[int] = []
    for client in sorted(clients, key=lambda one: one.id):
        free = free or list(range(1, TINTS + 1))
        wanted = zlib.crc32(client.id.encode()) % TINTS + 1
        found[client.id] = free.pop(free.index(wanted) if wanted in free else 0)
    return found


def look_html(theme: str | None) -> Markup:
    """The choice of language and colours at the foot of a page."""
    return _look_html(words.language(), theme or "")


@lru_cache(maxsize=len(LANGUAGES) * 4)
def _look_html(_language: Language, theme: str) -> Markup:
    return _part("look.html", theme=theme)


def _part(template: str, **values: Any) -> Markup:
    return Markup(environment(words.language()).get_template(template).render(values))


def translated(text: str, **values: Any) -> Markup:
    """`_` of the templates. As in every template of this kind a text is a format, so a percent sign is written twice."""
    return _translated(words.language(), text) % values if values else _without_values(words.language(), text)


@lru_cache(maxsize=_KEPT_TEXTS)
def _translated(language: Language, text: str) -> Markup:
    return Markup(words.text_in(language, text))


@lru_cache(maxsize=_KEPT_TEXTS)
def _without_values(language: Language, text: str) -> Markup:
    return _translated(language, text) % {}


def render(template: str, values: dict[str, Any]) -> str:
    """`visit` among the values is also what the components see as `here()`: they are made once, not once a page."""
    _visit.set(values.get("visit"))
    return environment(words.language()).get_template(template).render(values)


# --- Names of browsers, in words that people recognise


def browser_words(user_agent: str) -> str:
    """“Firefox, Windows”; of what nobody knows, its first words."""
    known = [next((name for mark, name in marks if mark in user_agent), "") for marks in (_BROWSERS, _SYSTEMS)]
    return ", ".join(filter(None, known)) or user_agent[:40]
