"""The mobility area as an operator uses it: files by the command line, and processes that die in the middle."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.journeys.process import ServerProcess, answer, kontobahn, serving
from tests.mobility_builder import CUSTOMER, SELLER, ticket
from tests.waiting import PATIENCE_SECONDS, eventually

HEADER = "product;holder_reference;valid_from;price_in_cents;vat_rate\n"
ROWS = "Deutschlandticket Job;PN-1;2026-03;6300;7\nDeutschlandticket Job;PN-2;2026-03;6300;7\n"
LIMITS: dict[str, Any] = {"limit_api_requests": 1_000_000}


@pytest.fixture
def settings(engine: str, request: pytest.FixtureRequest) -> dict[str, Any]:
    return {} if engine == "sqlite" else {"database_url": request.getfixturevalue("database_url")}


@pytest.mark.parametrize("engine", ["sqlite"])
def test_from_an_empty_installation_to_a_paid_invoice(tmp_path: Path, settings: dict[str, Any]) -> None:
    def run(*arguments: str) -> Any:
        return answer(*arguments, data=tmp_path, **settings)

    kontobahn("migrate", data=tmp_path, **settings)
    run("organizations", "create", "--name", "Verbund")
    made = run(
        "customers", "create", "--name", "Krüger GmbH", "--street", "A 1", "--postal-code", "70565", "--city", "Ulm",
        "--email", "rechnung@krueger.example",
    )  # fmt: skip
    shown = run("seller", "show")
    assert shown["missing"][0] == "name"
    shown = run(
        "seller", "set", *(text for name, value in SELLER.items() for text in (f"--{name.replace('_', '-')}", value))
    )
    assert (shown["missing"], shown["seller"]["iban"]) == ([], "DE02120300000000202051")
    assert run("seller", "set", "--bic", "")["seller"]["bic"] is None
    refused = kontobahn("seller", "set", "--iban", "DE00", data=tmp_path, expect=1, **settings)
    assert "iban" in refused.stderr.lower()

    file = tmp_path / "tickets.csv"
    file.write_text(HEADER + ROWS, "utf-8")
    take = ("import", "tickets", str(file), "--customer", made["id"])
    assert run(*take) == {"file": str(file), "imported": 2, "unchanged": 0, "refused": [], "error": None}
    assert run(*take)["unchanged"] == 2, "the same file twice bills nothing twice"
    assert run("customers", "list")[0]["open_tickets"] == 2

    bad = HEADER + ROWS + "A;PN-3;2026-03;-1;7\nDeutschlandticket Job;PN-1;2026-03;5800;7\nB;PN-4;2026-03;1000;7\n"
    file.write_text(bad, "utf-8")
    whole = json.loads(kontobahn(*take, "--json", data=tmp_path, expect=1, **settings).stdout)
    assert (whole["imported"], whole["error"]) == (0, "2 rows were refused; nothing was imported.")
    assert [(row["line"], row["column"]) for row in whole["refused"]] == [(4, "price_in_cents"), (5, "valid_from")]
    partly = json.loads(kontobahn(*take, "--partial", "--json", data=tmp_path, expect=1, **settings).stdout)
    assert (partly["imported"], partly["unchanged"], len(partly["refused"]), partly["error"]) == (1, 2, 2, None)
    file.write_text("produkt\n", "utf-8")
    wrong = json.loads(kontobahn(*take, "--json", data=tmp_path, expect=1, **settings).stdout)
    assert "lacks these columns" in wrong["error"]
    printed = kontobahn(*take, data=tmp_path, expect=1, **settings).stdout
    assert "lacks these columns" in printed
    nobody = kontobahn(
        "import", "tickets", str(file), "--customer", "0193b2a0-0000-7000-8000-00000000abcd", data=tmp_path, expect=1, **settings
    )  # fmt: skip
    assert "no mobility customer" in nobody.stderr


def _post(server: ServerProcess, path: str, body: Any = None) -> Any:
    response = server.http.post(f"/v2/mobility{path}", headers={"x-api-key": server.key}, json=body)
    assert response.status_code == 201, response.text
    return response.json()


async def _invoice_all(server: ServerProcess, customers: list[str], kill_after: int) -> int:
    """Invoice every customer at once and kill the server after so many answers."""
    done = 0
    async with aiohttp.ClientSession(server.facts["base_url"], headers={"x-api-key": server.key}) as http:

        async def call(customer_id: str) -> None:
            nonlocal done
            try:
                async with http.post(f"/v2/mobility/customers/{customer_id}/invoice") as response:
                    assert response.status == 201
                    await response.read()
            except aiohttp.ClientError:
                return
            done += 1
            if done == kill_after:
                server.process.kill()

        await asyncio.gather(*map(call, customers))
    return done


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_a_process_killed_in_the_middle_leaves_no_gap_and_no_invoice_without_documents(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    settings = {**settings, **LIMITS}
    answered = 0
    with serving(tmp_path, **settings) as server:
        customers = [_post(server, "/customers", CUSTOMER)["id"] for _ in range(12)]
        for customer_id in customers:
            tickets = [ticket(f"PN-{number}") for number in range(30)]
            _post(server, f"/customers/{customer_id}/tickets", {"tickets": tickets})
        answered = asyncio.run(_invoice_all(server, customers, kill_after=4))
        server.process.wait(PATIENCE_SECONDS)
    assert answered < len(customers)
    with serving(tmp_path, **settings) as server:
        found = server.get("/v2/mobility/invoices").json()
        assert answered <= len(found)
        for customer_id in set(customers) - {item["customer_id"] for item in found}:
            _post(server, f"/customers/{customer_id}/invoice")
        found = server.get("/v2/mobility/invoices").json()
        scheme = found[0]["invoice_number"].rpartition("-")[0]
        assert [item["invoice_number"] for item in found] == [f"{scheme}-{number:05d}" for number in range(1, 13)]
        assert sorted(item["customer_id"] for item in found) == sorted(customers), "each was billed once"
        assert {item["ticket_count"] for item in found} == {30}
        # What the dead process had begun is made once its claim has ended.
        for item in found:
            eventually(lambda url=item["invoice_pdf_url"]: server.get(url).content.startswith(b"%PDF"))  # type: ignore[misc]
        findings = answer("doctor", "--books", data=tmp_path, **settings)
        assert "no gap" in next(item["finding"] for item in findings if item["area"] == "invoices")
        assert [item for item in findings if item["state"] == "failed"] == []
        server.stop()
