"""`kontobahn import tickets`, `kontobahn seller`, `kontobahn customers` and `kontobahn invoices`: the mobility area for operators."""

from __future__ import annotations

import asyncio
import os
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.api.wire import plain_words
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, counted, installation, moment, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock, berlin_date
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Refusal
from kontobahn.formats import invoice_files
from kontobahn.formats.invoice_files import ReadInvoice
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.model import Finding, InvoiceError, Language
from kontobahn.formats.invoices.pdf import Proposal
from kontobahn.formats.invoices.rule_sets import RuleSetError
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.mobility import customers, seller, tickets
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices.documents import GaveUp
from kontobahn.mobility.invoices.typesetter import Failed
from kontobahn.mobility.platforms import CsvTickets
from kontobahn.mobility.seller import Seller, SellerAnswer
from kontobahn.mobility.tickets import ImportRefused, ImportReport
from kontobahn.money import from_minor

sellers = typer.Typer(no_args_is_help=True)
buyers = typer.Typer(no_args_is_help=True)
invoices = typer.Typer(no_args_is_help=True)


def import_tickets(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="CSV file; its first row names the columns.")
    ],
    customer: Annotated[str, typer.Option("--customer", metavar="ID", help="The customer whose tickets they are.")],
    partial: Annotated[bool, typer.Option("--partial", help="Import the file without its refused rows.")] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import tickets from a CSV file (UTF-8; semicolons, commas or tabs).

    Columns: product, holder_reference, valid_from (2026-03), price_in_cents, vat_rate; also valid_to, discount_in_cents,
    employer_share_in_cents, reference. A file is imported whole or not at all, unless --partial is given; tickets that already
    exist are skipped, so importing the same file twice bills nothing twice. The exit code is 1 if a row was refused.

    Example: kontobahn import tickets tickets.csv --customer 0193…
    """
    with installation(data) as here:
        outcome = _import(here, file, customer, partial=partial)
    if as_json:
        say(outcome, "", as_json=True)
    else:
        _print_outcome(outcome)
    if outcome["error"] or outcome["refused"]:
        raise typer.Exit(1)


def _import(here: Installation, file: Path, customer_id: str, *, partial: bool) -> dict[str, Any]:
    outcome: dict[str, Any] = {"file": str(file), "imported": 0, "unchanged": 0, "refused": [], "error": None}
    customer = here.db.read_now(customers.find_for_operator, customer_id)
    try:
        content = CsvTickets(file).content()

        def unit(tx: Tx) -> ImportReport:
            return tickets.import_tickets(
                tx, customer.organization_id, customer.id, content.reports, content.refused, partial=partial
            )

        report = here.db.write_now(unit)
    except ImportRefused as refusal:
        report = refusal.report
        outcome["error"] = str(refusal)
    except Refusal as error:
        return {**outcome, "error": str(error)}
    rows = [{"line": row.line, "column": row.column, "reason": row.reason} for row in report.refused]
    imported = 0 if outcome["error"] else report.taken
    return {**outcome, "imported": imported, "unchanged": report.unchanged, "refused": rows}


def _print_outcome(outcome: dict[str, Any]) -> None:
    if outcome["refused"]:
        rows = [(row["line"], row["column"], row["reason"]) for row in outcome["refused"]]
        say_table(("line", "column", "reason"), rows, as_json=False, empty="")
    if outcome["error"]:
        print(f"{outcome['file']}: {outcome['error']}")
    else:
        made = counted(outcome["imported"], "ticket")
        print(f"{outcome['file']}: {made} imported, {outcome['unchanged']} already there.")


def _field(meaning: str) -> Any:
    return typer.Option(help=meaning, show_default=False)


@sellers.command("set")
def set_seller(
    name: Annotated[str | None, _field("Name, as on the bank account.")] = None,
    street: Annotated[str | None, _field("Street and number.")] = None,
    postal_code: Annotated[str | None, _field("Postal code.")] = None,
    city: Annotated[str | None, _field("City.")] = None,
    country_code: Annotated[str | None, _field("Country in two letters; DE when never set.")] = None,
    vat_id: Annotated[str | None, _field("VAT id, like DE123456789; it or a tax number is needed.")] = None,
    tax_number: Annotated[str | None, _field("Tax number, like 37/123/45678.")] = None,
    iban: Annotated[str | None, _field("Where invoices are paid.")] = None,
    bic: Annotated[str | None, _field("Code of that bank.")] = None,
    bank_name: Annotated[str | None, _field("Name of that bank.")] = None,
    contact_name: Annotated[str | None, _field("Who answers questions: a person or an office.")] = None,
    contact_phone: Annotated[str | None, _field("Telephone number for them.")] = None,
    contact_email: Annotated[str | None, _field("E-mail address for them.")] = None,
    website: Annotated[str | None, _field("Website.")] = None,
    register_entry: Annotated[str | None, _field("Commercial register: court and number.")] = None,
    managing_directors: Annotated[str | None, _field("Managing directors.")] = None,
    vat_exemption_reason: Annotated[str | None, _field("Why no VAT is charged; needed for tickets at 0 %.")] = None,
    payment_days: Annotated[int | None, _field("Days to pay; 14 when never set.")] = None,
    invoice_number_prefix: Annotated[str | None, _field("What invoice numbers begin with; {year} is the year.")] = None,
    invoice_number_digits: Annotated[int | None, _field("Digits of the number after it.")] = None,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set fields of the seller's data; the others stay as they are. An empty text removes a field.

    Example: kontobahn seller set --name "Muster GmbH" --vat-id DE123456789 --iban DE02120300000000202051
    """
    changes = {key: value for key, value in locals().items() if key in Seller.__struct_fields__ and value is not None}
    with installation(data) as here:
        owner = here.organization(organization)
        answer = here.db.write_now(_change, owner.id, changes)
    _show(answer, as_json=as_json)


