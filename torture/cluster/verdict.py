"""The fate of every call, credit and event, worked out from what the callers and the receiver saw, not from what the service says."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from torture.cluster.load import Attempt, Line, Load
from torture.cluster.machines import wait_until
from torture.cluster.parts import Cluster

PRICES = {"list": 1, "cash": 1, "payment": 3}
# Longer than a claim of a killed process for jobs lasts, and a receiver that refused is spared.
PATIENCE_SECONDS = 120
CUT_SECONDS = 2


class Phase(NamedTuple):
    name: str
    began: float
    ended: float
    # By the clock on the wall, as events have it.
    began_at: float
    ended_at: float
    note: str


def _rows(cluster: Cluster, sql: str, *params: Any) -> list[tuple[Any, ...]]:
    with cluster.connect() as connection:
        return connection.execute(sql, params).fetchall()


class Account(NamedTuple):
    reserved: int
    spent: int


def account(cluster: Cluster) -> Account:
    [row] = _rows(
        cluster,
        "SELECT reserved, spent FROM credit_accounts WHERE organization_id = %s",
        cluster.facts["organization_id"],
    )
    return Account(*row)


def settle(cluster: Cluster, before: Account) -> None:
    """Waits until nothing is on its way any more; what is then still open is found by the checks."""

    def is_settled() -> bool:
        [(open_payments,)] = _rows(
            cluster, "SELECT COUNT(*) FROM banking_payments WHERE status NOT IN ('settled', 'failed', 'rejected')"
                     " AND description LIKE 'payment-%%'",
        )  # fmt: skip
        [(pending,)] = _rows(cluster, "SELECT COUNT(*) FROM webhook_deliveries WHERE state = 'pending'")
        return not open_payments and not pending and account(cluster).reserved == before.reserved

    try:
        wait_until("everything was settled", is_settled, PATIENCE_SECONDS)
    except RuntimeError as error:
        print(f"  {error}")


class Checks:
    def __init__(self, cluster: Cluster, load: Load, receiver: Any) -> None:
        self.cluster = cluster
        self.load = load
        self.receiver = receiver
        self.attempts = list(load.attempts())
        self.organization = cluster.facts["organization_id"]
        self.results: list[tuple[bool, str, str]] = []

    def check(self, name: str, faults: list[Any], told: str) -> None:
        told = f"{told}; for example {faults[:3]}" if faults else told
        self.results.append((not faults, name, told))

    def callers(self) -> None:
        self.check("every caller got its answer in the end", self.load.trouble, f"{len(self.attempts)} calls sent")

    def writes(self) -> None:
        stored = {
            "write": Counter(name for (name,) in _rows(self.cluster, "SELECT name FROM mobility_customers WHERE name LIKE 'write-%%'")),
            "cash": Counter(
                found for (record,) in _rows(self.cluster, "SELECT record FROM books_cash_entries")
                for found in re.findall(r"cash-\d+-\d+", record)[:1]
            ),
            "payment": Counter(
                name for (name,) in _rows(self.cluster, "SELECT description FROM banking_payments WHERE description LIKE 'payment-%%'")
            ),
        }  # fmt: skip
        lost = [intent for kind in stored for intent in self.load.done(kind) if not stored[kind][intent]]
        twice = [intent for kind in stored for intent, number in stored[kind].items() if number > 1]
        asked = {attempt.intent for attempt in self.attempts}
        strange = [intent for kind in stored for intent in stored[kind] if intent not in asked]
        acknowledged = {kind: len(self.load.done(kind)) for kind in stored}
        self.check("no acknowledged write lost", lost, str(acknowledged))
        self.check("no write done twice, or unasked", twice + strange, f"{sum(map(len, stored.values()))} stored")
        gaps = _rows(
            self.cluster, "SELECT mandant, kassenname, COUNT(*), MAX(nummer) FROM books_cash_entries GROUP BY 1, 2"
                          " HAVING COUNT(*) <> MAX(nummer)",
        )  # fmt: skip
        self.check("cash books numbered without gaps", gaps, f"{acknowledged['cash']} entries")

    def credits(self, before: Account) -> None:
        rows = _rows(
            self.cluster, "SELECT request_id, amount FROM credit_movements WHERE organization_id = %s AND kind = 'confirm'"
                          " AND request_id ~ '^(list|cash|payment)-'", self.organization,
        )  # fmt: skip
        confirmed = Counter(request_id for request_id, _ in rows)
        wrong: list[Any] = [request_id for request_id, number in confirmed.items() if number > 1]
        wrong += [row for row in rows if row[1] != PRICES[row[0].split("-")[0]]]
        by_request = {attempt.request_id: attempt for attempt in self.attempts}
        # What was answered with a price is charged, once; a repeat under an idempotency key costs nothing.
        for attempt in self.attempts:
            if attempt.charged and not confirmed[attempt.request_id]:
                wrong.append(("answered, not charged", attempt.request_id))
        per_write = Counter(by_request[name].intent for name in confirmed if not name.startswith("list-"))
        wrong += [("charged twice", intent) for intent, number in per_write.items() if number > 1]
        done = {kind: len(self.load.done(kind)) for kind in PRICES}
        unanswered = [name for name in confirmed if name.startswith("list-") and by_request[name].status != 200]
        settled = self._settled()
        expected = done["list"] + len(unanswered) + done["cash"] + 3 * settled
        now = account(self.cluster)
        charged = now.spent - before.spent
        if charged != expected or now.reserved != before.reserved:
            wrong.append(f"expected {expected}, charged {charged}, still reserved {now.reserved - before.reserved}")
        told = f"{charged} charged for {done['list']} lists, {done['cash']} cash entries and {settled} settled payments"
        self.check(
            "no credit charged twice or lost",
            wrong,
            f"{told}, and {len(unanswered)} lists whose answer was lost on its way",
        )
        self.check("doctor finds nothing wrong", [found] if (found := self.cluster.doctor()) else [], "accounts add up")

    def _settled(self) -> int:
        [(number,)] = _rows(
            self.cluster,
            "SELECT COUNT(*) FROM banking_payments WHERE description LIKE 'payment-%%' AND status = 'settled'",
        )
        return int(number)

    def events(self) -> None:
        logged = [
            row[0]
            for row in _rows(
                self.cluster, "SELECT id FROM webhook_events WHERE organization_id = %s", self.organization
            )
        ]
        walked = list(_walk(self.cluster))
        taken = Counter(event["id"] for event in self.receiver.taken)
        waiting = _rows(
            self.cluster, "SELECT e.id FROM webhook_events e JOIN webhook_deliveries d USING (organization_id, sequence)"
                          " WHERE organization_id = %s", self.organization,
        )  # fmt: skip
        owed = {row[0] for row in waiting}
        moved = _rows(
            self.cluster, "SELECT r.payment_id::text, r.status FROM banking_payment_reports r JOIN banking_payments p"
                          " ON p.organization_id = r.organization_id AND p.id = r.payment_id"
                          " WHERE r.outcome = 'moved' AND description LIKE 'payment-%%' ORDER BY r.payment_id, r.position",
        )  # fmt: skip
        mine = {payment for payment, _ in moved}
        seen: set[str] = set()
        reported = Counter(
            (event["data"]["payment_id"], event["data"]["status"]) for event in self.receiver.taken
            if event["data"].get("payment_id") in mine and event["id"] not in seen and not seen.add(event["id"])  # type: ignore[func-returns-value]
        )  # fmt: skip
        expected = Counter(moved)
        for payment in mine:
            reported.pop((payment, "initiated"), None)
        self.check("the log walked by its cursor is complete", list(set(logged) ^ set(walked)), f"{len(logged)} events")
        self.check(
            "no event doubled in the log",
            list(((reported - expected) + (expected - reported)).items()),
            f"{len(moved)} changes",
        )
        missing = sorted(owed - set(taken))
        repeated = sum(taken.values()) - len(taken)
        self.check(
            "no event lost on its way to the receiver",
            missing + self.receiver.wrong,
            f"{len(taken)} arrived, {repeated} of them again",
        )

    def rates(self, counted: dict[str, Counter[int]], limit: int) -> None:
        wrong = [
            (name, dict(seen)) for name, seen in counted.items()
            if name != "without Redis" and seen != Counter({200: limit, 429: limit // 2})
        ]  # fmt: skip
        wrong += [(name, dict(seen)) for name, seen in counted.items() if set(seen) - {200, 429} or seen[200] < limit]
        alone = counted["without Redis"]
        self.check(
            "rate limits exact, and again when Redis is back", wrong, f"{limit} allowed; without Redis {alone[200]}"
        )

    def refusals(self, host_killed_at: float) -> None:
        def is_as_it_should_be(attempt: Attempt) -> bool:
            if attempt.status == 0:
                # HAProxy closes a connection that was used before when the host behind it vanishes in the middle of a call.
                return host_killed_at <= attempt.ended <= host_killed_at + CUT_SECONDS
            return attempt.status in (409, 503) and bool(attempt.retry_after)

        refused = [attempt for attempt in self.attempts if attempt.is_refused]
        wrong = [(item.request_id, item.status, item.body[:60]) for item in refused if not is_as_it_should_be(item)]
        told = f"{dict(Counter(attempt.status for attempt in refused))}; 0 is a connection cut with its host"
        self.check("every refusal says when to try again", wrong, told)


def _walk(cluster: Cluster) -> Iterator[str]:
    """The log as a reader gets it, page by page."""
    line, cursor = Line(cluster), ""
    while True:
        path = "/v2/banking/events?limit=500" + (f"&cursor={cursor}" if cursor else "")
        status, _, body = line.send("GET", path, b"", {"x-api-key": cluster.facts["api_key"]})
        assert status == 200, body
        answer = json.loads(body)
        if not answer["data"]:
            return
        yield from (event["id"] for event in answer["data"])
        cursor = answer["next_cursor"]


def _span(attempts: list[Attempt], kind: str) -> float:
    """From the first call that failed to the end of the last, of those who send again at once.

    Not 409: it waits for the end of one call that was lost, while others are answered.
    """
    failed = [attempt for attempt in attempts if attempt.kind == kind and attempt.is_refused and attempt.status != 409]
    return max(item.ended for item in failed) - min(item.began for item in failed) if failed else 0


def _phase_row(phase: Phase, attempts: list[Attempt], receiver: Any) -> list[str]:
    ours = [attempt for attempt in attempts if phase.began <= attempt.ended < phase.ended]
    failed = [attempt for attempt in ours if attempt.is_refused]
    by_service = sum(attempt.status == 503 and attempt.by_service for attempt in failed)
    by_balancer = sum(attempt.status == 503 and not attempt.by_service for attempt in failed)
    answered = [attempt.ended - attempt.began for attempt in ours if not attempt.is_refused]
    delays = [wait for at, wait in receiver.delays.values() if phase.began_at <= at < phase.ended_at]
    return [
        phase.name, f"{phase.ended - phase.began:.0f}", str(len(ours)), str(by_service), str(by_balancer),
        str(sum(attempt.status == 409 for attempt in failed)), str(sum(attempt.status == 0 for attempt in failed)),
        f"{_span(ours, 'read'):.1f}", f"{_span(ours, 'write'):.1f}", f"{max(answered, default=0):.1f}",
        f"{max(delays, default=0):.1f}", phase.note,
    ]  # fmt: skip


HEAD = [
    "phase", "s", "calls", "503", "503 of the balancer", "409", "cut", "reads failed s", "writes failed s", "slowest answer s",
    "slowest event s", "",
]  # fmt: skip


def report(
    cluster: Cluster, load: Load, receiver: Any, phases: list[Phase], counted: dict[str, Counter[int]], before: Account
) -> int:
    checks = Checks(cluster, load, receiver)
    checks.callers()
    checks.writes()
    checks.credits(before)
    checks.events()
    checks.rates(counted, 30)
    checks.refusals(next(phase.began for phase in phases if phase.name.startswith("a host")))
    rows = [HEAD, *(_phase_row(phase, checks.attempts, receiver) for phase in phases)]
    print(f"\n{time.strftime('%Y-%m-%d %H:%M')}\n")
    for row in rows:
        print("| " + " | ".join(row) + " |")
        if row is HEAD:
            print("|" + "---|" * len(row))
    print()
    for holds, name, told in checks.results:
        print(f"{'holds' if holds else 'FAILS'}  {name}: {told}")
    return 0 if all(holds for holds, _, _ in checks.results) else 1
