"""Reports on a payment in any order, late, twice and contradictory, by webhook, when asked, from a file and as a booking."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kontobahn.banking.connections.store import ConnectionRow
from kontobahn.banking.provider import PaymentReport
from kontobahn.credits import statement
from tests.api.banking.test_payments import PAYMENTS, pay, report
from tests.bank_builder import Bank, events, facts
from tests.file_bank import import_file
from tests.harness import Organization, Service, ServiceFactory
from tests.payment_table import ISO_CODES, MEANING, STATUSES
from tests.statement_builder import pain002


class Step(NamedTuple):
    """A status as somebody reports it: by name, or in a file by the bank's code."""

    by: Literal["webhook", "asked", "file", "debit"]
    status: str | None = None
    code: str | None = None


codes = st.sampled_from([None, "ACTC", "ACSP", "ACSC", "QQQQ"])
steps = st.one_of(
    st.builds(Step, st.sampled_from(["webhook", "asked"]), st.sampled_from([None, *STATUSES]), codes),
    st.builds(Step, st.just("file"), st.none(), st.sampled_from([*ISO_CODES, "QQQQ"])),
    st.just(Step("debit")),
)


class Expected:
    """The payment as the specification has it, from the table and the sentences beside it."""

    def __init__(self) -> None:
        self.status, self.code = "initiated", "RCVD"
        self.events = [("payment_update", "initiated")]
        self.contradictions = 0
        self.debited = False

    def hear(self, status: str | None, code: str | None) -> None:
        sign = "" if status is None else MEANING[self.status, status]
        is_final = self.status in ("settled", "failed", "rejected")
        if sign == "!":
            self.contradictions += 1
        if sign == "→" and status is not None:
            self.status = status
            name = "payment_progress" if status == "initiated_info_required" else "payment_update"
            self.events.append((name, status))
        if sign in ("→", "=") or (sign == "" and not is_final):
            self.code = code or self.code
        if sign == "→" and status == "executed" and self.debited:
            self.hear("settled", None)

    def book(self) -> None:
        if self.debited:
            return
        self.debited = True
        if self.status in ("executed", "failed", "rejected"):
            self.hear("settled", None)

    @property
    def credits(self) -> tuple[int, int]:
        """Reserved and spent."""
        return {"settled": (0, 3), "failed": (0, 0), "rejected": (0, 0)}.get(self.status, (3, 0))

    @property
    def movements(self) -> list[str]:
        end = {"settled": ["confirm"], "failed": ["expire"], "rejected": ["expire"]}
        return ["reserve", *end.get(self.status, [])]


class Payer:
    """An organisation that makes one payment after the other."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.bank = Bank(service)

    def begin(self) -> None:
        self.owner: Organization = self.service.organization()
        self.connection: ConnectionRow = self.bank.connected(self.owner)
        self.payment: dict[str, Any] = pay(self.service, self.owner).json()["data"]
        self.said = 0

    def say(self, step: Step) -> None:
        self.said += 1
        reference = self.payment["end_to_end_id"]
        if step.by == "webhook":
            report(self.bank, self.payment, step.status, step.code)
        elif step.by == "file":
            content = pain002((reference, step.code or "", ""), message_id=f"KB-{self.said}")
            import_file(self.service, self.owner, content, "status.xml")
        elif step.by == "debit":
            self.bank.report(self.connection, facts(-12_34, "EREF", end_to_end_id=reference))
        else:
            self.bank.provider.live = PaymentReport(step.status, step.code)  # type: ignore[arg-type]
            assert self.service.get(f"{PAYMENTS}/{self.payment['id']}", self.owner.key).status_code == 200
            self.bank.provider.live = PaymentReport(None)

    def check(self, expected: Expected) -> None:
        [row] = self.service.get(PAYMENTS, self.owner.key).json()["data"]
        assert (row["status"], row["raw_provider_status"]) == (expected.status, expected.code)
        told = [event for event in events(self.service, self.owner) if "payment_id" in event["data"]]
        assert [(event["event"], event["data"]["status"]) for event in told] == expected.events
        balance = self.service.balance(self.owner)
        assert (balance.reserved, balance.spent) == expected.credits
        assert balance.available == 100 - sum(expected.credits)
        moved = self.service.db.read_now(statement, self.owner.id)
        assert [line.kind for line in moved if line.kind != "grant"] == expected.movements
        noted = self.service.db.read_now(
            lambda tx: tx.all(
                "SELECT 1 FROM audit_log WHERE organization_id = ? AND action = 'payment.contradiction'", self.owner.id
            )
        )
        assert len(noted) == expected.contradictions


@pytest.fixture
def payer(start_service: ServiceFactory) -> Payer:
    return Payer(start_service(limit_webhook_requests=1_000_000))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, min_size=1, max_size=12))
@example([Step("debit"), Step("webhook", "executed"), Step("asked", "failed"), Step("file", code="RJCT")])
@example([Step("file", code="ACSC"), Step("webhook", "failed"), Step("debit"), Step("webhook", "settled")])
@example([Step("asked", "authorizing"), Step("webhook", "initiated_info_required"), Step("file", code="ACTC")])
def test_the_payment_its_credits_and_its_events_are_what_the_table_says(payer: Payer, told: list[Step]) -> None:
    payer.begin()
    expected = Expected()
    for step in told:
        is_final = expected.status in ("settled", "failed", "rejected")
        if step.by == "debit":
            expected.book()
        elif step.by == "file":
            expected.hear(ISO_CODES.get(step.code or ""), step.code)
        elif not (step.by == "asked" and is_final):
            expected.hear(step.status, step.code)
        payer.say(step)
    payer.check(expected)
