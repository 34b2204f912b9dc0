"""Every line that the README and the guide print for a shell works as printed, and what is said about it is true.

The blocks of a page run in order, in one folder, against one demo that a real process serves. What a person does in between at
the bank, or waits for, stands in the page as a comment. What a block must answer is below, by page and the block's first words.

The bank reports late: some bookings of days long past have come, and one was pending first, before a page begins; and another one
comes in the middle of every walk. No recipe of any page may miss one.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.journeys.process import ServerProcess, environment, kontobahn, serving
from tests.tidy_rules import ROOT
from tests.waiting import PATIENCE_SECONDS, eventually

# Lines that no test can run: each starts this very project, or the tests themselves. scripts/try_image.py and `make release` install it.
NOT_HERE = {"make run", "make test"}
LIST, CHANGES = "/v2/banking/transactions", "/v2/banking/transactions/changes"
# Keeps every answer that passes; and what is to happen in the middle of a walk happens after its first call.
CURL = """#!/bin/sh
answer=$(mktemp -p "{folder}/passed")
"{curl}" "$@" > "$answer"
code=$?
cat "$answer"
if [ -e "{folder}/meanwhile" ]; then sh "{folder}/meanwhile" >&2; rm -f "{folder}/meanwhile"; fi
exit $code
"""
STEP = re.compile(r"^```sh\n(.*?)^```|^<!-- (person|wait): (.*?) -->", re.DOTALL | re.MULTILINE)


class Shell(NamedTuple):
    """A terminal in a folder: variables that a block exports are there for the next one."""

    folder: Path
    server: ServerProcess
    # Balances of accounts when the demo had just been made.
    at_first: dict[str, float]

    def run(self, block: str) -> str:
        script = f'set -e\n[ -e .state ] && . ./.state\nPATH="$PWD/bin:$PATH"\n{block}\ndeclare -px > .state\n'
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=environment({}), capture_output=True, text=True, check=False,
            timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, (block, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("checkout")
    (folder / ".venv").symlink_to(sys.prefix)
    # Waiting means asking often.
    with serving(folder / "data", limit_api_requests=100_000) as server:
        (folder / "bin").mkdir()
        (folder / "passed").mkdir()
        (folder / "bin" / "curl").write_text(CURL.format(folder=folder, curl=shutil.which("curl")), "utf-8")
        (folder / "bin" / "curl").chmod(0o755)
        shell = Shell(folder, server, balances(server))
        report_late(shell, "Vorgemerkt", 1, "--pending")
        for days in (20, 50, 80):
            report_late(shell, f"Nachgereicht {days}", days)
        kontobahn("sandbox", "post-pending", server.facts["banking"]["connection_id"], data=server.data)
        eventually(lambda: all(row["status"] == "posted" for row in listed(shell)))
        yield shell
        server.stop()


def report_late(shell: Shell, text: str, days: int, *more: str) -> None:
    """Has the bank report a booking of so many days ago, and waits until it is here."""
    kontobahn(*_late_booking(shell, text, days), *more, data=shell.server.data)
    eventually(lambda: any(text in row["description"] for row in listed(shell)))


def _late_booking(shell: Shell, text: str, days: int) -> list[str]:
    account = shell.server.get(f"/v2/banking/accounts/{last_account(shell)}").json()["data"]
    day = date.today() - timedelta(days=days)
    wanted = ["--account", account["extra"]["iban"], "--amount", "1.11", "--text", text, "--date", day.isoformat()]
    return ["sandbox", "book", *wanted]


def report_meanwhile(shell: Shell) -> None:
    """Has the bank report one more booking of long ago right after the next call with curl."""
    text = f"Mittendrin {len(listed(shell))}"
    book = [sys.executable, "-m", "kontobahn", *_late_booking(shell, text, 70), "--data", str(shell.server.data)]
    wait = f"""
