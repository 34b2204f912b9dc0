"""Who can sign in at the sandbox bank, and what the bank does then: a table by user name, and the accounts of each."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kontobahn.banking.provider import Nature
from kontobahn.sandbox_bank.banks import Bank

RefreshEffect = Literal["nothing special", "post_pending", "backdated", "duplicate", "destroy"]
# How a login or a payment is approved; if in the banking app, what the person does there.
Approval = Literal["tan", "none", "confirmed in the app", "declined in the app", "ignored in the app"]


class Person(NamedTuple):
    name: str
    about: str
    # The same, for the login page.
    german: str
    # What the login fails with.
    login_error: str | None = None
    # What every refresh, or the first one only, fails with.
    refresh_error: str | None = None
    first_refresh_error: str | None = None
    on_refresh: RefreshEffect = "nothing special"
    approval: Approval = "tan"
    is_slow: bool = False
    # Seconds that the consent lasts; otherwise as long as the bank gives it.
    consent_seconds: int | None = None
    bookings: Literal["some", "none", "many"] = "some"


PEOPLE = {
    person.name: person
    for person in (
        Person("demo", "works: a current account, savings, a card, four months of bookings",
               "gewöhnlicher Zugang: Girokonto, Tagesgeld, Karte, einige Monate Umsätze"),
        Person("sandbox", "the same as demo",
               "dasselbe wie demo"),
        Person("notan", "the same, without a TAN",
               "wie demo, aber ohne TAN", approval="none"),
        Person("app", "the same, but confirms in the banking app instead, after ten seconds",
               "wie demo, aber mit Bestätigung in der App: sie kommt nach zehn Sekunden", approval="confirmed in the app"),
        Person("declines", "declines in the banking app, after ten seconds: ApprovalDeclined",
               "lehnt in der App nach zehn Sekunden ab", approval="declined in the app"),
        Person("ignores", "never answers in the banking app: ApprovalExpired after five minutes",
               "antwortet in der App nicht, die Anfrage läuft nach fünf Minuten ab", approval="ignored in the app"),
        Person("empty", "one account without bookings",
               "ein Konto ohne Umsätze", bookings="none"),
        Person("many", "one account with 5,000 bookings",
               "ein Konto mit 5.000 Umsätzen", bookings="many"),
        Person("wrong", "the login is refused: InvalidCredentials",
               "die Bank nimmt die Zugangsdaten nicht an", login_error="InvalidCredentials"),
        Person("technical", "the login fails: ProviderError",
               "die Bank hat eine technische Störung", login_error="ProviderError"),
        Person("flaky", "the first refresh fails with ProviderError, the next works",
               "die erste Aktualisierung scheitert technisch, die nächste gelingt",
               first_refresh_error="ProviderError"),
        Person("expired", "the consent lasts one minute",
               "die Einwilligung läuft nach einer Minute ab", consent_seconds=60),
        Person("revoked", "every refresh fails with AispConsentRevoked",
               "die Einwilligung ist bei der nächsten Aktualisierung widerrufen",
               refresh_error="AispConsentRevoked"),
        Person("disabled", "every refresh fails with ProviderDisabled",
               "die Bank ist bei der nächsten Aktualisierung abgeschaltet", refresh_error="ProviderDisabled"),
        Person("slow", "answers 20 seconds after it was asked",
               "die Bank antwortet erst nach 20 Sekunden", is_slow=True),
        Person("pending", "pending bookings, posted by the next refresh",
               "vorgemerkte Umsätze, die bei der nächsten Aktualisierung gebucht sind",
               on_refresh="post_pending"),
        Person("backdated", "every refresh brings a booking dated twelve days back",
               "jede Aktualisierung bringt einen Umsatz, der zwölf Tage zurückliegt", on_refresh="backdated"),
        Person("duplicate", "every refresh repeats the last booking",
               "jede Aktualisierung meldet einen Umsatz ein zweites Mal", on_refresh="duplicate"),
        Person("destroy", "the bank destroys the connection at the next refresh",
               "die Bank löscht die Verbindung bei der nächsten Aktualisierung", on_refresh="destroy"),
    )
}  # fmt: skip
# Wrong for everyone; anything else is accepted.
WRONG_PASSWORD, WRONG_TAN = "wrong", "000000"
MAX_WRONG_ENTRIES = 3
# After how many seconds an approval in the app has an outcome, and the error that it is.
APP_SECONDS: dict[Approval, int] = {
    "confirmed in the app": 10,
    "declined in the app": 10,
    "ignored in the app": 300,
}
APP_ERRORS: dict[Approval, str] = {"declined in the app": "ApprovalDeclined", "ignored in the app": "ApprovalExpired"}
MESSAGES = {
    "InvalidCredentials": "The bank does not accept the user name or the password.",
    "InvalidInteractiveCredentials": "The TAN was wrong three times.",
    "ApprovalDeclined": "It was declined in the banking app.",
    "ApprovalExpired": "It was not confirmed in the banking app in time.",
    "ProviderError": "The bank has a technical problem.",
    "ProviderDisabled": "The bank is switched off.",
    "AispConsentExpired": "The consent given at the bank has expired.",
    "AispConsentRevoked": "The consent was revoked at the bank.",
    "Cancelled": "The person cancelled at the bank.",
}


# The company whose accounts these are, as the demo's organisation is called.
COMPANY = "Demo Handels GmbH"


class AccountPlan(NamedTuple):
    name: str
    nature: Nature
    holder_name: str
    opening_minor: int


def accounts_of(person: Person, bank: Bank) -> tuple[AccountPlan, ...]:
    match bank.kind:
        case "card":
            return (AccountPlan("Firmenkreditkarte", "credit_card", "Dana Demo", 0),)
        case "wallet":
            return (AccountPlan("Guthaben", "ewallet", "Dana Demo", 85_000),)
        case "broker":
            return (AccountPlan("Verrechnungskonto", "investment", COMPANY, 1_250_000),)
    if person.bookings != "some":
        return (
            AccountPlan("Geschäftskonto", "checking", COMPANY, 250_000 if person.bookings == "none" else 9_000_000),
        )
    return (
        AccountPlan("Geschäftskonto", "checking", COMPANY, 2_450_000),
        AccountPlan("Tagesgeld", "savings", COMPANY, 4_000_000),
        AccountPlan("Firmenkarte", "card", COMPANY, 0),
    )
