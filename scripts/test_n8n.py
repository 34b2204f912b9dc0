"""Runs the two workflows of docs/n8n/ in a real n8n against the demo, as a user would import them: `make test-n8n`.

n8n is installed from npm into data/n8n, once: 1.8 GB, some ten minutes. Everything runs on loopback and ends with the script.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = ROOT / "docs" / "n8n"
HOME = Path(os.environ.get("N8N_FOLDER", ROOT / "data" / "n8n"))
VERSION = "1.123.81"
# A package that others name and that cannot be had, and one whose newest does not go with the others.
OVERRIDES = {"xlsx": "0.18.5", "@langchain/langgraph-checkpoint": "1.0.1"}
PRINTED = "http://127.0.0.1:8080"
SERVICE_PORT, N8N_PORT, BROKER_PORT, INBOX_PORT = 18180, 18181, 18182, 18183
PATIENCE_SECONDS = 300


def install(built_in: Path | None = None) -> Path:
    """Returns the program, installing it if it is not there. Its own install scripts would download; only SQLite is built."""
    program = HOME / "node_modules" / ".bin" / "n8n"
    if not program.exists():
        HOME.mkdir(parents=True, exist_ok=True)
        package = {"private": True, "dependencies": {"n8n": VERSION}, "overrides": OVERRIDES}
        (HOME / "package.json").write_text(json.dumps(package))
        subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=HOME, check=True)
        if not copy_sqlite(built_in, HOME):
            subprocess.run(["npm", "rebuild", "sqlite3"], cwd=HOME, check=True)
    return program


def copy_sqlite(source: Path | None, target: Path) -> bool:
    """Takes SQLite over from another n8n that has built the same version of it: a build takes minutes, and fits every Node."""
    ours, theirs = (folder and folder / "node_modules" / "sqlite3" for folder in (target, source))
    if not ours or not theirs or not list(theirs.glob("build/Release/*.node")):
        return False
    if (ours / "package.json").read_bytes() != (theirs / "package.json").read_bytes():
        return False
    shutil.copytree(theirs / "build" / "Release", ours / "build" / "Release")
    return True


class Trial:
    """A demo service, and a folder that n8n keeps its things in."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.facts: dict[str, Any] = {}
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "N8N_USER_FOLDER": str(folder), "N8N_ENCRYPTION_KEY": "for this trial only",
            "N8N_PORT": str(N8N_PORT), "N8N_LISTEN_ADDRESS": "127.0.0.1", "N8N_RUNNERS_ENABLED": "false",
            "N8N_RUNNERS_BROKER_PORT": str(BROKER_PORT),
            "N8N_DIAGNOSTICS_ENABLED": "false", "N8N_EXPRESSION_ENGINE": "legacy",
            "N8N_VERSION_NOTIFICATIONS_ENABLED": "false", "N8N_TEMPLATES_ENABLED": "false", "DB_SQLITE_POOL_SIZE": "2",
            "WEBHOOK_URL": f"http://127.0.0.1:{N8N_PORT}/", "NODE_FUNCTION_ALLOW_BUILTIN": "crypto",
        }  # fmt: skip

    def n8n(self, *arguments: str) -> str:
        # Into a file: to a pipe n8n does not finish writing before it ends.
        output = self.folder / "output"
        with output.open("wb") as target:
            done = subprocess.run(
                [self.program, *arguments], env=self.environment, stdout=target, stderr=subprocess.STDOUT, check=False
            )
        text = output.read_text("utf-8")
        if done.returncode:
            raise SystemExit(f"n8n {' '.join(arguments)} failed:\n{text[-3000:]}")
        return text

    def load_text(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text, "utf-8")
        self.n8n("import:workflow", f"--input={path}")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"x-api-key": self.facts["api_key"], "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.facts["base_url"] + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def running(command: list[str], environment: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as target:
        process = subprocess.Popen(command, env=environment, stdout=target, stderr=target)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until(what: str, holds: Any) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.5)
    raise SystemExit(f"Waited in vain: {what}.")


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5).close()
    except OSError:
        return False
    return True


