"""The way of a visit: person, origin, role, form, confirmation, handler; and the headers and cookies of every answer.

What fails on the way becomes a page that says what to do.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from kontobahn import limits, log
from kontobahn.access import sessions
from kontobahn.access.principal import Role
from kontobahn.api.bodies import Pace, read_body
from kontobahn.api.exchange import COMPRESS_FROM_BYTES, Exchange, takes_gzip
from kontobahn.api.pages import accepted
from kontobahn.clock import MINUTE
from kontobahn.dashboard import components, confirmation, people, security, words
from kontobahn.dashboard.books import NoBooks
from kontobahn.dashboard.declare import ROOT, Page
from kontobahn.dashboard.forms import MAX_FIELDS, Form
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.refusals import help_url_of, words_of
from kontobahn.dashboard.visit import Dependencies, Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import (
    BadRequest,
    Forbidden,
    KontobahnError,
    MethodNotAllowed,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    WrongMediaType,
)
from kontobahn.ids import SESSION_PREFIX, block_of, is_well_formed
from kontobahn.sentences import said
from kontobahn.threads import work_for

SIGN_IN = f"{ROOT}/sign-in"
SECOND_FACTOR = f"{ROOT}/profile/second-factor"
# Pages for a person who has yet to add the second factor that the organisation requires.
WITHOUT_FACTOR = (SECOND_FACTOR, f"{ROOT}/sign-out")
COMPRESS_TO_BYTES = 1_000_000
_TOUCH_AFTER = MINUTE
_METHODS = ["GET", "POST", "PUT", "DELETE"]
_A_YEAR = "public, max-age=31536000, immutable"
_TITLES = {
    400: N_("That did not work"),
    402: N_("Not enough credits"),
    403: N_("You may not do this"),
    404: N_("This page does not exist"),
    405: N_("This page does not exist"),
    409: N_("That is not possible at the moment"),
    413: N_("That was too large"),
    415: N_("That did not work"),
    429: N_("Too many attempts"),
    503: N_("Please try again in a moment"),
}
# Title and what to do, where the status alone would say the wrong thing: a service that is not booked is nobody's missing right here.
_OF_CODES = {
    "ledger_export_service_missing": (
        N_("This service is not booked"), N_("Ask your tax adviser to book it for this client."),
    ),
}  # fmt: skip
_WHAT_TO_DO = {
    402: N_(
        "Ask the operator of this installation for more credits. The page “Credits” shows what they were used for."
    ),
    403: N_("If you need this, ask an owner or administrator of your organisation."),
    404: N_("It may have been deleted, or it belongs to another organisation. Start from the overview."),
    405: N_("It may have been deleted, or it belongs to another organisation. Start from the overview."),
    413: N_("Send a smaller file, or split it."),
    429: N_("Please wait a little, then try again."),
    503: N_("Nothing was changed. Reload this page; if this continues, tell the operator of this installation."),
}


class _PlainPaths(BaseRoute):
    """All routes without parameters, found at once: the routes of a list are tried one after another."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes = {route.path: route for route in routes}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        route = self._routes.get(scope["path"])
        return (Match.NONE, {}) if route is None else route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._routes[scope["path"]].handle(scope, receive, send)


