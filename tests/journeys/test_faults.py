"""The service when something breaks: killed processes, a full disk, a lost database, a hurried shutdown, hostile input."""

from __future__ import annotations

import asyncio
import re
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest

from tests.journeys.process import answer, environment, kontobahn, place_demo, serving
from tests.services import PostgresServer, RedisServer
from tests.waiting import PATIENCE_SECONDS, PAUSE_SECONDS, eventually, take_time_async

CONNECTIONS = "/v2/ledger-rewe-read/connections"
PRICED: dict[str, Any] = {
    "prices": {f"GET {CONNECTIONS}": 1},
    "limit_api_requests": 1_000_000,
    "limit_auth_requests": 1_000_000,
}
OWNER = "Demo Handels GmbH"


def not_200(response: httpx.Response) -> httpx.Response | None:
    return None if response.status_code == 200 else response


async def _hammer(
    base_url: str, key: str, calls: int, path: str = CONNECTIONS, answers: list[int] | None = None
) -> list[int]:
    """Makes the calls at once and returns their statuses, 0 for none; `answers` fills as they come."""
    async with aiohttp.ClientSession(base_url, headers={"x-api-key": key}) as http:

        async def call() -> int:
            try:
                async with http.get(path) as response:
                    await response.read()
                    if answers is not None:
                        answers.append(response.status)
                    return response.status
            except aiohttp.ClientError:
                return 0

        return await asyncio.gather(*(call() for _ in range(calls)))


def test_a_process_killed_in_the_middle_loses_and_invents_no_credit(tmp_path: Path) -> None:
    settings = {**PRICED, "call_hold_seconds": 1}
    answered = 0
    place_demo(tmp_path)
    # The demo's own payments hold credits too, and keep them.
    before = answer("credits", "statement", "-o", OWNER, data=tmp_path)
    for _ in range(3):
        with serving(tmp_path, **settings) as server:

            async def kill_soon(pid: int = server.process.pid, url: str = server.facts["base_url"]) -> list[int]:
                answers: list[int] = []
                calls = asyncio.create_task(_hammer(url, server.key, 400, answers=answers))
                # In the middle: some are answered, most are not.
                while len(answers) < 20:
                    await take_time_async(PAUSE_SECONDS)
                server.process.kill()
                return await calls

            answered += asyncio.run(kill_soon()).count(200)
            server.process.wait(PATIENCE_SECONDS)
    with serving(tmp_path, **settings) as server:
        reserved = "SELECT SUM(reserved) FROM credit_accounts WHERE organization_id = ?"

        def all_given_back() -> bool:
            with closing(sqlite3.connect(tmp_path / "kontobahn.sqlite3")) as database:
                [found] = database.execute(reserved, (server.facts["organization_id"],)).fetchone()
            return bool(found == before[-1]["reserved_after"])

        eventually(all_given_back, "the job gives back what the killed processes had reserved")
        lines = answer("credits", "statement", "-o", OWNER, data=tmp_path)
        assert lines[-1]["reserved_after"] == before[-1]["reserved_after"]
        confirmed = sum(line["kind"] == "confirm" for line in lines[len(before) :])
        # Whoever got an answer was charged; at most the answers on their way at the kill are charged beyond that.
        assert confirmed >= answered
        assert lines[-1]["available_after"] == before[-1]["available_after"] - confirmed
        findings = answer("doctor", data=tmp_path)
        assert [item for item in findings if item["state"] == "failed"] == []
        server.stop()


def test_a_stop_finishes_what_runs(tmp_path: Path) -> None:
    with serving(tmp_path, **PRICED) as server:

        async def sign_in_and_stop() -> list[int]:
            async with aiohttp.ClientSession(server.facts["base_url"]) as http:

                async def sign_in() -> int:
                    async with http.post("/v2/auth/sessions", json=server.facts["user"]) as response:
                        await response.read()
                        return response.status

                # As many as one address may have at work at once.
                running = [asyncio.create_task(sign_in()) for _ in range(4)]
                # One is done, so the others are being worked on.
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                server.process.send_signal(signal.SIGTERM)
                return await asyncio.gather(*running)

        assert asyncio.run(sign_in_and_stop()) == [201] * 4
        assert server.process.wait(PATIENCE_SECONDS) == 0