class Inbox(ThreadingHTTPServer):
    """The receiver of what the node *Your work* posts: the ids of the transactions it was given."""

    request_queue_size = 512

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Inbox)
        self.ids: list[str] = []

    @contextmanager
    def answering(self) -> Iterator[None]:
        thread = threading.Thread(target=self.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self.shutdown()
            thread.join()


class _Inbox(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        self.server.ids.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["id"])
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        """Nothing: n8n posts hundreds of times."""


def load_new_transactions(trial: Trial) -> None:
    """As printed, but in pages of 40, every minute, and with an HTTP request for *Your work*."""
    key = [{"id": "kontobahnKey", "name": "Kontobahn key", "type": "httpHeaderAuth",
            "data": {"name": "x-api-key", "value": trial.facts["api_key"]}}]  # fmt: skip
    (trial.folder / "key.json").write_text(json.dumps(key))
    trial.n8n("import:credentials", f"--input={trial.folder / 'key.json'}")
    workflow = json.loads((WORKFLOWS / "new-transactions.json").read_text("utf-8"))
    nodes = {node["name"]: node for node in workflow["nodes"]}
    every = {"field": "minutes", "minutesInterval": 1}
    nodes["Every 15 minutes"]["parameters"] = {"rule": {"interval": [every]}}
    read = nodes["Read the changes"]["parameters"]
    read["url"] = read["url"].replace(PRINTED, trial.facts["base_url"]).replace("limit=500", "limit=40")
    nodes["Your work"] |= {
        "type": "n8n-nodes-base.httpRequest", "typeVersion": 4.2,
        "parameters": {"method": "POST", "url": f"http://127.0.0.1:{INBOX_PORT}/", "sendBody": True, "specifyBody": "json",
                       "jsonBody": "={{ { id: $json.id } }}",
                       "options": {"batching": {"batch": {"batchSize": 10, "batchInterval": 1}}}},
    }  # fmt: skip
    trial.load_text("transactions.json", json.dumps(workflow))


def new_transactions(trial: Trial, inbox: Inbox) -> None:
    """Every transaction comes once, over many runs; and one that is booked meanwhile comes in a later run."""
    known, cursor, pages = list[str](), "", 0
    while True:
        page = trial.call("GET", f"/v2/banking/transactions/changes?cursor={cursor}&limit=40")
        known += [change["id"] for change in page["data"]]
        cursor, pages = page["cursor"], pages + 1
        if not page["has_more"]:
            break
    assert pages > 2, f"only {pages} pages"
    wait_until("all transactions", lambda: len(inbox.ids) >= len(known))
    iban = trial.call("GET", "/v2/banking/accounts")["data"][0]["extra"]["iban"]
    book = [ROOT / ".venv/bin/kontobahn", "sandbox", "book", "--data", trial.folder / "demo", "--account", iban]
    subprocess.run([*book, "--amount", "12.34", "--text", "Rechnung 1"], check=True, capture_output=True)
    [new] = wait_until(
        "the new transaction", lambda: trial.call("GET", f"/v2/banking/transactions/changes?cursor={cursor}")["data"]
    )
    wait_until("a run that has it", lambda: new["id"] in inbox.ids)
    came = f"{len(inbox.ids)} came, {len(set(inbox.ids))} different, of {len(known) + 1}"
    assert sorted(inbox.ids) == sorted([*known, new["id"]]), f"A transaction came twice, or not at all: {came}."
    print(f"New transactions: {len(known)} over {pages} pages and one more later, none twice.")


def events(trial: Trial, receivers: dict[str, Any]) -> None:
    """A delivery of the service is taken, by the Crypto node and by the Code node; a forged one is refused by both."""
    for url, receiver in receivers.items():
        taken, refused = _deliver(trial, receiver["id"]), _forge(url)
        assert taken == 204, f"{url}: a delivery was answered {taken}"
        assert refused == 400, f"{url}: a forged delivery was answered {refused}"
        print(f"Events at {url}: a delivery was answered {taken}, a forged one {refused}.")


def load_events(trial: Trial) -> dict[str, Any]:
    receivers = {}
    for path in ("kontobahn", "kontobahn-code"):
        url = f"http://127.0.0.1:{N8N_PORT}/webhook/{path}"
        receivers[url] = trial.call("POST", "/v2/banking/webhook-endpoints", {"url": url})["data"]
    by_crypto, by_code = receivers.values()
    text = (WORKFLOWS / "events.json").read_text("utf-8")
    trial.load_text("events.json", text.replace("whsec_PUT_YOUR_SECRET_HERE", by_crypto["secret"]))
    _load_with_code_node(trial, by_code["secret"])
    return receivers


def _load_with_code_node(trial: Trial, secret: str) -> None:
    """The same workflow with the Code node of docs/n8n.md in place of the Crypto node."""
    [code] = re.findall(r"^```javascript\n(.*?)^```", (ROOT / "docs" / "n8n.md").read_text("utf-8"), re.M | re.S)
    workflow = json.loads((WORKFLOWS / "events.json").read_text("utf-8"))
    workflow |= {"id": "kbEventsByCode", "name": "Kontobahn: verified events, by code"}
    nodes = {node["name"]: node for node in workflow["nodes"]}
    nodes["Webhook"]["parameters"]["path"] = "kontobahn-code"
    nodes["Webhook"]["webhookId"] = "6f0b1f1e-5f5e-4c0e-9a52-0c5d3c8c7a12"
    code = code.replace("whsec_PUT_YOUR_SECRET_HERE", secret)
    nodes["Signature"] |= {"type": "n8n-nodes-base.code", "typeVersion": 2, "parameters": {"jsCode": code}}
    trial.load_text("by-code.json", json.dumps(workflow))


def _deliver(trial: Trial, receiver: str) -> Any:
    """Sends a test event, and returns what the receiver answered to its first attempt."""
    sent = trial.call("POST", f"/v2/banking/webhook-endpoints/{receiver}/test")["data"]["id"]

    def attempt() -> Any:
        listed = trial.call("GET", f"/v2/banking/webhook-endpoints/{receiver}/deliveries")["data"]
        [event] = [item for item in listed if item["id"] == sent]
        return event["delivery"]["attempts"]

    return wait_until("the delivery", attempt)[0]["status"]


def _forge(url: str) -> int:
    now = str(int(time.time()))
    headers = {"webhook-id": "evt_1", "webhook-timestamp": now, "webhook-signature": "v1,AAAA"}
    forged = urllib.request.Request(
        url, b'{"event":"payment_update"}', {**headers, "content-type": "application/json"}, method="POST"
    )
    try:
        with urllib.request.urlopen(forged, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code


def main() -> int:
    if shutil.which("npm") is None:
        raise SystemExit("n8n needs Node.js and npm.")
    program = install()
    with tempfile.TemporaryDirectory(prefix="kontobahn-n8n-") as name:
        folder = Path(name)
        trial, inbox = Trial(program, folder), Inbox(INBOX_PORT)
        command = [ROOT / ".venv/bin/kontobahn", "serve", "--demo", "--port", SERVICE_PORT, "--data", folder / "demo"]
        own = {**os.environ, "KONTOBAHN_WEBHOOK_ALLOW": f"127.0.0.1:{N8N_PORT}"}
        with running([str(part) for part in command], own, folder / "service.log"):
            wait_until("the service", lambda: answers(f"http://127.0.0.1:{SERVICE_PORT}/healthz"))
            trial.facts = json.loads((folder / "demo" / "demo.json").read_text("utf-8"))
            load_new_transactions(trial)
            receivers = load_events(trial)
            trial.n8n("update:workflow", "--all", "--active=true")
            with inbox, running([str(program), "start"], trial.environment, folder / "n8n.log"), inbox.answering():
                wait_until("n8n", lambda: answers(f"http://127.0.0.1:{N8N_PORT}/healthz"))
                started = folder / "n8n.log"
                wait_until(
                    "the workflows", lambda: started.read_text("utf-8", "replace").count("Activated workflow") >= 3
                )
                new_transactions(trial, inbox)
                events(trial, receivers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
