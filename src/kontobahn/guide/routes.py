"""The addresses below /docs/guide: a page for each Markdown file, its pictures, the search. A page is rendered once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kontobahn import __version__
from kontobahn.api import docs
from kontobahn.api.documents import (
    ASK_AGAIN,
    FOR_A_YEAR,
    Document,
    content_security_policy,
    html,
    make_document,
    respond,
)
from kontobahn.guide import library, search

ROOT = "/docs/guide"
_HERE = Path(__file__).parent
_CSS = "/static/guide/guide.css"
# The weight of a hit in each group of the menu, and in pages that are in none of them; decisions count like those.
_WEIGHTS, _OTHER = {"Start": 1.0, "How to": 1.0, "Reference": 0.8, "Explanation": 0.4}, 0.25
# No script at all: the search is a form.
_POLICY = content_security_policy(form="'self'")


def guide_routes() -> list[Route]:
    # Plain functions: Starlette runs them in a thread, so rendering does not block other calls.
    return [
        Route(ROOT, lambda request: _answer(request, library.START), methods=["GET"]),
        Route(f"{ROOT}/", lambda request: RedirectResponse(ROOT, 308), methods=["GET"]),
        Route(f"{ROOT}/search", _search, methods=["GET"]),
        Route(f"{ROOT}/{{name:path}}", lambda request: _answer(request, request.path_params["name"]), methods=["GET"]),
        Route(_CSS, _stylesheet, methods=["GET"]),
    ]


def _answer(request: Request, name: str) -> Response:
    if name in library.sources():
        return respond(request, _page(name), _POLICY)
    if name in library.files():
        return respond(request, _file(name), _POLICY)
    # An address of the repository's own pages leads to ours.
    if name.endswith(".md") and library.page_name(name) in library.sources():
        return RedirectResponse(f"{ROOT}/{library.page_name(name)}".rstrip("/"), 308)
    missing = html(_render("missing.html", name="", title="No such page"))
    response = respond(request, missing, _POLICY)
    response.status_code = 404
    return response


def _search(request: Request) -> Response:
    query = request.query_params.get("q", "").strip()
    too_long = len(query) > search.MAX_QUERY
    results = [] if too_long else _index().search(query)
    page = _render(
        "search.html", name="search", title="Search", query=query[: search.MAX_QUERY], results=results,
        too_long=too_long, most=search.MAX_QUERY, is_cut=len(results) == search.MAX_RESULTS,
    )  # fmt: skip
    return respond(request, html(page), _POLICY)


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
    from kontobahn.guide.markdown import render

    source = library.sources()[name]
    rendered = render(source)
    below = [heading for heading in rendered.headings if heading.level == 2]
    return html(_render("page.html", name=name, title=source.title, content=rendered.html, below=below))


@cache
def _index() -> search.Index:
    return search.Index(passages())


@cache
def passages() -> list[search.Passage]:
    """Every section of every page, for the search."""
    from kontobahn.guide.markdown import render

    groups = {name: group.title for group in library.menu() for name, _ in group.pages if name != "decisions"}
    return [
        search.Passage(
            address=f"{ROOT}/{name}".rstrip("/") + (f"#{section.heading.id}" if section.heading.level > 1 else ""),
            page_title=source.title,
            heading=section.heading.title,
            text=section.text,
            weight=_WEIGHTS.get(groups.get(name, groups.get(name.partition("/")[0], "")), _OTHER),
        )
        for name, source in library.sources().items()
        for section in render(source).sections
    ]


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


def _render(template: str, *, name: str, title: str, **values: Any) -> str:
    text: str = _environment().get_template(template).render(
        name=name, title=title, menu=library.menu(), root=ROOT, version=__version__, icon=docs.icon_url(),
        stylesheets=[docs.file_url("docs.css"), f"{_CSS}?v={_css().version}"],
        query=values.pop("query", ""), **values,
    )  # fmt: skip
    return text
