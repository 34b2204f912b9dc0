"""The samples of the documentation page are run: in curl, Python and JavaScript they send what the document's examples say."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import msgspec
import pytest

import kontobahn_client
from kontobahn.api.declare import Endpoint
from kontobahn.api.docs_view import samples
from kontobahn_client.transport import exchange
from scripts.record_answers import LEFT_OUT
from tests.client.test_calls import without_null
from tests.client.test_declarations import declared
from tests.openapi_samples import REAL, build, named, operation
from tests.tidy_rules import ROOT

BASE, KEY = "https://kontobahn.example", "kb_live_of_the_sample"
DOCUMENT = build(REAL, base_url=BASE)
FOR_BANKS = ("receive_webhook", "receive_webhook_of_kind")
OURS = [endpoint for endpoint in REAL if endpoint.handler.__name__ not in FOR_BANKS]


class Sent(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    key: str | None
    # JSON, a file's content, or nothing.
    body: Any


def text_of(endpoint: Endpoint, language: str) -> str:
    described = operation(endpoint, DOCUMENT)
    return dict(samples(DOCUMENT, endpoint.method, endpoint.path, described))[language]


def sent(method: str, url: str, headers: dict[str, str], content: bytes) -> Sent:
    parsed = httpx.URL(url)
    assert f"{parsed.scheme}://{parsed.host}" == BASE
    is_json = headers.get("content-type") == "application/json"
    body = json.loads(content, parse_float=Decimal) if is_json else content or None
    query = {name.replace("_", "").lower(): value for name, value in parsed.params.items()}
    return Sent(method, parsed.path, query, headers.get("x-api-key"), body)


def expected(endpoint: Endpoint) -> Sent:
    described = operation(endpoint, DOCUMENT)
    one_of = endpoint.one_of[:1]
    given = [item for item in described["parameters"] if item.get("required") or item["name"] in one_of]
    path = endpoint.path
    for item in given:
        path = path.replace("{" + item["name"] + "}", str(item["example"]))
    query = {item["name"].replace("_", "").lower(): str(item["example"]) for item in given if item["in"] == "query"}
    content = described.get("requestBody", {}).get("content", {})
    body = b"a file" if endpoint.takes_upload else content.get("application/json", {}).get("example")
    return Sent(endpoint.method, path, query, KEY if described["security"] else None, body)


def same(found: Any, wanted: Any) -> bool:
    """Amounts may be written as a number or as a text; what counts is their value."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return wanted.keys() == found.keys() and all(same(found[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(same, found, wanted))
    return bool(found == wanted) or (
        isinstance(found, int | Decimal)
        and bool(re.fullmatch(r"[0-9.]+", str(wanted)))
        and found == Decimal(str(wanted))
    )


def check(found: Sent, endpoint: Endpoint) -> None:
    wanted = expected(endpoint)
    assert found._replace(body=None) == wanted._replace(body=None)
    # What is null may as well be left out.
    assert same(without_null(found.body), without_null(wanted.body)), (found.body, wanted.body)


class Stopped(Exception):
    """Raised instead of an answer."""


