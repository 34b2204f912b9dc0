"""`kontobahn reconcile`: matches payments to open items, lists what waits, or measures itself with a client's own history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.access.principal import Principal
from kontobahn.app import make_context
from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountRow
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, installation
from kontobahn.cli.output import JsonOption, render_table, say
from kontobahn.clock import SystemClock
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.formats.bank_files import read
from kontobahn.formats.extf import (
    BUCHUNGSSTAPEL,
    PERSONENKONTEN,
    Buchungssatz,
    ExtfError,
    Personenkonto,
    display_name,
    open_extf,
)
from kontobahn.formats.statements import Entry
from kontobahn.json_text import encode
from kontobahn.ledger.connections import open_books
from kontobahn.ledger.konto import technical
from kontobahn.reconciliation import accounts as account_settings
from kontobahn.reconciliation import runs, transactions
from kontobahn.reconciliation.backtest import USUAL_BANKS, Found, Report, backtest
from kontobahn.reconciliation.core.model import ENGINE_VERSION, Person
from kontobahn.reconciliation.runs import NewRun, Run
from kontobahn.reconciliation.transactions import ReconciledTransaction, ReconciledTransactionsQuery


class TransactionStatus(StrEnum):
    open = "open"
    proposed = "proposed"
    matched = "matched"
    ignored = "ignored"
    booked = "booked"


FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        exists=True,
        dir_okay=False,
        help="With --backtest: DATEV-format files, Buchungsstapel, and Debitoren/Kreditoren for names and IBANs.",
    ),
]
AccountOption = Annotated[
    str | None, typer.Option("--account", metavar="IBAN", help="The bank account, by IBAN or id; the only one set up.")
]
FromOption = Annotated[
    str | None, typer.Option("--from", metavar="DAY", help="First value date; 90 days before the last.")
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DAY", help="Last value date; today.")]
StoreOption = Annotated[
    bool, typer.Option("--store", help="Store the proposals, and match what may be matched without asking.")
]
ListOption = Annotated[
    TransactionStatus | None, typer.Option("--list", help="List the account's transactions of this status instead.")
]
BacktestOption = Annotated[
    bool, typer.Option("--backtest", help="Hide which payment cleared which document, match, and compare.")
]
StatementsOption = Annotated[
    list[Path] | None,
    typer.Option("--statements", "-s", exists=True, dir_okay=False, help="camt or MT940 files with the same payments."),
]
BankOption = Annotated[
    list[str] | None,
    typer.Option(
        "--bank", metavar="NUMBER", help="The bank's account, or how its number begins; 12 and 18 when omitted."
    ),
]
MAX_LISTED = 500


def reconcile(
    files: FilesArgument = None,
    account: AccountOption = None,
    from_date: FromOption = None,
    to_date: ToOption = None,
    is_stored: StoreOption = False,
    listed: ListOption = None,
    is_backtest: BacktestOption = False,
    statements: StatementsOption = None,
    banks: BankOption = None,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Match payments to open items: try it, store what is found, list what waits, or measure it with bookings of your own.

    Without options, a trial run: what would be matched for the account that is set up, by class of evidence. With --store the
    proposals are kept for somebody to confirm. With --backtest nothing of the installation is used: the bookings in the files say
    which payment cleared which document; that is hidden, the matcher tries to find it, and what is printed are counts, no names
    and no amounts. Nothing leaves this machine.

    Example: kontobahn reconcile --account DE02120300000000202051 --store
    Example: kontobahn reconcile --list proposed
    Example: kontobahn reconcile --backtest EXTF_Buchungsstapel_2025.csv EXTF_Debitoren.csv --statements 2025-*.xml
    """
    if is_backtest:
        if not files:
            raise BadRequest("--backtest needs files: a Buchungsstapel in DATEV format.")
        _backtest(files, statements, banks, as_json=as_json)
        return
    if files or statements or banks:
        raise BadRequest("Files, --statements and --bank are for --backtest: a run goes by what the installation has.")
    if listed is not None:
        list_transactions(data, organization, account, listed.value, as_json=as_json)
        return
    run_matching(
        data,
        organization,
        account,
        day("--from", from_date),
        day("--to", to_date),
        is_stored=is_stored,
        as_json=as_json,
    )


def _backtest(files: list[Path], statements: list[Path] | None, banks: list[str] | None, *, as_json: bool) -> None:
    prefixes = tuple(banks or USUAL_BANKS)
    if not all(prefix.isascii() and prefix.isdigit() for prefix in prefixes):
        raise BadRequest("--bank takes the digits that the bank's account number begins with, like 1200.")
    records, persons = _history(files)
    entries = [entry for file in statements or [] for entry in _entries(file)]
    report = backtest(records, persons, entries, prefixes)
    if not report.payments:
        raise BadRequest(
            "The files hold no payments between a bank account and person accounts. --bank names the bank's account."
        )
    say(_facts(report), _text(report), as_json=as_json)


