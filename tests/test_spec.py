"""The documents say what the service does: endpoints, limits, errors, settings, commands and layers.

Resources and states are held by test_spec_resources.py, headers and error bodies by test_spec_answers.py.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator

import pytest

from kontobahn import errors, limits, outbound
from kontobahn.access import principal
from kontobahn.api import bodies, declare, idempotency, pages, tasks, uploads, wire
from kontobahn.api.declare import Endpoint
from kontobahn.banking import wire as banking_wire
from kontobahn.banking.connections.flows import PLACEHOLDER_LIFETIME
from kontobahn.banking.payments import order_files
from kontobahn.books import store
from kontobahn.clock import MINUTE
from kontobahn.db import sqlite
from kontobahn.events import event_log
from kontobahn.ledger import buchungen, kassenbuch
from kontobahn.ledger import errors as ledger_errors
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.routes import rewe_read
from kontobahn.mobility import customers, seller
from kontobahn.schedule import scheduled_jobs
from kontobahn.settings import Settings
from kontobahn.webhooks import endpoints
from tests.harness import ServiceFactory
from tests.spec_pages import ENDPOINTS, ROOT, SPEC, documented_endpoints, on_sqlite, table, tables


def _as_documented(endpoint: Endpoint) -> dict[str, str]:
    role = f", {endpoint.role}" if endpoint.role in ("admin", "owner") else ""
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


def test_the_scopes_are_as_documented() -> None:
    rows = table(SPEC / "scopes.md", "Scopes")
    assert {row["Scope"]: row["Allows"] for row in rows} == principal.MEANINGS
    assert list(principal.MEANINGS) == list(principal.SCOPES)


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
        "idempotency key, length": idempotency.MAX_KEY_LENGTH,
        "request body below `/v2/auth/` (16 KiB)": declare.SMALL_BODY,
        "request body (1 MiB)": declare.JSON_BODY,
        "bookings or tickets by call (5 MiB)": declare.BODY_WITH_ROWS,
        "waiting for a locked database (SQLite)": sqlite.BUSY_TIMEOUT_MS // 1000,
        "delivery of a provider (1 MiB)": declare.JSON_BODY,
        "cash book entry with its receipts (28 MiB)": declare.BODY_WITH_RECEIPTS,
        "cash book entry without its receipts (5 MiB)": wire.MAX_PLAIN_BYTES,
        "form of a page (16 KiB)": pages.MAX_FORM_BYTES,
        "form of a connect page with a data sheet (1 MiB)": pages.MAX_SHEET_BYTES,
        "query (8 KiB)": wire.MAX_QUERY_BYTES,
        "levels of a body": wire.MAX_DEPTH,
        "objects and arrays of a body": wire.MAX_CONTAINERS,
        "time for any body or file to arrive": bodies.WHOLE_BODY_SECONDS,
        "files of an organisation arriving at once": uploads.AT_ONCE,
        "large files of an organisation worked on at once": tasks.RUNNING_AT_ONCE,
        "task that is over, kept": tasks.KEPT_DAYS,
        "receipt image, decoded (20 MB)": kassenbuch.MAX_IMAGE_BYTES,
        "receipt images of one entry": kassenbuch.MAX_IMAGES,
        "lines of one cash book entry": kassenbuch.MAX_LINES,
        "bookings of one call": buchungen.MAX_BOOKINGS,
        "logo on invoices (256 KiB)": seller.MAX_LOGO_BYTES,
        "`custom_fields` (4 KiB)": banking_wire.CUSTOM_FIELDS_BYTES,
        "unfinished connect flow": PLACEHOLDER_LIFETIME // MINUTE,
        "webhook URL, length": outbound.MAX_URL_LENGTH,
        "events of one page": event_log.MAX_EVENTS,
        "further webhook endpoints of an organisation": endpoints.MAX_ENDPOINTS,
        "waiting for an event": event_log.MAX_WAIT_SECONDS,
        "tickets added by one call": customers.MAX_NEW_TICKETS,
        "orders in one file": order_files.MAX_PAYMENTS,
    }
    for row in table(SPEC / "limits.md", "Sizes and times"):
        value = int(row["Value"])
        if row["Setting"] == "fixed":
            assert fixed.pop(row["What"]) == value
        elif row["Setting"] != "planned":
            assert getattr(Settings(), row["Setting"]) == value, row["What"]
    assert fixed == {}


@on_sqlite
def test_the_jobs_are_those_of_the_service(start_service: ServiceFactory) -> None:
    jobs = scheduled_jobs(start_service().application.context)
    documented = [(row["Job"], row["Every"]) for row in table(ROOT / "docs" / "architecture.md", "Jobs")]
    assert documented == [(job.name, f"{job.every_seconds} s") for job in jobs]


def test_every_status_of_an_error_is_documented_and_no_other() -> None:
    def tree(root: type[errors.KontobahnError]) -> Iterator[type[errors.KontobahnError]]:
        yield root
        for child in root.__subclasses__():
            yield from tree(child)

    documented = {int(row["Status"]) for row in table(SPEC / "errors.md", "Statuses")}
    assert documented == {error.status for error in tree(errors.KontobahnError)}


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
        assert rewe_read.classify(error).status == rows.pop(words)
    assert list(rows.values()) == [rewe_read.not_checkable().status]


def test_every_area_belongs_to_a_documented_service() -> None:
    (rows,) = (rows for _, rows in tables(SPEC / "errors.md") if "Service" in rows[0])
    assert {row["Service"] for row in rows} == set(store.SUBSCRIPTIONS)
    assert {store.needed_subscription(area) for area in ledger_errors.AREAS} == set(store.SUBSCRIPTIONS)


def test_the_documents_name_only_tables_that_exist() -> None:
    schema = "".join(path.read_text("utf-8") for path in (ROOT / "src/kontobahn/db/schema").glob("*.sql"))
    there = set(re.findall(r"CREATE TABLE (\w+)", schema))
    for page in (ROOT / "docs").rglob("*.md"):
        named = set(re.findall(r"`(books_\w+)`", page.read_text("utf-8")))
        assert named - there == set(), page.name


def test_the_layers_are_those_of_the_import_check() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = re.search(r"```layers\n(.*?)\n```", page, re.DOTALL)
    assert block is not None
    assert block[1].splitlines() == project["tool"]["importlinter"]["contracts"][0]["layers"]
