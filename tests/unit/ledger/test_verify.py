"""`kontobahn doctor --books`: a cent, a text or a day that is wrong anywhere in the read models is found."""

from __future__ import annotations

import base64

import pytest

from kontobahn.books import verification
from kontobahn.books.satz import MIXED
from kontobahn.ledger import steuer
from tests.harness import Service
from tests.ledger_builder import KASSENBUCH, Books, entry, line

LEDGER = """
    2025-02-01 S 10010 8400 119,00 RE-1
    2025-03-01 S 10020 8400 238,00 RE-2
    2026-01-01 S 10010 9008 100,00 EB Vortrag
    2026-01-01 S 10020 9008 238,00 EB Vortrag
    2026-01-01 H 10020 9008 238,00 EB Vortrag
    2026-02-01 S 1200 10020 238,00 RE-2
"""
APPEND_ONLY = ("books_cash_entries", "books_receipts", "books_receipt_filings")
WRONG = [
    "UPDATE books_periods SET soll = soll + 1 WHERE konto = '84000000' AND periode = 2",
    "UPDATE books_balances SET wire = REPLACE(wire, '119', '118') WHERE konto = '100100000'",
    "DELETE FROM books_balances WHERE konto = '84000000'",
    "UPDATE books_items SET haben = haben + 1 WHERE beleg = 'RE-2'",
    "UPDATE books_items SET is_open = 1 - is_open WHERE beleg = 'RE-2'",
    "UPDATE books_items SET buchungstext = 'x' WHERE beleg = 'RE-1'",
    "UPDATE books_items SET steuer = 'U7' WHERE beleg = 'RE-1'",
    "UPDATE books_open_accounts SET saldo = saldo + 1",
    "UPDATE books_open_accounts SET wire = REPLACE(wire, 'RE-1', 'RE-9')",
    "UPDATE books_open_accounts SET wire = ''",
    "UPDATE books_item_years SET eb = eb + 1 WHERE jahr = '2026-01-01'",
    "UPDATE books_item_years SET eb_text = 'anders' WHERE eb_text <> ''",
    "UPDATE books_item_years SET bewegung = 0 WHERE jahr = '2025-01-01'",
    "UPDATE books_item_moves SET betrag = betrag + 1 WHERE beleg = 'RE-2'",
    "DELETE FROM books_sheets WHERE blatt = '84000000' AND periode = 2",
    "UPDATE books_sheets SET blatt = '12100000' WHERE blatt = '12000000'",
    "INSERT INTO books_sheets SELECT mandant, jahr, 'U7g', periode, belegdatum, booking FROM books_sheets WHERE blatt = 'U19g'",
    "UPDATE books_openings SET is_twin = 1 - is_twin WHERE konto = '100200000'",
    "UPDATE books_openings SET is_twin = 0",
    "DELETE FROM books_openings WHERE konto = '100100000'",
    "UPDATE books_carry_rests SET rest = rest + 1",
    "UPDATE books_years SET has_eb = 1",
    "UPDATE books_cash_days SET bewegung = bewegung + 1",
    "DELETE FROM books_cash_days",
    "DELETE FROM books_cash_rows",
    "UPDATE books_cash_rows SET datum = '2026-03-01'",
    "UPDATE books_cash_books SET saldo = saldo + 1",
    "UPDATE books_cash_books SET last_nummer = 9",
    "UPDATE books_cash_entries SET betrag = betrag + 1 WHERE nummer = 1",
    "UPDATE books_cash_entries SET datum = '2026-03-01' WHERE nummer = 1",
    "UPDATE books_cash_entries SET booking = 1 WHERE nummer = 1",
    "UPDATE books_cash_entries SET storno_von = 1 WHERE nummer = 2",
    "UPDATE books_cash_entries SET record = REPLACE(record, 'Barverkauf', 'Anderes') WHERE nummer = 1",
    "DELETE FROM books_cash_entries WHERE nummer = 1",
    "UPDATE books_receipts SET content = X'255044462d312e38'",
    "UPDATE books_receipts SET groesse = groesse + 1",
    "UPDATE books_receipts SET sha256 = 'x'",
    "DELETE FROM books_receipts",
    "DELETE FROM books_receipt_filings",
    "UPDATE books_receipt_filings SET task = 'x'",
    "INSERT INTO books_receipt_filings SELECT mandant, task, 2, sha256, dateiname FROM books_receipt_filings",
]


