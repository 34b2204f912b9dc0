"""The steps of a connect flow at the sandbox bank: bank, login, TAN or app, consent. Functions on a transaction.

A flow is identified by its unguessable token alone, and expires. Passwords and TANs are checked but never stored. A step returns
what the person has to correct, or None.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.bank_providers.sandbox import bank, store
from kontobahn.bank_providers.sandbox.rules import (
    APP_ERRORS,
    BANKS,
    MAX_WRONG_ENTRIES,
    MESSAGES,
    PEOPLE,
    WRONG_PASSWORD,
    WRONG_TAN,
    Person,
    accounts_of,
    offered,
    page_of,
)
from kontobahn.banking.provider import Api, ConnectRequest, ProviderRefused
from kontobahn.clock import HOUR
from kontobahn.db import Table, Tx

# Choice 23: longer than a placeholder lives, because a late webhook still creates the connection.
LIFETIME = HOUR


class SandboxFlow(NamedTuple):
    token: str
    pending_token: str
    api: Api
    bank_code: str
    is_bank_fixed: int
    scopes: str
    return_to: str | None
    renews: str | None
    step: str
    user_name: str
    wrong_entries: int
    error_class: str | None
    error_message: str | None
    created_at: int
    expires_at: int
    # In the bank's time: when the banking app answers, if the login is approved there.
    approval_at: int | None

    @property
    def page(self) -> str:
        return page_of(self.step, self.approval_at)


FLOWS = Table("sandbox_flows", SandboxFlow, key=("token",))


def begin(tx: Tx, token: str, request: ConnectRequest) -> int:
    """Writes a flow, and returns when its address expires."""
    code = request.provider_code
    if code is not None and (code not in BANKS or BANKS[code].api != request.api):
        known = ", ".join(one.code for one in offered(request.api))
        raise ProviderRefused("ProviderNotFound", f"of api {request.api} there are {known}")
    user_name = ""
    if request.provider_ref is not None:
        connection = store.find_connection(tx, request.provider_ref)
        if connection is None or connection.status != "open":
            raise ProviderRefused("ConnectionNotFound", "The bank no longer knows this connection: create a new one")
        user_name = connection.user_name
    row = SandboxFlow(
        token=token, pending_token=request.pending_token, api=request.api, bank_code=code or "",
        is_bank_fixed=int(code is not None), scopes=" ".join(request.scopes), return_to=request.return_to,
        renews=request.provider_ref, step="login" if code else "bank", user_name=user_name, wrong_entries=0, error_class=None,
        error_message=None, created_at=tx.now, expires_at=tx.now + LIFETIME,
        approval_at=None,
    )  # fmt: skip
    FLOWS.insert(tx, row)
    return row.expires_at


def find(tx: Tx, token: str) -> SandboxFlow | None:
    return FLOWS.one(tx, "token = ? AND expires_at > ?", token, tx.now)


def choose_bank(tx: Tx, flow: SandboxFlow, code: str) -> str | None:
    if code not in BANKS or BANKS[code].api != flow.api:
        return "Bitte wählen Sie eine Bank aus."
    FLOWS.update(tx, flow, bank_code=code, step="login")
    return None


def back_to_banks(tx: Tx, flow: SandboxFlow) -> None:
    if not flow.is_bank_fixed:
        FLOWS.update(tx, flow, bank_code="", step="bank")


def login(tx: Tx, flow: SandboxFlow, user_name: str, password: str) -> str | None:
    user_name = user_name.strip().lower()
    if not user_name or not password:
        return "Bitte geben Sie Benutzername und Passwort ein."
    person = PEOPLE.get(user_name)
    error_class = person.login_error if person is not None and password != WRONG_PASSWORD else "InvalidCredentials"
    if error_class is not None:
        _fail(tx, flow, error_class)
        return None
    assert person is not None
    if flow.renews is not None and user_name != flow.user_name:
        return "Diese Verbindung gehört einem anderen Benutzer. Bitte melden Sie sich mit demselben an."
    FLOWS.update(
        tx, flow, user_name=user_name, step="consent" if person.approval == "none" else "tan", wrong_entries=0,
        approval_at=store.app_answers_at(tx, person),
    )  # fmt: skip
    return None


def enter_tan(tx: Tx, flow: SandboxFlow, tan: str) -> str | None:
    tan = tan.strip()
    if not (tan.isascii() and tan.isdigit() and len(tan) == 6):
        return "Die TAN hat sechs Ziffern."
    if tan != WRONG_TAN:
        FLOWS.update(tx, flow, step="consent")
        return None
    wrong = flow.wrong_entries + 1
    if wrong >= MAX_WRONG_ENTRIES:
        _fail(tx, flow, "InvalidInteractiveCredentials")
        return None
    FLOWS.update(tx, flow, wrong_entries=wrong)
    return "Diese TAN ist nicht richtig."


def receive_app_answers(tx: Tx, now: int) -> None:
    """Continues or ends the flows whose banking app has answered by now."""
    for flow in FLOWS.all(tx, "approval_at <= ? ORDER BY approval_at, token", now):
        answered = FLOWS.update(tx, flow, approval_at=None)
        # Whoever gave up, or came too late, is not brought back by an answer.
        if flow.page != "wait" or flow.expires_at <= tx.now:
            continue
        error_class = APP_ERRORS.get(person_of(flow).approval)
        if error_class is not None:
            _fail(tx, answered, error_class)
        else:
            FLOWS.update(tx, answered, step="consent")


def consent(tx: Tx, flow: SandboxFlow, chosen: set[str]) -> str | None:
    """The last step: creates or renews the connection, which the bank reports."""
    code, person = BANKS[flow.bank_code], person_of(flow)
    positions = {number for number, _ in enumerate(accounts_of(person, code)) if str(number) in chosen}
    if not positions:
        return "Bitte wählen Sie mindestens ein Konto aus."
    FLOWS.update(tx, flow, step="done", error_class=None, error_message=None)
    if flow.renews is None:
        bank.connect(tx, code, person, flow.scopes, positions, flow.pending_token)
        return None
    row = store.find_connection(tx, flow.renews)
    if row is None or row.status != "open":
        _fail(tx, flow, "ProviderError")
        return None
    bank.renew(tx, row, flow.scopes, positions, flow.pending_token)
    return None


def cancel(tx: Tx, flow: SandboxFlow) -> None:
    _fail(tx, flow, "Cancelled")


def try_again(tx: Tx, flow: SandboxFlow) -> None:
    FLOWS.update(
        tx, flow, step="login" if flow.bank_code else "bank", wrong_entries=0, error_class=None, error_message=None
    )


def person_of(flow: SandboxFlow) -> Person:
    return PEOPLE[flow.user_name]


def lock(tx: Tx, token: str) -> SandboxFlow | None:
    """Returns the flow for a change, serialised so that a double click counts once."""
    store.begin_change(tx)
    return find(tx, token)


def _fail(tx: Tx, flow: SandboxFlow, error_class: str) -> None:
    FLOWS.update(tx, flow, step="failed", error_class=error_class, error_message=MESSAGES[error_class])
    bank.notify_failure(tx, error_class, ref=flow.renews, pending_token=flow.pending_token)