@named(OURS)
def test_the_python_sample(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found: list[Sent] = []

    def note(request: httpx.Request) -> httpx.Response:
        found.append(sent(request.method, str(request.url), dict(request.headers), request.read()))
        raise Stopped

    http = httpx.Client(transport=httpx.MockTransport(note))
    monkeypatch.setattr(kontobahn_client.Kontobahn, "_new_http", staticmethod(lambda **options: http))
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_bytes(b"a file")
    text = text_of(endpoint, "Python")
    assert max(map(len, text.splitlines())) <= 120
    with pytest.raises(Stopped):
        exec(compile(text, endpoint.name, "exec"), {})
    check(found[0], endpoint)


def test_the_javascript_samples(tmp_path: Path) -> None:
    (tmp_path / "FILE").write_bytes(b"a file")
    stub = """
        globalThis.fetch = async (url, options = {}) => {
          const body = options.body instanceof Blob ? await options.body.text() : options.body ?? "";
          process.stdout.write(JSON.stringify({ url, method: options.method ?? "GET", headers: options.headers ?? {}, body }) + "\\n");
          throw "stop";
        };
        const stopped = (error) => { if (error !== "stop") throw error; };
    """
    calls = [f"await (async () => {{ {text_of(endpoint, 'JavaScript')} }})().catch(stopped);" for endpoint in OURS]
    (tmp_path / "samples.mjs").write_text(stub + "\n".join(calls), "utf-8")
    environment = {**os.environ, "API_KEY": KEY}
    done = subprocess.run(
        ["node", "samples.mjs"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(OURS)
    for line, endpoint in zip(lines, OURS, strict=True):
        made = json.loads(line)
        headers = {name.lower(): value for name, value in made["headers"].items()}
        assert ("idempotency-key" in headers) == (endpoint.method in ("POST", "PUT"))
        check(sent(made["method"], made["url"], headers, made["body"].encode()), endpoint)


@named(OURS)
def test_the_curl_sample(endpoint: Endpoint) -> None:
    words = shlex.split(text_of(endpoint, "curl").replace("$API_KEY", KEY).replace("\\\n", ""))
    assert words.pop(0) == "curl"
    method, url, headers, content = "GET", "", dict[str, str](), b""
    while words:
        match word := words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(": ")
                headers[name.lower()] = value
            case "-d":
                content = words.pop(0).encode()
            case "-F":
                assert words.pop(0) == "file=@FILE"
                content = b"a file"
            case "-OJ":
                assert endpoint.media_types
            case _:
                url = word
    check(sent(method, url, headers, content), endpoint)


RECORDED = json.loads((ROOT / "src/kontobahn/api/recorded_answers.json").read_text("utf-8"), parse_float=Decimal)


def test_every_answer_was_recorded_from_the_demo_or_has_a_reason() -> None:
    names = {endpoint.handler.__name__ for endpoint in REAL if not endpoint.media_types}
    assert RECORDED.keys() | LEFT_OUT.keys() == names, "run `make examples`"


def _adds_up(rows: list[Any], total: Any) -> bool:
    return len(rows) > 0 and sum(map(Decimal, map(str, rows))) == Decimal(str(total))


def test_the_recorded_reports_add_up() -> None:
    """Whoever reads one checks whether the rows make the sums."""
    for name in ("get_opos", "get_faelligkeiten"):
        report = RECORDED[name]["data"]
        for konto in report["konten"]:
            assert _adds_up([posten["saldo"] for posten in konto["posten"]], konto["totalSaldo"])
    opos, due = RECORDED["get_opos"]["data"], RECORDED["get_faelligkeiten"]["data"]
    assert _adds_up([konto["totalSaldo"] for konto in opos["konten"]], opos["sumDebitoren"] + opos["sumKreditoren"])
    classes = [*due["debitoren"].values(), *due["kreditoren"].values()]
    assert _adds_up(classes, sum(konto["totalSaldo"] for konto in due["konten"]))
    assert all(_adds_up([*konto["altersklassen"].values()], konto["totalSaldo"]) for konto in due["konten"])
    tax = RECORDED["get_umsatzsteuer"]["data"]
    assert _adds_up([row["umsatzsteuer"] for row in tax["zeilen"]], tax["summeUmsatzsteuer"])
    assert _adds_up([row["vorsteuer"] for row in tax["zeilen"]], tax["summeVorsteuer"])
    bwa = RECORDED["get_bwa"]["data"]
    assert all(_adds_up(row["perioden"], row["kumuliert"]) for row in bwa["zeilen"])
    parts = [row["kumuliert"] for row in (*bwa["zeilen"], *bwa["nichtZugeordnet"]) if not row.get("istSumme")]
    assert _adds_up(parts, bwa["ergebnis"])
    invoice = RECORDED["get_invoice"]
    assert _adds_up([line["amount_in_cents"] for line in invoice["lines"]], invoice["amount_in_cents"])
    assert _adds_up([item["amount_in_cents"] for item in invoice["vat_sums"]], invoice["amount_in_cents"])
    assert invoice["ticket_count"] == len(invoice["lines"])


@named([endpoint for endpoint in OURS if endpoint.handler.__name__ in RECORDED])
def test_what_was_recorded_is_what_the_service_answers_today(endpoint: Endpoint) -> None:
    """The client's types are held to the document: what they cannot hold is no longer answered, and what they miss is new."""
    recorded, described = RECORDED[endpoint.handler.__name__], operation(endpoint, DOCUMENT)
    content = described["responses"][str(endpoint.statuses[0])]["content"]["application/json"]
    assert json.loads(json.dumps(content["example"])) == json.loads(json.dumps(recorded, default=float)), (
        "the one shown"
    )
    kept = json.loads(exchange._ENCODER.encode(msgspec.convert(recorded, declared(endpoint).answer, strict=False)))
    assert without_null(kept) == without_null(json.loads(json.dumps(recorded, default=float))), "run `make examples`"


def test_parameters_of_which_one_is_required_are_told() -> None:
    choices = {endpoint.handler.__name__: endpoint.one_of for endpoint in REAL if endpoint.one_of}
    assert choices == {
        "list_transactions": ("account_id", "connection_id"),
        "save_personenkonto": ("firmenname", "kontaktpersonen"),
        "create_order_file": ("payment_ids", "account_id"),
        "create_payment_run": ("payable_ids", "due_by"),
    }
    for endpoint in REAL:
        described = operation(endpoint, DOCUMENT)
        assert described.get("x-required-one-of", []) == list(endpoint.one_of)
        for name in endpoint.one_of:
            assert f"`{name}`" in described["description"]
