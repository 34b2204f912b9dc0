-- A receipt is stored once, and filed with a cash entry: again, too, once the entries that it was filed with are reversed.
CREATE TABLE books_receipt_filings (
  mandant BIGINT NOT NULL,
  task TEXT NOT NULL,
  platz BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  dateiname TEXT NOT NULL,
  PRIMARY KEY (mandant, task, platz)
);
CREATE INDEX books_receipt_filings_by_content ON books_receipt_filings (mandant, sha256);

INSERT INTO books_receipt_filings (mandant, task, platz, sha256, dateiname)
SELECT mandant, task, ROW_NUMBER() OVER (PARTITION BY mandant, task ORDER BY id), sha256, dateiname FROM books_receipts;
CREATE INDEX books_cash_entries_by_task ON books_cash_entries (mandant, task);

-- Neither the bytes of a receipt nor where it was filed ever change.
CREATE TRIGGER books_receipts_no_update BEFORE UPDATE ON books_receipts BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipts_no_delete BEFORE DELETE ON books_receipts BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_update BEFORE UPDATE ON books_receipt_filings BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_delete BEFORE DELETE ON books_receipt_filings BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