import json, urllib.request
from tests.waiting import eventually
request = urllib.request.Request({shell.server.facts["base_url"] + LIST + f"?account_id={last_account(shell)}"!r})
request.add_header("x-api-key", {shell.server.key!r})
eventually(lambda: {text!r} in urllib.request.urlopen(request).read().decode())
"""
    (shell.folder / "wait.py").write_text(wait, "utf-8")
    lines = [book, ["env", f"PYTHONPATH={ROOT}", sys.executable, str(shell.folder / "wait.py")]]
    (shell.folder / "meanwhile").write_text("set -e\n" + "\n".join(map(shlex.join, lines)) + "\n", "utf-8")


def listed(shell: Shell) -> list[dict[str, Any]]:
    answer = shell.server.get(LIST, params={"account_id": last_account(shell)})
    return list(answer.json()["data"])


def passed(shell: Shell) -> list[str]:
    """The ids of the transactions in all answers that curl has got since the last time."""
    found = []
    for file in sorted((shell.folder / "passed").iterdir(), key=lambda file: file.stat().st_mtime_ns):
        rows = re.findall(r'\{"change":"(?:added|modified)","id":"(\d+)"', text := file.read_text("utf-8", "replace"))
        found += rows or re.findall(r'"id":"(\d+)","account_id":', text)
        file.unlink()
    return found


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
    assert httpx.get(
        url, headers={"x-api-key": shell.server.key}, timeout=PATIENCE_SECONDS, trust_env=False
    ).content.startswith(b"%PDF")


def says(*words: str) -> Check:
    def check(printed: str, shell: Shell) -> None:
        for word in words:
            assert word in printed, printed

    return check


def of_class(*names: str) -> Check:
    return says(*(f'"evidence_class":"{name}"' for name in names))


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
    assert [(line["beleg"], line["amount"]) for line in found["lines"]] == [(document["beleg"], document["saldo"])]


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


def tickets_of_a_customer(printed: str, shell: Shell) -> None:
    """Invoiced are those of another page, if it came first."""
    found = {ticket["status"] for ticket in answer(printed)["tickets"]}
    assert {"open"} <= found <= {"open", "invoiced"}


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
    assert len(printed.splitlines()) > 2
    assert sorted(passed(shell)) == sorted(row["id"] for row in listed(shell)), "each once"


def every_change(printed: str, shell: Shell) -> None:
    first = passed(shell)
    assert sum(int(line.split()[0]) for line in printed.splitlines()) == len(first) > 0
    # What came meanwhile came too late for this answer, or is in it; the next run has the rest.
    ((_, block),) = [step for step in steps("docs/curl.md") if step[1].startswith("touch cursor")]
    shell.run(block)
    assert sorted(first + passed(shell)) == sorted(row["id"] for row in listed(shell)), "each once"


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
        "curl -X PUT": says('"konto":"1200'),
        "curl -H \"x-api-key: $KB_KEY\" -H 'content-type: application/json' \"$KB_URL/v2/reconciliation/runs": of_class("A2"),
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
        "# which books": says('"konto":"1200'),
        "# a trial run": of_class("A1", "A2", "A3", "A4", "B1", "B2", "C"),
        "# one more ticket": one_open_ticket,
        "# the customer": tickets_of_a_customer,
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
        "touch cursor": every_change,
        "printf 'not a statement'": answers(400),
    },
}  # fmt: skip


@pytest.mark.parametrize("page", CHECKS)
def test_the_lines_of_a_page_work_as_printed(shell: Shell, page: str) -> None:
    checks = dict(CHECKS[page])
    for kind, text in steps(page):
        if kind == "sh" and text not in NOT_HERE:
            (words,) = (words for words in checks if text.startswith(words))
            check = checks.pop(words)
            if check in (every_page, every_change):
                report_meanwhile(shell)
                passed(shell)
            check(shell.run(text), shell)
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
        assert httpx.post(url, data=form, timeout=PATIENCE_SECONDS, trust_env=False).status_code == 303


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
    assert len(first) == len(listed(shell)) > 100
    assert shell.run(block) == ""
    report_late(shell, "Nach dem Skript", 65)
    (late,) = shell.run(block).splitlines()
    assert late.startswith(f"{date.today() - timedelta(days=65)}")


def test_the_steps_for_make_read_everything_once(shell: Shell) -> None:
    text = (ROOT / "docs" / "make.md").read_text("utf-8")
    (path,) = re.findall(r"URL `https://konto\.example(/\S+)`, method GET", text)
    (limit,) = re.findall(
        r"Query string: `account_id`, `limit` = `(\d+)`, `cursor` = the `cursor` of the data store", text
    )
    data_store, had = {"cursor": ""}, list[str]()

    def scenario() -> bool:
        query = {"account_id": last_account(shell), "limit": limit, **data_store}
        page = shell.server.get(path, params=query).json()
        had.extend(change["id"] for change in page["data"] if change["change"] != "removed")
        data_store["cursor"] = page["cursor"]
        return bool(page["has_more"])

    assert scenario()
    report_late(shell, "Zwischen zwei Läufen", 61)
    while scenario():
        pass
    assert sorted(had) == sorted(row["id"] for row in listed(shell))


def test_the_workflow_for_n8n_passes_on_everything_once(shell: Shell) -> None:
    def run() -> list[str]:
        arguments = [ROOT / "docs/n8n/new-transactions.json", shell.server.facts["base_url"], shell.server.key]
        done = subprocess.run(
            ["node", ROOT / "tests/journeys/n8n_run.mjs", *arguments, shell.folder / "memory.json"],
            capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
        )  # fmt: skip
        return [row["id"] for row in json.loads(done.stdout) if row["account_id"] == last_account(shell)]

    assert sorted(run()) == sorted(row["id"] for row in listed(shell))
    assert run() == []
    report_late(shell, "Nach dem Workflow", 55)
    (late,) = run()
    assert late == max(listed(shell), key=lambda row: int(row["id"]))["id"]


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
