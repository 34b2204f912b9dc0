-- Order files that were handed in, by the customer's own name for themselves.
CREATE TABLE sandbox_order_files (
  ref TEXT PRIMARY KEY,
  customer TEXT NOT NULL,
  message_id TEXT NOT NULL,
  iban TEXT NOT NULL,
  -- The status report on it.
  report BYTEA NOT NULL,
  accepted BIGINT NOT NULL,
  refused BIGINT NOT NULL,
  codes TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX sandbox_order_files_by_message ON sandbox_order_files (customer, message_id);

-- The orders of a file that were accepted.
CREATE TABLE sandbox_orders (
  file_ref TEXT NOT NULL,
  number BIGINT NOT NULL,
  customer TEXT NOT NULL,
  iban TEXT NOT NULL,
  -- The account at the bank; null for one that is kept by files.
  account_ref TEXT,
  end_to_end_id TEXT NOT NULL,
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  creditor_name TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  description TEXT NOT NULL,
  is_returned SMALLINT NOT NULL CHECK (is_returned = 0 OR is_returned = 1),
  is_booked SMALLINT NOT NULL CHECK (is_booked = 0 OR is_booked = 1),
  -- The time at which it is booked or comes back, by the bank's clock. Null once nothing more happens.
  next_at BIGINT,
  PRIMARY KEY (file_ref, number)
);
CREATE INDEX sandbox_orders_to_book ON sandbox_orders (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX sandbox_orders_by_customer ON sandbox_orders (customer, iban);

-- Accounts that are kept by files: the balance that the next statement opens with, and how many there are.
CREATE TABLE sandbox_order_accounts (
  customer TEXT NOT NULL,
  iban TEXT NOT NULL,
  balance_minor BIGINT NOT NULL,
  statements BIGINT NOT NULL,
  PRIMARY KEY (customer, iban)
);

CREATE TABLE sandbox_statements (
  customer TEXT NOT NULL,
  iban TEXT NOT NULL,
  number BIGINT NOT NULL,
  made_on TEXT NOT NULL,
  opening_minor BIGINT NOT NULL,
  closing_minor BIGINT NOT NULL,
  bookings BIGINT NOT NULL,
  content BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (customer, iban, number)
);