class Dashboard:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._db = dependencies.context.db
        self._pages: dict[str, dict[str, Page]] = {}
        for page in dependencies.pages:
            methods = self._pages.setdefault(page.path, {})
            if page.method in methods:
                raise ValueError(f"{page.name} is declared twice")
            methods[page.method] = page

    def routes(self) -> list[BaseRoute]:
        routes = [Route(path, self._endpoint(path), methods=_METHODS) for path in sorted(self._pages)]
        # Plain paths first: /keys/new is not a key called “new”.
        return [
            _PlainPaths(
                [Route("/", self._start, methods=["GET"]), *(route for route in routes if "{" not in route.path)]
            ),
            Route(f"{ROOT}/static/{{name}}", _static, methods=["GET"]),
            *(route for route in routes if "{" in route.path),
            Route(f"{ROOT}/{{rest:path}}", self._endpoint(None), methods=_METHODS),
        ]

    def _start(self, request: Request) -> Response:
        wants_page = "text/html" in request.headers.get("accept", "")
        return RedirectResponse(ROOT if wants_page else "/docs", 307, {"Vary": "Accept"})

    def _endpoint(self, path: str | None) -> Any:
        declared = self._pages[path] if path is not None else {}
        context = self._dependencies.context

        async def respond(request: Request) -> Response:
            # Asked for each visit, as the menu asks: what is offered does not depend on when the first page was opened.
            methods = {method: page for method, page in declared.items() if page.offered(context)}
            method = "GET" if request.method == "HEAD" else request.method
            return await self._respond(request, methods, methods.get(method))

        return respond

    async def _respond(self, request: Request, methods: dict[str, Page], page: Page | None) -> Response:
        exchange = Exchange(request.scope, self._dependencies.addresses.of_scope(request.scope))
        visit = Visit(self._dependencies, exchange, page, request.receive)
        self._look_at_cookies(visit, request)
        try:
            response = await self._answer(visit, request, methods)
        except KontobahnError as error:
            response = page_for(visit, error)
        except Exception as error:
            log.exception("page_crashed", error, request_id=exchange.request_id, path=visit.path)
            response = crashed(visit)
        finally:
            upload = exchange.upload
            if upload is not None and not upload.work_goes_on:
                upload.file.close()
        self._finish(visit, request, response)
        return response

    def _look_at_cookies(self, visit: Visit, request: Request) -> None:
        cookies = self._dependencies.cookies
        visit.theme = cookies.read(request.cookies, "theme") or None
        words.speak(
            words.choose(
                cookies.read(request.cookies, "language"), accepted(request.headers.get("accept-language", ""))
            )
        )
        sealed = cookies.read(request.cookies, "notice")
        if sealed and request.method == "GET" and "x-poll" not in request.headers:
            visit.notice = cookies.open_notice(sealed)
            visit.new_cookies["notice"] = ""

    async def _answer(self, visit: Visit, request: Request, methods: dict[str, Page]) -> Response:
        await self._recognise(visit, request)
        work_for(visit.principal.organization_id if visit.person else block_of(visit.exchange.ip))
        await self._count(visit)
        page = visit.page
        if page is None:
            if methods:
                raise MethodNotAllowed(tuple(methods))
            raise NotFound("There is no such page.")
        if page.method == "POST":
            security.check_origin(request.headers, self._dependencies.context.settings)
        if page.caller == "user":
            if visit.person is None:
                return _to_sign_in(visit, request)
            if not visit.may(page.role):
                raise needs_role(page.role)
            await self._touch(visit, request)
            if visit.person.must_add_factor and not visit.path.startswith(WITHOUT_FACTOR):
                return visit.redirect(SECOND_FACTOR)
        if page.method == "POST" and not page.takes_file:
            visit.form = await _read_form(visit, request)
        if page.confirm or page.factor:
            asked = await confirmation.ask_again(visit, factor=page.factor)
            if asked is not None:
                return asked
        try:
            response: Response = await page.handler(visit, **request.path_params)
        except NoBooks:
            # One thing in them that was asked for is as unknown as any other.
            response = visit.show("no_books.html", 404 if request.path_params else 200)
        return response

    async def _count(self, visit: Visit) -> None:
        """Raises TooManyRequests for somebody who asks for pages faster than anybody reads them."""
        person = visit.person
        who = f"user:{person.user.id}" if person else f"ip:{block_of(visit.exchange.ip)}"
        hit = await self._dependencies.windows.hit(self._dependencies.groups[limits.PAGES], who)
        if not hit.allowed:
            raise TooManyRequests(
                said("Too many pages in a short time. Try again in {seconds} seconds.", seconds=hit.reset_seconds),
                retry_after_seconds=hit.reset_seconds,
            )

    async def _recognise(self, visit: Visit, request: Request) -> None:
        token = self._dependencies.cookies.read(request.cookies, "session")
        if not token:
            return
        try:
            if not is_well_formed(token, SESSION_PREFIX):
                raise Unauthorized("This is not a session.")
            wanted = self._dependencies.cookies.read(request.cookies, "organization")
            digest = self._dependencies.context.vault.token_hash(token)
            visit.person = await self._db.read(people.find, digest, wanted)
        except Unauthorized:
            visit.new_cookies["session"] = ""
            return
        visit.exchange.principal = visit.person.principal
        preferences = visit.person.preferences
        words.speak(words.choose(preferences.language, words.language()))
        visit.theme = preferences.theme or visit.theme

    async def _touch(self, visit: Visit, request: Request) -> None:
        """A person who looks keeps the session alive; a page that looks by itself does not."""
        assert visit.person is not None
        session = visit.person.session
        used_at = (session.idle_until or 0) - sessions.IDLE
        if visit.now - used_at > _TOUCH_AFTER and "x-poll" not in request.headers:
            await self._db.write(sessions.touch, session)

    def _finish(self, visit: Visit, request: Request, response: Response) -> None:
        for name, value in visit.new_cookies.items():
            self._dependencies.cookies.write(response, name, value)
        response.headers["X-Request-Id"] = visit.exchange.request_id
        if "x-poll" in request.headers and response.status_code == 200:
            _answer_unchanged(request, response)
        compress(request, response)
        page_name = visit.page.name if visit.page else "unknown"
        seconds = asyncio.get_running_loop().time() - visit.started
        self._dependencies.metrics.note(page_name, response.status_code, seconds, 0)


