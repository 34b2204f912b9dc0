"""The tables of docs/spec/resources.md and states.md against the structs that the endpoints take and answer with.

Structs are found by walking the endpoints' types, so it does not matter in which module one is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple, get_args, get_origin

import msgspec
import pytest
from msgspec import inspect as shape

from kontobahn.api.answers import Error
from kontobahn.api.schemas import envelope_name
from kontobahn.api.wire import Body
from kontobahn.app import ERRORS
from kontobahn.banking.payments.rules import FINAL
from kontobahn.webhooks.receiver import State as ReceiverState
from tests.spec_pages import ENDPOINTS, ROOT, SPEC, table, tables

Struct = type[msgspec.Struct]


def _reached(kind: shape.Type) -> Iterator[Struct]:
    """The structs in a type, and in the fields of these."""
    if isinstance(kind, shape.StructType):
        yield kind.cls
        inner = [field.type for field in kind.fields]
    else:
        parts = (getattr(kind, name, None) for name in ("type", "item_type", "value_type"))
        inner = [part for part in parts if isinstance(part, shape.Type)]
        inner += getattr(kind, "types", ())
    for part in inner:
        yield from _reached(part)


def _wire_of(prefix: str) -> set[Struct]:
    """The structs that requests and answers below a path are made of."""
    endpoints = [endpoint for endpoint in ENDPOINTS.values() if endpoint.path.startswith(prefix)]
    sides: list[Any] = [side for endpoint in endpoints for side in (endpoint.body, endpoint.answer)]
    roots = [
        side
        for side in sides
        if isinstance(kind := get_origin(side) or side, type) and issubclass(kind, msgspec.Struct)
    ]
    return {struct for root in roots for struct in _reached(shape.type_info(root))}


_BY_NAME = {envelope_name(struct) or struct.__name__: struct for struct in _wire_of("/v2/")}


BUILT_RESOURCES: dict[str, Struct] = {
    "Platform": _BY_NAME["Platform"],
    "Ledger connection": _BY_NAME["LedgerConnection"],
    "Permissions": _BY_NAME["Rechte"],
    "Permission probe entry": _BY_NAME["ProbeEintrag"],
    "Cash book": _BY_NAME["Kassenbuch"],
    "Invoice folder": _BY_NAME["Rechnungsordner"],
    "Document type": _BY_NAME["Belegtyp"],
    "Cash book entry, as sent": _BY_NAME["NeuerKassenbucheintrag"],
    "Cash book entry, as answered": _BY_NAME["Kassenbucheintrag"],
    "Cash report": _BY_NAME["Kassenbericht"],
    "Cash book line": _BY_NAME["Kassenbuchzeile"],
    "Cash book reversal": _BY_NAME["Storno"],
    "Cash book result": _BY_NAME["KassenbuchErgebnis"],
    "Transmission": _BY_NAME["Uebermittlung"],
    "Ledger result": _BY_NAME["LedgerErgebnis"],
    "Person account result": _BY_NAME["PersonenkontoErgebnis"],
    "Person account, as sent": _BY_NAME["Personenkonto"],
    "Person account, as answered": _BY_NAME["PersonenkontoDaten"],
    "E-mail address": _BY_NAME["Email"],
    "Phone number": _BY_NAME["Telefon"],
    "Bank details": _BY_NAME["Bankkonto"],
    "Contact": _BY_NAME["Kontaktperson"],
    "Address": _BY_NAME["Adresse"],
    "Payment term": _BY_NAME["Zahlungsbedingung"],
    "Balance": _BY_NAME["Saldo"],
    "Trial balance row": _BY_NAME["SusaZeile"],
    "VAT figures": _BY_NAME["Umsatzsteuer"],
    "Profit and loss": _BY_NAME["Bwa"],
    "Account line": _BY_NAME["Kontozeile"],
    "Booking": _BY_NAME["Buchung"],
    "Booking, as sent": _BY_NAME["NeueBuchung"],
    "Bookings, as sent": _BY_NAME["NeueBuchungen"],
    "Bookings, as answered": _BY_NAME["GebuchteBuchungen"],
    "Import": _BY_NAME["Import"],
    "Import with protocol": _BY_NAME["ImportMitProtokoll"],
    "Line of a protocol": _BY_NAME["Protokollzeile"],
    "Open items": _BY_NAME["Opos"],
    "Due dates": _BY_NAME["Faelligkeiten"],
    "Bank": _BY_NAME["Bank"],
    "Bank connection": _BY_NAME["BankConnection"],
    "Connect answer": _BY_NAME["ConnectAnswer"],
    "Bank account": _BY_NAME["BankAccount"],
    "Transaction": _BY_NAME["Transaction"],
    "Statement import": _BY_NAME["StatementImportReport"],
    "Transaction change": _BY_NAME["Change"],
    "Payment": _BY_NAME["Payment"],
    "Payment report": _BY_NAME["PaymentEvent"],
    "Order file": _BY_NAME["PaymentOrderFile"],
    "Submission": _BY_NAME["OrderFileSubmission"],
    "Order warning": _BY_NAME["OrderWarning"],
    "Payee check": _BY_NAME["PayeeCheck"],
    "Release": _BY_NAME["Release"],
    "Payment limit": _BY_NAME["PaymentLimit"],
    "Mobility customer": _BY_NAME["MobilityCustomer"],
    "Mobility customer, as sent": _BY_NAME["NewCustomer"],
    "Mobility customer with tickets": _BY_NAME["MobilityCustomerWithTickets"],
    "Mobility ticket": _BY_NAME["MobilityTicket"],
    "Mobility ticket, as sent": _BY_NAME["NewTicket"],
    "Mobility collective invoice": _BY_NAME["MobilityInvoice"],
    "Mobility collective invoice with lines": _BY_NAME["MobilityInvoiceWithLines"],
    "Seller, as sent": _BY_NAME["Seller"],
    "Seller's data": _BY_NAME["SellerAnswer"],
    "Logo": _BY_NAME["LogoAnswer"],
    "Account's settings, as sent": _BY_NAME["NewReconciliationSettings"],
    "Account's settings": _BY_NAME["ReconciliationSettings"],
    "Run, as sent": _BY_NAME["NewRun"],
    "Run": _BY_NAME["Run"],
    "Line of a match": _BY_NAME["MatchLine"],
    "Reason": _BY_NAME["MatchReason"],
    "Proposal": _BY_NAME["MatchProposal"],
    "Reconciled transaction": _BY_NAME["ReconciledTransaction"],
    "Reconciled transaction with proposals": _BY_NAME["ReconciledTransactionWithProposals"],
    "Match, as sent": _BY_NAME["NewMatch"],
    "Match": _BY_NAME["Match"],
    "Learned payer": _BY_NAME["LearnedPayer"],
    "Rule, as sent": _BY_NAME["NewMatchRule"],
    "Rule": _BY_NAME["MatchRule"],
    "Report": _BY_NAME["ReconciliationReport"],
    "Batch, as sent": _BY_NAME["NewBatch"],
    "Batch": _BY_NAME["Batch"],
    "Batch booking": _BY_NAME["BatchBooking"],
    "Batch with lines": _BY_NAME["BatchWithLines"],
    "Payable": _BY_NAME["Payable"],
    "Payable, as typed": _BY_NAME["NewPayable"],
    "Step of a payable": _BY_NAME["PayableStep"],
    "Booking of a payable, as sent": _BY_NAME["NewPayableBooking"],
    "Booking of a payable": _BY_NAME["PayableBooking"],
    "Hand-over of payables, as sent": _BY_NAME["NewHandover"],
    "Hand-over of payables": _BY_NAME["Handover"],
    "Made hand-over of payables": _BY_NAME["MadeHandover"],
    "Mailbox of payables, as sent": _BY_NAME["NewMailbox"],
    "Mailbox of payables": _BY_NAME["PayablesMailbox"],
    "Reading of a mailbox, as sent": _BY_NAME["NewMailboxReading"],
    "Reading of a mailbox": _BY_NAME["MailboxReading"],
    "Removed mailbox": _BY_NAME["RemovedMailbox"],
    "Due payable": _BY_NAME["DuePayable"],
    "Payment run, as sent": _BY_NAME["NewPaymentRun"],
    "Payment run": _BY_NAME["PaymentRun"],
    "Payables settings, as sent": _BY_NAME["NewPayablesSettings"],
    "Payables settings": _BY_NAME["PayablesSettings"],
    "Assistant access": _BY_NAME["AssistantAccess"],
    "Assistant books": _BY_NAME["AssistantBooks"],
    "Assistant settings, as sent": _BY_NAME["NewAssistantSettings"],
    "Assistant settings": _BY_NAME["AssistantSettings"],
    "Prepared payment, as sent": _BY_NAME["NewPreparedPayment"],
    "Prepared cash entry, as sent": _BY_NAME["NewPreparedCashEntry"],
    "Address of a received invoice, as sent": _BY_NAME["NewFileAddress"],
    "Prepared item": _BY_NAME["Prepared"],
    "User": _BY_NAME["UserView"],
    "Session": _BY_NAME["SessionView"],
    "New session": _BY_NAME["NewSessionView"],
    "Invitation": _BY_NAME["InvitationView"],
    "Password link": _BY_NAME["PasswordLink"],
    "Password change": _BY_NAME["PasswordChange"],
    "Removed": _BY_NAME["Removal"],
    "Webhook URL": _BY_NAME["WebhookUrl"],
    "Webhook secret": _BY_NAME["WebhookSecret"],
    "Webhook endpoint": _BY_NAME["WebhookEndpoint"],
    "Webhook endpoint, as sent": _BY_NAME["NewWebhookEndpoint"],
    "Event": _BY_NAME["Event"],
    "Events to send again, as sent": _BY_NAME["ResendFailed"],
    "Events sent again": _BY_NAME["Resent"],
}
_NAME_OF = {struct: name.lower() for name, struct in BUILT_RESOURCES.items()}
_WORD_OF: dict[type[shape.Type], str] = {
    shape.StrType: "string", shape.LiteralType: "string", shape.IntType: "integer", shape.DecimalType: "number",
    shape.BoolType: "boolean", shape.DateTimeType: "date-time", shape.DateType: "date", shape.DictType: "object",
}  # fmt: skip


class Documented(NamedTuple):
    """The words that the table of a resource must say of a field."""

    field: str
    type: str
    required: bool
    # Values and lengths that the note must name.
    words: tuple[str, ...]


def rows_of(struct: Struct, prefix: str = "") -> Iterator[Documented]:
    """Every field, and after it the fields of an object or of an array's items where these are no resource of their own."""
    for field in fields_of(struct):
        kind, or_null = _kind(field.type)
        name, word, inner = prefix + field.encode_name, _word(kind), kind
        if isinstance(kind, shape.ListType):
            inner, _ = _kind(kind.item_type)
            word = f"array of {_word(inner)}".removesuffix(" of object")
            name += "[]"
        yield Documented(name.removesuffix("[]"), word + or_null, field.required, _words(kind))
        if isinstance(inner, shape.StructType) and inner.cls not in _NAME_OF:
            yield from rows_of(inner.cls, name + ".")


