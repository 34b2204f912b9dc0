"""Builds the n8n package, holds it to the rules of verified nodes, and runs it in a real n8n against the demo: `make test-n8n`.

Node 24, n8n and the tools are installed from npm into data/n8n-node, once: 3 GB, some fifteen minutes. The package itself is tried as
users have it: packed, and installed from the file. Everything runs on loopback and ends with the script.
"""

from __future__ import annotations

import base64
import hmac
import http.cookiejar
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.n8n_samples import Samples
from scripts.test_n8n import VERSION as OLD_VERSION
from scripts.test_n8n import Inbox, answers, running, wait_until
from scripts.test_n8n import install as install_old

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "clients" / "n8n"
HOME = Path(os.environ.get("N8N_NODE_FOLDER", ROOT / "data" / "n8n-node"))
N8N_VERSION, NODE_VERSION = "2.41.1", "24.21.0"
# Packages that others name and that cannot be had.
MISSING = {"xlsx": "0.18.5", "@langchain/langgraph-checkpoint": "1.1.5", "@langchain/protocol": "0.0.19",
           "cssomnom": "npm:rrweb-cssom@0.8.0"}  # fmt: skip
# The linter does without it.
UNUSED = {"@n8n/ai-node-sdk": "npm:is-number@7.0.0"}
SERVICE_PORT, N8N_PORT, BROKER_PORT = 18280, 18281, 18282
PASSWORD = "Trial-of-the-node-1"
# Over what n8n takes anyway. It copies what a node returns several times: to the next node, the editor and its database.
MAX_MEMORY_OF_ROWS = 200_000_000
# The statuses that a service may answer with to a call that is well made but asks for what the demo has not, or does not allow now.
REFUSALS = (402, 403, 404, 409, 422, 503)
# These read what they are sent, and it is a bank's file and the document's example: no picture, no DATEV file, not this invoice's sum.
UNFIT = ("PUT /v2/mobility/seller/logo", "POST /v2/ledger-rewe/imports", "PUT /v2/payables/{id}/booking",
         "POST /v2/payables/{id}/creditor")  # fmt: skip


class Version(NamedTuple):
    """An n8n that the package is tried in."""

    name: str
    program: Path
    environment: dict[str, str]

    @property
    def is_old(self) -> bool:
        return self.name.startswith("1.")


class Bench:
    """Node 24, the tools and n8n, and the folders they are in."""

    def __init__(self) -> None:
        self.node, self.tools, self.n8n = HOME / "node24", HOME / "tools", HOME / "n8n"
        # Programs that fetch need whatever the machine says about proxies and certificates.
        self.environment = {**os.environ, "PATH": f"{self.node / 'node_modules' / 'node' / 'bin'}:{os.environ['PATH']}"}

    def install(self) -> None:
        described = json.loads((PACKAGE / "package.json").read_text("utf-8"))["devDependencies"]
        scanner = {"@n8n/scan-community-package": "0.32.0"}
        self.npm(self.node, {"node": NODE_VERSION}, {}, [], "node_modules/node/bin/node")
        self.npm(self.tools, {**described, **scanner}, UNUSED, ["--ignore-scripts"], "node_modules/.bin/tsc")
        self.npm(self.n8n, {"n8n": N8N_VERSION}, MISSING, ["--ignore-scripts"], "node_modules/.bin/n8n")
        if not list(self.n8n.glob("node_modules/sqlite3/build/Release/*.node")):
            self.run(self.n8n, "npm", "rebuild", "sqlite3")

    def versions(self) -> list[Version]:
        """The current one on Node 24, and the last of the line before, on whatever Node there is."""
        old = {"PATH": os.environ["PATH"], "N8N_RUNNERS_ENABLED": "false", "N8N_EXPRESSION_ENGINE": "legacy"}
        own = {"PATH": self.environment["PATH"]}
        current = Version(N8N_VERSION, self.n8n / "node_modules" / ".bin" / "n8n", own)
        return [current, Version(OLD_VERSION, install_old(self.n8n), old)]

    def npm(self, folder: Path, wanted: dict[str, str], other: dict[str, str], options: list[str], made: str) -> None:
        if not (folder / made).exists():
            folder.mkdir(parents=True, exist_ok=True)
            package = {"private": True, "dependencies": wanted, "overrides": other}
            (folder / "package.json").write_text(json.dumps(package))
            quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--legacy-peer-deps", *options]
            self.run(folder, "npm", "install", *quiet)

    def run(self, folder: Path, *command: str) -> str:
        done = subprocess.run(command, cwd=folder, env=self.environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout


def pack(bench: Bench, folder: Path) -> Path:
    """Builds, checks and packs the package in a folder of its own, so that nothing is left in the tree."""
    source = folder / "package"
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("dist", "node_modules"))
    (source / "node_modules").symlink_to(bench.tools / "node_modules")
    tools = "node_modules/.bin"
    bench.run(source, f"{tools}/n8n-node", "build")
    bench.run(source, f"{tools}/eslint", ".", "--max-warnings", "0")
    bench.run(source, f"{tools}/vitest", "run")
    bench.run(source, "npm", "pack", "--pack-destination", str(folder))
    [packed] = folder.glob("*.tgz")
    unpacked = folder / "unpacked"
    unpacked.mkdir()
    shutil.unpack_archive(packed, unpacked, filter="data")
    files = {
        path.relative_to(unpacked / "package").parts[0] for path in (unpacked / "package").rglob("*") if path.is_file()
    }
    assert files == {"dist", "LICENSE", "README.md", "package.json"}, f"packed: {files}"
    scan(bench, unpacked / "package", "[]")
    scan(bench, source, "SOURCE_FILE_PATTERNS")
    print(f"{packed.name}: built, linted, scanned and packed; {packed.stat().st_size // 1000} kB.")
    return packed


