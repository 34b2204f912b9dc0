-- Bookings and cash book entries only ever grow: mistakes are taken back by their opposite.
CREATE TRIGGER books_bookings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_bookings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_cash_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_cash_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_person_history_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_person_history
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER books_tasks_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON books_tasks
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