def fields_of(struct: Struct) -> tuple[shape.Field, ...]:
    found = shape.type_info(struct)
    assert isinstance(found, shape.StructType)
    return found.fields


def _kind(declared: shape.Type) -> tuple[shape.Type, str]:
    """The contents of a field, and ` or null` where it may hold nothing."""
    options = [_plain(option) for option in getattr(_plain(declared), "types", [declared])]
    (kind,) = (option for option in options if not isinstance(option, shape.NoneType | shape.CustomType))
    return kind, " or null" if any(isinstance(option, shape.NoneType) for option in options) else ""


def _plain(kind: shape.Type) -> shape.Type:
    return kind.type if isinstance(kind, shape.Metadata) else kind


def _word(kind: shape.Type) -> str:
    if isinstance(kind, shape.LiteralType) and isinstance(kind.values[0], int):
        return "integer"
    return _NAME_OF.get(kind.cls, "object") if isinstance(kind, shape.StructType) else _WORD_OF.get(type(kind), "")


def _words(kind: shape.Type) -> tuple[str, ...]:
    if isinstance(kind, shape.LiteralType):
        return tuple(f"`{value}`" for value in kind.values)
    longest = getattr(kind, "max_length", None)
    return () if longest is None else (f"{longest:,}",)


@pytest.mark.parametrize("name", BUILT_RESOURCES)
def test_a_resource_has_the_documented_fields(name: str) -> None:
    struct = BUILT_RESOURCES[name]
    rows = table(SPEC / "resources.md", name)
    expected = list(rows_of(struct))
    assert [row["Field"] for row in rows] == [field.field for field in expected]
    for row, field in zip(rows, expected, strict=True):
        assert re.sub(r" \(\w+\)", "", row["Type"]) == field.type, field.field
        if issubclass(struct, Body):
            assert row["Note"].startswith("required") == field.required, field.field
        if "states.md" not in row["Note"]:
            assert [word for word in field.words if word not in f"`{row['Note']}`"] == [], field.field


