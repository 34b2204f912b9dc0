-- A receipt is stored once, and filed with a cash entry: again, too, once the entries that it was filed with are reversed.
CREATE TABLE books_receipt_filings (
  mandant BIGINT NOT NULL,
  task TEXT COLLATE "C" NOT NULL,
  platz BIGINT NOT NULL,
  sha256 TEXT COLLATE "C" NOT NULL,
  dateiname TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, task, platz)
);
CREATE INDEX books_receipt_filings_by_content ON books_receipt_filings (mandant, sha256);

INSERT INTO books_receipt_filings (mandant, task, platz, sha256, dateiname)
SELECT mandant, task, ROW_NUMBER() OVER (PARTITION BY mandant, task ORDER BY id), sha256, dateiname FROM books_receipts;
CREATE INDEX books_cash_entries_by_task ON books_cash_entries (mandant, task);

-- Neither the bytes of a receipt nor where it was filed ever change.
CREATE TRIGGER books_receipts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_receipt_filings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_receipt_filings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
