"""`kontobahn sandbox`: make things happen at the sandbox bank, while the service runs.

A command changes something at the bank; the running service delivers the report to itself, as an external bank would.
"""

from __future__ import annotations

import asyncio
import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from kontobahn.app import make_context, sandbox_bank
from kontobahn.bank_providers.sandbox import adapter as sandbox
from kontobahn.bank_providers.sandbox import bank, order_files, store
from kontobahn.bank_providers.sandbox import webhooks as sandbox_webhooks
from kontobahn.bank_providers.sandbox.adapter import move_clock
from kontobahn.bank_providers.sandbox.rules import BANKS, CREDITOR_WORD, PEOPLE, PLANS, amount_of
from kontobahn.bank_providers.sandbox.store import SandboxAccount, SandboxConnection
from kontobahn.banking.connections.store import by_provider_ref
from kontobahn.banking.provider import PaymentStatus
from kontobahn.banking.sandbox import NewBooking
from kontobahn.cli.common import DataOption, installation, moment, parse_duration, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SECOND, SystemClock, berlin_datetime
from kontobahn.db import Tx
from kontobahn.demo.facts import facts_path, read_facts
from kontobahn.errors import BadRequest, NotFound, SetupError
from kontobahn.money import amount_text, to_minor

app = typer.Typer(no_args_is_help=True)

ConnectionArgument = Annotated[
    str,
    typer.Argument(
        metavar="CONNECTION", help="The connection's id, the bank's ref, or an IBAN; not needed if there is only one."
    ),
]


# --- Looking


