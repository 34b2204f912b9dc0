"""The addresses below /docs/guide: a page for each Markdown file, its pictures, the search, and the help for the dashboard's pages.

A page is rendered once. `/docs/guide` itself follows the visitor's language; every other address has the one of its page.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kontobahn import __version__
from kontobahn.api import docs, pages
from kontobahn.api.docs import ASK_AGAIN, FOR_A_YEAR, Document, content_security_policy, html, make_document, respond
from kontobahn.api.pages import Language
from kontobahn.guide import library, search
from kontobahn.guide.library import ROOT

# The words around the guide's pages, in each language.


class Texts(NamedTuple):
    skip: str
    contents: str
    show_contents: str
    search: str
    search_guide: str
    reference: str
    dashboard: str
    footer: str
    # The other language, as its readers call it, and a sentence for those who do not see the page.
    other: str
    other_title: str
    missing: str
    missing_text: str
    to_start: str
    too_long: str
    ask: str
    nothing: str
    best: str
    one: str
    many: str
    quoted: str


TEXTS: dict[Language, Texts] = {
    "en": Texts(
        skip="Skip to the content",
        contents="Contents",
        show_contents="Show the contents",
        search="Search",
        search_guide="Search the guide",
        reference="API reference",
        dashboard="Dashboard",
        footer="Kontobahn {version} serves this page itself. It loads nothing from elsewhere.",
        other="Deutsch",
        other_title="Diese Seite auf Deutsch",
        missing="No such page",
        missing_text="The guide has no page at this address. Try the search, or",
        to_start="start at the beginning",
        too_long="Please search for {most} characters at most.",
        ask="Type some words or a question, in English or German.",
        nothing="Nothing found. Try other words. Fields and parameters of calls are in the",
        best="The best {count} sections.",
        one="1 section.",
        many="{count} sections.",
        quoted="“{query}”",
    ),
    "de": Texts(
        skip="Zum Inhalt springen",
        contents="Inhalt",
        show_contents="Inhaltsverzeichnis anzeigen",
        search="Suchen",
        search_guide="Anleitung durchsuchen",
        reference="API-Referenz (englisch)",
        dashboard="Zur Anwendung",
        footer="Diese Seite kommt von Kontobahn {version} selbst. Von anderen Servern wird nichts geladen.",
        other="English",
        other_title="This page in English",
        missing="Diese Seite gibt es nicht",
        missing_text="Unter dieser Adresse hat die Anleitung keine Seite. Versuchen Sie es mit der Suche, oder",
        to_start="beginnen Sie auf der Startseite",
        too_long="Bitte suchen Sie nach höchstens {most} Zeichen.",
        ask="Geben Sie Stichwörter oder eine Frage ein.",
        nothing="Nichts gefunden. Versuchen Sie es mit anderen Wörtern. Felder und Parameter von Aufrufen stehen in der",
        best="Die {count} besten Abschnitte.",
        one="1 Abschnitt.",
        many="{count} Abschnitte.",
        quoted="„{query}“",
    ),
}


_HERE = Path(__file__).parent
_CSS = "/static/guide/guide.css"
# The dashboard's cookie, under https and without it.
_COOKIES = ("__Host-kontobahn_language", "kontobahn_language")
# The weight of a hit in each group of the English menu, and in pages that are in none of them; decisions count like those.
_WEIGHTS, _OTHER = {"Start": 1.0, "How to": 1.0, "Reference": 0.8, "Explanation": 0.4}, 0.25
# Of an English page in the German search, which has those that were not translated.
_FOREIGN = 0.35
# Of the German glossary, which has every word and says little of it.
_BRIEF = 0.5
# No script at all: the search is a form.
_POLICY = content_security_policy(form="'self'")


def guide_routes() -> list[Route]:
    # Plain functions: Starlette runs them in a thread, so rendering does not block other calls.
    found = [
        Route(ROOT, _start, methods=["GET"]),
        Route(f"{ROOT}/", lambda request: RedirectResponse(ROOT, 308), methods=["GET"]),
        Route(f"{ROOT}/en", lambda request: _answer(request, library.STARTS["en"]), methods=["GET"]),
    ]
    for language in pages.LANGUAGES:
        below = _below(language)
        found += [
            Route(f"{below}/search", _searching(language), methods=["GET"]),
            Route(f"{below}/help/{{topic}}", _helping(language), methods=["GET"]),
        ]
    return [
        *found,
        Route(f"{ROOT}/{{name:path}}", lambda request: _answer(request, request.path_params["name"]), methods=["GET"]),
        Route(_CSS, _stylesheet, methods=["GET"]),
    ]


def _below(language: Language) -> str:
    return f"{ROOT}/{library.STARTS[language]}".rstrip("/")


def _start(request: Request) -> Response:
    wish = pages.wished(
        *(request.cookies.get(name) for name in _COOKIES),
        pages.accepted(request.headers.get("accept-language", "")),
    )
    start = library.STARTS[wish or "en"]
    if wish == "de" and start in library.sources():
        return RedirectResponse(
            library.address(start), 307, {"Vary": "Accept-Language, Cookie", "Cache-Control": "no-cache"}
        )
    response = _answer(request, library.STARTS["en"])
    response.headers["Vary"] = f"{response.headers['Vary']}, Accept-Language, Cookie"
    return response


def _answer(request: Request, name: str) -> Response:
    if name in library.sources():
        return respond(request, _page(name), _POLICY)
    if name in library.files():
        return respond(request, _file(name), _POLICY)
    # An address of the repository's own pages leads to ours.
    if name.endswith(".md") and library.page_name(name) in library.sources():
        return RedirectResponse(f"{ROOT}/{quote(library.page_name(name))}".rstrip("/"), 308)
    return _missing(request, library.language_of(name))


def _missing(request: Request, language: Language) -> Response:
    page = html(_render("missing.html", language=language, name=None, title=TEXTS[language].missing))
    response = respond(request, page, _POLICY)
    response.status_code = 404
    return response


def _helping(language: Language) -> Any:
    def lead(request: Request) -> Response:
        found = library.topics(language).get(request.path_params["topic"])
        if found is None:
            return _missing(request, language)
        # The id of a German heading may have an umlaut.
        return RedirectResponse(quote(found, safe="/#"), 307, {"Cache-Control": "no-cache"})

    return lead


def _searching(language: Language) -> Any:
    other: Language = "en" if language == "de" else "de"

    def look(request: Request) -> Response:
        query = request.query_params.get("q", "").strip()
        too_long = len(query) > search.MAX_QUERY
        shown = query[: search.MAX_QUERY]
        results = [] if too_long else _index(language).search(query)
        page = _render(
            "search.html", language=language, name=None, title=TEXTS[language].search, query=shown, results=results,
            too_long=too_long, most=search.MAX_QUERY, is_cut=len(results) == search.MAX_RESULTS,
            other=f"{_below(other)}/search?{urlencode({'q': shown})}",
        )  # fmt: skip
        return respond(request, html(page), _POLICY)

    return look


def _stylesheet(request: Request) -> Response:
    css = _css()
    is_current = request.query_params.get("v") == css.version
    return respond(request, css, _POLICY, FOR_A_YEAR if is_current else ASK_AGAIN)


@cache
def _css() -> Document:
    return make_document((_HERE / "static" / "guide.css").read_bytes(), "text/css; charset=utf-8")


@cache
def _file(name: str) -> Document:
    path = library.files()[name]
    return make_document(path.read_bytes(), library.FILES[path.suffix])


@cache
def _page(name: str) -> Document:
    from kontobahn.guide.library import render

    source = library.sources()[name]
    rendered = render(source)
    translation = library.translation_of(name)
    return html(
        _render(
            "page.html", language=source.language, name=name, title=source.title, content=rendered.html,
            below=[heading for heading in rendered.headings if heading.level == 2],
            other=None if translation is None else library.address(translation),
        )
    )  # fmt: skip


@cache
def _index(language: Language) -> search.Index:
    return search.Index(passages(language))


@cache
def passages(language: Language) -> list[search.Passage]:
    """Every section of every page in a language, and in German of what is there in English only."""
    from kontobahn.guide.library import render

    return [
        search.Passage(
            address=library.address(name, section.heading.id if section.heading.level > 1 else ""),
            page_title=source.title,
            heading=section.heading.title,
            text=section.text,
            weight=_weight(source, language),
            language=source.language,
        )
        for name, source in library.sources().items()
        if source.language == language or (language == "de" and library.translation_of(name) is None)
        for section in render(source).sections
    ]


def _weight(source: library.Source, language: Language) -> float:
    if source.language == "de":
        return _BRIEF if source.name == "de/glossary" else 1.0
    groups = {name: group.title for group in library.menu("en") for name, _ in group.pages if name != "decisions"}
    weight = _WEIGHTS.get(groups.get(source.name, groups.get(source.name.partition("/")[0], "")), _OTHER)
    return weight if language == "en" else weight * _FOREIGN


@cache
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def _render(template: str, *, language: Language, name: str | None, title: str, **values: Any) -> str:
    text: str = _environment().get_template(template).render(
        name=name, title=title, menu=library.menu(language), version=__version__, icon=docs.icon_url(),
        language=language, texts=TEXTS[language], language_of=library.language_of, address=library.address,
        start=library.address(library.STARTS[language]), search_url=f"{_below(language)}/search",
        stylesheets=[docs.file_url("docs.css"), f"{_CSS}?v={_css().version}"],
        query=values.pop("query", ""), other=values.pop("other", None), **values,
    )  # fmt: skip
    return text