def test_a_full_disk_is_503_and_passes_without_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, **PRICED) as server:
        assert server.get(CONNECTIONS).status_code == 200
        # Far below the size of the database and its log: wherever the next write goes, there is no room.
        limit = 64 * 1024
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        refused = None
        for _ in range(500):
            refused = server.get(CONNECTIONS)
            if refused.status_code != 200:
                break
        assert refused is not None
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert "database" in refused.json()["error"]
        assert refused.headers["ratelimit-limit"]
        assert server.http.get("/healthz").status_code == 200
        infinite = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, infinite)
        assert server.get(CONNECTIONS).status_code == 200
        findings = answer("doctor", data=tmp_path)
        assert [item for item in findings if item["state"] == "failed"] == []
        server.stop()


def test_a_lost_database_is_503_and_comes_back_without_a_restart(tmp_path: Path) -> None:
    with PostgresServer() as database:
        url = database.create_database("lost")
        with serving(tmp_path, database_url=url, **PRICED) as server:
            assert server.get(CONNECTIONS).status_code == 200
            database.stop()
            # The caller is remembered for less than a second.
            refused = eventually(lambda: not_200(server.get(CONNECTIONS)))
            assert refused is not None
            assert refused.status_code == 503
            assert refused.headers["retry-after"]
            assert refused.json()["request_id"]
            assert server.http.get("/readyz").status_code == 503
            assert server.http.get("/healthz").status_code == 200
            database.start()
            assert server.get(CONNECTIONS).status_code == 200
            assert server.http.get("/readyz").status_code == 200
            server.stop()


def test_hostile_input_leaves_the_process_at_the_same_size(tmp_path: Path) -> None:
    with serving(tmp_path, **PRICED) as server:
        headers = {"x-api-key": server.key, "content-type": "application/json"}
        deep = b'{"email": ' + b"[" * 10_000
        large = b" " * (28 * 1024 * 1024 + 1)

        def attack() -> None:
            for body, status in (
                (deep, 400),
                (b"\xff" * 10_000, 400),
                (b'{"email": "' + b"a" * 16_000 + b'"}', 400),
            ):
                assert server.http.post("/v2/auth/invitations", content=body, headers=headers).status_code == status
            too_large = server.http.post("/v2/auth/invitations", content=iter([large]), headers=headers)
            assert too_large.status_code == 413

        attack()
        before = server.resident_bytes()
        for _ in range(20):
            attack()
        for number in range(2000):
            server.http.get(f"/v2/nothing/{number}", headers={"x-api-key": f"kb_live_{number:036d}"})
        assert server.resident_bytes() - before < 40 * 1024 * 1024
        assert server.get(CONNECTIONS).status_code == 200
        server.stop()


def _accepts(base_url: str) -> bool:
    host, _, port = base_url.removeprefix("http://").partition(":")
    try:
        socket.create_connection((host, int(port))).close()
    except OSError:
        return False
    return True


def test_two_workers_share_limits_and_hear_of_a_revoked_key(tmp_path: Path, redis: RedisServer) -> None:
    redis.flush()
    with PostgresServer() as database:
        settings: dict[str, Any] = {"database_url": database.create_database("workers"), "redis_url": redis.url}
        with serving(tmp_path, "--workers", "2", **settings) as server:

            def limit_is_shared() -> bool:
                key = answer("keys", "create", "-n", "Neu", "-o", "Zweite Muster UG", data=tmp_path, **settings)[
                    "api_key"
                ]
                statuses = asyncio.run(_hammer(server.facts["base_url"], key, 260))
                return (statuses.count(200), statuses.count(429)) == (200, 60)

            # A worker that Redis does not answer within a second counts alone for five: on a busy machine that happens.
            eventually(limit_is_shared)
            second = server.facts["second_api_key"]
            keys = answer("keys", "list", "-o", "Zweite Muster UG", data=tmp_path, **settings)
            assert set(asyncio.run(_hammer(server.facts["base_url"], second, 8))) == {200}
            kontobahn("keys", "revoke", keys[0]["key_id"], data=tmp_path, **settings)
            eventually(lambda: set(asyncio.run(_hammer(server.facts["base_url"], second, 8))) == {401})
            # Killed, it takes its workers along.
            server.process.kill()
            eventually(lambda: not _accepts(server.facts["base_url"]))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_running_call_outlasts_every_idle_connection(
    tmp_path: Path, workers: int, request: pytest.FixtureRequest
) -> None:
    settings: dict[str, Any] = {"idle_seconds": 1, "body_seconds": PATIENCE_SECONDS}
    if workers > 1:
        postgres, redis = request.getfixturevalue("postgres"), request.getfixturevalue("redis")
        settings |= {"database_url": postgres.create_database("idle"), "redis_url": redis.url}
    with serving(tmp_path, "--workers", str(workers), **settings) as server, ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE_SECONDS))

        # Enough for each worker to have some of both.
        running, idle = [connect() for _ in range(6)], [connect() for _ in range(6)]
        for raw in running:
            raw.sendall(
                b"POST /v2/auth/sessions HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{"
            )
        assert [raw.recv(1) for raw in idle] == [b""] * len(idle)
        for raw in running:
            raw.sendall(b"}")
            assert raw.recv(12) == b"HTTP/1.1 415"