def test_no_two_structs_of_the_wire_share_a_name() -> None:
    """OpenAPI would have to tell them apart by their modules."""
    assert len(_BY_NAME) == len(_wire_of("/v2/"))


def test_every_struct_of_the_ledger_s_wire_is_documented() -> None:
    """Each is a resource, stands in one, or wraps one under `data` or `connections`."""
    documented = {struct for resource in BUILT_RESOURCES.values() for struct in _reached(shape.type_info(resource))}
    for struct in _wire_of("/v2/ledger-") - documented:
        fields = {field.name for field in msgspec.structs.fields(struct)}
        assert fields & {"data", "connections"}, struct
        assert fields <= {"data", "connections", "ledgerAntwort", "platform"}, struct


@pytest.mark.parametrize("area", ERRORS)
def test_the_errors_of_an_area_have_the_documented_fields(area: str) -> None:
    (parent,) = ERRORS[area].__bases__
    known = {row.field for row in rows_of(parent)} if parent is not Error else set(Error.__struct_fields__)
    # The contract's own table of the ledger's errors begins with these.
    known -= {"error", "message"} if area == "Ledger" else set()
    rows = table(SPEC / "errors.md", f"{area} errors")
    expected = [row for row in rows_of(ERRORS[area]) if row.field not in known]
    found = [(row["Field"], re.sub(r" \(\w+\)", "", row["Type"])) for row in rows]
    assert found == [(field.field, field.type) for field in expected]
    for row, field in zip(rows, expected, strict=True):
        assert field.field == "code" or [word for word in field.words if word not in row["Note"]] == []