def scan(bench: Bench, folder: Path, patterns: str) -> None:
    """The scanner of n8n, without its question to the registry where the package came from."""
    program = f"""
        import {{ analyzePackage, SOURCE_FILE_PATTERNS }} from '{bench.tools}/node_modules/@n8n/scan-community-package/scanner/scanner.mjs';
        const patterns = {patterns};
        const found = await analyzePackage({json.dumps(str(folder))}, patterns.length ? patterns : undefined);
        if (!found.passed) {{ console.error(found.message, found.details); process.exit(1); }}
    """
    bench.run(folder, "node", "--input-type=module", "--eval", program)


class Editor:
    """n8n as its editor speaks to it, signed in as the owner."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.base = f"http://127.0.0.1:{N8N_PORT}"
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        owner = {"email": "owner@muster.example", "firstName": "Erika", "lastName": "Muster", "password": PASSWORD}
        self.call("POST", "/rest/owner/setup", owner)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        answered: list[Any] = []

        def is_answered() -> bool:
            """On a busy machine n8n says 503 or 409 before it has done anything: its database is slow, or it is not done with the last."""
            try:
                with self.opener.open(request, timeout=300) as answer:
                    answered.append(json.loads(answer.read() or b"{}").get("data"))
            except urllib.error.HTTPError as error:
                said = error.read().decode()[:2000]
                if error.code != 503 and "try again in a few moments" not in said:
                    raise SystemExit(f"n8n, {method} {path}: {error.code} {said}") from None
            return bool(answered)

        wait_until(f"n8n, {method} {path}", is_answered)
        return answered[0]

    def credential(self, name: str, base_url: str, key: str) -> dict[str, Any]:
        made = self.call("POST", "/rest/credentials", {
            "name": name, "type": "kontobahnApi", "data": {"baseUrl": base_url, "apiKey": key}})  # fmt: skip
        return {"kontobahnApi": {"id": made["id"], "name": name}}

    def workflow(
        self, name: str, nodes: list[dict[str, Any]], links: Sequence[tuple[str, ...]], **settings: Any
    ) -> dict[str, Any]:
        """Makes a workflow. A link is a pair of nodes, and its kind if it is no usual one."""
        connections: dict[str, Any] = {}
        for source, target, *other in links:
            kind = other[0] if other else "main"
            ends = connections.setdefault(source, {kind: [[]]})[kind][0]
            ends.append({"node": target, "type": kind, "index": 0})
        body = {
            "name": name,
            "nodes": nodes,
            "connections": connections,
            "settings": {"executionOrder": "v1", **settings},
            "active": False,
        }
        return dict(self.call("POST", "/rest/workflows", body))

    def activate(self, workflow: dict[str, Any]) -> None:
        current = self.call("GET", f"/rest/workflows/{workflow['id']}")
        if self.version.is_old:
            self.call("PATCH", f"/rest/workflows/{workflow['id']}", {"active": True, "versionId": current["versionId"]})
            return
        self.call("POST", f"/rest/workflows/{workflow['id']}/activate", {"versionId": current["versionId"]})

    def deactivate(self, workflow: dict[str, Any]) -> None:
        if self.version.is_old:
            self.call("PATCH", f"/rest/workflows/{workflow['id']}", {"active": False})
            return
        self.call("POST", f"/rest/workflows/{workflow['id']}/deactivate", {})

    def ended(self, workflow: dict[str, Any]) -> list[dict[str, Any]]:
        """The executions of a workflow, if none of them is under way."""
        chosen = urllib.parse.quote(json.dumps({"workflowId": workflow["id"]}))
        found = list(self.call("GET", f"/rest/executions?filter={chosen}")["results"])
        return [] if any(one["status"] in ("new", "running") for one in found) else found

    def delete(self, workflow: dict[str, Any]) -> None:
        """As a person does it, who can delete only what is in the archive."""
        self.call("POST", f"/rest/workflows/{workflow['id']}/archive", {})
        self.call("DELETE", f"/rest/workflows/{workflow['id']}")

    def start(self, path: str, body: bytes, kind: str) -> tuple[int, bytes]:
        """Starts a workflow by its path, as soon as n8n has made it active."""
        answer: list[tuple[int, bytes]] = []

        def is_there() -> bool:
            answer[:] = [post(f"{self.base}/webhook/{path}", body, {"content-type": kind})]
            return answer[0][0] != 404

        wait_until(f"the workflow {path}", is_there)
        return answer[0]


def node(name: str, kind: str, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
    version = {"n8n-nodes-base.webhook": 2, "n8n-nodes-base.httpRequest": 4.2}.get(kind, 1)
    extra = {"webhookId": str(uuid.uuid4())} if kind.endswith("webhook") else {}
    return {
        "id": str(uuid.uuid4()),
        "name": name,
        "type": kind,
        "typeVersion": version,
        "position": [0, 0],
        "parameters": parameters,
        **extra,
        **more,
    }


def to_inbox(inbox: Inbox, field: str = "id") -> dict[str, Any]:
    return node("Your work", "n8n-nodes-base.httpRequest", {
        "method": "POST", "url": f"http://127.0.0.1:{inbox.server_port}/", "sendBody": True, "specifyBody": "json",
        "jsonBody": f"={{{{ {{ id: $json.{field} }} }}}}"})  # fmt: skip


class Trial:
    """The demo, n8n with the package installed, and what was seen at the service."""

    def __init__(self, editor: Editor, facts: dict[str, Any], data: Path) -> None:
        self.editor, self.facts, self.data = editor, facts, data
        self.key = editor.credential("Kontobahn", facts["base_url"], facts["api_key"])

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"x-api-key": self.facts["api_key"], "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.facts["base_url"] + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def logged(self) -> dict[str, list[int]]:
        """The answers to calls of n8n, by the name of the call, from the service's own log of requests."""
        with sqlite3.connect(f"file:{self.data / 'kontobahn.sqlite3'}?mode=ro", uri=True) as database:
            rows = database.execute("SELECT endpoint, status FROM request_log WHERE quelle = 'n8n'").fetchall()
        found: dict[str, list[int]] = {}
        for endpoint, status in rows:
            found.setdefault(endpoint, []).append(status)
        return found

    def receivers(self) -> list[dict[str, Any]]:
        return list(self.call("GET", "/v2/banking/webhook-endpoints")["data"])


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read()


