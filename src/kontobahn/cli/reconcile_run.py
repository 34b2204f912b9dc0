"""A run of reconciliation from the command line, and the list of what waits: the functions that the calls use."""

from __future__ import annotations

import asyncio
from datetime import date
from enum import StrEnum
from typing import Any

import msgspec

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.principal import Principal
from kontobahn.app import make_context
from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.cli.common import Installation, installation, say
from kontobahn.cli.tables import render_table
from kontobahn.clock import SystemClock
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.json_text import encode
from kontobahn.ledger.connections import open_books
from kontobahn.reconciliation import runs, settings, transactions
from kontobahn.reconciliation.runs import Lauf, NeuerLauf
from kontobahn.reconciliation.transactions import Abgleich, TransaktionenQuery

MAX_LISTED = 500


class TransactionStatus(StrEnum):
    open = "open"
    proposed = "proposed"
    matched = "matched"
    ignored = "ignored"
    booked = "booked"


def run_matching(
    data: str | None,
    organization: str | None,
    account: str | None,
    first: date | None,
    last: date | None,
    *,
    is_stored: bool,
    as_json: bool,
) -> None:
    with installation(data) as here:
        principal = _operator(here, organization)
        found = here.db.read_now(_account, principal, account)
        body = NeuerLauf(account_id=str(found.id), from_date=first, to_date=last, probelauf=not is_stored, limit=0)
        lauf = asyncio.run(_run(here, principal, body))
    say(_facts(lauf), _run_text(lauf), as_json=as_json)


async def _run(here: Installation, principal: Principal, body: NeuerLauf) -> Lauf:
    context = make_context(here.settings, here.db, here.vault, SystemClock())
    plan = await here.db.read(runs.make_plan, principal, body)
    access = await open_books(context, principal, plan.connection_id, plan.client_id)
    async with access.to("buchungen") as books:
        found = await runs.look(context, books, plan)
        lauf = runs.answer_of(plan, found, body.limit)
        if plan.is_trial:
            return lauf
        findings = await runs.to_write(here.db, books, plan, found)
        return await here.db.write(runs.write_run, findings, COMMAND_LINE, lauf)


def list_transactions(
    data: str | None, organization: str | None, account: str | None, status: str, *, as_json: bool
) -> None:
    with installation(data) as here:
        principal = _operator(here, organization)
        found = here.db.read_now(_account, principal, account)
        query = TransaktionenQuery(account_id=str(found.id), status=status, limit=MAX_LISTED)  # type: ignore[arg-type]
        rows = here.db.read_now(transactions.listing, principal, query)
    more = len(rows) > MAX_LISTED
    rows = rows[:MAX_LISTED]
    text = render_table(("id", "day", "amount", "name", "class", "for"), [_row(row) for row in rows], None)
    end = f"\n\nOnly the first {MAX_LISTED} are shown." if more else ""
    say([msgspec.json.decode(encode(row)) for row in rows], f"{text}{end}" if rows else "None.", as_json=as_json)


def _operator(here: Installation, organization: str | None) -> Principal:
    owner = here.organization(organization)
    return Principal(owner.id, "owner", (owner.id,))


def _account(tx: Tx, principal: Principal, wanted: str | None) -> AccountRow:
    """The account of this IBAN or id; without one, the only one that is set up."""
    if wanted is None:
        known = settings.listing(tx, principal.scope)
        if len(known) != 1:
            raise BadRequest(f"{len(known)} accounts are set up for reconciliation: say which with --account.")
        return accounts.find(tx, principal, known[0].account_id)
    bare = wanted.replace(" ", "").upper()
    for row in accounts.of_organization(tx, principal.organization_id):
        if bare in (str(row.id), row.iban):
            return row
    raise NotFound("The organisation has no bank account of this IBAN or id.")


def day(option: str, text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise BadRequest(f"{option} takes a day like 2026-03-31.") from None


def _facts(lauf: Lauf) -> Any:
    facts = msgspec.json.decode(encode(lauf))
    del facts["data"]
    return facts


def _run_text(lauf: Lauf) -> str:
    table = render_table(
        ("class", "transactions", "clear", "sum"),
        [(row.klasse, row.anzahl, row.eindeutig, f"{row.betrag:,.2f}") for row in lauf.klassen],
        None,
    )
    head = f"{lauf.transaktionen:,} transactions from {lauf.from_date} to {lauf.to_date}, {lauf.offene_posten:,} open items."
    if lauf.probelauf:
        return f"{head}\n\n{table}\n\nA trial run: nothing was stored. “clear” is what could be matched without asking."
    return (
        f"{head}\n\n{table}\n\n{lauf.zugeordnet:,} matched without asking, {lauf.vorgeschlagen:,} proposed,"
        f" {lauf.ueberholt:,} outdated meanwhile."
    )


def _row(row: Abgleich) -> tuple[object, ...]:
    best = row.vorschlag
    lines = " + ".join(f"{line.kontonummer} {line.beleg}".strip() for line in best.zeilen) if best else ""
    return row.id, row.made_on or "", f"{row.betrag or 0:,.2f}", row.name or "", best.klasse if best else "", lines
