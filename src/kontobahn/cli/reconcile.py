"""`kontobahn reconcile`: matches payments to open items, lists what waits, or measures itself with a client's own history."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.cli.common import DataOption, JsonOption, OrganizationOption, say
from kontobahn.cli.reconcile_run import TransactionStatus, day, list_transactions, run_matching
from kontobahn.cli.tables import render_table
from kontobahn.errors import BadRequest
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
from kontobahn.ledger.konto import technical
from kontobahn.reconciliation.backtest import USUAL_BANKS, Found, Report, backtest
from kontobahn.reconciliation.core.model import ENGINE_VERSION, Person

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
                    # What cannot be read is left out, as an import would.
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
