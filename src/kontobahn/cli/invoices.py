"""`kontobahn invoices check`: is a file an electronic invoice, and what is wrong with it? Needs no database."""

from __future__ import annotations

import os
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from kontobahn.cli.mobility import invoices as app
from kontobahn.cli.output import JsonOption, say
from kontobahn.clock import SystemClock, berlin_date
from kontobahn.errors import BadRequest
from kontobahn.formats import invoice_files
from kontobahn.formats.invoice_files import ReadInvoice
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.findings import Finding, InvoiceError, Language
from kontobahn.formats.invoices.proposals import Proposal
from kontobahn.formats.invoices.rule_sets import RuleSetError
from kontobahn.formats.invoices.source import MAX_FILE_BYTES
from kontobahn.money import from_minor


class _Language(StrEnum):
    de = "de"
    en = "en"


_FORMATS = {"cii": "CII", "ubl": "UBL", "zugferd_1": "ZUGFeRD 1.0"}


@app.command("check")
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
