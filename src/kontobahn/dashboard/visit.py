"""A visit: one request of a browser, who makes it, and the ways to answer. Handlers of pages know a Visit; nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from typing import Any, Concatenate, Literal, NamedTuple, ParamSpec, TypeVar
from urllib.parse import parse_qs, quote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal, Role
from kontobahn.api.bodies import Receive
from kontobahn.api.call import Call, Context, check_allowed, stated_age
from kontobahn.api.declare import Endpoint
from kontobahn.api.exchange import ClientAddress, Exchange, send_file
from kontobahn.api.idempotency import StoredAnswer
from kontobahn.api.uploads import NoFile, Uploads
from kontobahn.api.wire import FileDownload, Upload
from kontobahn.clock import berlin_date
from kontobahn.dashboard import lists, page_templates, security
from kontobahn.dashboard.declare import Page
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.lists import Cell, Filters
from kontobahn.dashboard.menu import Menu
from kontobahn.dashboard.people import Person
from kontobahn.dashboard.security import CookieName, Cookies
from kontobahn.db import Tx
from kontobahn.limits import Group, Windows
from kontobahn.metrics import Metrics
from kontobahn.threads import Pool

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=Struct)

# The source that the credit statement and the usage name for a call made here.
QUELLE = "Dashboard"
# A person sooner looks at a page that says what is still on its way.
PATIENCE_SECONDS = 3.0
NoticeKind = Literal["good", "bad"]


class Dependencies(NamedTuple):
    """Everything that the dashboard works with."""

    context: Context
    windows: Windows
    groups: dict[str, Group]
    metrics: Metrics
    addresses: ClientAddress
    uploads: Uploads
    cookies: Cookies
    pages: tuple[Page, ...]
    menu: Menu


class Visit:
    def __init__(self, dependencies: Dependencies, exchange: Exchange, page: Page | None, receive: Receive) -> None:
        self.dependencies = dependencies
        self.context: Context = dependencies.context
        self.exchange = exchange
        self.started = asyncio.get_running_loop().time()
        self.page = page
        self.path: str = exchange.scope["path"]
        self.query = parse_qs(exchange.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        self.person: Person | None = None
        self.form = Form()
        # As of when the figures of the page are, if they are not of now.
        self.as_of: datetime | None = None
        self.theme: str | None = None
        self.notice: tuple[str, str] | None = None
        self.new_cookies: dict[CookieName, str] = {}
        self._receive = receive

    # --- Person and time

    @property
    def principal(self) -> Principal:
        assert self.person is not None, "a page for anybody has no principal"
        return self.person.acting_as(own=self.page is None or self.page.own)

    @property
    def organization_id(self) -> str:
        """The organisation whose bank accounts, books and invoices are looked at: people of an agency look after their clients'.

        Keys, credits, people and what else belongs to the person's own organisation are `principal.organization_id`.
        """
        assert self.person is not None, "a page for anybody has no organisation"
        return self.person.looking_at.id

    @property
    def actor(self) -> Actor:
        name = self.person.principal.actor if self.person else "anybody"
        return Actor(name, self.exchange.request_id, self.exchange.ip)

    @property
    def device(self) -> str:
        """The name that the browser gives itself."""
        return self.exchange.header(b"user-agent") or ""

    @property
    def now(self) -> int:
        return self.context.clock.now()

    @property
    def today(self) -> date:
        return berlin_date(self.now)

    @property
    def here(self) -> str:
        """The address of this page, to come back to; of a form that was sent, the page it stands on."""
        query = str(self.exchange.scope.get("query_string", b""), "latin-1")
        return f"{self.path}?{query}" if query and not self._is_post else self.path

    def may(self, role: Role) -> bool:
        return self.person is not None and self.principal.may(role)

    def cookie(self, name: CookieName) -> str:
        """A cookie that the browser has sent; empty if it has not."""
        return self.dependencies.cookies.read(Request(self.exchange.scope).cookies, name)

    # --- Calls of the areas

    async def read(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.context.db.read(fn, *args, **kwargs)

    async def write(self, fn: Callable[Concatenate[Tx, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.context.db.write(fn, *args, **kwargs)

    async def off_loop(self, fn: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Does work that may take more than a few milliseconds beside the event loop."""
        return await self.context.part(Pool).run(fn, *args, **kwargs)

    def call(self, endpoint: Endpoint) -> Call:
        """A call of the API in this person's name. Raises Forbidden if the role may not make it.

        Looking is free here; what changes something costs what it costs by call.
        """
        check_allowed(endpoint, self.principal)
        call = Call(self.context, endpoint, self.principal, self.exchange.request_id, self.exchange.ip, QUELLE)
        call.patience_seconds = PATIENCE_SECONDS
        call.price = 0 if endpoint.method == "GET" else self.context.settings.prices.get(endpoint.name, endpoint.cost)
        return call

    async def ask(self, endpoint: Endpoint, **arguments: Any) -> Any:
        """Makes a call of the API: ``await visit.ask(accounts.list_bank_accounts, query=AccountsQuery())``."""
        call = self.call(endpoint)
        if call.price and not endpoint.cost:
            # Free by the contract, priced by a setting: its handler does not charge.
            async with call.charge():
                return await endpoint.handler(call, **arguments)
        answer = await endpoint.handler(call, **arguments)
        self.as_of = stated_age(call) or self.as_of
        return answer

    # --- The form

    def filters(self, struct: type[S]) -> Filters[S]:
        """The filters in the address, as a struct whose fields all have defaults."""
        return Filters(self.path, struct, self.query)

    async def receive_file(self) -> Upload:
        """Receives the one file of a form; its other fields are in `form`. It is closed after the answer, unless a task works on."""
        fields: dict[str, list[str]] = {}
        try:
            return await self.dependencies.uploads.receive(self.exchange, self._receive, fields)
        finally:
            self.form = Form(fields)

    async def receive_optional_file(self) -> Upload | None:
        """The same for a form that may be sent without its file."""
        try:
            return await self.receive_file()
        except NoFile:
            return None

    # --- Answers

    def show(self, template: str, status: int | None = None, *, frames: bool = False, **values: Any) -> Response:
        """Renders a page. With a form that has errors it answers 422."""
        shown = values.setdefault("form", self.form)
        if status is None:
            status = 422 if isinstance(shown, Form) and not shown.is_good and self._is_post else 200
        body = page_templates.render(template, {"visit": self, **values})
        if self.person is not None:
            body = self.dependencies.menu.permitted(body, self.person, self.path)
        headers = {**security.HEADERS, **(security.WITH_FRAMES if frames else {})}
        return Response(body, status, headers, media_type="text/html; charset=utf-8")

    @property
    def _is_post(self) -> bool:
        return str(self.exchange.scope["method"]) == "POST"

    def redirect(self, path: str, notice: str = "", kind: NoticeKind = "good") -> Response:
        """Leads to another page of ours, with a message to show there."""
        if notice:
            self.new_cookies["notice"] = self.dependencies.cookies.seal_notice(kind, notice)
        return RedirectResponse(path, 303, security.HEADERS)

    def leave(self, url: str, title: str, text: str = "") -> Response:
        """Leads to another site, such as the bank's page. A redirect after a form would be stopped by our own policy."""
        response = self.show("leave.html", 200, url=url, title=title, text=text)
        response.headers["Refresh"] = f"0; url={quote(url, safe=':/?#[]@!$&()*+,;=%-._~')}"
        return response

    def ask_first(
        self, *, title: str, text: str, removes: Sequence[str] = (), button: str, back: str, ends: bool = True
    ) -> Response:
        """Says what an action does before it is done; the button posts to the address of this page, and is red if it `ends` something."""
        return self.show("ask_first.html", title=title, text=text, removes=removes, button=button, back=back, ends=ends)

    def json(self, value: Any) -> Response:
        """For a script of ours."""
        return Response(msgspec.json.encode(value), 200, security.HEADERS, media_type="application/json")

    async def csv(self, name: str, head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Response:
        """A list to save. Written beside the event loop, with whatever makes its rows if that is a generator."""
        content = await self.off_loop(lists.write_csv, head, rows)
        return self.download(content, "text/csv; charset=utf-8", f"{name}.csv")

    def download(self, content: bytes, media_type: str, file_name: str) -> Response:
        """A file to save. Whatever it contains, a browser must neither guess its type nor run it."""
        headers = {
            **security.HEADERS,
            "Content-Disposition": _disposition("attachment", file_name),
            "Content-Security-Policy": "sandbox; default-src 'none'",
        }
        return Response(content, 200, headers, media_type=media_type)

    def stream(self, download: FileDownload) -> Response:
        """A large file to save, sent part by part from the disk."""
        return _FileResponse(download)

    def framed(self, content: bytes, media_type: str, file_name: str) -> Response:
        """A PDF or a picture to look at in a frame of ours; everything else becomes a download."""
        if media_type not in security.FRAMED_TYPES:
            return self.download(content, media_type, file_name)
        disposition = _disposition("inline", file_name)
        headers = {**security.HEADERS, **security.IN_FRAME, "Content-Disposition": disposition}
        return Response(content, 200, headers, media_type=media_type)


def _disposition(kind: str, file_name: str) -> str:
    """Leaves out the soft hyphens that let a title fit on a phone."""
    return f"{kind}; filename*=UTF-8''{quote(file_name.replace(chr(0xAD), ''), safe='')}"


class _FileResponse(Response):
    """Sends a file in the way of the API's calls, which also closes it."""

    def __init__(self, download: FileDownload) -> None:
        super().__init__(b"", 200)
        self._download = download

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        kept = [(name, value) for name, value in self.raw_headers if name in (b"x-request-id", b"set-cookie")]
        found = self._download
        answer = StoredAnswer(200, b"", found.media_type, found.file_name, found)
        await send_file(send, answer, kept, None)
