-- For the receipts of some days.
CREATE INDEX books_cash_entries_by_day ON books_cash_entries (mandant, datum);
-- Those that a statement may still confirm, or show not to be there.
CREATE INDEX banking_transactions_unconfirmed ON banking_transactions (account_id, made_on) WHERE statement IS NULL;
