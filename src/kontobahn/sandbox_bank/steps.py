"""What the sandbox bank wants from its person, as the steps that hosted pages of every provider show."""

from __future__ import annotations

from collections.abc import Iterable

from kontobahn.banking.interaction import CONFIRM, CONTINUE, Field, Option, Polling, Step, Words
from kontobahn.sandbox_bank.banks import Bank, offered
from kontobahn.sandbox_bank.flows import SandboxFlow
from kontobahn.sandbox_bank.people import WRONG_TAN, AccountPlan

POLL_SECONDS = 3
_LOGIN = Words("Anmelden", "Sign in")
_TAN_HINT = Words(
    f"Sechs Ziffern. Jede TAN außer {WRONG_TAN} wird angenommen.",
    f"Six digits. Any TAN except {WRONG_TAN} is accepted.",
)


def choose_bank(flow: SandboxFlow) -> Step:
    options = tuple(Option(bank.code, bank.name, _abilities(bank), bank.logo_path) for bank in offered(flow.api))
    legend = Words("Bei welcher Bank ist das Konto?", "Which bank is the account with?")
    return Step("choice", CONTINUE, choice="bank", legend=legend, options=options)


def _abilities(bank: Bank) -> str:
    payments = f"Zahlungen: {', '.join(bank.templates)}" if bank.templates else "keine Zahlungen"
    return f"{bank.country_code} · {payments}"


def login(user_name: str) -> Step:
    fields = (
        Field("user_name", Words("Benutzername", "User name"), value=user_name, autocomplete="username"),
        Field("password", Words("Passwort", "Password"), "secret"),
    )
    return Step("form", _LOGIN, fields=fields, button=_LOGIN)


def enter_tan(what: Words | None = None) -> Step:
    field = Field("tan", Words("TAN", "TAN"), "digits", _TAN_HINT, max_length=6, autocomplete="one-time-code")
    return Step("form", CONFIRM, hint=what, fields=(field,), button=CONFIRM)


def wait_for_app(message: str) -> Step:
    return Step("decoupled", CONFIRM, said=message, polling=Polling(POLL_SECONDS, POLL_SECONDS, 1000))


def consent(accounts: Iterable[tuple[int, AccountPlan]], *, is_chosen: bool) -> Step:
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


def check_payment() -> Step:
    return Step(
        "form", CONTINUE, hint=Words("Stimmt alles?", "Is everything right?"), button=Words("Jetzt bezahlen", "Pay now")
    )