def test_workers_start_without_the_database_and_answer_once_it_is_there(tmp_path: Path, redis: RedisServer) -> None:
    with PostgresServer() as database:
        settings = {"database_url": database.create_database("late"), "redis_url": redis.url}
        database.stop()
        process = subprocess.Popen(
            [sys.executable, "-m", "kontobahn", "serve", "--workers", "2", "--port", "0", "--data", str(tmp_path)],
            env=environment(settings), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            ready = re.sub(r"^.* serves (\S+)/dashboard .*$", r"\1/readyz", process.stdout.readline().strip())
            try:
                eventually(lambda: _accepts(ready.removesuffix("/readyz")))
                refused = httpx.get(ready, timeout=PATIENCE_SECONDS, trust_env=False)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
                database.start()
                eventually(lambda: httpx.get(ready, timeout=PATIENCE_SECONDS, trust_env=False).status_code == 200)
            finally:
                process.terminate()
        assert process.returncode == 0


# A worker as the server forks it, whose parent dies before it is watched or while the application is made.
ORPHAN = """
import multiprocessing, os, signal, sys
from kontobahn import app, serve

def kill_parent():
    parent = os.getppid()
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        pass

def work(moment):
    if moment == "before it is watched":
        kill_parent()
    app.create = kill_parent if moment == "meanwhile" else lambda: None
    serve.create_worker()
    print("serves", flush=True)

if __name__ == "__main__":
    # As the server's process does: it only takes note.
    signal.signal(signal.SIGTERM, lambda *_: None)
    worker = multiprocessing.get_context("fork").Process(target=work, args=sys.argv[1:])
    worker.start()
    worker.join()
"""


@pytest.mark.parametrize(("moment", "said"), [("before it is watched", ""), ("meanwhile", ""), ("never", "serves\n")])
def test_a_worker_whose_parent_dies_while_it_starts_serves_nobody(tmp_path: Path, moment: str, said: str) -> None:
    # It returns when both have ended, as they share the output.
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, moment],
        env=environment({"data": tmp_path}), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == (said, "")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({}, "one writer"), ({"database_url": "postgresql://127.0.0.1:1/x"}, "Redis")],
)
def test_workers_that_could_not_count_together_are_refused(
    tmp_path: Path, settings: dict[str, Any], reason: str
) -> None:
    refused = kontobahn("serve", "--workers", "2", data=tmp_path, expect=1, **settings)
    assert reason in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_port_in_use_is_said_so(tmp_path: Path) -> None:
    with serving(tmp_path / "first") as server:
        refused = kontobahn("serve", "--port", str(server.port), data=tmp_path / "second", expect=1)
        assert "--port" in refused.stderr
        assert server.get(CONNECTIONS).status_code == 200
        server.stop()


def test_a_slow_caller_holds_nobody_up(tmp_path: Path) -> None:
    with serving(tmp_path, body_seconds=PATIENCE_SECONDS) as server:

        async def main() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(
                b"POST /v2/auth/sessions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"
            )
            await writer.drain()
            assert server.http.get("/healthz").status_code == 200
            writer.write(b"}" * 49)
            answer = await reader.readline()
            writer.close()
            return answer

        assert asyncio.run(main()).startswith(b"HTTP/1.1 400"), "it had not been given up when the other was answered"
        server.stop()
