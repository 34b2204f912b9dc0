"""Duties of every ticket platform, whoever sells the tickets: our own store, a file, and a remote one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kontobahn.errors import Unavailable
from kontobahn.mobility.platforms import CsvTickets, OwnTickets
from kontobahn.mobility.tickets import Mobility, NewTicket, PlatformCustomer, TicketPlatform, TicketReport
from tests.harness import Service
from tests.mobility_builder import Shop, ticket

CSV = "reference;product;holder_reference;valid_from;price_in_cents;vat_rate\n"
ROWS = ["A-1;Deutschlandticket Job;PN-1;2026-03;6300;7", "A-2;Deutschlandticket Job;PN-2;2026-03;6300;7"]


class RemotePlatform:
    """A platform behind the network, as an adapter would present it."""

    name = "remote"

    def __init__(self) -> None:
        self.sold: list[TicketReport] = []
        self.is_down = False
        self.asked: list[PlatformCustomer] = []

    async def tickets(self, customer: PlatformCustomer) -> Sequence[TicketReport]:
        self.asked.append(customer)
        if self.is_down:
            raise Unavailable("The ticket platform cannot be reached.", retry_after_seconds=30)
        return self.sold


def report(holder: str, reference: str, *, cancelled: bool = False, **more: Any) -> TicketReport:
    return TicketReport(NewTicket(**ticket(holder, reference=reference, **more)), is_cancelled=cancelled)


def connect(service: Service, shop: Shop, platform: TicketPlatform, **more: Any) -> str:
    """A customer whose tickets are sold there."""
    mobility = service.application.context.part(Mobility)
    mobility.platforms[platform.name] = platform
    customer_id = shop.customer(**more)
    service.db.write_now(
        lambda tx: tx.run("UPDATE mobility_customers SET provider = ? WHERE id = ?", platform.name, customer_id)
    )
    return customer_id


@pytest.fixture(params=["own", "csv", "remote"])
def sold(request: pytest.FixtureRequest, service: Service, tmp_path: Path) -> tuple[Shop, str]:
    """A customer who has bought two tickets, wherever they are sold."""
    shop = Shop(service)
    if request.param == "own":
        tickets = [ticket("PN-1", reference="A-1"), ticket("PN-2", reference="A-2")]
        customer_id = connect(service, shop, OwnTickets())
        shop.add(customer_id, *tickets)
    elif request.param == "csv":
        file = tmp_path / "tickets.csv"
        file.write_text(CSV + "\n".join(ROWS), "utf-8")
        customer_id = connect(service, shop, CsvTickets(file))
    else:
        platform = RemotePlatform()
        platform.sold = [report("PN-1", "A-1"), report("PN-2", "A-2")]
        customer_id = connect(service, shop, platform, mobility_customer_id="MOB-1")
    return shop, customer_id


def test_what_was_sold_is_billed_once_however_often_it_is_reported(sold: tuple[Shop, str]) -> None:
    shop, customer_id = sold
    invoice = shop.invoice(customer_id)
    assert (invoice["ticket_count"], invoice["amount_in_cents"]) == (2, 12_600)
    assert shop.post(f"/customers/{customer_id}/invoice").status_code == 409
    assert [item["reference"] for item in shop.tickets(customer_id)] == ["A-1", "A-2"]


def test_a_platform_is_asked_for_its_own_customer(service: Service) -> None:
    shop, platform = Shop(service), RemotePlatform()
    customer_id = connect(service, shop, platform, mobility_customer_id="MOB-1")
    assert shop.post(f"/customers/{customer_id}/invoice").status_code == 409
    assert platform.asked == [PlatformCustomer(shop.owner.id, customer_id, "MOB-1")]


def test_a_platform_that_is_down_is_503_and_nothing_is_written(service: Service) -> None:
    shop, platform = Shop(service), RemotePlatform()
    customer_id = connect(service, shop, platform)
    shop.add(customer_id, ticket())
    platform.is_down = True
    refused = shop.post(f"/customers/{customer_id}/invoice")
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "30")
    assert shop.get("/invoices").json() == []
    platform.is_down = False
    assert shop.invoice(customer_id)["invoice_number"] == "RE-2026-00001"


def test_a_cancellation_on_the_platform_is_credited(service: Service) -> None:
    shop, platform = Shop(service), RemotePlatform()
    customer_id = connect(service, shop, platform)
    platform.sold = [report("PN-1", "A-1"), report("PN-2", "A-2")]
    shop.invoice(customer_id)
    platform.sold = [
        report("PN-1", "A-1", cancelled=True), report("PN-2", "A-2"), report("PN-1", "A-3", price_in_cents=7000),
        report("PN-4", "A-4", cancelled=True),
    ]  # fmt: skip
    second = shop.invoice(customer_id)
    assert [line["amount_in_cents"] for line in second["lines"]] == [7000, -6300]
    statuses = {item["reference"]: item["status"] for item in shop.tickets(customer_id)}
    assert statuses == {"A-1": "credited", "A-2": "invoiced", "A-3": "invoiced"}


@pytest.mark.either_engine
def test_a_contradiction_of_the_platform_is_refused_whole(service: Service) -> None:
    shop, platform = Shop(service), RemotePlatform()
    customer_id = connect(service, shop, platform)
    platform.sold = [report("PN-1", "A-1")]
    shop.invoice(customer_id)
    platform.sold = [report("PN-1", "A-1", price_in_cents=1), report("PN-2", "A-2")]
    refused = shop.post(f"/customers/{customer_id}/invoice")
    assert refused.status_code == 409
    assert "A-1" in refused.json()["error"]
    assert len(shop.tickets(customer_id)) == 1


def test_a_file_with_unreadable_rows_is_not_billed_by_half(service: Service, tmp_path: Path) -> None:
    shop, file = Shop(service), tmp_path / "tickets.csv"
    file.write_text(CSV + ROWS[0] + "\nA-2;Deutschlandticket Job;PN-2;2026-03;-1;7\n", "utf-8")
    customer_id = connect(service, shop, CsvTickets(file))
    refused = shop.post(f"/customers/{customer_id}/invoice")
    assert refused.status_code == 409
    assert "line 3: price_in_cents -1 is less than 0" in refused.json()["error"]
    assert shop.tickets(customer_id) == []