def _to_sign_in(visit: Visit, request: Request) -> Response:
    if visit.page is not None and visit.page.method == "GET":
        query = request.url.query
        wanted = visit.path + (f"?{query}" if query else "")
        return visit.redirect(SIGN_IN if wanted == ROOT else f"{SIGN_IN}?{urlencode({'next': wanted})}")
    return visit.redirect(
        SIGN_IN, _("You were signed out before this was sent. Please sign in and send it again."), "bad"
    )


async def _read_form(visit: Visit, request: Request) -> Form:
    assert visit.page is not None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    pace = Pace(visit.dependencies.context.settings)
    body = await read_body(request.receive, visit.exchange.headers, visit.page.body_bytes, pace)
    if not body:
        return Form()
    if kind != "application/x-www-form-urlencoded":
        raise WrongMediaType("This page takes a form.")
    try:
        return Form(parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise BadRequest("The form cannot be read.") from None


def _answer_unchanged(request: Request, response: Response) -> None:
    """A page that looks whether it has changed gets 304 while it has not."""
    tag = f'"{hashlib.sha256(bytes(response.body)).hexdigest()[:16]}"'
    response.headers["ETag"] = tag
    if tag in request.headers.get("if-none-match", ""):
        response.status_code = 304
        response.body = b""
        response.headers["Content-Length"] = "0"


def compress(request: Request, response: Response) -> None:
    body = bytes(response.body)
    # A large file would hold up everybody else on the event loop.
    if not COMPRESS_FROM_BYTES <= len(body) <= COMPRESS_TO_BYTES or not takes_gzip(
        request.headers.get("accept-encoding", "").encode()
    ):
        return
    response.body = gzip.compress(body, 5)
    response.headers["Content-Encoding"] = "gzip"
    response.headers["Content-Length"] = str(len(response.body))


def _static(request: Request) -> Response:
    found = components.static_file(request.path_params["name"])
    if found is None:
        return Response("There is no such file.\n", 404, media_type="text/plain")
    is_current = request.query_params.get("v") == found.version
    headers = {
        "Cache-Control": _A_YEAR if is_current else "no-cache",
        "ETag": f'W/"{found.version}"',
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if takes_gzip(request.headers.get("accept-encoding", "").encode()):
        return Response(found.compressed, headers={**headers, "Content-Encoding": "gzip"}, media_type=found.media_type)
    return Response(found.body, headers=headers, media_type=found.media_type)


# --- Errors as pages: what happened, and what to do


def needs_role(role: Role) -> Forbidden:
    return Forbidden(_("This page is for the role “%(role)s” or above.", role=_(ROLE_NAMES[role])))


def page_for(visit: Visit, error: KontobahnError) -> Response:
    status = error.status
    if status == 500:
        return crashed(visit)
    says_more = status not in (405, 503) and not str(error).endswith(("not found.", "no such page."))
    shown = words_of(error) if says_more else ""
    of_status = _TITLES.get(status, _TITLES[400]), _WHAT_TO_DO.get(status, "")
    title, to_do = (_(text) for text in _OF_CODES.get(str(error.extra.get("code", "")), of_status))
    if status in (404, 429) and shown:
        # It says itself why there is no such page, or when to try again.
        to_do = ""
    response = _error_page(
        visit, status, title, shown, to_do, str(error.extra.get("reconnectUrl", "")), help_url_of(error)
    )
    if isinstance(error, TooManyRequests | Unavailable):
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    elif isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = ", ".join(error.allowed)
    elif isinstance(error, TooLarge):
        response.headers["Connection"] = "close"
    return response


def crashed(visit: Visit) -> Response:
    title = _("Something went wrong on our side")
    text = _("The operator finds the cause in the log under this number: %(id)s.", id=visit.exchange.request_id)
    return _error_page(
        visit, 500, title, text, _("Go back and try again. If it happens again, send this number to the operator.")
    )


def _error_page(
    visit: Visit, status: int, title: str, text: str, what_to_do: str, renew: str = "", help_url: str = ""
) -> Response:
    # The address of the page, without our own host in front of it.
    path = renew.removeprefix(visit.context.settings.base_url)
    return visit.show(
        "error.html", status, title=title, text=text, what_to_do=what_to_do, renew=path, explained_at=help_url
    )
