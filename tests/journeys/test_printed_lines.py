"""Every line that the README and the guide print for a shell works as printed, and what is said about it is true.

The blocks of a page run in order, in one folder, against one demo that a real process serves. What a person does in between at
the bank, or waits for, stands in the page as a comment. What a block must answer is below, by page and the block's first words.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.journeys.process import ServerProcess, environment, serving
from tests.tidy_rules import ROOT
from tests.waiting import eventually

# What no test can run: it starts this very project, or the tests themselves. scripts/try_image.py and `make release` install it.
NOT_HERE = {"make run", "make test"}
STEP = re.compile(r"^```sh\n(.*?)^```|^<!-- (person|wait): (.*?) -->", re.DOTALL | re.MULTILINE)


class Shell(NamedTuple):
    """A terminal in a folder: variables that a block exports are there for the next one."""

    folder: Path
    server: ServerProcess
    # Balances of accounts when the demo had just been made.
    at_first: dict[str, float]

    def run(self, block: str) -> str:
        script = f"set -e\n[ -e .state ] && . ./.state\n{block}\ndeclare -px > .state\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=environment({}), capture_output=True, text=True, timeout=120, check=False
        )  # fmt: skip
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / ".venv").symlink_to(sys.prefix)
    # Waiting means asking often.
    with serving(folder / "data", limit_api_requests=100_000) as server:
        yield Shell(folder, server, balances(server))
        server.stop()


def steps(page: str) -> list[tuple[str, str]]:
    text = (ROOT / page).read_text("utf-8")
    return [(match[2] or "sh", (match[3] or match[1]).strip()) for match in STEP.finditer(text)]


def answer(printed: str) -> Any:
    """The JSON at the end of what curl printed, with or without headers."""
    return json.loads(printed[printed.index("{") if "{" in printed else printed.index("[") :])


def status(printed: str) -> list[int]:
    return [int(code) for code in re.findall(r"HTTP/1\.1 (\d{3})", printed)]


# --- What a page says about its blocks. Each takes what was printed, and the terminal.

Check = Callable[[str, Shell], None]


def accounts_with_balances(printed: str, shell: Shell) -> None:
    assert [row["balance"] > 0 for row in answer(printed)["data"][:2]] == [True, True]


def owed(printed: str, shell: Shell) -> None:
    (konto,) = answer(printed)["data"]["konten"]
    assert konto["kontonummer"] == "100100000"
    assert round(sum(item["saldo"] for item in konto["posten"]), 2) == konto["totalSaldo"] > 0


def invoice_with_a_pdf(printed: str, shell: Shell) -> None:
    url = answer(printed)["invoice_pdf_url"]
    assert httpx.get(url, headers={"x-api-key": shell.server.key}, trust_env=False).content.startswith(b"%PDF")


def says(*words: str) -> Check:
    def check(printed: str, shell: Shell) -> None:
        for word in words:
            assert word in printed, printed

    return check


def answers(*codes: int) -> Check:
    def check(printed: str, shell: Shell) -> None:
        assert status(printed) == list(codes), printed

    return check


def settled(printed: str, shell: Shell) -> None:
    assert answer(printed)["data"]["status"] == "settled"


def last_two_events(printed: str, shell: Shell) -> None:
    newest, before = answer(printed)["data"]
    assert newest["data"]["status"] == "settled"
    assert before["received_at"] <= newest["received_at"]
    assert newest["subject"] == before["subject"]


def booking_of_the_payment(printed: str, shell: Shell) -> None:
    payment = json.loads((shell.folder / "payment.json").read_text())["data"]["id"]
    assert [row["amount"] for row in answer(printed)["data"] if row["payment_id"] == payment] == [-12.34]


def first_owed(shell: Shell) -> Any:
    return json.loads((shell.folder / "owed.json").read_text())["data"]["konten"][0]["posten"][0]


def matched(printed: str, shell: Shell) -> None:
    document, found = first_owed(shell), answer(printed)["data"]
    assert [(line["beleg"], line["betrag"]) for line in found["zeilen"]] == [(document["beleg"], document["saldo"])]


def created_payment(printed: str, shell: Shell) -> None:
    assert answer(printed)["data"]["status"] == "initiated"


def oldest_first(printed: str, shell: Shell) -> None:
    ids = [int(row["id"]) for row in answer(printed)["data"]]
    assert ids == sorted(ids)
    assert len(ids) == 5


def newest_first(printed: str, shell: Shell) -> None:
    times = [row["received_at"] for row in answer(printed)["data"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 3


def balances(server: ServerProcess) -> dict[str, float]:
    books = server.facts["ledger"]
    query = {"connectionId": books["connection_id"], "geschaeftsjahrStartDatum": books["fiscal_years"][-1]}
    rows = server.get("/v2/ledger-rewe-read/susa", params=query).json()["data"]
    return {row["kontonummer"][:4]: row["saldo"]["betrag"] for row in rows}


def net_and_tax(printed: str, shell: Shell) -> None:
    assert answer(printed)["ledgerAntwort"]["status"] == "SUCCESS"
    now = balances(shell.server)
    assert {konto: round(now[konto] - shell.at_first[konto], 2) for konto in ("4930", "1576")} == {
        "4930": 10.0,
        "1576": 1.9,
    }


def tickets_of_both_kinds(printed: str, shell: Shell) -> None:
    assert {ticket["status"] for ticket in answer(printed)["tickets"]} == {"open", "invoiced"}


def one_open_ticket(printed: str, shell: Shell) -> None:
    (ticket,) = json.loads(printed)
    assert (ticket["status"], ticket["amount_in_cents"]) == ("open", 6300)


def documents(printed: str, shell: Shell) -> None:
    assert (shell.folder / "invoice.pdf").read_bytes().startswith(b"%PDF")
    assert b"CrossIndustryInvoice" in (shell.folder / "invoice.xml").read_bytes()


def same_connections(printed: str, shell: Shell) -> None:
    mine = shell.server.get("/v2/ledger-rewe-read/connections").json()["connections"]
    assert answer(printed)["connections"] == mine


def replayed_once(printed: str, shell: Shell) -> None:
    assert status(printed) == [201, 201]
    assert printed.lower().count("idempotent-replayed: true") == 1


def every_page(printed: str, shell: Shell) -> None:
    assert printed.splitlines()[-1].startswith("up to ")
    last = printed.rsplit(maxsplit=1)[-1]
    rows = shell.server.get("/v2/banking/transactions", params={"account_id": last_account(shell), "from_id": last})
    assert rows.json()["data"] == []


def last_account(shell: Shell) -> str:
    return str(shell.server.facts["banking"]["account_id"])


CHECKS: dict[str, dict[str, Check]] = {
    "README.md": {
        "eval": says(),
        "# the accounts": accounts_with_balances,
        "# what a customer owes": owed,
        "# one invoice": invoice_with_a_pdf,
    },
    "docs/tutorial.md": {
        "eval": says("http://127.0.0.1:"),
        'curl -H "x-api-key: $KB_KEY" "$KB_URL/v2/banking/accounts/$KB_ACCOUNT"': says("Geschäftskonto", '"balance":', '"iban":'),
        'curl -H "x-api-key: $KB_KEY" -H \'content-type: application/json\' -H \'idempotency-key': created_payment,
        "export PAYMENT": says("/sandbox/pay/"),
        'curl -H "x-api-key: $KB_KEY" "$KB_URL/v2/banking/payments': settled,
        'curl -H "x-api-key: $KB_KEY" "$KB_URL/v2/banking/events': last_two_events,
        ".venv/bin/kontobahn sandbox refresh": says("Musterbank"),
        'curl -H "x-api-key: $KB_KEY" "$KB_URL/v2/banking/transactions': booking_of_the_payment,
        'curl -H "x-api-key: $KB_KEY" "$KB_URL/v2/ledger-rewe-read/opos': says("euros are open"),
        "export IBAN": says("Booked ", "Geschäftskonto"),
        "curl -X PUT": says('"sachkonto":"1200'),
        "curl -H \"x-api-key: $KB_KEY\" -H 'content-type: application/json' \"$KB_URL/v2/reconciliation/runs": says('"klasse":"A2"'),
        "export PROPOSAL": matched,
    },
    "docs/tour.md": {
        "eval": says(),
        "# the demo's connections": says("200 OK", "ratelimit-remaining"),
        "# the adviser's office": same_connections,
        "# another organisation": answers(404),
        "# a misspelt": says("organization_id", '"field":"organisation"'),
        "# sent twice": replayed_once,
        "# what the first customer": owed,
        "# what it owed": owed,
        "# this year's sales": says("8400"),
        "# 11.90": net_and_tax,
        "# a client that": answers(403),
        "# the accounts": accounts_with_balances,
        "# what was booked": oldest_first,
        "# one more bank": says("connect_url"),
        "# the three latest": newest_first,
        "# which books": says('"sachkonto":"1200'),
        "# a trial run": says(*(f'"klasse":"{name}"' for name in ("A1", "A2", "A3", "A4", "B1", "B2", "C"))),
        "# one more ticket": one_open_ticket,
        "# the customer": tickets_of_both_kinds,
        "# one invoice": invoice_with_a_pdf,
        "# a second call": answers(409),
        "# the documents": documents,
    },
    "docs/curl.md": {
        "eval": says(),
        "printf 'header": accounts_with_balances,
        "curl --fail-with-body": says("exit code 22", "error"),
        "curl --retry": says("erika.curl@muster.example"),
        "from=0": every_page,
        "printf 'not a statement'": answers(400),
    },
}  # fmt: skip


@pytest.mark.parametrize("page", CHECKS)
def test_the_lines_of_a_page_work_as_printed(shell: Shell, page: str) -> None:
    checks = dict(CHECKS[page])
    for kind, text in steps(page):
        if kind == "sh" and text not in NOT_HERE:
            (words,) = (words for words in checks if text.startswith(words))
            checks.pop(words)(shell.run(text), shell)
        elif kind != "sh":
            PERSONS[kind, text](shell)
    assert checks == {}, "blocks that are not on the page"


def confirm_payment(shell: Shell) -> None:
    url = json.loads((shell.folder / "payment.json").read_text())["data"]["payment_url"]
    for form in (
        {"action": "login", "user_name": "demo", "password": "any"},
        {"action": "tan", "tan": "123456"},
        {"action": "confirm"},
    ):
        assert httpx.post(url, data=form, trust_env=False).status_code == 303


def wait_until_settled(shell: Shell) -> None:
    payment = json.loads((shell.folder / "payment.json").read_text())["data"]["id"]
    path = f"/v2/banking/payments/{payment}"
    eventually(lambda: shell.server.get(path).json()["data"]["status"] == "settled")


def wait_until_booked(shell: Shell) -> None:
    payment = json.loads((shell.folder / "payment.json").read_text())["data"]["id"]
    path, query = "/v2/banking/transactions/changes", {"account_id": last_account(shell), "limit": "1000"}
    eventually(lambda: f'"payment_id":"{payment}"' in shell.server.get(path, params=query).text)


def wait_until_the_customer_paid(shell: Shell) -> None:
    path, query = "/v2/banking/transactions/changes", {"account_id": last_account(shell), "limit": "1000"}
    eventually(lambda: f"Rechnung {first_owed(shell)['beleg']}" in shell.server.get(path, params=query).text)


PERSONS: dict[tuple[str, str], Callable[[Shell], None]] = {
    ("person", "confirms the payment"): confirm_payment,
    ("wait", "settled"): wait_until_settled,
    ("wait", "booked"): wait_until_booked,
    ("wait", "paid by the customer"): wait_until_the_customer_paid,
}


def test_the_script_of_the_python_page_reads_everything_once(shell: Shell) -> None:
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    (script,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (shell.folder / "transactions.py").write_text(script, "utf-8")
    ((_, block),) = steps("docs/python.md")
    first = shell.run(block).splitlines()
    # How many days of the demo have movements depends on today's date.
    account = shell.server.get("/v2/banking/accounts").json()["data"][0]["id"]
    listed = shell.server.get("/v2/banking/transactions", params={"account_id": account}).json()["data"]
    assert len(first) == len(listed) > 100
    assert shell.run(block) == ""


def test_the_first_organisation_and_a_tried_restore_work_as_printed(tmp_path: Path, shell: Shell) -> None:
    (tmp_path / "kontobahn").symlink_to(Path(sys.executable).parent / "kontobahn")
    alone = Shell(tmp_path, shell.server, {})
    ((_, first),) = steps("docs/install.md")
    path = 'export PATH="$PWD:$PATH" KONTOBAHN_DATA="$PWD/data"\n'
    assert "kb_live_" in alone.run(path + first)
    ((_, restore),) = steps("docs/backup.md")
    assert "every read model equals its bookings" in alone.run(path + restore)


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.split()) <= 1000
    assert len(re.findall(r"^!\[", text, re.MULTILINE)) == 2
