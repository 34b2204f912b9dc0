-- Bookings only ever grow: mistakes are taken back by their opposite. Only those that nobody has seen may be deleted, of a file that was
-- given up.
CREATE TRIGGER books_bookings_append_only BEFORE UPDATE OR TRUNCATE ON books_bookings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION refuse_change_of_booked() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.id <= COALESCE((SELECT last_buchung FROM books_clients WHERE mandant = OLD.mandant), OLD.id) THEN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
  END IF;
  RETURN OLD;
END $$;
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON books_bookings
  FOR EACH ROW EXECUTE FUNCTION refuse_change_of_booked();

-- Nothing else of what was entered ever changes.
CREATE TRIGGER books_cash_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_cash_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_person_history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_person_history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_tasks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_tasks
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_retaxed_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_retaxed
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_receipts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_receipts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_receipt_filings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_receipt_filings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
