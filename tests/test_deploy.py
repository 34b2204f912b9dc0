"""The files of deploy/ agree with the service: its settings, its port, its health page, how long it takes to stop."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kontobahn.settings import NAMES, PREFIX, Settings
from scripts.try_image import DOCKERFILE, instructions
from tests.tidy_rules import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = msgspec.yaml.decode((DEPLOY / "compose.yaml").read_bytes())
SERVICE: dict[str, Any] = COMPOSE["services"]["kontobahn"]
STEPS = instructions(DOCKERFILE.read_text("utf-8"))
GRACE = Settings().shutdown_grace_seconds


def last(name: str) -> str:
    return [step.rest for step in STEPS if step.name == name][-1]


def seconds(text: str) -> int:
    return int(text.removesuffix("s"))


@pytest.mark.parametrize(
    "file", ["Dockerfile", "compose.yaml", "kontobahn.service", "Caddyfile", "cluster/kontobahn.env"]
)
def test_only_settings_that_exist_are_set(file: str) -> None:
    named = set(re.findall(rf"{PREFIX}([A-Z_]+)", (DEPLOY / file).read_text("utf-8"))) - {"HOST"}
    assert {name.lower() for name in named} <= set(NAMES)


def test_the_image_runs_without_rights_and_is_asked_whether_it_lives() -> None:
    assert last("USER") == "10001:10001"
    assert "--uid 10001" in " ".join(step.rest for step in STEPS if step.name == "RUN")
    assert json.loads(last("ENTRYPOINT")) == ["kontobahn"]
    port = json.loads(last("CMD"))[-1]
    assert port == last("EXPOSE") == re.findall(r"127\.0\.0\.1:(\d+)/healthz", last("HEALTHCHECK"))[0]
    assert ("ENV", "KONTOBAHN_DATA=/data") in STEPS
    assert last("VOLUME") == "/data"


def test_the_image_is_made_of_what_the_context_has() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    copied = [step.rest.split()[:-1] for step in STEPS if step.name == "COPY" and not step.rest.startswith("--from")]
    names = {name for group in copied for name in group}
    assert names == allowed
    assert all((ROOT / name).exists() for name in names)
    assert any("--require-hashes" in step.rest for step in STEPS)


def test_the_composed_service_is_confined_and_has_time_to_stop() -> None:
    assert SERVICE["read_only"] is True
    assert SERVICE["cap_drop"] == ["ALL"]
    assert SERVICE["security_opt"] == ["no-new-privileges:true"]
    assert seconds(SERVICE["stop_grace_period"]) > GRACE
    assert "data:/data" in SERVICE["volumes"]
    assert SERVICE["environment"]["KONTOBAHN_CONNECT_PROVIDER"] == "files"
    # More than one worker needs both.
    assert {"KONTOBAHN_DATABASE_URL", "KONTOBAHN_REDIS_URL", "KONTOBAHN_SECRET_KEY"} <= set(SERVICE["environment"])
    assert "ports" not in SERVICE


def test_only_the_proxy_is_reached_from_outside_and_only_it_is_trusted() -> None:
    services = COMPOSE["services"]
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    assert COMPOSE["networks"]["back"] == {"internal": True}
    assert {name: service["networks"] for name, service in services.items()} == {
        "kontobahn": ["front", "back"], "postgres": ["back"], "redis": ["back"], "proxy": ["front"],
    }  # fmt: skip
    (network,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert SERVICE["environment"]["KONTOBAHN_TRUSTED_PROXIES"] == network["subnet"]


def test_what_the_composed_service_needs_is_waited_for_and_every_secret_is_asked_for() -> None:
    assert SERVICE["depends_on"] == {name: {"condition": "service_healthy"} for name in ("postgres", "redis")}
    assert all("healthcheck" in COMPOSE["services"][name] for name in SERVICE["depends_on"])
    asked = set(re.findall(r"\$\{([A-Z_]+):\?", (DEPLOY / "compose.yaml").read_text("utf-8")))
    used = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text("utf-8")))
    given = set(re.findall(r"^([A-Z_]+)=", (DEPLOY / "example.env").read_text("utf-8"), re.MULTILINE))
    assert asked == used == given


def test_the_proxy_keeps_metrics_private_and_takes_the_largest_file() -> None:
    text = (DEPLOY / "Caddyfile").read_text("utf-8")
    assert re.search(r"@private path /metrics[^\n]*\n\trespond @private 404", text)
    match = re.search(r"max_size (\d+)MB", text)
    assert match is not None
    assert int(match[1]) * 1_000_000 > Settings().upload_limit_bytes
    assert f"reverse_proxy kontobahn:{last('EXPOSE')}" in text


class Unit(RawConfigParser):
    def __init__(self) -> None:
        super().__init__(strict=False, comment_prefixes=("#",))
        self.optionxform = str  # type: ignore[method-assign,assignment]
        self.read(DEPLOY / "kontobahn.service")


def test_the_unit_stops_in_time_and_can_be_enabled() -> None:
    unit = Unit()
    assert int(unit["Service"]["TimeoutStopSec"]) > GRACE
    assert unit["Service"]["Environment"] == f"KONTOBAHN_DATA=/var/lib/{unit['Service']['StateDirectory']}"
    assert unit["Service"]["ExecStart"] == "/opt/kontobahn/bin/kontobahn serve"
    assert unit["Install"]["WantedBy"] == "multi-user.target"
    # Exit code 3, something is down, is worth another start however often; what a person has to mend is not.
    assert unit["Unit"]["StartLimitIntervalSec"] == "0"
    assert unit["Service"]["RestartPreventExitStatus"].split() == ["1", "2"]


def test_systemd_takes_the_unit_and_finds_little_exposed(tmp_path: Path) -> None:
    text = (DEPLOY / "kontobahn.service").read_text("utf-8")
    ours = Path(sys.executable).with_name("kontobahn")
    copy = tmp_path / "kontobahn.service"
    copy.write_text(text.replace("/opt/kontobahn/bin/kontobahn", str(ours)), "utf-8")
    told = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert "kontobahn.service" not in told.stderr, told.stderr
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", copy],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert judged.returncode == 0, judged.stdout[-300:]


def test_the_files_of_the_cluster_agree_with_each_other_and_with_the_page() -> None:
    texts = {path.name: path.read_text("utf-8") for path in (DEPLOY / "cluster").iterdir()}
    page = (ROOT / "docs" / "several-machines.md").read_text("utf-8")
    assert all(f"`{name}`" in page for name in texts)
    head, _, body = texts["unavailable.http"].partition("\n\n")
    headers = dict(line.lower().split(": ") for line in head.splitlines()[1:])
    assert (int(headers["content-length"]), headers["retry-after"]) == (len(body.encode()), "2")
    assert set(json.loads(body)) == {"error", "message"}
    assert texts["haproxy.cfg"].count("/etc/haproxy/unavailable.http") == 3
    pool = re.findall(r"listen_(?:addr|port) = (\S+)", texts["pgbouncer.ini"])
    assert f"@{':'.join(pool)}/kontobahn" in texts["kontobahn.env"]
    # What the pooler opens must fit into what the database allows, with some left for the standby and for people.
    sizes = re.findall(r"(?:default|reserve)_pool_size = (\d+)", texts["pgbouncer.ini"])
    allowed = re.findall(r"max_connections = (\d+)", texts["postgresql.conf"])
    assert sum(map(int, sizes)) + 10 <= int(allowed[0])
    per_process = Settings().database_connections + 2
    assert 5 * 4 * per_process <= int(re.findall(r"max_client_conn = (\d+)", texts["pgbouncer.ini"])[0])
