"""Connections and accounts at the sandbox bank, and what happens to them. Every change queues the bank's report of it.

Functions on a transaction, called by its pages, the adapter and the commands.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.bank_providers.sandbox import store, webhooks
from kontobahn.bank_providers.sandbox.rules import (
    COMPANY,
    MESSAGES,
    SLOW,
    AccountPlan,
    Bank,
    Booking,
    Party,
    Person,
    accounts_of,
    card_purchase,
    direct_debit,
    fee,
    iban,
    transfer,
)
from kontobahn.bank_providers.sandbox.store import SandboxAccount, SandboxConnection
from kontobahn.banking.provider import AccountFacts, BankConnectionFacts, ProviderRefused, Snapshot
from kontobahn.clock import DAY, SECOND
from kontobahn.db import Tx
from kontobahn.ids import new_id

# An account's history before it is connected: some months of a small company's bookings. Pure, from a seed.


DAYS = 118
MANY = 5000

_CUSTOMERS = tuple(
    Party(name, 100 + number, "sales")
    for number, name in enumerate((
        "Bäckerei Sonnenkorn GmbH", "Elektro Brandt OHG", "Hotel Seeblick GmbH", "Metallbau Krüger GmbH", "Optik Hell GmbH",
        "Praxis Dr. Sommer", "Quartier Wohnbau eG", "Weinhandel Rebstock GmbH", "Autohaus Nord GmbH", "Zahntechnik Weiß GmbH",
    ))
)  # fmt: skip
_SUPPLIERS = tuple(
    Party(name, 200 + number, category)
    for number, (name, category) in enumerate((
        ("Großhandel Zentral GmbH", "merchandise"), ("Papier & Mehr GmbH", "office_supplies"), ("Spedition Rollfix KG", "shipping"),
        ("Verpackung Nord GmbH", "merchandise"), ("Werbeagentur Laut", "marketing"), ("Kanzlei Dr. Recht", "legal"),
    ))
)  # fmt: skip
# Day of the month, who, amount in cents, text.
_MONTHLY = (
    (1, Party("Immobilien Haus und Hof KG", 301, "office_rent"), 238_000, "Miete {month} Lager und Buero Industriestr. 12"),
    (3, Party("Telekomnetz AG", 302, "phone"), 8_990, "Rechnung {month} Kundennummer 4471189 Vielen Dank"),
    (5, Party("Stadtwerke Musterstadt", 303, "electricity"), 41_700, "Abschlag Strom Vertragskonto 200817733"),
    (10, Party("Finanzamt Beispielstadt", 304, "vat"), 311_420, "Umsatzst. {month} St.Nr. 999/815/08150"),
    (15, Party("Haftpflicht Union a. G.", 305, "business_insurance"), 12_940, "Betriebshaftpflicht Vertrag 77-204.881"),
    (25, Party("Fuhrpark Leasing GmbH", 306, "leasing"), 38_950, "Leasingrate {month} Kennzeichen BS-KB 204"),
)  # fmt: skip
_STAFF = tuple(
    Party(name, 400 + number, "wages") for number, name in enumerate(("Erika Muster", "Jonas Beispiel", "Mia Probst"))
)
_SHOPS = (
    Party("Tankstelle Ringstrasse", 501, "gas_and_fuel"),
    Party("Baumarkt Hammer", 502, "equipment"),
    Party("Bistro Mittagspause", 503, "cafes_and_restaurants"),
    Party("Buerobedarf Klammer", 504, "office_supplies"),
)
_SAVINGS = Party(COMPANY, 601, "transfer")
_MONTHS = [
    "Januar",
    "Februar",
    "Maerz",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
_SAVED_MINOR, _SAVING_DAY = 50_000, 20


def history(person: Person, bank: Bank, account: AccountPlan, today: date) -> list[Booking]:
    """Returns the account's bookings before it is connected, oldest first; pending ones come last."""
    if person.bookings == "none":
        return []
    rng = random.Random(f"{person.name} {bank.code} {account.nature}")
    days = [today - timedelta(days=back) for back in range(DAYS, 0, -1)]
    match account.nature:
        case "checking":
            is_many = person.bookings == "many"
            made = _many(bank, account, days, rng) if is_many else _company(bank, account, days, rng)
        case "savings":
            made = _savings(bank, account, days)
        case "investment":
            made = _investments(bank, account, days, rng)
        case _:
            made = _purchases(days, rng)
    bookings = sorted(made, key=lambda booking: booking.made_on)
    if person.name == "pending" and account.nature in ("checking", "credit_card", "ewallet"):
        bookings += _pending(today, rng)
    return bookings