def _history(files: list[Path]) -> tuple[list[Buchungssatz], list[Person]]:
    records: list[Buchungssatz] = []
    persons: list[Person] = []
    for path in files:
        try:
            with open_extf(path) as file:
                if file.category not in (BUCHUNGSSTAPEL, PERSONENKONTEN):
                    continue
                for record in file:
                    # Leaves out what cannot be read, as an import would.
                    if isinstance(record, Buchungssatz):
                        records.append(_in_full(record, file.header.sachkontenlaenge))
                    elif isinstance(record, Personenkonto):
                        persons.append(_person(record, file.header.sachkontenlaenge))
        except ExtfError as error:
            raise BadRequest(f"{path.name}: {error}") from error
    return records, persons


def _person(record: Personenkonto, laenge: int) -> Person:
    ibans = tuple(bank.iban for bank in record.bankverbindungen if bank.iban)
    return Person(technical(record.konto, laenge), display_name(record), ibans, (record.konto,))


def _in_full(record: Buchungssatz, laenge: int) -> Buchungssatz:
    return record._replace(konto=technical(record.konto, laenge), gegenkonto=technical(record.gegenkonto, laenge))


def _entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        for item in read(file, path.name, unbalanced=True):
            if isinstance(item, Entry):
                yield item


def _facts(report: Report) -> dict[str, Any]:
    return {
        "engine": ENGINE_VERSION,
        "payments": report.payments,
        "with_statement": report.with_statement,
        "unknown": report.unknown,
        "classes": [one._asdict() for one in (*report.classes, report.all_classes)],
        "precision": _share(report.all_classes.right, report.all_classes.would_act),
        "recall": _share(report.all_classes.right, report.all_classes.payments),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _text(report: Report) -> str:
    whole = report.all_classes
    columns = tuple(name.replace("_", " ") for name in Found._fields)
    table = render_table(columns, [*report.classes, whole], None)
    judged = f"{report.payments:,} payments, {report.with_statement:,} of them found in statements."
    left = (
        f" {report.unknown:,} clear documents that are not in the files, and were left out." if report.unknown else ""
    )
    precision = f"{whole.right / whole.would_act:.2%} of {whole.would_act:,}" if whole.would_act else "nothing to judge"
    recall = f"{whole.right / whole.payments:.1%}" if whole.payments else "nothing to judge"
    return f"{judged}{left}\n\n{table}\n\nRight when acting alone: {precision}. Share acted on rightly: {recall}."


# --- A run over an account, and the list of what waits: the functions that the calls use


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
        body = NewRun(account_id=str(found.id), from_date=first, to_date=last, trial=not is_stored, limit=0)
        answer = asyncio.run(_run(here, principal, body))
    say(_run_facts(answer), _run_text(answer), as_json=as_json)


async def _run(here: Installation, principal: Principal, body: NewRun) -> Run:
    context = make_context(here.settings, here.db, here.vault, SystemClock())
    plan = await here.db.read(runs.make_plan, principal, body)
    access = await open_books(context, principal, plan.connection_id, plan.client_id)
    async with access.to("buchungen") as books:
        found = await runs.match_undecided(context, books, plan)
        answer = runs.answer_of(plan, found, body.limit)
        if plan.is_trial:
            return answer
        findings = await runs.findings_of(here.db, books, plan, found)
        return await here.db.write(runs.write_run, findings, COMMAND_LINE, answer)


def list_transactions(
    data: str | None, organization: str | None, account: str | None, status: str, *, as_json: bool
) -> None:
    with installation(data) as here:
        principal = _operator(here, organization)
        found = here.db.read_now(_account, principal, account)
        query = ReconciledTransactionsQuery(account_id=str(found.id), status=status, limit=MAX_LISTED)  # type: ignore[arg-type]
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
        known = account_settings.listing(tx, principal.scope)
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


def _run_facts(answer: Run) -> Any:
    facts = msgspec.json.decode(encode(answer))
    del facts["data"]
    return facts


def _run_text(answer: Run) -> str:
    table = render_table(
        ("class", "transactions", "clear", "sum"),
        [(row.evidence_class, row.count, row.clear, f"{row.amount:,.2f}") for row in answer.classes],
        None,
    )
    head = f"{answer.transactions:,} transactions from {answer.from_date} to {answer.to_date}, {answer.open_items:,} open items."
    if answer.trial:
        return f"{head}\n\n{table}\n\nA trial run: nothing was stored. “clear” is what could be matched without asking."
    return (
        f"{head}\n\n{table}\n\n{answer.matched:,} matched without asking, {answer.proposed:,} proposed,"
        f" {answer.outdated:,} outdated meanwhile."
    )


def _row(row: ReconciledTransaction) -> tuple[object, ...]:
    best = row.best_proposal
    lines = " + ".join(f"{line.konto} {line.beleg}".strip() for line in best.lines) if best else ""
    return (
        row.id,
        row.made_on or "",
        f"{row.amount or 0:,.2f}",
        row.name or "",
        best.evidence_class if best else "",
        lines,
    )