def missing(wanted: set[str], seen: dict[str, list[int]]) -> list[str]:
    return sorted(wanted - seen.keys())


def every_operation(trial: Trial) -> None:
    """Each operation is one node; all of them are run at once, with values that the demo has or the document shows."""
    samples = Samples(trial.call, trial.facts, trial.call("GET", "/openapi.json"))
    start = node("Start", "n8n-nodes-base.webhook", {"httpMethod": "POST", "path": "every", "responseMode": "lastNode",
                                                     "responseData": "allEntries", "options": {}})  # fmt: skip
    nodes = [
        node(name, "n8n-nodes-kontobahn.kontobahn", parameters, credentials=trial.key, onError="continueRegularOutput")
        for name, parameters in samples.nodes()
    ]
    workflow = trial.editor.workflow("Every operation", [start, *nodes], [("Start", made["name"]) for made in nodes])
    trial.editor.activate(workflow)
    status, answer = trial.editor.start("every", samples.file, "application/octet-stream")
    assert status == 200, f"every operation: {status} {answer[:500]!r}"
    wanted = set(samples.calls)
    wait_until("every operation in the log", lambda: not missing(wanted, trial.logged()))
    seen = trial.logged()
    bad = {
        call: seen[call] for call in wanted
        if not all(status < 300 or status in REFUSALS or (status == 400 and call in UNFIT) for status in seen[call])
    }  # fmt: skip
    assert not bad, f"calls that were not well made: {bad}"
    done = sum(any(status < 300 for status in seen[call]) for call in wanted)
    print(f"Every operation: {len(wanted)} calls arrived, {done} were done; the others ask for what the demo has not.")


# ---------------------------------------------------------------------------------------------------------------------


def statement(rows: int) -> bytes:
    """A bank's file of so many bookings of a cent each, every one with its own text."""
    lines = "".join(
        f":61:2603020302C0,01NTRFNONREF\n:86:166?20Buchung {number:05}?32Muster GmbH\n" for number in range(rows)
    )
    head = ":20:KONTOBAHN\n:25:12030000/0000202052\n:28C:1/1\n:60F:C260301EUR0,00\n"
    return f"{head}{lines}:62F:C260302EUR{rows // 100},{rows % 100:02}\n-\n".encode()


