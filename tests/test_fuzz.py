"""schemathesis over the whole OpenAPI document: every check, boundaries, random input and chains of calls. The document's examples
are sent by tests/test_generated_client.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.bank_builder import Bank, facts
from tests.harness import ServiceFactory
from tests.tidy_rules import ROOT

MAX_SECONDS = 1800
CONFIG = Path(__file__).with_name("schemathesis.toml")
# Boundaries are the same every time: a third of the calls have theirs tried, the others on the next days.
PARTS = 3
# Parameters of nearly every call, which are read in one place: a fifth of all boundaries. One call in ten has them, others each day.
COMMON, ONE_IN = ("quelle", "organization_id", "Idempotency-Key"), 10


@pytest.fixture
def engine() -> str:
    """Once, on PostgreSQL: the stricter of the two."""
    return "postgres"


@pytest.mark.parametrize("phases", ["coverage", "fuzzing,stateful"])
def test_no_input_breaks_the_contract(
    start_service: ServiceFactory, tmp_path: Path, request: pytest.FixtureRequest, phases: str
) -> None:
    service = start_service(log_level="error", limit_webhook_requests=1_000_000)
    service.application.watch.close()  # `wait` then waits for nothing, or that alone would take all the time there is
    mine = service.organization(role="owner", credits_granted=1_000_000)
    service.user(mine, "erika@muster.example")
    service.ledger_connection(mine)
    Bank(service).connected(mine, facts(1))
    seed = str(request.config.getoption("--hypothesis-seed") or 1)
    document = service.get("/openapi.json").json()
    if phases == "coverage":
        _leave_common_parameters_to_few(document, int(seed))
    (tmp_path / "openapi.json").write_text(json.dumps(document), "utf-8")
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "--config-file", str(CONFIG), "run", "openapi.json",
        "--url", service.base_url, "--phases", phases,
        "--header", f"x-api-key: {mine.key}", "--checks", "all", "--max-examples", "2", "--seed", seed,
        "--generation-database", "none", "--warnings", "off", "--request-timeout", "180",
        *_chosen(document, int(seed) if phases == "coverage" else None),
    ]  # fmt: skip
    # Tables of characters are kept there, which take a tenth of the time to make; no example is.
    environment = os.environ | {"HYPOTHESIS_STORAGE_DIRECTORY": str(ROOT / ".hypothesis")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=MAX_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert service.get("/v2/auth/users", mine.key).status_code == 200


def _chosen(document: dict[str, Any], seed: int | None) -> list[str]:
    """The options that leave the calls of another day out; none without a seed."""
    calls = [call["operationId"] for path in document["paths"].values() for call in path.values()]
    chosen = [] if seed is None else [name for number, name in enumerate(calls) if (number + seed) % PARTS == 0]
    return [f"--include-operation-id={name}" for name in chosen]


def _leave_common_parameters_to_few(document: dict[str, Any], seed: int) -> None:
    calls = [call for path in document["paths"].values() for call in path.values()]
    for number, call in enumerate(calls):
        if (number + seed) % ONE_IN:
            call["parameters"] = [
                found for found in call["parameters"] if found["in"] == "path" or found["name"] not in COMMON
            ]
