"""A small share of `torture/enable_banking.py`: many transactions in pages, with answers that break: none lost, none twice."""

from __future__ import annotations

from pathlib import Path

from simulators.enable_banking import EnableBanking
from tests.harness import START, ServiceFactory
from tests.providers.enable_banking.person import service_for
from torture.enable_banking import fill, run


def test_many_transactions_come_once_each_however_their_answers_break(
    start_service: ServiceFactory, tmp_path: Path
) -> None:
    bank = EnableBanking(lambda: START / 1_000_000)
    bank.page_size = 40
    fill(bank, 400, 3)
    service = service_for(start_service, bank, tmp_path)
    found = run(service, bank, 400, rounds=3)
    bank.stop()
    assert found["transactions"] == 403