class Runs:
    """Workflows that are started by an HTTP call and answer it with the items of their last node."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial

    def make(self, path: str, *nodes: dict[str, Any]) -> dict[str, Any]:
        start = node("Start", "n8n-nodes-base.webhook", {"httpMethod": "POST", "path": path, "responseMode": "lastNode",
                                                         "responseData": "allEntries", "options": {}})  # fmt: skip
        chain = [start, *nodes]
        links = [(one["name"], other["name"]) for one, other in pairwise(chain)]
        workflow = self.trial.editor.workflow(path, chain, links)
        self.trial.editor.activate(workflow)
        return workflow

    def run(self, path: str, body: Any) -> list[dict[str, Any]]:
        is_file = isinstance(body, bytes)
        data = body if is_file else json.dumps(body).encode()
        kind = "application/octet-stream" if is_file else "application/json"
        status, answer = self.trial.editor.start(path, data, kind)
        assert status == 200, f"{path}: {status} {answer[:1000]!r}"
        found = json.loads(answer)
        return found if isinstance(found, list) else [found]

    def kontobahn(
        self, name: str, resource: str, operation: str, credentials: Any = None, **fields: Any
    ) -> dict[str, Any]:
        more = {key: fields.pop(key) for key in ("onError", "retryOnFail") if key in fields}
        parameters = {"resource": resource, "operation": operation, **fields}
        return node(
            name, "n8n-nodes-kontobahn.kontobahn", parameters, credentials=credentials or self.trial.key, **more
        )


def many_rows(runs: Runs, n8n: N8n) -> None:
    """A file goes in as it is, and 2,500 rows come out over two pages, each once, in order, with exact amounts, in bounded memory."""
    rows = 2500
    wanted = {"__rl": True, "mode": "id", "value": "={{ $json.accounts[0].id }}"}
    runs.make("import", runs.kontobahn("Import", "bankStatement", "import"))
    [imported] = runs.run("import", statement(rows))
    accounts = runs.trial.call("GET", "/v2/banking/accounts")["data"]
    [account] = [item for item in accounts if item["extra"]["transactions_count"]["posted"] == rows]
    wanted = {"__rl": True, "mode": "id", "value": account["id"]}
    runs.make("rows", runs.kontobahn("Rows", "transaction", "getMany", account_id=wanted, returnAll=True,
                                     additionalFields={"sort": "id"}))  # fmt: skip
    before = n8n.memory("VmRSS")
    found = runs.run("rows", {})
    more = n8n.memory("VmHWM") - before
    assert len({row["id"] for row in found}) == len(found) == rows, f"{len(found)} rows; import: {imported}"
    assert {row["amount"] for row in found} == {"0.01"}, "amounts are not the texts that the service wrote"
    assert [int(row["id"]) for row in found] == sorted(int(row["id"]) for row in found)
    assert more <= MAX_MEMORY_OF_ROWS, f"n8n has taken {more} bytes for {rows} rows"
    print(f"Return All: {rows} transactions, each once, in order; n8n took at most {more // 10**6} MB for them.")


def payments(runs: Runs) -> None:
    """Amounts are exact both ways, a failed item stays, each output names its item, and a repeated key pays once."""
    account = {"__rl": True, "mode": "id", "value": runs.trial.facts["banking"]["account_id"]}
    fields = {
        "account_id": account, "amount": "={{ $json.amount }}", "creditor_name": "Muster GmbH",
        "creditor_iban": "DE02120300000000202051", "description": "={{ $json.text }}",
        "additionalFields": {"idempotencyKey": "={{ $json.text }}"},
    }  # fmt: skip
    split = node("Split", "n8n-nodes-base.splitOut", {"fieldToSplitOut": "body.items", "options": {}})
    pay = runs.kontobahn("Pay", "payment", "create", onError="continueRegularOutput", **fields)
    told = node("Told", "n8n-nodes-base.set", {"mode": "raw", "jsonOutput":
        "={{ { id: $json.id, amount: $json.amount, error: $json.error, note: $json.note, of: $('Split').item.json.text } }}",
        "options": {}}, typeVersion=3.4)  # fmt: skip
    runs.make("pay", split, pay, told)
    items = [
        {"amount": "1234567.10", "text": "RE-1"},
        {"amount": "1,50", "text": "RE-2"},
        {"amount": "0.01", "text": "RE-3"},
    ]
    first, second = runs.run("pay", {"items": items}), runs.run("pay", {"items": items})
    assert [row["of"] for row in first] == ["RE-1", "RE-2", "RE-3"], first
    assert [row.get("amount") for row in first] == ["1234567.10", "1,50", "0.01"], first
    assert first[1]["error"]
    assert not first[1].get("id"), first
    assert "Nothing is paid yet" in first[0]["note"]
    assert [row.get("id") for row in first] == [row.get("id") for row in second], "a repeated key made another payment"
    print("Payments: exact to the cent, a refused item stays in its place, a repeated execution pays once.")


def read_only(runs: Runs, key: str) -> None:
    """With a key that may only read, writing is refused by the service, and the error says what to do."""
    credential = runs.trial.editor.credential("Read only", runs.trial.facts["base_url"], key)
    account = {"__rl": True, "mode": "id", "value": runs.trial.facts["banking"]["account_id"]}
    before = len(runs.trial.call("GET", "/v2/banking/payments")["data"])
    runs.make("no-pay", runs.kontobahn("Pay", "payment", "create", credential, onError="continueRegularOutput", account_id=account,
                                       amount="1.00", creditor_name="Muster GmbH", creditor_iban="DE02120300000000202051",
                                       description="never"))  # fmt: skip
    [refused] = runs.run("no-pay", {})
    assert "scope" in refused["error"], refused
    assert "only read" in refused["error_description"], refused
    runs.make("may-read", runs.kontobahn("Read", "bankAccount", "getMany", credential, returnAll=True))
    assert len(runs.run("may-read", {})) > 1
    assert len(runs.trial.call("GET", "/v2/banking/payments")["data"]) == before
    print("A key that may only read: accounts are listed, a payment is refused.")


def searches(trial: Trial) -> None:
    """Lists of choices find by part of a name, and cost nothing."""
    before = trial.call("GET", "/v2/assistants/access")["data"]["credits"]
    ledger = trial.facts["ledger"]
    given = {"connectionId": {"__rl": True, "mode": "id", "value": ledger["connection_id"]}}

    def found(method: str, text: str = "", parameters: dict[str, Any] | None = None) -> list[str]:
        answer = trial.editor.call("POST", "/rest/dynamic-node-parameters/resource-locator-results", {
            "nodeTypeAndVersion": {"name": "n8n-nodes-kontobahn.kontobahn", "version": 1}, "path": "parameters.id",
            "methodName": method, "filter": text, "credentials": trial.key, "currentNodeParameters": parameters or {}})  # fmt: skip
        return [item["name"] for item in answer["results"]]

    everything = found("bankAccounts")
    assert len(everything) > 1
    assert found("bankAccounts", "tagesg") == [name for name in everything if "Tagesgeld" in name]
    assert any(ledger["kassenname"] in name for name in found("cashBooks", ledger["kassenname"][:4], given))
    assert any(ledger["client_id"] in name for name in found("clients", "", given))
    assert all((found("banks", "Musterb"), found("ledgerConnections"), found("payments")))
    assert trial.call("GET", "/v2/assistants/access")["data"]["credits"] == before, "a list of choices cost credits"
    print("Lists of choices: found by part of a name, free of credits.")


def credential_tests(trial: Trial) -> None:
    """Each thing that can be wrong with a credential has its own sentence."""

    def tried(base_url: str, key: str) -> tuple[str, str]:
        given = {"name": "try", "type": "kontobahnApi", "data": {"baseUrl": base_url, "apiKey": key}}
        made = trial.editor.call("POST", "/rest/credentials", given)
        answer = trial.editor.call("POST", "/rest/credentials/test", {"credentials": {**given, "id": made["id"]}})
        return answer["status"], answer["message"]

    address, key = trial.facts["base_url"], trial.facts["api_key"]
    assert tried(address, key)[0] == tried(f"{address}/", key)[0] == "OK"
    faults = {
        "does not know this key": (address, "kb_live_wrong"),
        "Nothing answers": ("http://127.0.0.1:9", key),
        "is no Kontobahn": (trial.editor.base, key),
        "begins with http:": ("http://konto.example.com", key),
        "is no address": ("konto.example.com", key),
    }
    if not trial.editor.version.is_old:
        faults["does not allow itself"] = (address.replace("127.0.0.1", "127.0.0.2"), key)
    for said, wrong in faults.items():
        status, message = tried(*wrong)
        assert status == "Error", (wrong[0], status)
        assert said in message, (wrong[0], message)
        print(f"Credential: {message}")


def printed(name: str, trial: Trial, work: dict[str, Any]) -> dict[str, Any]:
    """A workflow of docs/n8n/node as it is imported, with the credential chosen and something to do."""
    workflow = json.loads((ROOT / "docs" / "n8n" / "node" / f"{name}.json").read_text("utf-8"))
    nodes = [{**one, "credentials": trial.key} if "credentials" in one else one for one in workflow["nodes"]]
    nodes = [{**work, "name": "Your work"} if one["name"] == "Your work" else one for one in nodes]
    nodes = [{**one, "webhookId": str(uuid.uuid4())} if "webhookId" in one else one for one in nodes]
    body = {key: workflow[key] for key in ("name", "connections", "settings")} | {"nodes": nodes, "active": False}
    return dict(trial.editor.call("POST", "/rest/workflows", body))


def one_receiver(trial: Trial, inbox: Inbox) -> None:
    """Activated, deactivated and activated again a workflow has one receiver; deleted while it is active it has none."""
    before = len(trial.receivers())
    workflow = printed("events", trial, to_inbox(inbox))
    changes = (
        (trial.editor.activate, 1),
        (trial.editor.deactivate, 0),
        (trial.editor.activate, 1),
        (trial.editor.delete, 0),
    )
    for change, left in changes:
        change(workflow)
        wait_until(f"{left} receivers", lambda wanted=before + left: len(trial.receivers()) == wanted)
    print("Trigger: one receiver after it was activated, deactivated and activated; none once the workflow is deleted.")


def events(trial: Trial, inbox: Inbox) -> None:
    """Two workflows get what the service signs, once; what is forged starts nothing; each has a receiver of its own."""
    before = len(trial.receivers())
    works = [printed("events", trial, to_inbox(inbox)) for _ in range(2)]
    for number, work in enumerate(works, 1):
        trial.editor.activate(work)
        wait_until(f"{number} receivers", lambda wanted=before + number: len(trial.receivers()) == wanted)
    own = trial.receivers()[before:]
    assert len({item["url"] for item in own}) == 2, own
    for receiver in own:
        _signed_and_forged(trial, inbox, receiver)
    book(trial)
    wait_until("an event in both workflows", lambda: [one for one in set(inbox.ids) if inbox.ids.count(one) == 2])
    for workflow in works:
        trial.editor.deactivate(workflow)
    wait_until("no receiver left behind", lambda: len(trial.receivers()) == before)
    print(
        "Trigger: two receivers of their own, both get an event of the bank; signed events run once, forged ones get 401;"
        " both receivers are gone afterwards."
    )


def _signed_and_forged(trial: Trial, inbox: Inbox, receiver: dict[str, Any]) -> None:
    path = f"/v2/banking/webhook-endpoints/{receiver['id']}"
    sent = trial.call("POST", f"{path}/test")["data"]["id"]
    wait_until("the event in the workflow", lambda: sent in inbox.ids)
    trial.call("POST", f"{path}/deliveries/{sent}/resend")
    wait_until("the second delivery", lambda: len(attempts(trial, path, sent)) == 2)
    assert [attempt["status"] for attempt in attempts(trial, path, sent)] == [200, 200]
    signature = base64.b64encode(hmac.digest(b"no secret", b"{}", "sha256")).decode()
    forged = {"content-type": "application/json", "webhook-id": "forged", "webhook-timestamp": str(int(time.time())),
              "webhook-signature": f"v1,{signature}"}  # fmt: skip
    assert post(receiver["url"], b'{"event": "payment_update", "data": {}}', forged)[0] == 401
    assert post(receiver["url"], b"{}", {"content-type": "application/json"})[0] == 401
    assert inbox.ids.count(sent) == 1, inbox.ids
    assert "forged" not in inbox.ids


def attempts(trial: Trial, path: str, event: str) -> list[dict[str, Any]]:
    [found] = [item for item in trial.call("GET", f"{path}/deliveries")["data"] if item["id"] == event]
    return list(found["delivery"]["attempts"])


def book(trial: Trial) -> None:
    """Has the sandbox bank book something, which is an event and a transaction."""
    iban = trial.call("GET", "/v2/banking/accounts")["data"][0]["extra"]["iban"]
    command = [ROOT / ".venv/bin/kontobahn", "sandbox", "book", "--data", trial.data, "--account", iban]
    subprocess.run([*command, "--amount", "12.34", "--text", "Rechnung 1"], check=True, capture_output=True)


def transactions(trial: Trial, inbox: Inbox, n8n: N8n) -> None:
    """The polling trigger brings every transaction that is there; after a restart only what is new. A repeated event stays dropped."""
    known, cursor = set[str](), ""
    while True:
        page = trial.call("GET", f"/v2/banking/transactions/changes?cursor={cursor}&limit=10000")
        known |= {change["id"] for change in page["data"]}
        cursor = page["cursor"]
        if not page["has_more"]:
            break
    inbox.ids.clear()
    before = len(trial.receivers())
    works = [printed(name, trial, to_inbox(inbox)) for name in ("new-transactions", "events")]
    for workflow in works:
        trial.editor.activate(workflow)
    wait_until("all transactions", lambda: len(inbox.ids) >= len(known))
    [receiver] = wait_until("the receiver", lambda: trial.receivers()[before:])
    path = f"/v2/banking/webhook-endpoints/{receiver['id']}"
    event = trial.call("POST", f"{path}/test")["data"]["id"]
    wait_until("the event in the workflow", lambda: event in inbox.ids)
    n8n.restart()
    trial.call("POST", f"{path}/deliveries/{event}/resend")
    wait_until("the second delivery", lambda: [one["status"] for one in attempts(trial, path, event)].count(200) == 2)
    book(trial)
    new = wait_until(
        "the new transaction", lambda: trial.call("GET", f"/v2/banking/transactions/changes?cursor={cursor}")["data"]
    )
    # A workflow polls when it is activated, and every 15 minutes.
    n8n.restart()
    wait_until("the new transaction in the workflow", lambda: new[0]["id"] in inbox.ids)
    wanted = [*known, *(row["id"] for row in new), event]
    # The booking is an event, too.
    found = [one for one in inbox.ids if one.isdigit() or one == event]
    assert sorted(found) == sorted(wanted), f"{len(found)} came, of {len(wanted)}"
    for workflow in works:
        trial.editor.deactivate(workflow)
    print(
        f"Transaction trigger: {len(known)} transactions, none twice; two restarts later one more, and no event again."
    )


class Gate(ThreadingHTTPServer):
    """Stands before the service and keeps its answer to the first payment for itself."""

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Gate)
        self.service, self.keys = service, list[str]()
        self.arrived, self.over = threading.Event(), threading.Event()


class _Gate(BaseHTTPRequestHandler):
    server: Gate

    def do_POST(self) -> None:
        key = self.headers["idempotency-key"]
        kept = ("x-api-key", "content-type", "idempotency-key")
        headers = {name: self.headers[name] for name in kept if self.headers[name]}
        body = self.rfile.read(int(self.headers["content-length"]))
        status, answer = post(self.server.service + self.path, body, headers)
        self.server.keys.append(key)
        if len(self.server.keys) == 1:
            self.server.arrived.set()
            self.server.over.wait()
            return
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


def killed_and_retried(trial: Trial, n8n: N8n) -> None:
    """n8n is killed after a payment was made and before it heard of it; the execution is retried: there is one payment."""
    gate = Gate(trial.facts["base_url"])
    threading.Thread(target=gate.serve_forever, daemon=True).start()
    through = trial.editor.credential("Gate", f"http://127.0.0.1:{gate.server_port}", trial.facts["api_key"])
    account = {"__rl": True, "mode": "id", "value": trial.facts["banking"]["account_id"]}
    start = node("Start", "n8n-nodes-base.webhook", {"httpMethod": "POST", "path": "killed", "options": {}})
    pay = Runs(trial).kontobahn("Pay", "payment", "create", through, account_id=account, amount="17.04", creditor_name="Muster GmbH",
                                creditor_iban="DE02120300000000202051", description="killed once")  # fmt: skip
    workflow = trial.editor.workflow("killed", [start, pay], [("Start", "Pay")], saveExecutionProgress=True)
    trial.editor.activate(workflow)
    trial.editor.start("killed", b"{}", "application/json")
    wait_until("the payment at the service", gate.arrived.is_set)
    n8n.kill()
    gate.over.set()
    n8n.start()
    [execution] = wait_until("the killed execution", lambda: trial.editor.ended(workflow))
    trial.editor.call("POST", f"/rest/executions/{execution['id']}/retry", {"loadWorkflow": False})
    wait_until("the retried execution", lambda: len(trial.editor.ended(workflow)) == 2)
    gate.shutdown()
    first, second = gate.keys
    assert first == second, gate.keys
    payments = trial.call("GET", "/v2/banking/payments")["data"]
    made = [one for one in payments if "killed once" in json.dumps(one)]
    assert len(made) == 1, made
    print(
        f"Payments: n8n was killed before it heard of one; the execution ({execution['status']}) was retried: one payment."
    )


def due_invoices(trial: Trial) -> None:
    """The third workflow, started by a call instead of the clock."""
    workflow = json.loads((ROOT / "docs" / "n8n" / "node" / "due-invoices.json").read_text("utf-8"))
    [due] = [one for one in workflow["nodes"] if one["type"] == "n8n-nodes-kontobahn.kontobahn"]
    runs = Runs(trial)
    runs.make("due", {**due, "credentials": trial.key, "alwaysOutputData": True})
    wanted = trial.call("GET", "/v2/payables/due")["data"]
    found = [row for row in runs.run("due", {}) if row]
    assert len(found) == len(wanted), (found, wanted)
    print(f"Invoices that are due: {len(found)}.")


def pay_what_is_due(editor: Editor, facts: dict[str, Any]) -> tuple[str, str]:
    """Makes a workflow to look at, and returns its id and that of the node that pays."""
    key = editor.credential("Kontobahn", facts["base_url"], facts["api_key"])
    account = {
        "__rl": True,
        "mode": "list",
        "value": facts["banking"]["account_id"],
        "cachedResultName": "Geschäftskonto",
    }
    clock = node("Every morning", "n8n-nodes-base.scheduleTrigger",
                 {"rule": {"interval": [{"field": "days", "triggerAtHour": 7}]}}, typeVersion=1.2)  # fmt: skip
    due = node("Invoices that are due", "n8n-nodes-kontobahn.kontobahn",
               {"resource": "receivedInvoice", "operation": "getDue", "returnAll": True}, credentials=key)  # fmt: skip
    pay = node("Create a payment", "n8n-nodes-kontobahn.kontobahn", {
        "resource": "payment", "operation": "create", "account_id": account, "amount": "={{ $json.amount }}",
        "creditor_name": "={{ $json.name }}", "creditor_iban": "={{ $json.iban }}", "description": "={{ $json.number }}",
        "additionalFields": {"idempotencyKey": "={{ $json.number }}"}}, credentials=key)  # fmt: skip
    chain = [{**one, "position": [260 * place, 0]} for place, one in enumerate((clock, due, pay))]
    links = [(one["name"], other["name"]) for one, other in pairwise(chain)]
    return editor.workflow("Pay what is due", chain, links)["id"], pay["id"]


class Model(ThreadingHTTPServer):
    """A language model's place: it calls the tool that it is offered, and then says what the tool has said."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Model)
        self.offered: list[str] = []


