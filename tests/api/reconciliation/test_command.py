"""`kontobahn reconcile` on an installation: a trial run, one that stores, and the list of what waits."""

from __future__ import annotations

import pytest

from tests.command_line import CommandLine
from tests.harness import Service
from tests.reconciliation_desk import Clerk, paid
from tests.spec_pages import on_sqlite

DAYS = ("--from", "2026-01-01", "--to", "2026-03-31")


@on_sqlite
def test_a_run_is_tried_stored_and_listed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"), paid(100_00, "RE-2026-00124"), automatic_classes=["A2"])
    line = CommandLine(service.settings.data_dir, monkeypatch)
    tried = line.run("reconcile", *DAYS)
    assert tried.code == 0, tried.err
    assert "nothing was stored" in tried.out
    assert desk.read("transactions") == []
    stored = line.run("reconcile", *DAYS, "--account", "DE89 3704 0044 0532 0130 00", "--store", "--json").json
    assert (stored["matched"], stored["proposed"]) == (1, 1)
    assert [row["amount"] for row in line.run("reconcile", "--list", "matched", "--json").json] == [119]
    listed = line.run("reconcile", "--list", "proposed").out
    assert "100100000 RE-2026-00124" in listed
    assert "B1" in listed
    assert line.run("reconcile", "--list", "ignored").out.strip() == "None."
    for wrong, said in (
        (("--from", "gestern"), "--from takes a day"),
        (("--account", "DE00"), "no bank account of this IBAN"),
        (("--bank", "1200"), "are for --backtest"),
        (("--backtest",), "--backtest needs files"),
        (("--from", "2026-03-31", "--to", "2026-01-01"), "from_date"),
    ):
        refused = line.run("reconcile", *wrong)
        assert refused.code != 0
        assert said in refused.err.replace("\n", " "), refused.err
    assert desk.set_up(automatic_classes=[]).status_code == 200
