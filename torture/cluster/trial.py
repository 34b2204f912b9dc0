"""The trial: load, one fault after the other, and what became of everything."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from torture.cluster import verdict
from torture.cluster.load import Line, Load
from torture.cluster.machines import Machines, wait_until
from torture.cluster.parts import HOSTS, Cluster
from torture.cluster.verdict import Phase
from torture.payments import Receiver

# The time that a person takes to decide on a promotion; not the system's own time.
REACTION_SECONDS = 3
# A process that could not reach Redis counts alone for this long.
REDIS_PAUSE_SECONDS = 6
LIMIT = 30
SETTINGS = {
    "KONTOBAHN_LIMIT_API_REQUESTS": "1000000000",
    "KONTOBAHN_LIMIT_WEBHOOK_REQUESTS": "1000000000",
    "KONTOBAHN_LIMIT_AUTH_REQUESTS": str(LIMIT),
    # What a killed process held is free after seconds instead of minutes: the trial waits for it.
    "KONTOBAHN_CALL_HOLD_SECONDS": "10",
    "KONTOBAHN_WEBHOOK_TIMEOUT_SECONDS": "5",
    "KONTOBAHN_LOG_LEVEL": "warning",
}


class TimedReceiver(Receiver):
    """Notes as well how long each event took to arrive for the first time, by when it happened."""

    def __init__(self, seed: int, address: str) -> None:
        self.delays: dict[str, tuple[float, float]] = {}
        super().__init__(seed, address, refuses=0)

    def take(self, body: bytes, headers: dict[str, str]) -> None:
        super().take(body, headers)
        happened = datetime.fromisoformat(json.loads(body)["received_at"]).timestamp()
        self.delays.setdefault(headers["webhook-id"], (happened, time.time() - happened))


class Trial:
    def __init__(self, cluster: Cluster, load: Load, seconds: float) -> None:
        self.cluster = cluster
        self.load = load
        self.seconds = seconds
        self.phases: list[Phase] = []
        self.counted: dict[str, Counter[int]] = {}

    def phase(self, name: str, fault: Callable[[], str]) -> None:
        """A fault, and some time of load after it."""
        began = time.monotonic(), time.time()
        note = fault()
        time.sleep(self.seconds)
        self.phases.append(Phase(name, began[0], time.monotonic(), began[1], time.time(), note))
        print(f"  {name}: {time.monotonic() - began[0]:.0f} s", flush=True)

    def all_faults(self) -> None:
        self.phase("no fault", lambda: self._count("before"))
        self.phase("a host killed, then started again", self._kill_host)
        self.phase("a process for jobs killed, then started again", self._kill_jobs)
        self.phase("PgBouncer restarted", self._restart_pool)
        self.phase("Redis killed, then started again", self._lose_redis)
        self.phase("the primary lost, the standby promoted", self._lose_primary)
        self.phase("the old primary is the standby now", self._repair)
        self.phase("no fault, after all of them", lambda: self._count("after all"))

    def _kill_host(self) -> str:
        self.cluster.hosts["host2"].kill()
        time.sleep(self.seconds)
        self.cluster.hosts["host2"].start()
        took = wait_until("host2 was ready", lambda: self.cluster.is_ready("host2"), 120)
        return f"ready {took:.1f} s after its start"

    def _kill_jobs(self) -> str:
        self.cluster.jobs["jobs1"].kill()
        time.sleep(self.seconds)
        self.cluster.jobs["jobs1"].start()
        return ""

    def _restart_pool(self) -> str:
        self.cluster.restart_pool()
        return ""

    def _lose_redis(self) -> str:
        self.cluster.cache.kill()
        time.sleep(self.seconds / 2)
        self._count("without Redis")
        self.cluster.cache.start()
        time.sleep(REDIS_PAUSE_SECONDS)
        return self._count("with Redis again")

    def _lose_primary(self) -> str:
        unplugged = self.cluster.machines.unplug("db1")
        self.cluster.database["db1"].kill()
        time.sleep(REACTION_SECONDS)
        decided = time.monotonic()
        self.cluster.promote()
        wait_until("the hosts were ready again", lambda: all(map(self.cluster.is_ready, (*HOSTS, "balancer"))), 120)
        how = "taken off the network and killed" if unplugged else "killed"
        return f"{how}; promoted {REACTION_SECONDS} s later, ready {time.monotonic() - decided:.1f} s after that"

    def _repair(self) -> str:
        return f"synchronous after {self.cluster.repair_old_primary():.1f} s"

    def _count(self, name: str) -> str:
        """Calls from a new address, half as many again as are allowed, over all hosts at once."""
        source = self.cluster.machines.caller(len(self.counted))
        seen: Counter[int] = Counter()
        headers = {"x-api-key": self.cluster.facts["api_key"]}

        def call(times: int) -> None:
            line = Line(self.cluster, source)
            for _ in range(times):
                seen[line.send("GET", "/v2/auth/users", b"", headers)[0]] += 1
            line.close()

        threads = [threading.Thread(target=call, args=(LIMIT // 6,)) for _ in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.counted[name] = seen
        return f"{seen[200]} of {LIMIT * 3 // 2} calls allowed, {seen[429]} refused"


def run(machines: Machines, *, seconds: float, seed: int) -> int:
    receiver = TimedReceiver(seed, machines.address("outside"))
    allowed = {"KONTOBAHN_WEBHOOK_ALLOW": f"{machines.address('outside')}:{receiver.port}"}
    cluster = Cluster(machines, {**SETTINGS, **allowed})
    where = "network namespaces" if machines.namespaces else "addresses of the loopback device"
    print(f"Setting up on {where}, seed {seed} ...", flush=True)
    cluster.start()
    receiver.secret = _subscribe(cluster, receiver.port)
    before = verdict.account(cluster)
    load = Load(cluster, seed)
    trial = Trial(cluster, load, seconds)
    load.start()
    trial.all_faults()
    load.stop()
    verdict.settle(cluster, before)
    return verdict.report(cluster, load, receiver, trial.phases, trial.counted, before)


def _subscribe(cluster: Cluster, port: int) -> str:
    url = f"http://{cluster.machines.address('outside')}:{port}/events"
    headers = {"x-api-key": cluster.facts["api_key"], "content-type": "application/json"}
    status, _, body = Line(cluster).send(
        "PUT", "/v2/banking/webhook-url", json.dumps({"webhook_url": url}).encode(), headers
    )
    assert status == 200, body
    made: dict[str, Any] = json.loads(body)["data"]
    return str(made["secret"])
