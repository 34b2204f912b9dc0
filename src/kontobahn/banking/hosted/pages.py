"""Pages that a person sees on the way through a bank: rendering with its headers, forms, redirects, and the stylesheet.

A provider's own templates extend `layout.html` and use the macros of `parts.html`; its folder comes first, so that a `layout.html`
there replaces ours. Pages are plain forms that work without a script. Jinja2 is imported at the first page.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit, urlunsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kontobahn.api.docs import tokens_css
from kontobahn.api.exchange import ClientAddress
from kontobahn.api.pages import Language, accepted, is_multipart, wished
from kontobahn.banking.provider import PersonHere
from kontobahn.errors import Unavailable
from kontobahn.money import amount_text

_HERE = Path(__file__).parent
TEMPLATES = _HERE / "templates"
MAX_FIELD_LENGTH = 200
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")

MAX_AGENT_LENGTH = 300
Page = Callable[[Request], Awaitable[Response]]


class People:
    """The people who look at pages: banks treat an access differently if the person is there, and want to know from where."""

    def __init__(self, trusted_proxies: str) -> None:
        self._addresses = ClientAddress(trusted_proxies)

    def who(self, request: Request) -> PersonHere:
        agent = request.headers.get("user-agent", "")[:MAX_AGENT_LENGTH]
        return PersonHere(self._addresses.of_scope(request.scope), agent)


# --- Forms


class Form(dict[str, list[str]]):
    """The fields as they were sent, and the file, if there is one."""

    file: bytes | None = None

    def text(self, name: str) -> str:
        """Returns the last field of this name: after a hidden default comes the button that was pressed."""
        return self.get(name, [""])[-1][:MAX_FIELD_LENGTH]


async def read_form(request: Request) -> Form:
    """Returns the fields of a posted form."""
    # Bounded in size and time for every page: see api/pages.py.
    if is_multipart(dict(request.scope["headers"])):
        return await _read_multipart(request)
    body = await request.body()
    return Form(parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True))


async def _read_multipart(request: Request) -> Form:
    form = Form()
    async with request.form(max_files=1, max_fields=50) as parts:
        for name, part in parts.multi_items():
            if isinstance(part, str):
                form.setdefault(name, []).append(part)
            else:
                form.file = await part.read()
    return form


# --- Responses


class HostedPages:
    """The pages of one provider, whose own templates are in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def show(
        self,
        template: str,
        values: dict[str, Any],
        return_to: str | None,
        status: int = 200,
        refresh_seconds: int | str | None = None,
    ) -> Response:
        """Renders a template. `return_to` is where the page's form may lead in the end.

        With `refresh_seconds` the browser loads the page again by itself: for one that waits for something, or leads elsewhere.
        """
        body = _environment(self._folder).get_template(template).render(values)
        headers = {**HEADERS, "Content-Security-Policy": content_policy(return_to), "Cache-Control": "no-store"}
        if refresh_seconds is not None:
            headers["Refresh"] = str(refresh_seconds)
        return Response(body, status, headers, media_type="text/html; charset=utf-8")

    def gone(self) -> Response:
        return self.show("gone.html", {}, None, 404)

    def or_unavailable(self, page: Page) -> Page:
        """Wraps a page so that it shows “please reload” while the database cannot be reached."""

        async def shown(request: Request) -> Response:
            try:
                return await page(request)
            except Unavailable as error:
                response = self.show("away.html", {}, None, 503)
                response.headers["Retry-After"] = str(error.retry_after_seconds)
                return response

        return shown


def redirect(url: str) -> Response:
    return RedirectResponse(url, 303, {**HEADERS, "Cache-Control": "no-store"})


def static_file(text: str, media_type: str) -> Response:
    headers = {
        **HEADERS,
        "Cache-Control": "public, max-age=86400",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(text, headers=headers, media_type=media_type)


def language_of(request: Request, stored: Language | None = None) -> Language:
    """The one that was asked for by a link, was kept, or is preferred by the browser; otherwise German."""
    header = request.headers.get("accept-language", "")
    return wished(request.query_params.get("lang"), stored) or accepted(header) or "de"


def language_query(request: Request) -> str:
    """Keeps the language that was asked for in the address of the next page."""
    asked = wished(request.query_params.get("lang"))
    return f"?lang={asked}" if asked else ""


def german_amount(cents: int) -> str:
    """Formats 1234567 as 12.345,67."""
    return written_amount(cents, "de")


def written_amount(cents: int, language: Language) -> str:
    whole, _, fraction = amount_text(cents).partition(".")
    grouped = f"{int(whole):,}"
    return f"{grouped}.{fraction}" if language == "en" else f"{grouped.replace(',', '.')},{fraction}"


def written_day(day: date, language: Language) -> str:
    return f"{day.day} {day:%b %Y}" if language == "en" else f"{day:%d.%m.%Y}"


def add_query(url: str, fields: dict[str, str | None]) -> str:
    """Adds fields to the query of a URL and changes nothing else; fields that are None are left out."""
    parts = urlsplit(url)
    more = urlencode({name: value for name, value in fields.items() if value is not None})
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, more)))))


def content_policy(return_to: str | None) -> str:
    """Browsers apply `form-action` to a redirect after a form too, so it must name the origin to return to."""
    origin = _ORIGIN.match(return_to) if return_to else None
    # A host with other characters could end the directive and start one of its own.
    is_plain = origin is not None and (return_to or "")[origin.end() : origin.end() + 1] in ("", "/", "?", "#")
    return f"{_POLICY} {origin[0]}" if origin is not None and is_plain else _POLICY


def routes() -> list[Route]:
    """Returns the routes that all hosted pages share."""
    return [Route("/banking/static/hosted.css", _stylesheet, methods=["GET"])]


def _stylesheet(request: Request) -> Response:
    text = tokens_css().decode() + "\n" + (_HERE / "static" / "hosted.css").read_text("utf-8")
    return static_file(text, "text/css; charset=utf-8")


@cache
def _environment(folder: Path) -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
