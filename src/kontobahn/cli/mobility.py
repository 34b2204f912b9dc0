"""`kontobahn import tickets`, `kontobahn seller`, `kontobahn customers` and `kontobahn invoices`: the mobility area for operators."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from kontobahn.access.audit import COMMAND_LINE
from kontobahn.api.wire import plain_words
from kontobahn.cli.common import DataOption, Installation, OrganizationOption, counted, installation, moment, say_table
from kontobahn.cli.output import JsonOption, say
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, Refusal
from kontobahn.mobility import customers, seller, tickets
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.invoices import documents
from kontobahn.mobility.invoices.documents import GaveUp
from kontobahn.mobility.invoices.typesetter import Failed
from kontobahn.mobility.platforms import CsvTickets
from kontobahn.mobility.seller import Seller, SellerAnswer
from kontobahn.mobility.tickets import ImportRefused, ImportReport

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
