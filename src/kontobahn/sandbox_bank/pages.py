"""The hosted pages of the sandbox bank: connect flows and payments, as plain forms that work without a script.

A page is known by the unguessable token in its address, which also guards its forms: who does not know it cannot post to it.
Jinja2 is imported at the first page.
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

from kontobahn.db import Database, Tx
from kontobahn.errors import Unavailable
from kontobahn.formats.iban import in_groups
from kontobahn.money import amount_text
from kontobahn.sandbox_bank import flows, paying, store
from kontobahn.sandbox_bank.banks import BANKS, logo, offered
from kontobahn.sandbox_bank.deliveries import Pump
from kontobahn.sandbox_bank.flows import Flow
from kontobahn.sandbox_bank.paying import Payment
from kontobahn.sandbox_bank.people import MOST_WRONG_ENTRIES, PEOPLE, WRONG_PASSWORD, WRONG_TAN, accounts_of

_HERE = Path(__file__).parent
MOST_FORM_BYTES = 16 * 1024
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
_ORIGIN = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?")
# In our words: what went wrong.
WORDS = {
    "InvalidCredentials": "Die Bank nimmt Benutzername oder Passwort nicht an.",
    "InvalidInteractiveCredentials": "Die TAN war dreimal falsch.",
    "ProviderError": "Die Bank hat eine technische Störung. Bitte versuchen Sie es später noch einmal.",
    "Cancelled": "Sie haben den Vorgang abgebrochen.",
    "PaymentFailed": "Die Bank hat die Zahlung nicht ausgeführt.",
}


# How the service calls what the bank knows under a name of its own; None as long as it does not know it.
Lookup = Callable[[str], Awaitable[str | None]]


class Form(dict[str, list[str]]):
    """Fields as they were sent; of several of one name the last, which is the button that was pressed."""

    def text(self, name: str) -> str:
        return self.get(name, [""])[-1][:200]


class HostedPages:
    """Connect flows and payments, as a person sees them."""

    def __init__(self, db: Database, pump: Pump, connection_id: Lookup, payment_id: Lookup) -> None:
        self._db = db
        self._pump = pump
        self._connection_id = connection_id
        self._payment_id = payment_id

    def routes(self) -> list[Route]:
        return [
            Route("/sandbox/connect/{token}", _or_sorry(self.connect_page), methods=["GET"]),
            Route("/sandbox/connect/{token}", _or_sorry(self.connect_step), methods=["POST"]),
            Route("/sandbox/pay/{token}", _or_sorry(self.pay_page), methods=["GET"]),
            Route("/sandbox/pay/{token}", _or_sorry(self.pay_step), methods=["POST"]),
            Route("/sandbox/logos/{code}.svg", _logo, methods=["GET"]),
            Route("/sandbox/static/sandbox.css", _stylesheet, methods=["GET"]),
        ]

    async def connect_page(self, request: Request) -> Response:
        flow = await self._db.read(flows.find, request.path_params["token"])
        return _gone() if flow is None else await self._show_flow(flow)

    async def connect_step(self, request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return _too_large()
        done = await self._db.write(_take_flow_step, request.path_params["token"], form)
        if done is None:
            return _gone()
        flow, problem = done
        if problem is not None:
            return await self._show_flow(flow, problem, form, status=422)
        if flow.step in ("done", "failed"):
            # The news go out before the person goes back.
            await self._pump.run_briefly()
        return await self._after_flow(flow)

    async def _after_flow(self, flow: Flow) -> Response:
        # Whom something went wrong for is told before going back, but not who has cancelled.
        is_over = flow.step == "done" or flow.error_class == "Cancelled"
        if is_over and flow.return_to is not None:
            return _redirect(await self._flow_return(flow))
        return _redirect(f"/sandbox/connect/{flow.token}")

    async def _flow_return(self, flow: Flow) -> str:
        assert flow.return_to is not None
        fields: dict[str, str | None] = {"pending_token": flow.pending_token, "error_class": flow.error_class}
        if flow.step == "done":
            fields["connection_id"] = await self._connection_id(flow.pending_token)
        return with_fields(flow.return_to, fields)

    async def _show_flow(
        self, flow: Flow, problem: str | None = None, form: Form | None = None, status: int = 200
    ) -> Response:
        bank = BANKS.get(flow.bank_code)
        values: dict[str, Any] = {
            "flow": flow, "bank": bank, "banks": offered(flow.api), "problem": problem, "people": PEOPLE.values(),
            "user_name": form.text("user_name") if form else flow.user_name, "wrong_tan": WRONG_TAN,
            "error": WORDS.get(flow.error_class or "", flow.error_message),
            "return_url": await self._flow_return(flow) if flow.return_to and flow.step in ("done", "failed") else None,
        }  # fmt: skip
        if flow.step == "consent" and bank is not None:
            values["accounts"] = list(enumerate(accounts_of(flows.person_of(flow), bank)))
        return _page("connect.html", values, flow.return_to, status)

    async def pay_page(self, request: Request) -> Response:
        row = await self._db.read(_find_payment, request.path_params["token"])
        return _gone() if row is None else await self._show_payment(row)

    async def pay_step(self, request: Request) -> Response:
        form = await _form(request)
        if form is None:
            return _too_large()
        done = await self._db.write(_take_payment_step, request.path_params["token"], form)
        if done is None:
            return _gone()
        row, problem = done
        await self._pump.run_briefly()
        if problem is not None:
            return await self._show_payment(row, problem, form, status=422)
        if row.step == "done" and row.return_to is not None:
            return _redirect(await self._payment_return(row))
        return _redirect(f"/sandbox/pay/{row.token}")

    async def _payment_return(self, row: Payment) -> str:
        assert row.return_to is not None
        fields = {"payment_id": await self._payment_id(row.ref), "error_class": row.error_class}
        return with_fields(row.return_to, fields)

    async def _show_payment(
        self, row: Payment, problem: str | None = None, form: Form | None = None, status: int = 200
    ) -> Response:
        connection = await self._db.read(store.connection, row.connection_ref)
        values = {
            "payment": row, "bank": connection.bank if connection else None, "problem": problem,
            "amount": _german(row.amount_minor), "creditor_iban": in_groups(row.creditor_iban),
            "debtor_iban": in_groups(row.debtor_iban),
            "execute_on": f"{date.fromisoformat(row.execute_on):%d.%m.%Y}" if row.execute_on else None,
            "hint": connection.user_name if connection else "",
            "user_name": form.text("user_name") if form else "", "wrong_tan": WRONG_TAN,
            "error": WORDS.get(row.error_class or "", row.error_message),
            "return_url": await self._payment_return(row) if row.return_to and row.step == "done" else None,
        }  # fmt: skip
        return _page("pay.html", values, row.return_to, status)


# --- Steps


def _take_flow_step(tx: Tx, token: str, form: Form) -> tuple[Flow, str | None] | None:
    flow = flows.lock(tx, token)
    if flow is None:
        return None
    problem: str | None = None
    action, is_open = form.text("action"), flow.step in ("bank", "login", "tan", "consent")
    if action == "cancel" and is_open:
        flows.cancel(tx, flow)
    elif action == "again" and flow.step == "failed":
        flows.try_again(tx, flow)
    elif action == "banks" and flow.step == "login":
        flows.choose_again(tx, flow)
    # A form of another step comes from the back button or a second click, and changes nothing.
    elif action == flow.step and action == "bank":
        problem = flows.choose_bank(tx, flow, form.text("bank"))
    elif action == flow.step and action == "login":
        problem = flows.login(tx, flow, form.text("user_name"), form.text("password"))
    elif action == flow.step and action == "tan":
        problem = flows.give_tan(tx, flow, form.text("tan"))
    elif action == flow.step and action == "consent":
        problem = flows.consent(tx, flow, set(form.get("account", ())))
    return flows.find(tx, token) or flow, problem


def _find_payment(tx: Tx, token: str) -> Payment | None:
    row = paying.by_token(tx, token)
    is_over = row is None or (row.step != "done" and row.expires_at <= tx.now)
    return None if is_over else row


def _take_payment_step(tx: Tx, token: str, form: Form) -> tuple[Payment, str | None] | None:
    store.begin(tx)
    row = _find_payment(tx, token)
    if row is None:
        return None
    action = form.text("action")
    if action == "cancel" and row.step != "done":
        return paying.give_up(tx, row, "Cancelled", "The payer cancelled.", "CANC"), None
    if action != row.step:
        return row, None
    match action:
        case "login":
            return _payer_login(tx, row, form)
        case "tan":
            return _payer_tan(tx, row, form.text("tan").strip())
        case "confirm":
            return paying.confirm(tx, row), None
    return row, None


def _payer_login(tx: Tx, row: Payment, form: Form) -> tuple[Payment, str | None]:
    connection = store.connection(tx, row.connection_ref)
    user_name, password = form.text("user_name").strip().lower(), form.text("password")
    if not user_name or not password:
        return row, "Bitte geben Sie Benutzername und Passwort ein."
    if connection is None or user_name != connection.user_name or password == WRONG_PASSWORD:
        row = paying.wrong_entry(tx, row, "InvalidCredentials", MOST_WRONG_ENTRIES)
        return row, None if row.step == "done" else WORDS["InvalidCredentials"]
    return paying.signed_in(tx, row, needs_tan=connection.person.tan), None


def _payer_tan(tx: Tx, row: Payment, tan: str) -> tuple[Payment, str | None]:
    if not (tan.isascii() and tan.isdigit() and len(tan) == 6):
        return row, "Die TAN hat sechs Ziffern."
    if tan == WRONG_TAN:
        row = paying.wrong_entry(tx, row, "InvalidInteractiveCredentials", MOST_WRONG_ENTRIES)
        return row, None if row.step == "done" else "Diese TAN ist nicht richtig."
    return paying.gave_tan(tx, row), None


# --- Answers


async def _form(request: Request) -> Form | None:
    """The fields of a posted form; None where it is too large."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_FORM_BYTES:
            return None
    return Form(parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True))