def _documented_bodies() -> Iterator[tuple[str, Struct, dict[str, str]]]:
    """The fields of bodies that stand in the section of their call: name of the call, its struct, row of the table."""
    for heading, rows in tables(SPEC / "endpoints.md"):
        body = ENDPOINTS[heading].body if heading in ENDPOINTS else None
        if body is not None and rows[0].keys() == {"Field", "Type", "Note"}:
            yield from ((heading, body, row) for row in rows)


def test_the_length_of_a_text_is_the_documented_one() -> None:
    compared = 0
    for call, body, row in _documented_bodies():
        (declared,) = (field for field in fields_of(body) if field.encode_name == row["Field"])
        lengths = {
            length
            for option in map(_plain, getattr(_plain(declared.type), "types", [declared.type]))
            if (length := getattr(option, "max_length", None)) is not None
        }
        for text in re.findall(r"up to ([0-9,]+) characters", row["Note"]):
            assert int(text.replace(",", "")) in lengths, f"{call}: {row['Field']}"
            compared += 1
    assert compared >= 5


def test_states_are_those_of_the_code() -> None:
    schema = (ROOT / "src/kontobahn/db/schema/credits.sql").read_text("utf-8")
    movements = schema[schema.index("CREATE TABLE credit_movements") :]
    in_database = re.search(r"kind TEXT NOT NULL CHECK \(([^)]*)\)", movements)
    assert in_database is not None
    # What becomes of a reservation is a line of the statement. The other kinds concern grants.
    after = {"reserve": "reserved", "confirm": "confirmed", "expire": "expired", "grant": None, "lapse": None}

    def documented(heading: str) -> set[str]:
        return {row["State"] for row in table(SPEC / "states.md", heading)}

    def declared(struct: str, field: str) -> set[str]:
        (kind,) = (item.type for item in fields_of(_BY_NAME[struct]) if item.name == field)
        literal, _ = _kind(kind)
        assert isinstance(literal, shape.LiteralType)
        return {str(value) for value in literal.values}

    assert documented("Ledger connection") == declared("LedgerConnection", "status")
    assert documented("Mobility ticket") == declared("MobilityTicket", "status")
    assert documented("Invitation") == declared("InvitationView", "status")
    assert documented("Bank connection") == declared("BankConnection", "status")
    assert documented("Payment") == declared("Payment", "status")
    assert documented("Transaction") == declared("Transaction", "status")
    assert documented("Delivery of an event") == declared("Delivery", "state")
    assert documented("Webhook URL") == set(get_args(ReceiverState))
    assert documented("Credit reservation") == {
        state for kind in re.findall(r"'(\w+)'", in_database[1]) if (state := after[kind])
    }
    finals = {row["State"] for row in table(SPEC / "states.md", "Payment") if row["Final"] == "yes"}
    assert finals == FINAL
