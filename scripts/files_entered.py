"""Counts the files of the service in which a function runs on the way of five calls: those that a reader has to open.

    python scripts/files_entered.py [--names]

Calls are made to the application of the tests, on SQLite; a provider behind a port is the tests' scripted one and does not count. Neither
does what runs whether a call is made or not: scheduled jobs, the upkeep of the process, the watch over connections.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = f"{ROOT}/src/kontobahn/"
sys.path.insert(0, str(ROOT))

from kontobahn.db import Tx  # noqa: E402
from kontobahn.webhooks.deliverer import Deliverer  # noqa: E402
from tests.api.webhooks.conftest import Delivering  # noqa: E402
from tests.bank_builder import Bank, account_id, order  # noqa: E402
from tests.harness import Service, running_service  # noqa: E402
from tests.ledger_builder import Books  # noqa: E402
from tests.mobility_builder import Shop, ticket  # noqa: E402
from tests.receiver import receiving  # noqa: E402
from tests.statement_builder import Booking, Sheet, camt  # noqa: E402
from tests.waiting import eventually  # noqa: E402

# Runs whether a call is made or not.
BESIDE = {"ConnectionWatch._repeat", "Application._repeat_upkeep"}


class Tracer:
    """Notes the files of the functions that are called while it counts, in every thread that begins after it."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self._is_counting = False
        threading.setprofile(self._note)

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.files.clear()
        self._is_counting = True
        yield
        self._is_counting = False

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        if not self._is_counting or event != "call" or code.co_name == "<module>":
            return
        file = code.co_filename.removeprefix(SOURCE)
        if code.co_filename != file and file not in self.files and not _runs_beside(frame):
            self.files.add(file)


def _runs_beside(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_qualname not in BESIDE:
        frame = frame.f_back
    return frame is not None


def open_items(service: Service, tracer: Tracer) -> None:
    books = Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))
    books.post("2026-01-10 S 10010 8400 119,00 RE-1 Rechnung")
    with tracer.counting():
        answer = service.get("/v2/ledger-rewe-read/opos", books.owner.key, params=books.query())
    assert len(answer.json()["data"]["konten"]) == 1


def payment_to_settled(service: Service, tracer: Tracer) -> None:
    owner, bank = service.organization(), Bank(service)
    bank.connected(owner)
    body = order(account_id(service, owner))
    with tracer.counting():
        payment = service.post("/v2/banking/payments", owner.key, json=body).json()["data"]
        bank.deliver(
            kind="PaymentReported", provider_ref=f"bank-{payment['end_to_end_id']}", report=["settled", "ACCC"]
        )
        eventually(lambda: service.balance(owner).reserved == 0)
    [row] = service.get("/v2/banking/payments", owner.key).json()["data"]
    assert row["status"] == "settled", row


def invoice(service: Service, tracer: Tracer) -> None:
    shop = Shop(service)
    customer_id = shop.customer(ticket("PN-1"))
    with tracer.counting():
        shop.document(shop.invoice(customer_id), "pdf")


def event_to_delivered(_service: Service, tracer: Tracer) -> None:
    with (
        receiving() as receiver,
        tempfile.TemporaryDirectory() as folder,
        running_service(Path(folder), webhook_allow=receiver.allow) as service,
    ):
        service.run(_start(service.application.deliverer))
        customer = Delivering(service).customer(receiver)
        with tracer.counting():
            customer.emit()
            eventually(lambda: service.db.read_now(_is_delivered))


async def _start(deliverer: Deliverer) -> None:
    deliverer.start()


def _is_delivered(tx: Tx) -> bool:
    return bool(tx.all("SELECT 1 FROM webhook_deliveries WHERE state = 'delivered'"))


def camt_import(service: Service, tracer: Tracer) -> None:
    owner = service.organization()
    with tracer.counting():
        answer = service.post("/v2/banking/statements", owner.key, content=camt(Sheet([Booking(10_00)])))
    assert answer.status_code == 201


WALKS: dict[str, Callable[[Service, Tracer], None]] = {
    "open items": open_items,
    "payment to settled": payment_to_settled,
    "invoice": invoice,
    "event to delivered": event_to_delivered,
    "camt import": camt_import,
}


def main() -> None:
    tracer = Tracer()
    for name, walk in WALKS.items():
        with tempfile.TemporaryDirectory() as folder, running_service(Path(folder)) as service:
            walk(service, tracer)
        print(f"{name}: {len(tracer.files)}")
        if "--names" in sys.argv:
            print("".join(f"    {file}\n" for file in sorted(tracer.files)))


if __name__ == "__main__":
    main()