class _Model(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = asked["messages"][-1]
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        if last["role"] == "tool":
            message["content"] = last["content"]
        else:
            [tool] = [one["function"] for one in asked["tools"]]
            self.server.offered.append(tool["description"])
            message["tool_calls"] = [
                {"id": "call_1", "type": "function", "function": {"name": tool["name"], "arguments": "{}"}}
            ]
        why = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        answer = json.dumps({"id": "1", "object": "chat.completion", "created": 1, "model": "stand-in", "usage": usage,
                             "choices": [{"index": 0, "message": message, "finish_reason": why}]}).encode()  # fmt: skip
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None: ...


def agents(runs: Runs, key: str) -> None:
    """As the tool of an agent the node reads with a key that may only read, and writes nothing, whatever the model wants."""
    editor, model = runs.trial.editor, Model()
    threading.Thread(target=model.serve_forever, daemon=True).start()
    only_reads = editor.credential("Read only, for an agent", runs.trial.facts["base_url"], key)
    address = f"http://127.0.0.1:{model.server_port}/v1"
    made = editor.call("POST", "/rest/credentials", {
        "name": "Stand-in", "type": "openAiApi", "data": {"apiKey": "none", "url": address, "header": False}})  # fmt: skip
    before = len(runs.trial.call("GET", "/v2/banking/payments")["data"])
    account = {"__rl": True, "mode": "id", "value": runs.trial.facts["banking"]["account_id"]}
    payment = {"resource": "payment", "operation": "create", "account_id": account, "amount": "1.00",
               "creditor_name": "Muster GmbH", "creditor_iban": "DE02120300000000202051", "description": "never"}  # fmt: skip
    reading: dict[str, Any] = {"resource": "bankAccount", "operation": "getMany", "returnAll": True}
    said = []
    for number, parameters in enumerate((reading, payment)):
        start = node("Start", "n8n-nodes-base.webhook", {"httpMethod": "POST", "path": f"agent-{number}",
                     "responseMode": "lastNode", "responseData": "allEntries", "options": {}})  # fmt: skip
        agent = node("Agent", "@n8n/n8n-nodes-langchain.agent", {"promptType": "define", "text": "Do it.", "options": {}},
                     typeVersion=2)  # fmt: skip
        stand_in = node("Model", "@n8n/n8n-nodes-langchain.lmChatOpenAi", {
            "model": {"__rl": True, "mode": "id", "value": "stand-in"}, "options": {}}, typeVersion=1.2,
            credentials={"openAiApi": {"id": made["id"], "name": "Stand-in"}})  # fmt: skip
        tool = node("Kontobahn", "n8n-nodes-kontobahn.kontobahnTool", parameters, credentials=only_reads)
        links = [("Start", "Agent"), ("Model", "Agent", "ai_languageModel"), ("Kontobahn", "Agent", "ai_tool")]
        editor.activate(editor.workflow(f"Agent {number}", [start, agent, stand_in, tool], links))
        said.append(str(runs.run(f"agent-{number}", {})))
    model.shutdown()
    assert "iban" in said[0], said[0]
    # An n8n of 1.x tells the node not that an agent asks, and the model not what was refused.
    assert editor.version.is_old or "scope" in said[1], said[1]
    assert all(model.offered), model.offered
    assert len(runs.trial.call("GET", "/v2/banking/payments")["data"]) == before
    print("Tool of an agent: reads the accounts; a payment is refused with a key that may only read.")


class N8n:
    """n8n with the package installed as users install it, to be stopped and started again."""

    def __init__(self, bench: Bench, version: Version, packed: Path, folder: Path) -> None:
        self._version, self._folder, self._running = version, folder, ExitStack()
        nodes = folder / "n8n" / ".n8n" / "nodes"
        nodes.mkdir(parents=True)
        (nodes / "package.json").write_text('{"private": true}')
        bench.run(nodes, "npm", "install", "--offline", "--legacy-peer-deps", "--no-audit", "--no-fund", str(packed))

    def start(self) -> None:
        command = [str(self._version.program), "start"]
        self._process = self._running.enter_context(running(command, self._environment(), self._folder / "n8n.log"))
        # An n8n of 1.x says that it is ready before it is.
        told = self._folder / "n8n.log"
        wait_until("n8n", lambda: "Editor is now accessible" in told.read_text("utf-8", "replace"))

    def stop(self) -> None:
        self._running.close()

    def kill(self) -> None:
        self._process.kill()
        self.stop()

    def memory(self, field: str) -> int:
        """The bytes that Linux notes of the process under this name; its peak, VmHWM, counts from here on."""
        process = Path("/proc") / str(self._process.pid)
        [line] = [one for one in (process / "status").read_text("ascii").splitlines() if one.startswith(f"{field}:")]
        (process / "clear_refs").write_text("5")
        return int(line.split()[1]) * 1024

    def __enter__(self) -> N8n:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def restart(self) -> None:
        self.stop()
        self.start()

    def _environment(self) -> dict[str, str]:
        folder = self._folder
        return {
            **self._version.environment, "HOME": str(folder / "n8n"), "N8N_USER_FOLDER": str(folder / "n8n"),
            "N8N_ENCRYPTION_KEY": "for this trial only", "N8N_COMMUNITY_PACKAGES_ALLOW_TOOL_USAGE": "true",
            "N8N_PORT": str(N8N_PORT), "N8N_LISTEN_ADDRESS": "127.0.0.1", "N8N_RUNNERS_BROKER_PORT": str(BROKER_PORT),
        "N8N_DIAGNOSTICS_ENABLED": "false", "N8N_VERSION_NOTIFICATIONS_ENABLED": "false", "N8N_TEMPLATES_ENABLED": "false",
        "N8N_SSRF_PROTECTION_ENABLED": "true", "N8N_SSRF_ALLOWED_IP_RANGES": "127.0.0.1/32",
        "N8N_SECURE_COOKIE": "false", "N8N_PERSONALIZATION_ENABLED": "false", "WEBHOOK_URL": f"http://127.0.0.1:{N8N_PORT}/",
        }  # fmt: skip


def trials(bench: Bench, version: Version, packed: Path, folder: Path) -> None:
    print(f"n8n {version.name}")
    folder.mkdir()
    data = folder / "demo"
    command = [ROOT / ".venv/bin/kontobahn", "serve", "--demo", "--port", SERVICE_PORT, "--data", data]
    own = {**os.environ, "KONTOBAHN_WEBHOOK_ALLOW": f"127.0.0.1:{N8N_PORT}", "KONTOBAHN_LIMIT_API_REQUESTS": "100000"}
    with running([str(part) for part in command], own, folder / "service.log"):
        wait_until("the service", lambda: answers(f"http://127.0.0.1:{SERVICE_PORT}/healthz"))
        facts = json.loads((data / "demo.json").read_text("utf-8"))
        n8n = N8n(bench, version, packed, folder)
        with Inbox(0) as inbox, n8n, inbox.answering():
            trial = Trial(Editor(version), facts, data)
            runs = Runs(trial)
            credential_tests(trial)
            searches(trial)
            one_receiver(trial, inbox)
            events(trial, inbox)
            many_rows(runs, n8n)
            payments(runs)
            due_invoices(trial)
            key = read_only_key(facts, data)
            read_only(runs, key)
            agents(runs, key)
            killed_and_retried(trial, n8n)
            transactions(trial, inbox, n8n)
            every_operation(trial)


def main() -> int:
    if shutil.which("npm") is None:
        raise SystemExit("n8n needs Node.js and npm.")
    bench = Bench()
    bench.install()
    with tempfile.TemporaryDirectory(prefix="kontobahn-n8n-") as name:
        packed = pack(bench, Path(name))
        for version in bench.versions():
            trials(bench, version, packed, Path(name) / version.name)
    return 0


def read_only_key(facts: dict[str, Any], data: Path) -> str:
    whose = ["--data", str(data), "--organization", facts["organization_id"]]
    command = [
        str(ROOT / ".venv/bin/kontobahn"),
        "keys",
        "create",
        *whose,
        "--name",
        "n8n",
        "--scope",
        "banking:read",
        "--json",
    ]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return str(json.loads(made.stdout)["api_key"])


if __name__ == "__main__":
    sys.exit(main())