def with_fields(url: str, fields: dict[str, str | None]) -> str:
    """The address with more fields in its query; nothing else of it changes."""
    parts = urlsplit(url)
    more = urlencode({name: value for name, value in fields.items() if value is not None})
    return urlunsplit(parts._replace(query="&".join(filter(None, (parts.query, more)))))


def policy(return_to: str | None) -> str:
    """Browsers hold a redirect after a form to `form-action` too, so the address to return to must be named in it."""
    origin = _ORIGIN.match(return_to) if return_to else None
    # A host with other signs than these could end the directive and begin one of its own.
    is_plain = origin is not None and (return_to or "")[origin.end() : origin.end() + 1] in ("", "/", "?", "#")
    return f"{_POLICY} {origin[0]}" if origin is not None and is_plain else _POLICY


def _page(template: str, values: dict[str, Any], return_to: str | None, status: int = 200) -> Response:
    body = _templates().get_template(template).render(values)
    headers = {**_HEADERS, "Content-Security-Policy": policy(return_to), "Cache-Control": "no-store"}
    return Response(body, status, headers, media_type="text/html; charset=utf-8")


def _or_sorry(page: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    async def shown(request: Request) -> Response:
        try:
            return await page(request)
        except Unavailable as error:
            response = _page("away.html", {}, None, 503)
            response.headers["Retry-After"] = str(error.retry_after_seconds)
            return response

    return shown


def _gone() -> Response:
    return _page("gone.html", {}, None, 404)


def _too_large() -> Response:
    return Response("Das Formular ist zu groß.\n", 413, {**_HEADERS, "Connection": "close"}, media_type="text/plain")


def _redirect(url: str) -> Response:
    return RedirectResponse(url, 303, {**_HEADERS, "Cache-Control": "no-store"})


def _logo(request: Request) -> Response:
    bank = BANKS.get(request.path_params["code"])
    if bank is None:
        return Response("There is no such bank.\n", 404, _HEADERS, media_type="text/plain")
    return _file(logo(bank), "image/svg+xml")


def _stylesheet(request: Request) -> Response:
    return _file((_HERE / "static" / "sandbox.css").read_text("utf-8"), "text/css; charset=utf-8")


def _file(text: str, media_type: str) -> Response:
    headers = {
        **_HEADERS,
        "Cache-Control": "public, max-age=86400",
        "Cross-Origin-Resource-Policy": "cross-origin",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(text, headers=headers, media_type=media_type)


def _german(cents: int) -> str:
    """1234567 → 12.345,67"""
    whole, _, fraction = amount_text(cents).partition(".")
    return f"{int(whole):,}".replace(",", ".") + "," + fraction


@cache
def _templates() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