def _change(tx: Tx, organization_id: str, changes: dict[str, Any]) -> SellerAnswer:
    fields = msgspec.structs.asdict(seller.load_locked(tx, organization_id))
    fields |= {name: None if value == "" else value for name, value in changes.items()}
    try:
        record = seller.check(
            msgspec.convert({name: value for name, value in fields.items() if value is not None}, Seller)
        )
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$")
        field = place.strip(".`").replace("_", "-")
        raise BadRequest(f"--{field} {plain_words(reason)}.") from None
    return seller.save(tx, organization_id, record, COMMAND_LINE)


@sellers.command("show")
def show_seller(organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Show the seller's data and what is still missing for an invoice."""
    with installation(data) as here:
        owner = here.organization(organization)
        answer = here.db.read_now(seller.show, owner.id)
    _show(answer, as_json=as_json)


def _show(answer: SellerAnswer, *, as_json: bool) -> None:
    if as_json:
        say(answer, "", as_json=True)
        return
    say_table(("field", "value"), list(msgspec.structs.asdict(answer.seller).items()), as_json=False, empty="")
    print(f"\nAn invoice still needs: {', '.join(answer.missing)}." if answer.missing else "\nNothing is missing.")


@buyers.command("create")
def create_customer(
    name: Annotated[str, typer.Option("--name", "-n", help="Name of the company.")],
    street: Annotated[str, typer.Option("--street", help="Street and number.")],
    postal_code: Annotated[str, typer.Option("--postal-code", help="Postal code.")],
    city: Annotated[str, typer.Option("--city", help="City.")],
    email: Annotated[str | None, typer.Option("--email", help="Where electronic invoices go.")] = None,
    buyer_reference: Annotated[
        str | None, typer.Option("--buyer-reference", help="Leitweg-ID or their reference.")
    ] = None,
    organization: OrganizationOption = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a customer and print its id.

    Example: kontobahn customers create --name "Muster GmbH" --street "Musterstraße 1" --postal-code 10115 --city Berlin
    """
    fields = {"name": name, "street": street, "postal_code": postal_code, "city": city, "email": email,
             "buyer_reference": buyer_reference}  # fmt: skip
    try:
        new = msgspec.convert(fields, NewCustomer)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        raise BadRequest(f"--{place.rstrip('`').replace('_', '-')} {plain_words(reason)}.") from None
    with installation(data) as here:
        owner = here.organization(organization)
        made = here.db.write_now(customers.create, owner.id, new)
    say(made, f"{made.id}\n\nThe customer “{made.name}” of “{owner.name}”.", as_json=as_json)


@buyers.command("list")
def list_customers(
    organization: OrganizationOption = None, data: DataOption = None, as_json: JsonOption = False
) -> None:
    """List the customers of an organisation."""
    with installation(data) as here:
        owner = here.organization(organization)
        found = here.db.read_now(_overview, owner.id)
    columns = ("customer_id", "number", "name", "city", "open_tickets", "created_at")
    say_table(columns, found, as_json=as_json, empty=f"“{owner.name}” has no customers yet.")


def _overview(tx: Tx, organization_id: str) -> list[tuple[Any, ...]]:
    waiting = tickets.open_by_customer(tx, organization_id)
    return [
        (row.id, row.number_text, row.name, row.city, waiting.get(row.id, 0), moment(row.created_at))
        for row in customers.by_number(tx, organization_id)
    ]


@invoices.command("retry")
def retry_documents(
    invoice: Annotated[
        str | None, typer.Argument(help="Id or number of the invoice; without it, all that were laid aside.")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Try again to make the documents of invoices that were laid aside after three attempts (`kontobahn doctor` lists them).

    The exit code is 1 if one could not be made.

    Example: kontobahn invoices retry
    """
    with installation(data) as here:
        found = here.db.write_now(documents.allow_again, invoice)
        rows = asyncio.run(_make_documents(here, found))
    say_table(("invoice_id", "number", "result"), rows, as_json=as_json, empty="No documents are laid aside.")
    if any(result != "made" for _, _, result in rows):
        raise typer.Exit(1)


async def _make_documents(here: Installation, found: list[GaveUp]) -> list[tuple[str, str, str]]:
    rows = []
    for item in found:
        try:
            await documents.make(here.db, item.organization_id, item.invoice_id)
            result = "made"
        except Failed as error:
            result = str(error)
        rows.append((item.invoice_id, item.invoice_number, result))
    return rows


# `kontobahn invoices check`: is a file an electronic invoice, and what is wrong with it? Needs no database.


class _Language(StrEnum):
    de = "de"
    en = "en"


_FORMATS = {"cii": "CII", "ubl": "UBL", "zugferd_1": "ZUGFeRD 1.0"}


@invoices.command("check")
def check(
    files: Annotated[
        list[Path],
        typer.Argument(exists=True, dir_okay=False, help="Invoices: XML (CII, UBL) or PDF (ZUGFeRD, Factur-X)."),
    ],
    language: Annotated[
        _Language | None, typer.Option("--language", help="Language of the findings; that of the terminal by default.")
    ] = None,
    rules: Annotated[
        Path | None, typer.Option("--rules", exists=True, file_okay=False, metavar="DIR", help="Newer sets of rules.")
    ] = None,
    on: Annotated[
        datetime | None, typer.Option("--on", formats=["%Y-%m-%d"], help="The day whose rules hold; today by default.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check received electronic invoices: format, EN 16931, XRechnung and the particulars of the German VAT Act.

    Reads XRechnung, ZUGFeRD, Factur-X, UBL and Peppol invoices, as XML or inside a PDF. Sums are those of the file. Nothing is
    stored. Exit code 1 if a file cannot be read as an electronic invoice or breaks a rule.

    Example: kontobahn invoices check rechnung.pdf
    """
    try:
        sets = rule_sets.load(rules)
    except RuleSetError as error:
        raise BadRequest(str(error)) from None
    day = on.date() if on else berlin_date(SystemClock().now())
    spoken = language.value if language else _of_terminal()
    results = [_checked(file, day, sets, spoken) for file in files]
    say(results, "\n".join(_sentences(result) for result in results), as_json=as_json)
    if not all(result["valid"] for result in results):
        raise typer.Exit(1)


def _of_terminal() -> Language:
    said = next((os.environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if os.environ.get(name)), "")
    return "de" if said.startswith("de") else "en"


def _checked(file: Path, day: date, sets: rule_sets.RuleSets, language: Language) -> dict[str, Any]:
    # One byte more than is read, so that the reader can say that there are too many.
    with file.open("rb") as opened:
        content = opened.read(MAX_FILE_BYTES + 1)
    try:
        found = invoice_files.read(content, file.name, on=day, rules=sets)
    except InvoiceError as error:
        return {"file": str(file), "valid": False, "format": None, "profile": None, "invoice": None,
                "findings": [_finding(error.finding, language)], "warnings": [], "rule_sets": [], "proposal": None}  # fmt: skip
    return {
        "file": str(file),
        "valid": found.is_valid,
        "format": found.format,
        "profile": found.profile,
        "invoice": _facts(found),
        "findings": [_finding(finding, language) for finding in found.findings],
        "warnings": [
            {"code": item.code, "path": item.path, "message": item.message(language)} for item in found.warnings
        ],
        "rule_sets": [item._asdict() for item in found.rule_sets],
        "proposal": _proposed(found.proposal) if found.proposal else None,
    }


def _proposed(proposal: Proposal) -> dict[str, Any]:
    total = proposal.total_minor
    return {
        "number": proposal.number, "issue_date": proposal.issued_on, "total": None if total is None else from_minor(total),
        "currency_code": proposal.currency, "iban": proposal.iban,
    }  # fmt: skip


def _finding(finding: Finding, language: Language) -> dict[str, str]:
    return {
        "class": finding.kind, "rule": finding.rule, "rule_set": finding.rule_set, "path": finding.path,
        "severity": finding.severity, "message": finding.message(language),
    }  # fmt: skip


def _facts(found: ReadInvoice) -> dict[str, Any] | None:
    invoice = found.invoice
    if invoice is None:
        return None
    totals, payment = invoice.totals, invoice.payment
    amounts = {
        "net": totals.net_minor,
        "vat": totals.vat_minor,
        "total": totals.gross_minor,
        "payable_amount": totals.due_minor,
    }
    return {
        "number": invoice.number or None,
        "issue_date": invoice.issued_on,
        "type_code": invoice.type_code,
        "seller": invoice.seller.name or None,
        "buyer": invoice.buyer.name or None,
        "lines": len(invoice.lines),
        "currency_code": invoice.currency or None,
        **{name: None if minor is None else from_minor(minor) for name, minor in amounts.items()},
        "due_date": payment.due_on,
        "ibans": [transfer.iban for transfer in payment.transfers],
        "attachments": [item.name or item.id for item in found.attachments],
    }


def _sentences(result: dict[str, Any]) -> str:
    format_ = _FORMATS.get(result["format"] or "", "no electronic invoice")
    verdict = "valid" if result["valid"] else "not valid"
    lines = [f"{result['file']}: {' '.join(filter(None, (format_, result['profile'])))}, {verdict}."]
    if facts := result["invoice"]:
        shown = {key: "–" if value is None else value for key, value in facts.items()}
        lines.append("  {number} of {issue_date}, {seller} to {buyer}, {lines} lines".format_map(shown))
        lines.append(
            "  net {net}, VAT {vat}, total {total}, to pay {payable_amount} {currency_code} by {due_date}".format_map(
                shown
            )
        )
    for item in result["findings"]:
        place = f" ({item['path']})" if item["path"] else ""
        lines.append(f"  {item['severity']}, {item['class']}, {item['rule']}: {item['message']}{place}")
    lines += [f"  note: {item['message']}" for item in result["warnings"]]
    if result["proposal"]:
        known = [f"{name} {value}" for name, value in result["proposal"].items() if value is not None]
        lines.append(f"  read from its text, to be confirmed: {', '.join(known) or 'nothing'}")
    if result["rule_sets"]:
        sets = (f"{item['name']} {item['version']}" for item in result["rule_sets"])
        lines.append(f"  rules: {', '.join(sets)}")
    return "\n".join(lines)
