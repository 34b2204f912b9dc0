"""The documents say what the service does: every table of docs/spec, the settings, the commands and the layers."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import msgspec
import pytest

from kontobahn import errors, limits
from kontobahn.api import idempotency
from kontobahn.api.call import Platform
from kontobahn.api.declare import Endpoint
from kontobahn.api.server import BODY_SECONDS
from kontobahn.api.wire import Answer
from kontobahn.app import all_endpoints
from kontobahn.auth import model as auth
from kontobahn.ledger import model as ledger
from kontobahn.settings import PREFIX, Settings, describe
from tests.harness import Service, ServiceFactory

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
    fixed = {"idempotency key, length": idempotency.LONGEST_KEY, "time for a request body to arrive": BODY_SECONDS}
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


BUILT_RESOURCES: dict[str, type[Answer]] = {
    "Platform": Platform,
    "Ledger connection": ledger.LedgerConnection,
    "User": auth.UserView,
    "Session": auth.SessionView,
    "New session": auth.NewSessionView,
    "Invitation": auth.InvitationView,
    "Removed": auth.Removed,
}


@pytest.mark.parametrize("name", BUILT_RESOURCES)
def test_a_resource_has_the_documented_fields(name: str) -> None:
    struct = BUILT_RESOURCES[name]
    rows = table(SPEC / "resources.md", name)
    assert [row["Field"] for row in rows] == [field.encode_name for field in msgspec.structs.fields(struct)]
    hints = get_type_hints(struct)
    for row in rows:
        may_be_null = type(None) in get_args(hints[row["Field"]])
        assert may_be_null == row["Type"].endswith("or null"), row["Field"]


def test_states_are_those_of_the_code() -> None:
    schema = (ROOT / "src/kontobahn/db/migrations/0001_platform.sql").read_text("utf-8")
    holds = schema[schema.index("CREATE TABLE credit_holds") :]
    in_database = re.search(r"state IN \(([^)]*)\)", holds)
    assert in_database is not None

    def states(heading: str) -> set[str]:
        return {row["State"] for row in table(SPEC / "states.md", heading)}

    assert states("Ledger connection") == set(get_args(ledger.ConnectionStatus))
    assert states("Invitation") == set(get_args(auth.InvitationStatus))
    assert states("Credit reservation") == set(re.findall(r"'(\w+)'", in_database[1]))


def _provoke(start_service: ServiceFactory) -> dict[str, list[httpx.Response]]:
    """Real answers, by the words of the headers table."""
    service = start_service(prices={FREE: 1})
    one = service.organization()
    path = FREE.partition(" ")[2]
    invite: dict[str, Any] = {"json": {"email": "a@muster.example"}, "headers": {"Idempotency-Key": "k"}}
    found = {
        "200": [service.get("/v2/ledger-duo/connections", one.key)],
        "400": [service.get("/v2/auth/users", one.key, params={"x": "1"})],
        "401": [service.get("/v2/auth/users"), service.get("/v2/auth/users", "kb_live_mistyped")],
        "404": [service.get("/v2/nowhere", one.key), service.get("/v2/nowhere")],
        "405": [service.post("/v2/ledger-duo/connections", one.key)],
        "priced": [service.get(path, one.key), service.get(path)],
        "201": [service.post("/v2/auth/invitations", one.key, **invite)],
        "replayed": [service.post("/v2/auth/invitations", one.key, **invite)],
    }
    found["429"] = [_above_the_limit(start_service(limit_api_requests=1))]
    service.db.close()
    found["503"] = [service.get("/v2/ledger-duo/connections", one.key)]
    return found


def _above_the_limit(service: Service) -> httpx.Response:
    service.get("/v2/nowhere")
    return service.get("/v2/nowhere")


@on_sqlite
def test_the_documented_headers_stand_on_real_answers(start_service: ServiceFactory) -> None:
    answers = _provoke(start_service)
    for case, given in answers.items():
        for answer in given:
            assert not case.isdigit() or answer.status_code == int(case), answer.text
    everything = [answer for given in answers.values() for answer in given]
    for row in table(SPEC / "limits.md", "Headers"):
        header, where = row["Header"], row["On"]
        for answer in everything if where == "every answer" else answers[where]:
            assert header in answer.headers, f"{header} is missing on {answer.status_code} {answer.request.url}"
            if row["Example"].isdigit():
                assert answer.headers[header].isdigit(), header
    special = {row["Header"] for row in table(SPEC / "limits.md", "Headers") if row["On"] != "every answer"}
    for header in special:
        assert header not in answers["200"][0].headers, f"{header} stands on an ordinary answer"


@on_sqlite
def test_errors_are_json_with_the_documented_fields(start_service: ServiceFactory) -> None:
    known = {row["Field"] for row in table(SPEC / "errors.md", "Errors")}
    for case, given in _provoke(start_service).items():
        for answer in given:
            assert answer.headers["content-type"] == "application/json"
            if answer.status_code >= 400:
                body = answer.json()
                assert {"error", "request_id"} <= body.keys() <= known, case
                assert body["request_id"] == answer.headers["x-request-id"]


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