def _company(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    invoice = 1000
    for day in days:
        month = f"{_MONTHS[day.month - 1]} {day.year}"
        for on, party, amount, text in _MONTHLY:
            if day.day == on:
                yield direct_debit(
                    bank, day, amount, party, text.format(month=month), holder=account.holder_name, time="06:00:00"
                )
        if day.day == _SAVING_DAY:
            text = "Ruecklage Tagesgeld"
            yield transfer(
                bank, day, -_SAVED_MINOR, _SAVINGS, text, holder=account.holder_name, mode="transfer", time=_time(rng)
            )
        if day.day == 28:
            for number, person in enumerate(_STAFF):
                text = f"Lohn/Gehalt {day:%m/%Y} Personalnr. {number + 11}"
                yield transfer(bank, day, -(198_000 + 14_100 * number), person, text, holder=account.holder_name)
        if (day + timedelta(days=1)).day == 1:
            yield fee(
                day, 1_290, f"Abrechnung {day:%d.%m.%Y} Entgelte vom {day.replace(day=1):%d.%m.} bis {day:%d.%m.}"
            )
        if day.weekday() >= 5:
            continue
        for _ in range(rng.choice((0, 1, 1, 2))):
            invoice += rng.randint(1, 3)
            yield _receipt(bank, account, day, invoice, rng)
        if rng.random() < 0.35:
            yield _bill_paid(bank, account, day, rng)
        if rng.random() < 0.3:
            yield card_purchase(day, rng.randint(450, 14_000), rng.choice(_SHOPS), "Beispielstadt", _time(rng))


def _many(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    for number in range(MANY):
        yield _receipt(bank, account, days[number * len(days) // MANY], 10_000 + number, rng)


def _receipt(bank: Bank, account: AccountPlan, day: date, invoice: int, rng: random.Random) -> Booking:
    customer = rng.choice(_CUSTOMERS)
    text = f"RE-{day.year}-{invoice} Kd-Nr {4000 + customer.number}"
    reference = f"RE{invoice}" if rng.random() < 0.7 else None
    payer = "Hausverwaltung Schlüssel GmbH" if rng.random() < 0.05 else None
    return transfer(
        bank, day, rng.randint(5_900, 240_000), customer, text,
        holder=account.holder_name, reference=reference, time=_time(rng), original_party=payer,
    )  # fmt: skip


def _bill_paid(bank: Bank, account: AccountPlan, day: date, rng: random.Random) -> Booking:
    supplier = rng.choice(_SUPPLIERS)
    number = rng.randint(10_000, 99_999)
    text = f"Rechnung {number} vom {day - timedelta(days=12):%d.%m.%Y} abzgl. 2 % Skonto"
    amount = -rng.randint(4_000, 160_000)
    return transfer(
        bank, day, amount, supplier, text, holder=account.holder_name, reference=f"ER-{number}", time=_time(rng)
    )


def _savings(bank: Bank, account: AccountPlan, days: list[date]) -> Iterator[Booking]:
    for day in days:
        if day.day == _SAVING_DAY:
            yield transfer(
                bank, day, _SAVED_MINOR, _SAVINGS, "Ruecklage Tagesgeld", holder=account.holder_name, mode="transfer"
            )
        if day.month % 3 == 0 and (day + timedelta(days=1)).day == 1:
            extra = {"additional": "Zinsen"}
            yield Booking(day, 12_418, f"Habenzinsen Quartal {day.month // 3}/{day.year}", "investment", extra=extra)


def _investments(bank: Bank, account: AccountPlan, days: list[date], rng: random.Random) -> Iterator[Booking]:
    for day in days:
        if day.day in (2, 16):
            name = rng.choice(("Weltindex Anteile", "Anleihen Euroraum", "Rohstoffkorb"))
            yield Booking(day, -rng.randint(20_000, 60_000), f"Kauf {name} {rng.randint(2, 9)} Stueck", "investment")
        if day.day == 27:
            yield Booking(day, rng.randint(900, 9_000), "Ausschuettung Weltindex Anteile", "dividends")


def _purchases(days: list[date], rng: random.Random) -> Iterator[Booking]:
    for day in days:
        if rng.random() < 0.55:
            yield card_purchase(day, rng.randint(300, 9_900), rng.choice(_SHOPS), "Beispielstadt", _time(rng))
        if day.day == 2:
            yield Booking(day, 60_000, f"Ausgleich Abrechnung {day:%m/%Y}", "transfer", "transfer")


def _pending(today: date, rng: random.Random) -> Iterator[Booking]:
    for shop in _SHOPS[:3]:
        booking = card_purchase(today, rng.randint(1_000, 9_000), shop, "Beispielstadt", _time(rng))
        yield booking._replace(status="pending")


def _time(rng: random.Random) -> str:
    return f"{rng.randint(6, 20):02d}:{rng.randint(0, 59):02d}:{rng.randint(0, 59):02d}"


BACKDATED_DAYS = 12
# A destroyed connection is kept this long, for late deliveries.
ENDED_RETENTION = 30 * DAY


# --- Connecting


class Told(NamedTuple):
    """An account as the caller tells it: the balance before the first booking, and the bookings; None: they are made up."""

    opening_minor: int
    bookings: Sequence[Booking] | None
    holder_name: str = COMPANY


def connect(
    tx: Tx,
    bank: Bank,
    person: Person,
    scopes: str,
    positions: set[int],
    pending_token: str | None,
    told: Sequence[Told] = (),
    *,
    consent_days: int | None = None,
) -> SandboxConnection:
    """Creates a connection that a person has consented to, with its accounts and their history: made up, unless `told` gives it."""
    store.begin_change(tx)
    now = store.bank_now(tx)
    row = SandboxConnection(
        ref=f"con_{new_id().replace('-', '')}", bank_code=bank.code, user_name=person.name, status="open", scopes=scopes,
        next_refresh_possible_at=now + bank.refresh_after, refreshes=0,
        consent_expires_at=_consent_end(bank, person, now) if consent_days is None else now + consent_days * DAY,
        answer_at=None, answer_token=None, next_error_class=None, next_error_message=None, created_at=now, ended_at=None,
    )  # fmt: skip
    store.CONNECTIONS.insert(tx, row)
    today, first_number = store.bank_day(tx), next_account_number(tx)
    for position, plan in enumerate(accounts_of(person, bank)):
        has_iban = plan.nature not in ("card", "credit_card")
        made_up = Told(plan.opening_minor, None, plan.holder_name)
        opening, bookings, holder = told[position] if position < len(told) else made_up
        account = SandboxAccount(
            connection_ref=row.ref, ref=f"acc_{first_number + position:010d}", position=position, name=plan.name,
            nature=plan.nature, iban=iban(bank, first_number + position) if has_iban else None, holder_name=holder,
            currency_code="EUR", balance_minor=opening, is_chosen=int(position in positions), bookings=0,
        )  # fmt: skip
        store.ACCOUNTS.insert(tx, account)
        store.book(tx, account, history(person, bank, plan, today) if bookings is None else bookings)
    _notify_data_ready(tx, row, pending_token)
    return row


def renew(
    tx: Tx, row: SandboxConnection, scopes: str, positions: set[int], pending_token: str | None
) -> SandboxConnection:
    """Renews a connection that a person has consented to again."""
    store.begin_change(tx)
    now = store.bank_now(tx)
    row = store.CONNECTIONS.update(
        tx, row, scopes=scopes or row.scopes, consent_expires_at=_consent_end(row.bank, row.person, now),
        next_refresh_possible_at=now + row.bank.refresh_after, next_error_class=None, next_error_message=None,
    )  # fmt: skip
    store.choose_accounts(tx, row.ref, positions)
    _notify_data_ready(tx, row, pending_token)
    return row


def _consent_end(bank: Bank, person: Person, now: int) -> int:
    return now + (bank.consent_life if person.consent_seconds is None else person.consent_seconds * SECOND)


def next_account_number(tx: Tx) -> int:
    row = tx.one("SELECT MAX(ref) FROM sandbox_accounts")
    return int(row[0].removeprefix("acc_")) + 1 if row and row[0] else 1_000_001


# --- Reporting


def _notify_data_ready(tx: Tx, row: SandboxConnection, pending_token: str | None) -> None:
    """Reports that there is data to fetch: now, or later if the bank is slow."""
    if row.person.is_slow:
        store.CONNECTIONS.update(tx, row, answer_at=store.bank_now(tx) + SLOW, answer_token=pending_token)
        _notify(tx, row.ref, "fetching", pending_token)
    else:
        _notify(tx, row.ref, "finish", pending_token)


def _notify(tx: Tx, ref: str, stage: str, pending_token: str | None = None) -> None:
    data = {"connection_ref": ref, "pending_token": pending_token, "stage": stage}
    webhooks.queue(tx, ref, data)


def notify_new_data(tx: Tx, row: SandboxConnection) -> None:
    """Reports new data without being asked."""
    store.begin_change(tx)
    _notify(tx, row.ref, "finish")


def notify_failure(tx: Tx, error_class: str, message: str = "", *, ref: str | None, pending_token: str | None) -> None:
    store.begin_change(tx)
    webhooks.queue(
        tx,
        ref or pending_token or "",
        {
            "connection_ref": ref,
            "pending_token": pending_token,
            "stage": "error",
            "error_class": error_class,
            "error_message": message or MESSAGES.get(error_class, error_class),
        },
    )


def snapshot(tx: Tx, ref: str, base_url: str) -> Snapshot:
    """Returns what the bank shows now, with its times converted to ours: a bank whose clock is ahead still expires on time."""
    row = store.find_connection(tx, ref)
    if row is None:
        raise ProviderRefused("ConnectionNotFound", "The bank knows no such connection")
    scopes, ahead, today = row.scopes.split(), store.ahead(tx), store.bank_day(tx)
    chosen = [account for account in store.accounts_of_connection(tx, ref) if account.is_chosen]
    facts = [
        AccountFacts(
            provider_ref=account.ref,
            name=account.name,
            nature=account.nature,
            balance_minor=account.balance_minor,
            currency_code=account.currency_code,
            iban=account.iban,
            holder_name=account.holder_name if not scopes or "holder_info" in scopes else None,
        )
        for account in chosen
    ]
    # From whichever day on it is asked: what is booked by command may be back-dated a long way.
    first = today - timedelta(days=store.HISTORY_DAYS)
    transactions = [booking for account in chosen for booking in store.reported_transactions(tx, account, first)]
    bank = row.bank
    connection = BankConnectionFacts(
        provider_ref=ref,
        provider_code=bank.code,
        provider_name=bank.name,
        country_code=bank.country_code,
        logo_url=base_url + bank.logo_path,
        templates=bank.templates,
        consent_expires_at=row.consent_expires_at - ahead,
        next_refresh_possible_at=row.next_refresh_possible_at - ahead,
        automatic_refresh=bank.api == "partner",
    )
    return Snapshot(connection, facts, transactions if not scopes or "transactions" in scopes else [])


# --- Refreshing


def refresh(tx: Tx, ref: str) -> None:
    """Handles a refresh: data, a failure, or the end of the connection."""
    store.begin_change(tx)
    row = store.find_connection(tx, ref)
    if row is None or row.status != "open":
        raise ProviderRefused("ConnectionNotFound", "The bank knows no such connection")
    now, person = store.bank_now(tx), row.person
    row = store.CONNECTIONS.update(
        tx, row, refreshes=row.refreshes + 1, next_refresh_possible_at=now + row.bank.refresh_after
    )
    error_class, message = row.next_error_class, row.next_error_message or ""
    if error_class is not None:
        row = store.CONNECTIONS.update(tx, row, next_error_class=None, next_error_message=None)
    elif row.consent_expires_at <= now:
        error_class = "AispConsentExpired"
    else:
        error_class = person.refresh_error or (person.first_refresh_error if row.refreshes == 1 else None)
    if error_class is not None:
        notify_failure(tx, error_class, message, ref=ref, pending_token=None)
        return
    if person.on_refresh == "destroy":
        destroy(tx, row)
        return
    _add_new_data(tx, row)
    _notify_data_ready(tx, row, None)


def _add_new_data(tx: Tx, row: SandboxConnection) -> None:
    accounts, today = store.accounts_of_connection(tx, row.ref), store.bank_day(tx)
    account = accounts[0]
    match row.person.on_refresh:
        case "post_pending":
            for one in accounts:
                store.post_pending(tx, one, today)
        case "backdated":
            party = Party("Spätzahler KG", 900 + row.refreshes, "sales")
            day = today - timedelta(days=BACKDATED_DAYS)
            text = f"Nachtrag RE-{day.year}-{row.refreshes} valutarisch zurueckdatiert"
            store.book(
                tx, account, [transfer(row.bank, day, 4_711 + row.refreshes, party, text, holder=account.holder_name)]
            )
        case "duplicate":
            booking = store.latest_posted(tx, account)
            if booking is not None:
                store.book(tx, account, [booking])


def answer_slow_requests(tx: Tx, now: int) -> None:
    """Answers what a slow bank was asked for a while ago."""
    for row in store.due_answers(tx, now):
        store.CONNECTIONS.update(tx, row, answer_at=None, answer_token=None)
        _notify(tx, row.ref, "finish", row.answer_token)


# --- By command


def book(tx: Tx, account: SandboxAccount, booking: Booking, *, quietly: bool = False) -> None:
    store.begin_change(tx)
    store.book(tx, account, [booking])
    row = store.find_connection(tx, account.connection_ref)
    if not quietly and row is not None and row.status == "open":
        _notify(tx, row.ref, "finish")


def post_pending(tx: Tx, row: SandboxConnection) -> int:
    store.begin_change(tx)
    posted = sum(
        store.post_pending(tx, account, store.bank_day(tx)) for account in store.accounts_of_connection(tx, row.ref)
    )
    _notify(tx, row.ref, "finish")
    return posted


def expire_consent(tx: Tx, row: SandboxConnection) -> None:
    store.begin_change(tx)
    store.CONNECTIONS.update(tx, row, consent_expires_at=store.bank_now(tx))
    notify_failure(tx, "AispConsentExpired", ref=row.ref, pending_token=None)


def fail_next_refresh(tx: Tx, row: SandboxConnection, error_class: str, message: str | None) -> None:
    store.begin_change(tx)
    store.CONNECTIONS.update(tx, row, next_error_class=error_class, next_error_message=message)


def destroy(tx: Tx, row: SandboxConnection) -> None:
    """The bank ends the connection. Its data is kept for a while, for deliveries still on their way."""
    store.begin_change(tx)
    store.CONNECTIONS.update(tx, row, status="destroyed", ended_at=tx.now, answer_at=None, answer_token=None)
    _notify(tx, row.ref, "destroy")


def remove(tx: Tx, ref: str) -> None:
    """The service ends the connection, so nothing is reported."""
    store.begin_change(tx)
    webhooks.drop(tx, ref)
    store.delete_connection(tx, ref)


def expire_passed_consents(tx: Tx, before: int, now: int) -> None:
    """Reports the consents that expired while the bank's clock jumped from `before` to `now`."""
    for row in store.open_connections(tx):
        if before < row.consent_expires_at <= now:
            notify_failure(tx, "AispConsentExpired", ref=row.ref, pending_token=None)


def purge(tx: Tx) -> None:
    for (ref,) in tx.all("SELECT ref FROM sandbox_connections WHERE ended_at <= ?", tx.now - ENDED_RETENTION):
        store.delete_connection(tx, ref)
    webhooks.purge(tx)
    tx.run("DELETE FROM sandbox_flows WHERE expires_at <= ?", tx.now - DAY)