@app.command("connections")
def connections(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the connections at the sandbox bank, with their accounts."""
    with installation(data) as here:
        rows = here.db.read_now(_listing)
    columns = ("connection", "ref", "bank", "user", "consent_expires_at", "account", "iban", "balance")
    say_table(columns, rows, as_json=as_json, empty="No account has been connected at the sandbox bank yet.")


def _listing(tx: Tx) -> list[tuple[Any, ...]]:
    return [
        (_our_id(tx, row.ref), row.ref, row.bank_code, row.user_name, moment(row.consent_expires_at), account.name,
         account.iban, amount_text(account.balance_minor))
        for row in store.open_connections(tx)
        for account in store.accounts_of_connection(tx, row.ref)
    ]  # fmt: skip


def _our_id(tx: Tx, ref: str) -> str | None:
    """Returns the service's id of one of the bank's connections."""
    row = by_provider_ref(tx, "sandbox", ref)
    return row.id if row else None


@app.command("users")
def users(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the user names that can sign in, and what the bank does with each."""
    rows = [(person.name, person.about) for person in PEOPLE.values()]
    say_table(("user", "what happens"), rows, as_json=as_json, empty="")


@app.command("banks")
def banks(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the banks that can be connected."""
    rows = [(row.code, row.name, row.api, row.country_code, row.templates) for row in BANKS.values()]
    say_table(("provider_code", "name", "api", "country", "payments"), rows, as_json=as_json, empty="")


@app.command("plans")
def plans(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List what can happen to a payment, by creditor name or amount."""
    rows = [
        ("" if plan.name == "usual" else f"{CREDITOR_WORD.title()} {plan.name.replace('_', ' ')}",
         "" if plan.name == "usual" else amount_text(amount_of(plan.name)), plan.about)
        for plan in PLANS.values()
    ]  # fmt: skip
    say_table(("creditor_name", "amount", "what happens"), rows, as_json=as_json, empty="")


# --- Accounts


@app.command("book")
def book(
    amount: Annotated[str, typer.Option("--amount", help="Euros with a point; negative is a debit.")],
    text: Annotated[str, typer.Option("--text", help="Purpose text.")],
    account: Annotated[
        str, typer.Option("--account", help="IBAN, or the bank's ref; not needed if there is only one.")
    ] = "",
    day: Annotated[str | None, typer.Option("--date", help="Value date; today at the bank by default.")] = None,
    pending: Annotated[bool, typer.Option("--pending", help="Pending, not booked yet.")] = False,
    end_to_end_id: Annotated[str | None, typer.Option("--end-to-end-id", help="For example that of a payment.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Who pays, or is paid.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Reported only at the next refresh.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a booking on an account.

    Example: kontobahn sandbox book --account DE… --amount -12.50 --text "Porto" --date 2026-02-27
    """
    minor = _cents(amount)
    booking = NewBooking(minor, text, _day(day), pending, end_to_end_id, name, quiet)
    with installation(data) as here:
        row = here.db.write_now(_book, account, booking)
    facts = {"account": row.iban or row.ref, "amount": amount_text(minor), "status": "pending" if pending else "posted"}
    say(facts, f"Booked {amount_text(minor)} EUR on {row.name} {row.iban or row.ref}.", as_json=as_json)


def _book(tx: Tx, wanted: str, booking: NewBooking) -> SandboxAccount:
    account = _account(tx, wanted)
    sandbox.book(tx, account, booking)
    return account


@app.command("post-pending")
def post_pending(connection: ConnectionArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """Post the pending bookings on a connection's accounts."""
    with installation(data) as here:
        posted = here.db.write_now(lambda tx: bank.post_pending(tx, _connection(tx, connection)))
    say({"posted": posted}, f"Posted {posted} pending bookings.", as_json=as_json)


# --- Connections


@app.command("refresh")
def refresh(connection: ConnectionArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make the bank report new data without being asked."""
    _at_connection(data, connection, bank.notify_new_data, "has reported new data", as_json)


@app.command("expire-consent")
def expire_consent(connection: ConnectionArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make the consent of a connection expire now."""
    _at_connection(data, connection, bank.expire_consent, "no longer accepts the consent", as_json)


@app.command("fail")
def fail(
    connection: ConnectionArgument = "",
    error_class: Annotated[str, typer.Option("--error-class", help="For example ProviderError.")] = "ProviderError",
    message: Annotated[str | None, typer.Option("--message", help="The bank's error message.")] = None,
    at_refresh: Annotated[bool, typer.Option("--at-refresh", help="Not now: at the next refresh.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a connection fail.

    Example: kontobahn sandbox fail --error-class InvalidCredentials
    """

    def change(tx: Tx, row: SandboxConnection) -> None:
        sandbox.fail(tx, row, error_class, message, at_refresh=at_refresh)

    _at_connection(data, connection, change, f"{'will report' if at_refresh else 'reports'} {error_class}", as_json)


@app.command("destroy")
def destroy(connection: ConnectionArgument = "", data: DataOption = None, as_json: JsonOption = False) -> None:
    """Make the bank destroy a connection."""
    _at_connection(data, connection, bank.destroy, "has destroyed the connection", as_json)


def _at_connection(data: str | None, wanted: str, change: Any, what: str, as_json: bool) -> None:
    def work(tx: Tx) -> SandboxConnection:
        row = _connection(tx, wanted)
        change(tx, row)
        return row

    with installation(data) as here:
        row = here.db.write_now(work)
    say({"ref": row.ref, "bank": row.bank_code}, f"{row.bank.name} {what}.", as_json=as_json)


# --- Payments, clock, deliveries


@app.command("payment")
def payment(
    payment_id: Annotated[str, typer.Argument(help="The payment's id, its end_to_end_id, or the bank's ref.")],
    status: Annotated[str, typer.Argument(help="The status that the bank reports from now on.")],
    raw_status: Annotated[
        str | None, typer.Option("--raw", help="The bank's own code; by default the one that belongs to the status.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a payment's status, even to an unknown one, whatever its plan was.

    Example: kontobahn sandbox payment 1000000000001 executed
    """
    with installation(data) as here:
        row = here.db.write_now(sandbox.set_payment_status, payment_id, status, raw_status)
    note = "" if status in get_args(PaymentStatus) else " That is an unknown status."
    text = f"The bank reports {status} ({row.raw_status}) for {row.end_to_end_id}.{note}"
    say({"ref": row.ref, "status": row.status}, text, as_json=as_json)


@app.command("answer")
def answer(
    orders: Annotated[
        Path, typer.Argument(metavar="ORDERS", exists=True, dir_okay=False, help="An order file (pain.001).")
    ],
    payees: Annotated[
        bool, typer.Option("--payees", help="Report on the check of payees, before anybody authorises the orders.")
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the bank's status report (pain.002) on an order file, to be imported like a bank's own. Nothing is booked.

    Example: kontobahn sandbox answer orders.xml --output report.xml
    """
    if orders.stat().st_size > order_files.MAX_ORDER_FILE_BYTES:
        raise BadRequest("The file is too large.", field="orders")
    with installation(data) as here:
        now = berlin_datetime(here.db.read_now(store.bank_now))
    found = order_files.answer_order_file(orders.read_bytes(), now, payees=payees)
    report = found.report.decode()
    say({"accepted": found.accepted, "refused": found.refused, "report": report}, report.rstrip(), as_json=as_json)


@app.command("clock")
def clock(
    step: Annotated[str | None, typer.Argument(help="How far to move it forward: +3d, +2h; or reset.")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the bank's clock, or move it forward; everything due by then happens.

    Example: kontobahn sandbox clock +3d
    """
    if step is not None and step != "reset" and not re.fullmatch(r"\+?\d+[smhd]", step):
        raise typer.BadParameter(f"“{step}” is neither a step like +3d, +2h or +30m, nor reset.")
    with installation(data) as here:
        now, ahead = here.db.write_now(_move_clock, step)
    facts = {"now": moment(now), "ahead_seconds": ahead // SECOND}
    text = f"At the bank it is {facts['now']}, {facts['ahead_seconds']} seconds ahead of us."
    say(facts, text, as_json=as_json)


def _move_clock(tx: Tx, step: str | None) -> tuple[int, int]:
    if step == "reset":
        move_clock(tx, 0)
    elif step is not None:
        move_clock(tx, store.ahead(tx) + parse_duration(step.removeprefix("+")) * SECOND)
    return store.bank_now(tx), store.ahead(tx)


@app.command("deliver")
def deliver(
    again: Annotated[
        int, typer.Option("--again", min=0, max=10_000, help="Also repeat this many of the latest deliveries.")
    ] = 0,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Deliver the bank's waiting reports now, from this process, instead of leaving it to the service."""
    with installation(data) as here:
        facts = read_facts(facts_path(here.settings)) or {}
        base_url = here.settings.sandbox_url or here.settings.base_url or facts.get("base_url", "")
        if not base_url:
            raise SetupError("The service's address is unknown: set base_url or sandbox_url.")

        def prepare(tx: Tx) -> None:
            sandbox_webhooks.redeliver_latest(tx, again)
            sandbox_webhooks.make_due(tx)

        here.db.write_now(prepare)

        async def main() -> int:
            sender = sandbox_bank(make_context(here.settings, here.db, here.vault, SystemClock())).sender
            sender.set_base_url(base_url)
            try:
                return await sender.run()
            finally:
                await sender.stop()

        delivered = asyncio.run(main())
        left = len(here.db.read_now(sandbox_webhooks.waiting))
    say({"delivered": delivered, "waiting": left}, f"{delivered} delivered, {left} waiting.", as_json=as_json)


# --- Choosing one


def _connection(tx: Tx, wanted: str) -> SandboxConnection:
    known = store.open_connections(tx)
    if not wanted:
        if len(known) == 1:
            return known[0]
        raise NotFound(f"There are {len(known)} connections at the sandbox bank: say which (`sandbox connections`).")
    account = store.find_account(tx, wanted)
    for row in known:
        if wanted in (row.ref, _our_id(tx, row.ref)) or (account is not None and account.connection_ref == row.ref):
            return row
    raise NotFound(f"The sandbox bank has no connection “{wanted}”; `sandbox connections` lists them.")


def _account(tx: Tx, wanted: str) -> SandboxAccount:
    found = store.find_account(tx, wanted) if wanted else None
    if found is None and not wanted:
        accounts = [
            account for row in store.open_connections(tx) for account in store.accounts_of_connection(tx, row.ref)
        ]
        if len(accounts) == 1:
            return accounts[0]
        raise NotFound(f"There are {len(accounts)} accounts at the sandbox bank: say which with --account.")
    if found is None:
        raise NotFound(f"The sandbox bank has no account “{wanted}”; `sandbox connections` lists them.")
    return found


def _cents(text: str) -> int:
    try:
        cents = to_minor(Decimal(text))
    except (ArithmeticError, ValueError):
        raise typer.BadParameter(f"“{text}” is not an amount; write for example -12.50.") from None
    if not cents:
        raise typer.BadParameter("The amount must not be 0.")
    return cents


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"“{text}” is not a date; write for example 2026-02-27.") from None
