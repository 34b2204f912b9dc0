"""The n8n node is held to the API: each call has its operation, and the package keeps the rules of verified nodes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from scripts import n8n_operations, n8n_tasks
from scripts.n8n_operations import Table
from tests.openapi_samples import REAL, build
from tests.tidy_rules import ROOT

PACKAGE = ROOT / "clients" / "n8n"
MADE = json.loads((PACKAGE / "nodes" / "Kontobahn" / "operations.json").read_text("utf-8"))
OPERATIONS = [operation for resource in MADE["resources"] for operation in resource["operations"]]
DESCRIPTION: dict[str, Any] = json.loads((PACKAGE / "package.json").read_text("utf-8"))


def test_the_table_is_what_the_document_makes() -> None:
    assert n8n_operations.TARGET.read_text("utf-8") == n8n_operations.text(), "Run `make n8n-operations`."


def test_a_new_call_without_an_operation_is_noticed() -> None:
    document = copy.deepcopy(build(REAL))
    path = document["paths"]["/v2/banking/accounts"]
    path["post"] = {**path["get"], "operationId": "create_bank_account"}
    with pytest.raises(SystemExit, match="create_bank_account"):
        Table(document).whole()


def test_every_call_stands_once() -> None:
    calls = [operation["call"] for operation in OPERATIONS]
    assert sorted({*calls, *n8n_tasks.LEFT_OUT}) == sorted([*calls, *n8n_tasks.LEFT_OUT])
    values = [
        (resource["value"], operation["value"])
        for resource in MADE["resources"]
        for operation in resource["operations"]
    ]
    assert len(set(values)) == len(values)


def test_lists_of_choices_are_free() -> None:
    calls = Table(build(REAL)).calls
    priced = [
        name for name, search in MADE["searches"].items()
        if calls[search["call"]][2]["x-credits"] and not calls[search["call"]][2]["x-free-as-dropdown"]
    ]  # fmt: skip
    assert priced == []


def test_every_amount_of_a_body_is_known_as_one() -> None:
    missing = [
        (operation["call"], field["name"]) for operation in OPERATIONS for field in operation["fields"]
        if field["kind"] == "amount" and field["in"] == "body" and field["name"] not in operation["numbers"]
    ]  # fmt: skip
    assert missing == []
    [cash] = [operation for operation in OPERATIONS if operation["call"] == "create_kassenbucheintrag"]
    assert "betrag" in cash["numbers"]


def test_the_package_keeps_the_rules_of_verified_nodes() -> None:
    assert DESCRIPTION["name"] == "n8n-nodes-kontobahn"
    assert DESCRIPTION["license"] == "MIT"
    assert DESCRIPTION["files"] == ["dist"]
    assert DESCRIPTION["peerDependencies"] == {"n8n-workflow": "*"}
    assert not {"dependencies", "bundledDependencies", "optionalDependencies", "overrides"} & DESCRIPTION.keys()
    assert set(DESCRIPTION["scripts"]) == {"build", "dev", "lint", "test"}
    assert not list(PACKAGE.glob("*lock*"))


def test_everything_that_the_package_registers_is_there() -> None:
    registered = [*DESCRIPTION["n8n"]["nodes"], *DESCRIPTION["n8n"]["credentials"]]
    sources = [PACKAGE / Path(path).relative_to("dist").with_suffix(".ts") for path in registered]
    found = [*PACKAGE.glob("nodes/*/*.node.ts"), *PACKAGE.glob("credentials/*.ts")]
    assert sorted(sources) == sorted(found)
    assert {path.stem.partition(".")[0] for path in found} == {
        "Kontobahn", "KontobahnTrigger", "KontobahnTransactionTrigger", "KontobahnApi",
    }  # fmt: skip
