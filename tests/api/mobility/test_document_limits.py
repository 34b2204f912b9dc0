"""Invoices with more than anything can take: the rest stays, and documents that cannot be made harm nobody."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from typer.testing import CliRunner

from kontobahn.cli.entry import command_line
from kontobahn.clock import SECOND
from kontobahn.db import Tx
from kontobahn.mobility.invoices import documents, store
from kontobahn.mobility.invoices import typesetter as typesetting
from kontobahn.mobility.invoices.rules import Facts
from kontobahn.mobility.invoices.typesetter import Document, Failed, Typesetter
from tests.harness import Service
from tests.interleaving import on_postgres, overlap
from tests.mobility_builder import Shop, ticket
from tests.unit.mobility.invoices import line, make
from tests.waiting import eventually

Start = Callable[[], "subprocess.Popen[bytes]"]
_really_start: Start = typesetting._start


def some_facts(lines: int = 1) -> Facts:
    return make(*(line(holder_reference=f"PN-{number}") for number in range(lines)))


def test_an_invoice_takes_what_it_can_and_leaves_the_rest(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MAX_TICKETS", 3)
    shop = Shop(service)
    customer = shop.customer(*(ticket(f"PN-{number}", valid_from=f"2026-0{9 - number}") for number in range(5)))
    first = shop.post(f"/customers/{customer}/invoice")
    assert (first.headers["x-tickets-left"], first.json()["ticket_count"]) == ("2", 3)
    # The earliest months first.
    by_status = {(one["status"], one["valid_from"]) for one in shop.tickets(customer)}
    assert by_status == {
        ("invoiced", "2026-05"), ("invoiced", "2026-06"), ("invoiced", "2026-07"), ("open", "2026-08"), ("open", "2026-09"),
    }  # fmt: skip
    # What was cancelled since is credited with the rest: exactly as many as an invoice takes.
    [earliest] = [one for one in shop.tickets(customer) if one["valid_from"] == "2026-05"]
    shop.ok(shop.post(f"/tickets/{earliest['id']}/cancel"))
    second = shop.post(f"/customers/{customer}/invoice")
    assert (second.headers["x-tickets-left"], second.json()["ticket_count"]) == ("0", 3)
    assert {one["status"] for one in shop.tickets(customer)} == {"invoiced", "credited"}
    assert shop.post(f"/customers/{customer}/invoice").status_code == 409


# --- Documents that cannot be made


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Start]]:
    """The next children, in order; real ones afterwards. None is left from before, and none stays."""
    documents._typesetter().close()
    children: list[Start] = []

    def start() -> subprocess.Popen[bytes]:
        return children.pop(0)() if children else _really_start()

    monkeypatch.setattr(typesetting, "_start", start)
    yield children
    documents._typesetter().close()


def child(program: str) -> Start:
    return lambda: subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


DYING = child("import os, sys; sys.stdin.buffer.read(8); os.abort()")


def test_documents_that_fail_three_times_are_laid_aside_and_told(
    service: Service, starts: list[Start], capfd: pytest.CaptureFixture[str]
) -> None:
    shop = Shop(service)
    starts += [DYING] * 3
    invoice = shop.ok(shop.post(f"/customers/{shop.customer(ticket())}/invoice"))
    asked = shop.get(f"/invoices/{invoice['id']}/pdf")
    assert (asked.status_code, asked.headers["retry-after"]) == (503, "60")
    service.run(documents.make_due(service.db))
    assert not starts, "three tries"
    for _ in range(2):
        asked = shop.get(f"/invoices/{invoice['id']}/xml")
        assert (asked.status_code, asked.headers["retry-after"]) == (503, "3600")
        assert "laid aside" in asked.json()["error"]
        service.run(documents.make_due(service.db))
    [told] = service.db.read_now(documents.given_up)
    assert (told.invoice_number, "SIGABRT" in told.error) == (invoice["invoice_number"], True)
    assert '"event":"documents_laid_aside"' in capfd.readouterr().err
    # Others are not held up.
    assert shop.document(shop.invoice(shop.customer(ticket())), "pdf").startswith(b"%PDF")
    [again] = service.db.write_now(documents.allow_again, invoice["invoice_number"])
    assert again == told
    assert shop.get(f"/invoices/{invoice['id']}/pdf").content.startswith(b"%PDF")
    assert service.db.read_now(documents.given_up) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_the_command_line_tells_of_them_and_tries_again(service: Service, starts: list[Start]) -> None:
    shop = Shop(service)
    starts += [DYING] * 4
    invoice = shop.ok(shop.post(f"/customers/{shop.customer(ticket())}/invoice"))
    for _ in range(2):
        service.run(documents.make_due(service.db))
    run = CliRunner().invoke
    where = ["--data", str(service.settings.data_dir)]
    found = run(command_line("doctor"), ["doctor", *where])
    assert found.exit_code == 1
    assert f"kontobahn invoices retry {invoice['id']}" in found.output.replace("\n", "")
    failed = run(command_line("invoices"), ["invoices", "retry", *where])
    assert (failed.exit_code, invoice["invoice_number"] in failed.output) == (1, True)
    # Three new tries: the job makes the second one, and then there is nothing to try again.
    service.run(documents.make_due(service.db))
    assert run(command_line("invoices"), ["invoices", "retry", *where]).exit_code == 0
    assert shop.get(f"/invoices/{invoice['id']}/pdf").content.startswith(b"%PDF")


def _due_again(tx: Tx, shop: Shop, invoice_id: str) -> None:
    sql = "INSERT INTO mobility_documents_due (organization_id, invoice_id) VALUES (?, ?)"
    tx.run(sql, shop.owner.id, invoice_id)


def test_a_try_during_which_the_process_died_counts(service: Service) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(ticket()))

    service.db.write_now(_due_again, shop, invoice["id"])
    for _ in range(documents.MAX_TRIES):
        assert service.db.write_now(documents._begin, shop.owner.id, invoice["id"])
        assert service.db.read_now(documents._due) == []
        service.clock.advance(seconds=documents.CLAIM_SECONDS)
    assert service.db.read_now(documents._due) == []
    assert [item.invoice_id for item in service.db.read_now(documents.given_up)] == [invoice["id"]]


@pytest.mark.either_engine
def test_documents_amid_which_the_service_only_died_are_tried_again_rarely_and_not_for_ever(service: Service) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(ticket()))
    service.db.write_now(_due_again, shop, invoice["id"])
    hour, due = documents.PAUSE_AFTER_DEATHS // SECOND, [(shop.owner.id, invoice["id"])]
    for tries in range(documents.MAX_TRIES_WITH_DEATHS):
        if tries >= documents.MAX_TRIES:
            service.clock.advance(seconds=hour - 1)
            assert service.db.read_now(documents._due) == []
            assert service.db.write_now(documents._begin, *due[0]) is None
            service.clock.advance(seconds=1)
        assert service.db.read_now(documents._due) == due
        assert service.db.write_now(documents._begin, *due[0])
        service.clock.advance(seconds=documents.CLAIM_SECONDS)
    service.clock.advance(seconds=hour)
    assert service.db.read_now(documents._due) == []
    # An hour after some deaths it is made as if nothing had been; after an error of its own it stays where it is.
    service.db.write_now(lambda tx: tx.run("UPDATE mobility_documents_due SET tries = ?, last_error = 'x'", 3))
    assert service.db.read_now(documents._due) == []
    service.db.write_now(lambda tx: tx.run("UPDATE mobility_documents_due SET last_error = NULL"))
    service.run(documents.make_due(service.db))
    assert service.db.read_now(documents.given_up) == []


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_long_try_stays_claimed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(ticket()))
    service.db.write_now(_due_again, shop, invoice["id"])
    monkeypatch.setattr(documents, "RENEW_SECONDS", 0.01)
    go_on = threading.Event()
    really = documents._render

    def render(facts: Facts, issued_at: int) -> list[Document]:
        go_on.wait()
        return really(facts, issued_at)

    monkeypatch.setattr(documents, "_render", render)
    loop = service._loop
    assert loop is not None
    making = asyncio.run_coroutine_threadsafe(documents.make(service.db, shop.owner.id, invoice["id"]), loop)

    def is_claimed_afresh(tx: Tx) -> bool:
        row = tx.one("SELECT busy_until FROM mobility_documents_due")
        return row is not None and row[0] == tx.now + documents.CLAIM_SECONDS * SECOND

    for _ in range(3):
        eventually(lambda: service.db.read_now(is_claimed_afresh))
        assert not service.run(documents.make(service.db, shop.owner.id, invoice["id"]))
        service.clock.advance(seconds=documents.CLAIM_SECONDS - 1)
    go_on.set()
    assert making.result()


@on_postgres
def test_documents_are_made_by_one_process_at_a_time(service: Service) -> None:
    shop = Shop(service)
    invoice = shop.invoice(shop.customer(ticket()))
    service.db.write_now(_due_again, shop, invoice["id"])
    outcome = overlap(service.db, *(lambda tx: documents._begin(tx, shop.owner.id, invoice["id"]),) * 2)
    assert outcome.waited
    assert outcome.first is not None
    assert outcome.second is None


# --- The process that makes them


@pytest.fixture
def typesetter(starts: list[Start]) -> Iterator[Typesetter]:
    made = Typesetter()
    yield made
    made.close()


def limited(**limits: int) -> Start:
    values = "; ".join(f"typesetting.{name} = {value}" for name, value in limits.items())
    return child(f"from kontobahn.mobility.invoices import typesetter as typesetting; {values}; typesetting.main()")


def test_the_child_is_used_again_unless_it_has_ended(typesetter: Typesetter) -> None:
    facts = some_facts()
    # One that has ended, or is about to, because it was idle: another is asked.
    typesetter._child = child("pass")()
    documents_made = typesetter.render(facts, 0)
    assert [item.kind for item in documents_made] == ["pdf", "xml"]
    first = typesetter._child
    assert typesetter.render(facts, 0) == documents_made == typesetting.render(facts, 0)
    assert typesetter._child is first


def test_a_document_that_needs_too_much_memory_fails_alone(typesetter: Typesetter, starts: list[Start]) -> None:
    starts.append(limited(MEMORY_BYTES=48 * 1024 * 1024))
    with pytest.raises(Failed, match=r"MiB|status|Error"):
        typesetter.render(some_facts(lines=400), 0)
    assert typesetter.render(some_facts(), 0)


def test_a_document_that_takes_too_long_is_given_up(
    typesetter: Typesetter, starts: list[Start], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts.append(child("import signal, sys; sys.stdin.buffer.read(1); signal.pause()"))
    monkeypatch.setattr(typesetting, "SECONDS", 0.2)
    with pytest.raises(Failed, match="longer than"):
        typesetter.render(some_facts(lines=400), 0)
    assert typesetter._child is None


def test_a_child_that_never_stops_working_is_ended_by_the_system() -> None:
    start = "from kontobahn.mobility.invoices import typesetter as typesetting; typesetting.SECONDS = 0; typesetting._limit_time()"
    program = f"{start}\nwhile True: pass"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode < 0


def test_a_large_document_gives_its_memory_back(typesetter: Typesetter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typesetting, "LARGE_LINES", 2)
    typesetter.render(some_facts(lines=2), 0)
    assert typesetter._child is not None
    typesetter.render(some_facts(lines=3), 0)
    assert typesetter._child is None
