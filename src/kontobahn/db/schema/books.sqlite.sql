-- Bookings only ever grow: mistakes are taken back by their opposite. Only those that nobody has seen may be deleted, of a file that was
-- given up.
CREATE TRIGGER books_bookings_no_update BEFORE UPDATE ON books_bookings
  BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON books_bookings
  WHEN OLD.id <= COALESCE((SELECT last_buchung FROM books_clients WHERE mandant = OLD.mandant), OLD.id)
  BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;

-- Nothing else of what was entered ever changes.
CREATE TRIGGER books_cash_entries_no_update BEFORE UPDATE ON books_cash_entries
  BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_cash_entries_no_delete BEFORE DELETE ON books_cash_entries
  BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_person_history_no_update BEFORE UPDATE ON books_person_history
  BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_person_history_no_delete BEFORE DELETE ON books_person_history
  BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_tasks_no_update BEFORE UPDATE ON books_tasks
  BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
CREATE TRIGGER books_tasks_no_delete BEFORE DELETE ON books_tasks
  BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
CREATE TRIGGER books_retaxed_no_update BEFORE UPDATE ON books_retaxed
  BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
CREATE TRIGGER books_retaxed_no_delete BEFORE DELETE ON books_retaxed
  BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
CREATE TRIGGER books_receipts_no_update BEFORE UPDATE ON books_receipts
  BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipts_no_delete BEFORE DELETE ON books_receipts
  BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_update BEFORE UPDATE ON books_receipt_filings
  BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_delete BEFORE DELETE ON books_receipt_filings
  BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
