"""A person's way through a connect flow of the sandbox bank: bank, login, TAN, consent. Functions on a transaction.

A flow is known by its unguessable token alone, and ends by itself. Passwords and TANs are looked at and not kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kontobahn.banking.provider import Api, ConnectRequest, ProviderRefused
from kontobahn.clock import HOUR
from kontobahn.db import Tx
from kontobahn.sandbox_bank import bank, store
from kontobahn.sandbox_bank.banks import BANKS, offered
from kontobahn.sandbox_bank.people import (
    MESSAGES,
    MOST_WRONG_ENTRIES,
    PEOPLE,
    WRONG_PASSWORD,
    WRONG_TAN,
    Person,
    accounts_of,
)

# Choice 23: longer than a placeholder lives, as a late webhook still makes the connection.
LIFE = HOUR


class Flow(NamedTuple):
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


_COLUMNS = ", ".join(Flow._fields)


def begin(tx: Tx, token: str, request: ConnectRequest) -> int:
    """The answer is when the address runs out."""
    code = request.provider_code
    if code is not None and (code not in BANKS or BANKS[code].api != request.api):
        known = ", ".join(one.code for one in offered(request.api))
        raise ProviderRefused("ProviderNotFound", f"of api {request.api} there are {known}")
    user_name = ""
    if request.provider_ref is not None:
        connection = store.connection(tx, request.provider_ref)
        if connection is None or connection.status != "open":
            raise ProviderRefused("ConnectionNotFound", "The bank no longer knows this connection: make a new one")
        user_name = connection.user_name
    row = Flow(
        token=token, pending_token=request.pending_token, api=request.api, bank_code=code or "",
        is_bank_fixed=int(code is not None), scopes=" ".join(request.scopes), return_to=request.return_to,
        renews=request.provider_ref, step="login" if code else "bank", user_name=user_name, wrong_entries=0, error_class=None,
        error_message=None, created_at=tx.now, expires_at=tx.now + LIFE,
    )  # fmt: skip
    tx.run(f"INSERT INTO sandbox_flows ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", *row)
    return row.expires_at


def find(tx: Tx, token: str) -> Flow | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM sandbox_flows WHERE token = ? AND expires_at > ?", token, tx.now)
    return None if row is None else Flow(*row)


def choose_bank(tx: Tx, flow: Flow, code: str) -> str | None:
    """Each step answers what to tell the person to mend, or None."""
    if code not in BANKS or BANKS[code].api != flow.api:
        return "Bitte wählen Sie eine Bank aus."
    _change(tx, flow, bank_code=code, step="login")
    return None


def choose_again(tx: Tx, flow: Flow) -> None:
    """Back to the choice of the bank."""
    if not flow.is_bank_fixed:
        _change(tx, flow, bank_code="", step="bank")


def login(tx: Tx, flow: Flow, user_name: str, password: str) -> str | None:
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
    _change(tx, flow, user_name=user_name, step="tan" if person.tan else "consent", wrong_entries=0)
    return None


def give_tan(tx: Tx, flow: Flow, tan: str) -> str | None:
    tan = tan.strip()
    if not (tan.isascii() and tan.isdigit() and len(tan) == 6):
        return "Die TAN hat sechs Ziffern."
    if tan != WRONG_TAN:
        _change(tx, flow, step="consent")
        return None
    wrong = flow.wrong_entries + 1
    if wrong >= MOST_WRONG_ENTRIES:
        _fail(tx, flow, "InvalidInteractiveCredentials")
        return None
    _change(tx, flow, wrong_entries=wrong)
    return "Diese TAN ist nicht richtig."


def consent(tx: Tx, flow: Flow, chosen: set[str]) -> str | None:
    """The last step: the connection is made or renewed, and the bank tells so."""
    code, person = BANKS[flow.bank_code], person_of(flow)
    positions = {number for number, _ in enumerate(accounts_of(person, code)) if str(number) in chosen}
    if not positions:
        return "Bitte wählen Sie mindestens ein Konto aus."
    _change(tx, flow, step="done", error_class=None, error_message=None)
    if flow.renews is None:
        bank.connect(tx, code, person, flow.scopes, positions, flow.pending_token)
        return None
    row = store.connection(tx, flow.renews)
    if row is None or row.status != "open":
        _fail(tx, flow, "ProviderError")
        return None
    bank.renew(tx, row, flow.scopes, positions, flow.pending_token)
    return None


def cancel(tx: Tx, flow: Flow) -> None:
    _fail(tx, flow, "Cancelled")


def try_again(tx: Tx, flow: Flow) -> None:
    _change(tx, flow, step="login" if flow.bank_code else "bank", wrong_entries=0, error_class=None, error_message=None)


def person_of(flow: Flow) -> Person:
    return PEOPLE[flow.user_name]


def lock(tx: Tx, token: str) -> Flow | None:
    """The flow for whoever changes it: two clicks at once are one."""
    store.begin(tx)
    return find(tx, token)


def _fail(tx: Tx, flow: Flow, error_class: str) -> None:
    _change(tx, flow, step="failed", error_class=error_class, error_message=MESSAGES[error_class])
    bank.tell_failure(tx, error_class, ref=flow.renews, pending_token=flow.pending_token)


def _change(tx: Tx, flow: Flow, **values: Any) -> Flow:
    assignments = ", ".join(f"{name} = ?" for name in values)
    tx.run(f"UPDATE sandbox_flows SET {assignments} WHERE token = ?", *values.values(), flow.token)
    return flow._replace(**values)
