"""The pages of the sandbox bank: connect flows and payments, in the layout that all hosted pages share.

A page is identified by the unguessable token in its address, which also protects its forms: without it nothing can be posted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import date
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kontobahn.bank_providers.sandbox import flows, payments, store
from kontobahn.bank_providers.sandbox.flows import SandboxFlow
from kontobahn.bank_providers.sandbox.payments import SandboxPayment
from kontobahn.bank_providers.sandbox.rules import (
    BANKS,
    MAX_WRONG_ENTRIES,
    PEOPLE,
    WRONG_PASSWORD,
    WRONG_TAN,
    AccountPlan,
    Bank,
    accounts_of,
    logo,
    offered,
)
from kontobahn.bank_providers.sandbox.webhooks import DeliverySender
from kontobahn.banking.hosted import words
from kontobahn.banking.hosted.pages import (
    HEADERS,
    Form,
    HostedPages,
    add_query,
    german_amount,
    read_form,
    redirect,
    static_file,
)
from kontobahn.banking.interaction import CONFIRM, CONTINUE, Field, Option, Polling, Step, Words
from kontobahn.banking.provider import Template
from kontobahn.db import Database, Tx
from kontobahn.formats.pain.sepa import in_groups

_PAGES = HostedPages(Path(__file__).parent / "templates")
_STILL_WAITING = "Die Bank hat aus der App noch keine Antwort."
# The pages are German, as a German bank's are.
_WORDS = {"words": words, "say": lambda text: text.de}
# Shown to a person about an error.
ERROR_TEXTS = {
    "InvalidCredentials": "Die Bank nimmt Benutzername oder Passwort nicht an.",
    "InvalidInteractiveCredentials": "Die TAN war dreimal falsch.",
    "ApprovalDeclined": "Sie haben in der App abgelehnt.",
    "ApprovalExpired": "In der App wurde nicht rechtzeitig bestätigt.",
    "ProviderError": "Die Bank hat eine technische Störung. Bitte versuchen Sie es später noch einmal.",
    "Cancelled": "Sie haben den Vorgang abgebrochen.",
    "PaymentFailed": "Die Bank hat die Zahlung nicht ausgeführt.",
}


# Finds the service's id of something by the bank's own id; None if the service does not know it yet.
Lookup = Callable[[str], Awaitable[str | None]]


class SandboxPages:
    """Connect flows and payments, as a person sees them."""

    def __init__(self, db: Database, sender: DeliverySender, connection_id: Lookup, payment_id: Lookup) -> None:
        self._db = db
        self._sender = sender
        self._connection_id = connection_id
        self._payment_id = payment_id

    def routes(self) -> list[Route]:
        return [
            Route("/sandbox/connect/{token}", _PAGES.or_unavailable(self.connect_page), methods=["GET"]),
            Route("/sandbox/connect/{token}", _PAGES.or_unavailable(self.connect_step), methods=["POST"]),
            Route("/sandbox/pay/{token}", _PAGES.or_unavailable(self.pay_page), methods=["GET"]),
            Route("/sandbox/pay/{token}", _PAGES.or_unavailable(self.pay_step), methods=["POST"]),
            Route("/sandbox/logos/{code}.svg", _logo, methods=["GET"]),
        ]

    async def connect_page(self, request: Request) -> Response:
        token = request.path_params["token"]
        flow = await self._db.read(flows.find, token)
        if flow is not None and flow.page == "wait":
            await self._sender.run_briefly()
            flow = await self._db.read(flows.find, token)
        return _PAGES.gone() if flow is None else await self._show_flow(flow)

    async def connect_step(self, request: Request) -> Response:
        form = await read_form(request)
        if form.text("action") == "wait":
            await self._sender.run_briefly()
        done = await self._db.write(_perform_flow_step, request.path_params["token"], form)
        if done is None:
            return _PAGES.gone()
        flow, problem = done
        if problem is not None:
            return await self._show_flow(flow, problem, form, status=422)
        if flow.step in ("done", "failed"):
            # The bank's report is delivered before the person returns to the application.
            await self._sender.run_briefly()
        return await self._after_flow(flow)

    async def _after_flow(self, flow: SandboxFlow) -> Response:
        # A person who cancelled returns at once; one whose login failed sees why first.
        is_over = flow.step == "done" or flow.error_class == "Cancelled"
        if is_over and flow.return_to is not None:
            return redirect(await self._flow_return(flow))
        return redirect(f"/sandbox/connect/{flow.token}")

    async def _flow_return(self, flow: SandboxFlow) -> str:
        assert flow.return_to is not None
        fields: dict[str, str | None] = {"pending_token": flow.pending_token, "error_class": flow.error_class}
        if flow.step == "done":
            fields["connection_id"] = await self._connection_id(flow.pending_token)
        return add_query(flow.return_to, fields)

    async def _show_flow(
        self, flow: SandboxFlow, problem: str | None = None, form: Form | None = None, status: int = 200
    ) -> Response:
        bank = BANKS.get(flow.bank_code)
        values: dict[str, Any] = {
            "flow": flow, "page": flow.page, "bank": bank, "problem": problem, "people": PEOPLE.values(),
            "step": _flow_step(flow, form.text("user_name") if form else flow.user_name, problem), **_WORDS,
            "error": ERROR_TEXTS.get(flow.error_class or "", flow.error_message),
            "return_url": await self._flow_return(flow) if flow.return_to and flow.step in ("done", "failed") else None,
        }  # fmt: skip
        return _PAGES.show("connect.html", values, flow.return_to, status, _refresh(flow.page))

    async def pay_page(self, request: Request) -> Response:
        token = request.path_params["token"]
        row = await self._db.read(_find_payment, token)
        if row is not None and row.page == "wait":
            await self._sender.run_briefly()
            row = await self._db.read(_find_payment, token)
        return _PAGES.gone() if row is None else await self._show_payment(row)

    async def pay_step(self, request: Request) -> Response:
        form = await read_form(request)
        if form.text("action") == "wait":
            await self._sender.run_briefly()
        done = await self._db.write(_perform_payment_step, request.path_params["token"], form)
        if done is None:
            return _PAGES.gone()
        row, problem = done
        await self._sender.run_briefly()
        if problem is not None:
            return await self._show_payment(row, problem, form, status=422)
        if row.step == "done" and row.return_to is not None:
            return redirect(await self._payment_return(row))
        return redirect(f"/sandbox/pay/{row.token}")

    async def _payment_return(self, row: SandboxPayment) -> str:
        assert row.return_to is not None
        fields = {"payment_id": await self._payment_id(row.ref), "error_class": row.error_class}
        return add_query(row.return_to, fields)

    async def _show_payment(
        self, row: SandboxPayment, problem: str | None = None, form: Form | None = None, status: int = 200
    ) -> Response:
        connection = await self._db.read(store.find_connection, row.connection_ref)
        values = {
            "payment": row, "page": row.page, "bank": connection.bank if connection else None, "problem": problem,
            "amount": german_amount(row.amount_minor), "creditor_iban": in_groups(row.creditor_iban),
            "debtor_iban": in_groups(row.debtor_iban),
            "execute_on": f"{date.fromisoformat(row.execute_on):%d.%m.%Y}" if row.execute_on else None,
            "hint": connection.user_name if connection else "",
            "step": _payment_step(row, form.text("user_name") if form else ""), **_WORDS,
            "error": ERROR_TEXTS.get(row.error_class or "", row.error_message), "payee": payments.payee_of(row),
            "return_url": await self._payment_return(row) if row.return_to and row.step == "done" else None,
        }  # fmt: skip
        return _PAGES.show("pay.html", values, row.return_to, status, _refresh(row.page))


def _flow_step(flow: SandboxFlow, user_name: str, problem: str | None) -> Step | None:
    match flow.page:
        case "bank":
            return _bank_step(flow)
        case "login":
            return _login_step(user_name)
        case "tan":
            who = flow.user_name
            return _tan_step(
                Words(
                    f"Bestätigen Sie die Anmeldung von {who} mit einer TAN.", f"Confirm the login of {who} with a TAN."
                )
            )
        case "wait":
            return _app_step(f"Die Bank hat die Anmeldung von {flow.user_name} zur Bestätigung an die App geschickt.")
        case "consent":
            accounts = accounts_of(flows.person_of(flow), BANKS[flow.bank_code])
            return _consent_step(enumerate(accounts), is_chosen=problem is None)
    return None


def _payment_step(row: SandboxPayment, user_name: str) -> Step | None:
    match row.page:
        case "login":
            return _login_step(user_name)
        case "tan":
            return _tan_step()
        case "wait":
            amount = f"{german_amount(row.amount_minor)} {row.currency_code}"
            return _app_step(f"Die Bank hat die Zahlung über {amount} zur Bestätigung an die App geschickt.")
        case "confirm":
            return _check_step()
    return None


def _refresh(page: str) -> int | None:
    return _POLL_SECONDS if page == "wait" else None


# --- Steps


def _perform_flow_step(tx: Tx, token: str, form: Form) -> tuple[SandboxFlow, str | None] | None:
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
        flows.back_to_banks(tx, flow)
    # A form of another page comes from the back button or a second click, and is ignored.
    elif action == flow.page:
        problem = _flow_entry(tx, flow, form)
    return flows.find(tx, token) or flow, problem


def _flow_entry(tx: Tx, flow: SandboxFlow, form: Form) -> str | None:
    """Handles what was entered on the page of the flow, and returns what is wrong with it."""
    match flow.page:
        case "bank":
            return flows.choose_bank(tx, flow, form.text("bank"))
        case "login":
            return flows.login(tx, flow, form.text("user_name"), form.text("password"))
        case "tan":
            return flows.enter_tan(tx, flow, form.text("tan"))
        case "wait":
            return _STILL_WAITING
        case "consent":
            return flows.consent(tx, flow, set(form.get("account", ())))
    return None


def _find_payment(tx: Tx, token: str) -> SandboxPayment | None:
    row = payments.by_token(tx, token)
    is_over = row is None or (row.step != "done" and row.expires_at <= tx.now)
    return None if is_over else row


def _perform_payment_step(tx: Tx, token: str, form: Form) -> tuple[SandboxPayment, str | None] | None:
    store.begin_change(tx)
    row = _find_payment(tx, token)
    if row is None:
        return None
    action = form.text("action")
    if action == "cancel" and row.step != "done":
        return payments.fail(tx, row, "Cancelled", "The payer cancelled.", "CANC"), None
    if action != row.page:
        return row, None
    match action:
        case "login":
            return _payer_login(tx, row, form)
        case "tan":
            return _payer_tan(tx, row, form.text("tan").strip())
        case "wait":
            return row, _STILL_WAITING
        case "confirm":
            return payments.confirm(tx, row), None
    return row, None


def _payer_login(tx: Tx, row: SandboxPayment, form: Form) -> tuple[SandboxPayment, str | None]:
    connection = store.find_connection(tx, row.connection_ref)
    user_name, password = form.text("user_name").strip().lower(), form.text("password")
    if not user_name or not password:
        return row, "Bitte geben Sie Benutzername und Passwort ein."
    if connection is None or user_name != connection.user_name or password == WRONG_PASSWORD:
        row = payments.count_wrong_entry(tx, row, "InvalidCredentials", MAX_WRONG_ENTRIES)
        return row, None if row.step == "done" else ERROR_TEXTS["InvalidCredentials"]
    return payments.sign_in(tx, row, connection.person), None


def _payer_tan(tx: Tx, row: SandboxPayment, tan: str) -> tuple[SandboxPayment, str | None]:
    if not (tan.isascii() and tan.isdigit() and len(tan) == 6):
        return row, "Die TAN hat sechs Ziffern."
    if tan == WRONG_TAN:
        row = payments.count_wrong_entry(tx, row, "InvalidInteractiveCredentials", MAX_WRONG_ENTRIES)
        return row, None if row.step == "done" else "Diese TAN ist nicht richtig."
    return payments.approve(tx, row), None


def _logo(request: Request) -> Response:
    bank = BANKS.get(request.path_params["code"])
    if bank is None:
        return Response("There is no such bank.\n", 404, HEADERS, media_type="text/plain")
    return static_file(logo(bank), "image/svg+xml")


# --- Steps that hosted pages of every provider show


_POLL_SECONDS = 3
_LOGIN = Words("Anmelden", "Sign in")
_TAN_HINT = Words(
    f"Sechs Ziffern. Jede TAN außer {WRONG_TAN} wird angenommen.",
    f"Six digits. Any TAN except {WRONG_TAN} is accepted.",
)


_TRANSFERS: dict[Template, str] = {"SEPA": "Überweisung", "SEPA_INSTANT": "Echtzeitüberweisung"}


def _bank_step(flow: SandboxFlow) -> Step:
    options = tuple(Option(bank.code, bank.name, _abilities(bank), bank.logo_path) for bank in offered(flow.api))
    legend = Words("Bei welcher Bank ist das Konto?", "Which bank is the account with?")
    return Step("choice", CONTINUE, choice="bank", legend=legend, options=options)


def _abilities(bank: Bank) -> str:
    payments = " und ".join(_TRANSFERS[one] for one in bank.templates) or "keine Zahlungen"
    return f"{bank.country_code} · {payments}"


def _login_step(user_name: str) -> Step:
    fields = (
        Field("user_name", Words("Benutzername", "User name"), value=user_name, autocomplete="username"),
        Field("password", Words("Passwort", "Password"), "secret"),
    )
    return Step("form", _LOGIN, fields=fields, button=_LOGIN)


def _tan_step(what: Words | None = None) -> Step:
    field = Field("tan", Words("TAN", "TAN"), "digits", _TAN_HINT, max_length=6, autocomplete="one-time-code")
    return Step("form", CONFIRM, hint=what, fields=(field,), button=CONFIRM)


def _app_step(message: str) -> Step:
    return Step("decoupled", CONFIRM, said=message, polling=Polling(_POLL_SECONDS, _POLL_SECONDS, 1000))


def _consent_step(accounts: Iterable[tuple[int, AccountPlan]], *, is_chosen: bool) -> Step:
    hint = Words(
        "Kontobahn möchte Konten, Salden und Umsätze lesen. Die Einwilligung gilt höchstens 180 Tage und kann jederzeit widerrufen"
        " werden.",
        "Kontobahn wants to read accounts, balances and transactions. The consent lasts for 180 days at most and can be withdrawn"
        " at any time.",
    )
    options = tuple(
        Option(str(number), account.name, account.holder_name, is_chosen=is_chosen) for number, account in accounts
    )
    return Step(
        "choice", CONTINUE, hint=hint, choice="account", legend=Words("Welche Konten?", "Which accounts?"), options=options,
        takes_several=True, button=Words("Zugriff erlauben", "Allow access"),
    )  # fmt: skip


def _check_step() -> Step:
    return Step(
        "form", CONTINUE, hint=Words("Stimmt alles?", "Is everything right?"), button=Words("Jetzt bezahlen", "Pay now")
    )
