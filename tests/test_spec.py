"""The documents say what the service does: every table of docs/spec, the settings, the commands and the layers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
import pytest
from msgspec import inspect as shape

from kontobahn import errors, limits, outbound
from kontobahn.api import idempotency, openapi
from kontobahn.api.call import Platform
from kontobahn.api.declare import Endpoint
from kontobahn.api.server import BODY_SECONDS
from kontobahn.api.wire import Answer, Body
from kontobahn.app import all_endpoints
from kontobahn.auth import model as auth
from kontobahn.banking import connect, fields, payments
from kontobahn.banking import model as banking
from kontobahn.clock import MINUTE
from kontobahn.events import wire as events
from kontobahn.ledger import errors as ledger_errors
from kontobahn.ledger import kassenbuch, permissions
from kontobahn.ledger import model as ledger
from kontobahn.ledger.books import store
from kontobahn.ledger.errors import ProviderError
from kontobahn.mobility import model as mobility
from kontobahn.settings import PREFIX, Settings, describe
from kontobahn.webhooks.endpoint import State as EndpointState
from kontobahn.webhooks.events import DeliveryState
from tests.harness import ServiceFactory

ROOT = Path(__file__).resolve().parent.parent
SPEC = ROOT / "docs" / "spec"
ENDPOINTS = {endpoint.name: endpoint for endpoint in all_endpoints()}
FREE = "GET /v2/ledger-rewe-read/connections"
# The headers and shapes do not depend on the database.
on_sqlite = pytest.mark.parametrize("engine", ["sqlite"])

Rows = list[dict[str, str]]


def tables(page: Path) -> Iterator[tuple[str, Rows]]:
    """Every table of a page under the heading it stands below; cells lose their code marks."""
    heading, lines = "", page.read_text("utf-8").splitlines()
    rows: list[list[str]] = []
    for line in [*lines, ""]:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            rows.append([cell.strip().replace("\\|", "|") for cell in cells])
        elif rows:
            names, _, *values = rows
            yield heading, [{name: _bare(cell) for name, cell in zip(names, row, strict=True)} for row in values]
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")


def _bare(cell: str) -> str:
    return cell[1:-1] if re.fullmatch(r"`[^`]*`", cell) else cell


def table(page: Path, heading: str) -> Rows:
    """The first table below a heading."""
    found = [rows for title, rows in tables(page) if title == heading]
    assert found, f"{page.name} has no table below “{heading}”"
    return found[0]


def documented_endpoints() -> dict[str, dict[str, str]]:
    rows = table(SPEC / "endpoints.md", "Endpoints")
    by_name = {f"{row['Method']} {row['Path']}": row for row in rows}
    assert len(by_name) == len(rows), "an endpoint stands in the table twice"
    return by_name


def _as_documented(endpoint: Endpoint) -> dict[str, str]:
    role = "" if endpoint.role == "member" else f", {endpoint.role}"
    return {
        "Method": endpoint.method,
        "Path": endpoint.path,
        "Credits": str(endpoint.cost),
        "Free as dropdown": "yes" if endpoint.free_as_dropdown else "no",
        "Who may call": endpoint.caller + role,
        "Built": "yes",
    }


@pytest.mark.parametrize("name", sorted({*ENDPOINTS, *documented_endpoints()}))
def test_an_endpoint_is_declared_as_documented(name: str) -> None:
    row = documented_endpoints().get(name)
    assert row is not None, "docs/spec/endpoints.md lacks this endpoint"
    assert row["Built"] in ("yes", "planned")
    if row["Built"] == "yes":
        assert name in ENDPOINTS, "marked as built, but not declared"
        assert row == _as_documented(ENDPOINTS[name])
    else:
        assert name not in ENDPOINTS, "declared, but marked as planned"
        assert row["Credits"] == "open" or row["Credits"].isdigit()
        assert row["Free as dropdown"] in ("yes", "no")


def test_every_endpoint_has_its_section_and_every_section_its_endpoint() -> None:
    text = (SPEC / "endpoints.md").read_text("utf-8")
    sections = re.findall(r"^### ((?:GET|POST|PUT|DELETE) \S+)$", text, re.MULTILINE)
    assert len(sections) == len(set(sections))
    assert set(sections) == set(documented_endpoints())


@pytest.mark.parametrize("name", sorted(ENDPOINTS))
def test_a_section_names_every_query_parameter_of_its_call(name: str) -> None:
    text = (SPEC / "endpoints.md").read_text("utf-8")
    section = text.partition(f"\n### {name}\n")[2].partition("\n##")[0]
    endpoint = ENDPOINTS[name]
    # `quelle` is said of all calls at once.
    names = endpoint.query_decoder.names - {"quelle"}
    assert {parameter for parameter in names if f"`{parameter}`" not in section} == set()


def test_the_price_list_knows_three_calls_that_are_free_as_dropdown() -> None:
    free = {name for name, row in documented_endpoints().items() if row["Free as dropdown"] == "yes"}
    assert free == {
        "GET /v2/ledger-duo/kassenbuecher",
        "GET /v2/ledger-duo/rechnungsordner",
        "GET /v2/ledger-rewe-read/zahlungsbedingungen",
    }


def test_rate_limits_are_as_documented() -> None:
    rows = table(SPEC / "limits.md", "Rate limits")
    documented = {row["Group"]: (int(row["Requests"]), int(row["Window in seconds"])) for row in rows}
    assert documented == {
        group.name: (group.requests, group.window_seconds) for group in limits.groups(Settings()).values()
    }


def test_each_documented_path_is_counted_by_its_group() -> None:
    prefixes = {
        row["Paths"]: row["Group"] for row in table(SPEC / "limits.md", "Rate limits") if row["Paths"].startswith("/")
    }
    for row in documented_endpoints().values():
        longest = max((prefix for prefix in prefixes if row["Path"].startswith(prefix)), key=len)
        assert limits.group_of(row["Path"]) == prefixes[longest], row["Path"]


@pytest.mark.parametrize("group", ["api", "auth", "webhooks"])
@on_sqlite
def test_a_limit_is_counted_by_what_is_documented(start_service: ServiceFactory, group: str) -> None:
    row = next(row for row in table(SPEC / "limits.md", "Rate limits") if row["Group"] == group)
    service = start_service()
    path = {"api": "/v2/ledger-duo/connections", "auth": "/v2/auth/users", "webhooks": "/v2/banking/webhooks/x"}[group]

    def remaining(key: str) -> int:
        return int(service.get(path, key).headers["ratelimit-remaining"])

    one, other = service.organization("Eine").key, service.organization("Andere").key
    counted_together = remaining(one) == remaining(other) + 1
    assert counted_together == ("key" not in row["Counted by"])


def test_sizes_and_times_are_those_of_the_settings() -> None:
    fixed = {
        "idempotency key, length": idempotency.LONGEST_KEY,
        "time for a request body to arrive": BODY_SECONDS,
        "receipt image, decoded (20 MB)": kassenbuch.LARGEST_IMAGE_BYTES,
        "receipt images of one entry": ledger.MOST_IMAGES,
        "lines of one cash book entry": ledger.MOST_LINES,
        "`custom_fields` (4 KiB)": fields.CUSTOM_FIELDS_BYTES,
        "unfinished connect flow": connect.UNFINISHED // MINUTE,
        "webhook URL, length": outbound.LONGEST_URL,
        "events of one page": events.MOST_EVENTS,
        "waiting for an event": events.LONGEST_WAIT_SECONDS,
        "tickets added by one call": mobility.MOST_TICKETS,
    }
    for row in table(SPEC / "limits.md", "Sizes and times"):
        value = int(row["Value"])
        if row["Setting"] == "fixed":
            assert fixed.pop(row["What"]) == value
        elif row["Setting"] != "planned":
            assert getattr(Settings(), row["Setting"]) == value, row["What"]
    assert fixed == {}


def test_every_status_of_an_error_is_documented_and_no_other() -> None:
    def tree(root: type[errors.KontobahnError]) -> Iterator[type[errors.KontobahnError]]:
        yield root
        for child in root.__subclasses__():
            yield from tree(child)

    documented = {int(row["Status"]) for row in table(SPEC / "errors.md", "Statuses")}
    assert documented == {error.status for error in tree(errors.KontobahnError)}


BUILT_RESOURCES: dict[str, type[msgspec.Struct]] = {
    "Platform": Platform,
    "Ledger connection": ledger.LedgerConnection,
    "Permissions": ledger.Rechte,
    "Permission probe entry": ledger.ProbeEintrag,
    "Cash book": ledger.Kassenbuch,
    "Invoice folder": ledger.Rechnungsordner,
    "Document type": ledger.Belegtyp,
    "Cash book entry, as sent": ledger.NeuerKassenbucheintrag,
    "Cash book entry, as answered": ledger.Kassenbucheintrag,
    "Cash book result": ledger.KassenbuchErgebnis,
    "Person account result": ledger.PersonenkontoErgebnis,
    "Person account, as sent": ledger.Personenkonto,
    "Person account, as answered": ledger.PersonenkontoDaten,
    "E-mail address": ledger.Email,
    "Phone number": ledger.Telefon,
    "Bank details": ledger.Bankkonto,
    "Contact": ledger.Kontaktperson,
    "Address": ledger.Adresse,
    "Payment term": ledger.Zahlungsbedingung,
    "Balance": ledger.Saldo,
    "Trial balance row": ledger.SusaZeile,
    "Account line": ledger.Kontozeile,
    "Booking": ledger.Buchung,
    "Open items": ledger.Opos,
    "Bank connection": banking.BankConnection,
    "Connect answer": banking.ConnectAnswer,
    "Bank account": banking.BankAccount,
    "Transaction": banking.Transaction,
    "Transaction change": banking.Change,
    "Payment": banking.Payment,
    "Payment report": banking.PaymentEvent,
    "Mobility customer": mobility.MobilityCustomer,
    "Mobility customer, as sent": mobility.NewCustomer,
    "Mobility customer with tickets": mobility.MobilityCustomerWithTickets,
    "Mobility ticket": mobility.MobilityTicket,
    "Mobility ticket, as sent": mobility.NewTicket,
    "Mobility collective invoice": mobility.MobilityInvoice,
    "Mobility collective invoice with lines": mobility.MobilityInvoiceWithLines,
    "Seller, as sent": mobility.Seller,
    "Seller's data": mobility.SellerAnswer,
    "User": auth.UserView,
    "Session": auth.SessionView,
    "New session": auth.NewSessionView,
    "Invitation": auth.InvitationView,
    "Removed": auth.Removed,
    "Webhook URL": events.WebhookUrl,
    "Webhook secret": events.WebhookSecret,
    "Event": events.Event,
}
_NAME_OF = {struct: name.lower() for name, struct in BUILT_RESOURCES.items()}
_WORD_OF: dict[type[shape.Type], str] = {
    shape.StrType: "string", shape.LiteralType: "string", shape.IntType: "integer", shape.DecimalType: "number",
    shape.BoolType: "boolean", shape.DateTimeType: "date-time", shape.DateType: "date", shape.DictType: "object",
}  # fmt: skip


class Documented(NamedTuple):
    """What the table of a resource must say of a field."""

    field: str
    type: str
    required: bool
    # Values and lengths that the note must name.
    words: tuple[str, ...]


def rows_of(struct: type[msgspec.Struct], prefix: str = "") -> Iterator[Documented]:
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


def fields_of(struct: type[msgspec.Struct]) -> tuple[shape.Field, ...]:
    found = shape.type_info(struct)
    assert isinstance(found, shape.StructType)
    return found.fields


def _kind(declared: shape.Type) -> tuple[shape.Type, str]:
    """What a field holds, and ` or null` where it may hold nothing."""
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


def test_every_struct_of_the_ledger_s_wire_is_documented() -> None:
    """Each is a resource, stands in one, or wraps one under `data` or `connections`."""

    def inside(struct: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
        yield struct
        for field in fields_of(struct):
            kind, _ = _kind(field.type)
            if isinstance(kind, shape.ListType):
                kind, _ = _kind(kind.item_type)
            if isinstance(kind, shape.StructType):
                yield from inside(kind.cls)

    seen = {struct for resource in BUILT_RESOURCES.values() for struct in inside(resource)}
    for name, struct in vars(ledger).items():
        if isinstance(struct, type) and issubclass(struct, Answer | Body) and struct.__module__ == ledger.__name__:
            fields = set(struct.__struct_fields__)
            is_wrapper = bool(fields & {"data", "connections"}) and fields <= {
                "data",
                "connections",
                "ledgerAntwort",
                "platform",
            }
            assert struct in seen or is_wrapper, name


def test_the_ledger_error_has_the_documented_fields() -> None:
    rows = table(SPEC / "errors.md", "Ledger errors")
    # The other two stand in every error, whatever its area.
    expected = [row for row in rows_of(openapi.LedgerError) if row.field not in ("field", "request_id")]
    found = [(row["Field"], re.sub(r" \(\w+\)", "", row["Type"])) for row in rows]
    assert found == [(field.field, field.type) for field in expected]


def test_ledger_codes_have_the_documented_status_and_field() -> None:
    (codes,) = (rows for _, rows in tables(SPEC / "errors.md") if "Code" in rows[0])
    raised = [
        ledger_errors.connection_invalid("https://muster.example", "expired"),
        ledger_errors.export_service_missing("Exportdatenservice", []),
        ledger_errors.endpoint_not_authorized("susa"),
    ]
    assert {(row["Code"], int(row["Status"]), row["Extra field"]) for row in codes} == {
        (error.extra["code"], error.status, next(iter(error.extra.keys() - {"code", "message"}), "none"))
        for error in raised
    }


def test_a_probe_is_classified_as_documented() -> None:
    said: dict[str, ProviderError | None] = {
        "200": None,
        "403": ProviderError(403, "no"),
        "401": ProviderError(401, "no"),
        "another failure (5xx, network)": ProviderError(None, "no"),
    }
    rows = {row["Provider says"]: row["`status`"] for row in table(SPEC / "errors.md", "Permission probes")}
    for words, error in said.items():
        assert permissions.classify(error).status == rows.pop(words)
    assert list(rows.values()) == [permissions.not_checkable().status]


def test_every_area_belongs_to_a_documented_service() -> None:
    (rows,) = (rows for _, rows in tables(SPEC / "errors.md") if "Service" in rows[0])
    assert {row["Service"] for row in rows} == set(store.SUBSCRIPTIONS)
    assert {store.needed_subscription(bereich) for bereich in ledger_errors.BEREICHE} == set(store.SUBSCRIPTIONS)


def test_the_documents_name_only_tables_that_exist() -> None:
    schema = "".join(path.read_text("utf-8") for path in (ROOT / "src/kontobahn/db/migrations").glob("*.sql"))
    there = set(re.findall(r"CREATE TABLE (\w+)", schema))
    for page in (ROOT / "docs").rglob("*.md"):
        named = set(re.findall(r"`(books_\w+)`", page.read_text("utf-8")))
        assert named - there == set(), page.name


def test_states_are_those_of_the_code() -> None:
    schema = (ROOT / "src/kontobahn/db/migrations/0001_platform.sql").read_text("utf-8")
    holds = schema[schema.index("CREATE TABLE credit_holds") :]
    in_database = re.search(r"state TEXT NOT NULL CHECK \(([^)]*)\)", holds)
    assert in_database is not None

    def states(heading: str) -> set[str]:
        return {row["State"] for row in table(SPEC / "states.md", heading)}

    assert states("Ledger connection") == set(get_args(ledger.ConnectionStatus))
    assert states("Mobility ticket") == set(get_args(mobility.TicketStatus))
    assert states("Invitation") == set(get_args(auth.InvitationStatus))
    assert states("Bank connection") == set(get_args(banking.ConnectionStatus))
    assert states("Payment") == set(get_args(banking.PaymentStatus))
    assert states("Transaction") == set(get_args(banking.TransactionStatus))
    finals = {row["State"] for row in table(SPEC / "states.md", "Payment") if row["Final"] == "yes"}
    assert finals == payments.FINAL
    assert states("Delivery of an event") == set(get_args(DeliveryState))
    assert states("Webhook URL") == set(get_args(EndpointState))
    assert states("Credit reservation") == set(re.findall(r"'(\w+)'", in_database[1]))


def settings_table() -> str:
    rows = ["| Setting | Variable | Default | Meaning |", "|---|---|---|---|"]
    for name, default, reason in describe():
        value, meaning = msgspec.json.encode(default).decode(), reason.replace("|", "\\|")
        rows.append(f"| `{name}` | `{PREFIX}{name.upper()}` | `{value}` | {meaning} |")
    return "\n".join(rows)


def test_the_settings_table_is_made_from_the_code() -> None:
    page = (ROOT / "docs" / "operating.md").read_text("utf-8")
    match = re.search(r"<!-- settings: .*?-->\n\n(.*?)\n\n<!-- end of settings -->", page, re.DOTALL)
    assert match is not None
    assert match[1] == settings_table()


def test_the_command_table_names_every_command() -> None:
    import typer.main

    from kontobahn.cli.entry import app

    def names(command: Any, prefix: str) -> Iterator[str]:
        children = getattr(command, "commands", None)
        if not children:
            yield prefix
        for name, child in (children or {}).items():
            yield from names(child, f"{prefix} {name}")

    documented = [row["Command"] for row in table(ROOT / "README.md", "Commands")]
    assert sorted(documented) == sorted(names(typer.main.get_command(app), "kontobahn"))


def test_the_layers_are_those_of_the_import_check() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = re.search(r"```layers\n(.*?)\n```", page, re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == project["tool"]["importlinter"]["contracts"][0]["layers"]
