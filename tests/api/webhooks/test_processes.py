"""Real processes: killed while they deliver, followed by `kontobahn listen`, restarted under it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from kontobahn.events.event_log import MAX_WAIT_SECONDS
from tests.api.webhooks.conftest import Delivering
from tests.harness import ServiceFactory
from tests.journeys.process import ServerProcess, environment, serving
from tests.receiver import Answer, Receiver
from tests.waiting import PATIENCE_SECONDS, eventually, stays

MakeReceiver = Callable[..., Receiver]
SECRET = "whsec_" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
UNLIMITED: dict[str, Any] = {"limit_api_requests": 1_000_000}


def test_a_killed_process_loses_no_event(tmp_path: Path, make_receiver: MakeReceiver) -> None:
    """Whatever was acknowledged is delivered, however often the process is killed in the middle."""
    # So slow at first that every kill comes in the middle.
    pace = [5.0]
    receiver = make_receiver(lambda _: Answer(204, seconds=pace[0]))
    settings = {**UNLIMITED, "webhook_allow": receiver.allow, "log_level": "warning"}
    acknowledged: list[str] = []
    for number in range(3):
        with serving(tmp_path, **settings) as server:
            headers = {"x-api-key": server.key}
            if not number:
                body = {"webhook_url": receiver.url}
                assert server.http.put("/v2/banking/webhook-url", headers=headers, json=body).status_code == 200
            for _ in range(25):
                answer = server.http.post("/v2/banking/webhook-url/test", headers=headers)
                acknowledged.append(answer.json()["data"]["id"])
            server.process.kill()
            server.process.wait(PATIENCE_SECONDS)
    assert set(acknowledged) - set(receiver.ids()), "killed too late to mean anything"
    pace[0] = 0
    with serving(tmp_path, **settings) as server:
        eventually(lambda: set(acknowledged) <= set(receiver.ids()))
        pending = {"limit": 1000, "delivery": "pending"}
        eventually(lambda: server.get("/v2/banking/events", params=pending).json()["data"] == [])
        log = server.get("/v2/banking/events", params={"limit": 1000}).json()["data"]
        assert set(acknowledged) <= {entry["id"] for entry in log}
        server.stop()


def test_a_jobs_process_delivers_for_those_that_only_serve(tmp_path: Path, make_receiver: MakeReceiver) -> None:
    receiver = make_receiver()
    settings: dict[str, Any] = {"webhook_allow": receiver.allow, "log_level": "warning"}
    with serving(tmp_path, "--no-jobs", **settings) as server:
        headers = {"x-api-key": server.key}
        server.http.put("/v2/banking/webhook-url", headers=headers, json={"webhook_url": receiver.url})
        event = server.http.post("/v2/banking/webhook-url/test", headers=headers).json()["data"]["id"]
        stays(lambda: receiver.ids() == [], "nobody delivers yet")
        jobs = subprocess.Popen(
            [sys.executable, "-m", "kontobahn", "jobs", "--data", str(tmp_path)], env=environment(settings)
        )
        try:
            # Its other jobs may have something to tell too: of the demo's consents that end soon, for instance.
            eventually(lambda: event in receiver.ids())
            jobs.send_signal(signal.SIGTERM)
            assert jobs.wait(PATIENCE_SECONDS) == 0
        finally:
            jobs.kill()
            jobs.wait(PATIENCE_SECONDS)
        assert server.get(f"/v2/banking/events/{event}").json()["data"]["delivery"]["state"] == "delivered"


def test_whoever_waits_for_an_event_does_not_delay_a_stop(tmp_path: Path) -> None:
    # Without its jobs, or the demo's consents that end soon would be told of in the middle.
    with serving(tmp_path, "--no-jobs") as server, ThreadPoolExecutor(1) as thread:
        last = server.get("/v2/banking/events").json()["next_cursor"]
        began = time.monotonic()
        waiting = thread.submit(server.get, "/v2/banking/events", params={"wait": MAX_WAIT_SECONDS, "cursor": last})
        # The second call needs a connection of its own once the first one waits.
        eventually(lambda: server.http.get("/healthz").status_code == 200 and server.connections() >= 2)
        server.stop()
        assert waiting.result().json() == {"data": [], "next_cursor": last}
        assert time.monotonic() - began < MAX_WAIT_SECONDS, "it did not wait to its end"


@contextmanager
def listening(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "kontobahn", "listen", *arguments],
        env=environment({}) | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_listen_forwards_what_the_service_delivers(start_service: ServiceFactory, make_receiver: MakeReceiver) -> None:
    """The same id and the same bytes, signed with the secret it was given."""
    public, own = make_receiver(), make_receiver(lambda delivered: 500 if delivered.data.get("n") == 2 else 204)
    world = Delivering(start_service(run_jobs=True, webhook_allow=public.allow))
    customer = world.customer(public)
    ids = [customer.emit(f"payment:{number}", n=number, text='Süß "x" 1.50') for number in range(3)]
    eventually(lambda: len(public.deliveries) == 3)
    arguments = ["--forward-to", own.url, "--url", world.service.base_url, "--secret", SECRET, "--from-start", "--json"]
    with listening(*arguments, "--once", KONTOBAHN_API_KEY=customer.key) as process:
        output, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1, "one of them was not taken"
    lines = [json.loads(line) for line in output.splitlines()]
    assert [(line["id"], line["status"]) for line in lines] == list(zip(ids, [204, 204, 500], strict=True)), errors
    assert {delivered.id: delivered.body for delivered in own.deliveries} == {
        delivered.id: delivered.body for delivered in public.deliveries
    }
    for delivered in own.deliveries:
        assert Webhook(SECRET).verify(delivered.body, delivered.headers)
    with listening(*arguments, "--count", "2", KONTOBAHN_API_KEY=customer.key) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, len(output.splitlines())) == (0, 2)


@pytest.mark.parametrize(("arguments", "word"), [
    (["--key", "kb_live_wrong", "--url", "{url}"], "key"), (["--key", "k", "--url", "{url}", "--secret", "x"], "secret"),
    (["--key", "k", "--url", "nowhere"], "form"),
])  # fmt: skip
@pytest.mark.parametrize("engine", ["sqlite"])
def test_listen_says_what_is_wrong_and_ends(
    start_service: ServiceFactory, tmp_path: Path, arguments: list[str], word: str
) -> None:
    url = start_service().base_url
    given = [item.format(url=url) for item in arguments]
    with listening("--forward-to", "http://localhost:1/", *given, "--data", str(tmp_path)) as process:
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 1
    assert word in errors
    assert "Traceback" not in errors


def test_listen_survives_a_restart_of_the_service(tmp_path: Path, make_receiver: MakeReceiver) -> None:
    receiver, public = make_receiver(), make_receiver()
    settings = {**UNLIMITED, "webhook_allow": public.allow, "log_level": "warning"}

    def send_test(server: ServerProcess) -> None:
        assert server.http.post("/v2/banking/webhook-url/test", headers={"x-api-key": server.key}).status_code == 201

    # Without its jobs: what they tell of the demo is not meant here.
    with serving(tmp_path, "--no-jobs", **settings) as server:
        port = str(server.port)
        server.http.put("/v2/banking/webhook-url", headers={"x-api-key": server.key}, json={"webhook_url": public.url})
        send_test(server)  # before: not meant for who listens from now on
        with listening("--forward-to", receiver.url, "--data", str(tmp_path), "--count", "2") as process:
            assert process.stdout is not None
            assert "whsec_" in process.stdout.readline()
            send_test(server)
            eventually(lambda: len(receiver.deliveries) == 1)
            server.stop(signal.SIGKILL, expect=-signal.SIGKILL)
            with serving(tmp_path, "--no-jobs", "--port", port, **settings) as again:
                send_test(again)
                output, errors = process.communicate(timeout=PATIENCE_SECONDS)
                assert process.returncode == 0, errors
                assert len(output.splitlines()) == 2
                assert "trying again" in errors
    assert len(set(receiver.ids())) == 2