@pytest.fixture
def books(service: Service) -> Books:
    books = Books(service, service.organization(), years=("2025-01-01", "2026-01-01"))
    books.post(LEDGER)
    image = {"content": base64.b64encode(b"%PDF-1.7").decode(), "dateiname": "Beleg.pdf"}
    sent = entry(line(10), line(5.5), line(-2, "4930"), belegbilder=[image])
    assert books.send(KASSENBUCH, sent).status_code == 201
    return books


def test_every_wrong_cent_text_or_day_is_found(books: Books) -> None:
    db = books.service.db
    assert db.read_now(verification.find_differences, books.client.mandant) == []
    is_sqlite = db.engine.name == "sqlite"
    triggers = ("_no_update", "_no_delete") if is_sqlite else ("_append_only",)

    class Undone(Exception):
        """Ends the transaction that made a mistake, so that the next mistake is the only one."""

    for statement in WRONG:

        def damage(tx, statement=statement):  # type: ignore[no-untyped-def]
            for table in APPEND_ONLY:
                for name in triggers:
                    tx.run(f"DROP TRIGGER {table}{name}" + ("" if is_sqlite else f" ON {table}"))
            tx.run(statement if is_sqlite else statement.replace("X'", "'\\x"))
            found = verification.find_differences(tx, books.client.mandant)
            assert found, statement
            assert all(text.startswith("Client 29098-55003 of connection ") for text in found)
            raise Undone

        with pytest.raises(Undone):
            db.write_now(damage)
    assert db.read_now(verification.find_differences, books.client.mandant) == []


@pytest.mark.either_engine
def test_of_sums_from_before_legs_were_counted_only_the_amounts_are_compared(books: Books) -> None:
    def change(statement: str) -> list[str]:
        books.service.db.write_now(lambda tx: tx.run(f"UPDATE books_periods SET {statement}"))
        return books.service.db.read_now(verification.find_differences, books.client.mandant)

    assert change(f"anzahl = {10 * verification.UNCOUNTED}") == []
    found = change("haben = haben + 1 WHERE konto = '84000000'")
    assert found
    assert all("trial balance" in text for text in found)


def test_how_a_booking_was_split_is_stored_and_a_rule_that_learns_changes_no_books(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of today is asked for new bookings only; what is there is read by what is stored with it."""
    books.post("2026-03-01 S 10010 2700 119,00 RE-9 bu=777")
    before = books.rows("SELECT konto, soll, haben FROM books_periods ORDER BY konto")
    assert ("!",) in books.rows("SELECT aufteilung FROM books_bookings")
    monkeypatch.setitem(steuer._KEYS, "777", ("U", "voll"))
    monkeypatch.setitem(steuer._KEYS, "3", ("U", "ermaessigt"))
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
    assert books.rows("SELECT konto, soll, haben FROM books_periods ORDER BY konto") == before
    books.post("2026-03-02 S 10010 2700 119,00 RE-10 bu=777")
    assert ("U19g",) in books.rows("SELECT aufteilung FROM books_bookings")


def test_a_discount_is_split_at_the_rate_of_its_invoice(books: Books) -> None:
    books.post("2026-03-01 S 10010 8300 107,00 RE-9")
    # In the same batch, and in another one; and of an invoice that nobody has seen.
    books.post("""
        2026-03-01 S 10020 8300 107,00 RE-8
        2026-03-05 S 1200 10020 104,86 RE-8 skonto=2,14
        2026-03-05 S 1200 10010 104,86 RE-9 skonto=2,14
        2026-03-05 S 1200 10030 116,62 RE-7 skonto=2,38
    """)
    rows = dict(books.rows("SELECT belegfeld1, aufteilung FROM books_bookings WHERE skonto > 0"))
    assert rows == {"RE-8": "S7", "RE-9": "S7", "RE-7": "S19!"}
    taxes = dict(books.rows("SELECT beleg, steuer FROM books_items WHERE beleg LIKE 'RE-_' AND steuer <> ''"))
    assert taxes == {"RE-1": "U19", "RE-2": "U19", "RE-8": "U7", "RE-9": "U7"}
    assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []


def test_a_discount_is_split_again_on_every_sheet_when_its_invoice_comes_after_it(books: Books) -> None:
    """Also in another year than that of the invoice."""
    books.post("2026-03-05 S 1200 10030 104,86 RE-7 skonto=2,14")
    for invoice in ("2026-03-01 S 10030 8300 57,00 RE-7", "2025-12-01 S 10030 8400 50,00 RE-7"):
        books.post(invoice)
        assert books.service.db.read_now(verification.find_differences, books.client.mandant) == []
    assert books.rows("SELECT steuer FROM books_discounts") == [(MIXED,)]
