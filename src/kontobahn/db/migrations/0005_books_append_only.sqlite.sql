-- Bookings and cash book entries only ever grow: mistakes are taken back by their opposite.
CREATE TRIGGER books_bookings_no_update BEFORE UPDATE ON books_bookings BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON books_bookings BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
CREATE TRIGGER books_cash_entries_no_update BEFORE UPDATE ON books_cash_entries BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_cash_entries_no_delete BEFORE DELETE ON books_cash_entries BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_person_history_no_update BEFORE UPDATE ON books_person_history BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_person_history_no_delete BEFORE DELETE ON books_person_history BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_tasks_no_update BEFORE UPDATE ON books_tasks BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
CREATE TRIGGER books_tasks_no_delete BEFORE DELETE ON books_tasks BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
