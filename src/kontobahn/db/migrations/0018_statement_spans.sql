-- What is known of an account without a gap, from one balance to another; its bookings make exactly the difference. Statements
-- that overlap share one.
CREATE TABLE banking_statement_spans (
  account_id BIGINT NOT NULL,
  number BIGINT NOT NULL,
  opens_minor BIGINT NOT NULL,
  opens_on TEXT NOT NULL,
  closes_minor BIGINT NOT NULL,
  closes_on TEXT NOT NULL,
  -- Days of the first and the last booking, or that of the closing balance if there is none.
  begins_on TEXT NOT NULL,
  ends_on TEXT NOT NULL,
  -- Numbers of the first and the last statement, where the bank counts them.
  first_number BIGINT,
  last_number BIGINT,
  -- What the bank calls the last statement.
  last_id TEXT NOT NULL,
  PRIMARY KEY (account_id, number)
);
CREATE INDEX banking_statement_spans_by_day ON banking_statement_spans (account_id, ends_on);

-- The span a statement is part of. Statements imported before spans existed have none until the next import for the account.
ALTER TABLE banking_statements ADD COLUMN span BIGINT;

-- Of bookings from statements: the day of booking (made_on is the value date), and the account's balance after it.
ALTER TABLE banking_transactions ADD COLUMN booked_on TEXT;
ALTER TABLE banking_transactions ADD COLUMN balance_minor BIGINT;
