"""Whatever is sent, matched or written in a purpose: a clear answer with the figures, nothing half written, and work that has a bound."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.db import Tx
from kontobahn.json_text import encode
from tests.harness import Service
from tests.ledger_builder import Books, refusal
from tests.reconciliation_desk import Clerk, Office, item, lines, paid, refused
from tests.statement_builder import Sheet, camt

one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
TABLES = ("recon_matches", "recon_lines", "recon_undos", "recon_items", "recon_learned", "recon_rules", "recon_batches")


def kept(books: Books) -> dict[str, list[str]]:
    return {table: sorted(map(repr, books.rows(f"SELECT * FROM {table}"))) for table in TABLES}


@one_engine
def test_another_currency_is_never_compared_with_euro(service: Service) -> None:
    desk = Clerk(service, paid(92_00, "X-77"), paid(100_00, "X-77 zuviel"), automatic_classes=["A1", "A2", "A3", "A4"])
    # An invoice of 100 dollars is owed in euro, as the books keep it: 92.
    buchung = {
        "umsatz": 100, "sollHabenKennzeichen": "SOLL", "waehrung": "USD", "kurs": "1.086957", "basisUmsatz": 92.0,
        "konto": "10010", "gegenkonto": "8400", "belegdatum": "2026-02-10", "belegfeld1": "X-77", "buchungstext": "Dollar",
    }  # fmt: skip
    answer = desk.books.send("/v2/ledger-rewe/buchungen", {"buchungen": [buchung]})
    assert answer.status_code == 201, answer.text
    dollars = camt(Sheet([paid(119_00, "RE-2026-00123")], iban="DE12500105170648489890", currency="USD", id="U-1"))
    desk.bank.take(dollars)
    [account] = [
        row["id"]
        for row in service.get("/v2/banking/accounts", desk.owner.key).json()["data"]
        if row["id"] != desk.account
    ]
    desk.store_run()
    assert lines(desk.read("matches")[0]) == [("item", "100100000", "X-77", 92)], "what the books keep in euro"
    over = desk.listed(100)["best_proposal"]
    assert (over["evidence_class"], over["clear"]) == ("B1", False)
    body = {"connection_id": desk.books.connection_id, "konto": "1210", "automatic_classes": ["A2"]}
    assert desk.call("PUT", f"accounts/{account}", json=body).status_code == 200
    run = desk.ask(account_id=account, trial=False).json()["data"]
    assert (run["transactions"], run["matched"], run["proposed"]) == (1, 0, 0)
    [waiting] = desk.read("transactions", account_id=account)
    assert (waiting["currency_code"], waiting["status"], waiting["best_proposal"]) == ("USD", "open", None)
    before = kept(desk.books)
    sent = {"transaction_id": waiting["id"], "lines": [item("RE-2026-00123", 119)]}
    said = refused(desk.call("POST", "matches", json=sent), 409)
    assert (said["currency_code"], said["transaction_id"]) == ("USD", waiting["id"])
    assert kept(desk.books) == before


@pytest.mark.either_engine
def test_a_year_that_is_opened_again_changes_what_is_open_and_what_is_refused(service: Service) -> None:
    office = Office(service, paid(119_00, "RE-2026-00123"), paid(70_00, "ALT-1"), booked_by="kontobahn")
    refusal(office.make(to_date="2025-12-31"), 409, "to_date")
    office.store_run()
    proposal = office.listed(119)["best_proposal"]["id"]
    # The year before is opened, with an invoice of the same customer that is carried over, and paid in part there.
    office.books.open_year("2025-01-01")
    office.books.post("2025-11-10 S 10010 8400 70,00 ALT-1 Rechnung")
    office.books.post("2026-01-01 S 10010 9008 70,00 EB")
    assert office.by_hand(70, item("ALT-1", 70)).status_code == 201
    office.books.post("2025-12-20 H 10010 1200 30,00 ALT-1 nachgebucht")
    left = office.open_items()["100100000", "ALT-1"]
    with office.books.unchanged():
        answer = refusal(office.make(), 409)
        assert (answer["beleg"], answer["open_amount"], answer["amount"]) == ("ALT-1", left, 70)
        refusal(office.make(to_date="2025-12-31"), 409)
    assert office.confirm_id(proposal).status_code == 201
    made = office.made()
    assert ([row["beleg"] for row in made["lines"]], len(made["left_out"])) == (["RE-2026-00123"], 1)


NUL = "Muster\x00GmbH"


@pytest.mark.either_engine
def test_what_no_database_can_hold_is_refused_by_its_field(service: Service) -> None:
    desk = Clerk(service, paid(119_00, "RE-2026-00123"))
    rule: dict[str, Any] = {"name": "Miete", "konto": "4210", "text": "Miete"}
    query = {"connection_id": desk.books.connection_id}
    before = kept(desk.books)
    for field, changed in (
        ("text", NUL),
        ("text", "a\u2028bc"),
        ("name", NUL),
        ("iban", NUL),
        ("konto", "42\x0010"),
    ):
        body = {"rules": [rule | {field: changed}]}
        refused(desk.call("PUT", "rules", params=query, json=body), 400, f"rules[0].{field}")
    for field, value in (
        ("beleg", NUL),
        ("beleg", "a\nb"),
        ("konto", "100\x0010"),
        ("amount", "1e999"),
        ("amount", 0.001),
    ):
        answer = desk.by_hand(119, item("RE-2026-00123", 119) | {field: value})
        assert field in refused(answer, 400)["field"]
    refused(desk.by_hand(119, *[item(f"X-{n}", 1) for n in range(101)]), 400, "lines")
    desk.store_run()
    match = desk.confirm(119).json()["data"]["id"]
    refused(desk.undo(match, NUL), 400, "reason")
    refused(desk.undo(match, "x" * 501), 400, "reason")
    assert desk.read(f"matches/{match}")["undo"] is None
    backwards = "\u202ehcanrev\u202c \u0007 ü"
    assert desk.undo(match, backwards).json()["data"]["undo"]["reason"] == backwards
    assert len(kept(desk.books)["recon_rules"]) == len(before["recon_rules"]) == 0


HOSTILE = (
    "1" * 10_000,
    "RE-2026-00123 " * 700,
    "DE89" * 2_500,
    "1.111." * 1_600,
    "Rechnung" * 1_200,
    "\u202e32100-6202-ER\u202c RE-2026-00123 \u0007\u001b[2J",
    "RE‐2026‐00123" + "\u0301" * 5_000,
)


@one_engine
def test_hostile_purposes_and_equal_items_are_answered_and_never_acted_on(service: Service) -> None:
    """Texts as a provider may report them; and as many equal items as a client of flat prices has."""
    desk = Clerk(service, *(paid(49_00 + n, f"X{n}", "ANNA MUSTER BAU") for n in range(len(HOSTILE))))
    desk.books.post("\n".join(f"2026-02-{1 + n % 28:02d} S 10010 8400 49,00 {n} Rechnung" for n in range(2_000)))
    for n, text in enumerate(HOSTILE):
        service.db.write_now(_say, 49_00 + n, f"X{n}", text)
    desk.set_up(automatic_classes=["A1", "A2", "A3", "A4", "A5"])
    run = desk.ask(trial=True, limit=500).json()["data"]
    assert (run["transactions"], run["open_items"]) == (len(HOSTILE) + 1, 2_004)
    assert all(len(row["proposals"]) <= 3 for row in run["data"])
    stored = desk.store_run()
    assert stored["matched"] == 0, "no text makes an amount evidence"
    for row in desk.read("transactions"):
        assert desk.read(f"transactions/{row['id']}")["status"] in ("open", "proposed")
    # By hand, the same: a document among thousands of the same amount, named in full.
    assert desk.by_hand(49, item("1999", 49)).status_code == 201
    answer = refused(desk.by_hand(49.01, item("1999", 49.01)), 409)
    assert (answer["open_amount"], answer["amount"], answer["beleg"]) == (0, 49.01, "1999")


def _say(tx: Tx, cents: int, before: str, text: str) -> None:
    """Puts a text in the place of a purpose, as the bank would have reported it."""
    old, new = (encode(word).decode()[1:-1] for word in (before, text))
    tx.run(
        "UPDATE banking_transactions SET wire = REPLACE(wire, ?, ?) WHERE amount_minor = ?", f'"{old}', f'"{new}', cents
    )
