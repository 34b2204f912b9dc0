-- The sandbox bank. It plays a bank outside: nothing here refers to organisations, and nothing else reads these tables.
-- A connection's ref leads where something belongs to a connection, an account's where it belongs to an account.

-- The lead of the bank's clock over ours; one row, or none.
CREATE TABLE sandbox_clock (
  id SMALLINT PRIMARY KEY CHECK (id = 1),
  ahead_microseconds BIGINT NOT NULL
);

-- A person on the way through the hosted pages of a connect flow. The token is in the address and nowhere else.
CREATE TABLE sandbox_flows (
  token TEXT PRIMARY KEY,
  pending_token TEXT NOT NULL,
  api TEXT NOT NULL CHECK (api = 'partner' OR api = 'openbanking'),
  bank_code TEXT NOT NULL,
  -- 1 if the bank was given with the call and cannot be chosen.
  is_bank_fixed SMALLINT NOT NULL CHECK (is_bank_fixed = 0 OR is_bank_fixed = 1),
  scopes TEXT NOT NULL,
  return_to TEXT,
  -- The connection that a reconnect renews.
  renews TEXT,
  step TEXT NOT NULL CHECK (step = 'bank' OR step = 'login' OR step = 'tan' OR step = 'consent' OR step = 'failed' OR step = 'done'),
  user_name TEXT NOT NULL,
  wrong_entries BIGINT NOT NULL,
  error_class TEXT,
  error_message TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- The time at which the banking app answers, by the bank's clock. Null if no answer is awaited.
  approval_at BIGINT
);
CREATE INDEX sandbox_flows_by_age ON sandbox_flows (expires_at);
CREATE INDEX sandbox_flows_to_approve ON sandbox_flows (approval_at) WHERE approval_at IS NOT NULL;

CREATE TABLE sandbox_connections (
  ref TEXT PRIMARY KEY,
  bank_code TEXT NOT NULL,
  user_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'open' OR status = 'destroyed'),
  scopes TEXT NOT NULL,
  consent_expires_at BIGINT NOT NULL,
  next_refresh_possible_at BIGINT NOT NULL,
  refreshes BIGINT NOT NULL,
  -- A slow bank's answer: when it is due, and for which flow.
  answer_at BIGINT,
  answer_token TEXT,
  -- The error that the next refresh is to fail with, by command.
  next_error_class TEXT,
  next_error_message TEXT,
  created_at BIGINT NOT NULL,
  ended_at BIGINT
);
CREATE INDEX sandbox_connections_to_answer ON sandbox_connections (answer_at) WHERE answer_at IS NOT NULL;
CREATE INDEX sandbox_connections_ended ON sandbox_connections (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE sandbox_accounts (
  connection_ref TEXT NOT NULL,
  ref TEXT NOT NULL,
  position BIGINT NOT NULL,
  name TEXT NOT NULL,
  nature TEXT NOT NULL,
  iban TEXT,
  holder_name TEXT NOT NULL,
  currency_code TEXT NOT NULL,
  balance_minor BIGINT NOT NULL,
  -- 1 if the person has chosen it on the page of consent.
  is_chosen SMALLINT NOT NULL CHECK (is_chosen = 0 OR is_chosen = 1),
  bookings BIGINT NOT NULL,
  PRIMARY KEY (connection_ref, ref)
);
CREATE UNIQUE INDEX sandbox_accounts_by_ref ON sandbox_accounts (ref);
CREATE INDEX sandbox_accounts_by_iban ON sandbox_accounts (iban) WHERE iban IS NOT NULL;

CREATE TABLE sandbox_bookings (
  account_ref TEXT NOT NULL,
  number BIGINT NOT NULL,
  -- The bank's own id for it.
  ref TEXT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'posted' OR status = 'pending'),
  description TEXT NOT NULL,
  mode TEXT NOT NULL,
  category TEXT NOT NULL,
  end_to_end_id TEXT,
  extra TEXT NOT NULL,
  PRIMARY KEY (account_ref, number)
);
CREATE INDEX sandbox_bookings_by_day ON sandbox_bookings (account_ref, made_on);
CREATE INDEX sandbox_bookings_pending ON sandbox_bookings (account_ref) WHERE status = 'pending';

CREATE TABLE sandbox_payments (
  ref TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  end_to_end_id TEXT NOT NULL,
  connection_ref TEXT NOT NULL,
  account_ref TEXT NOT NULL,
  template_identifier TEXT NOT NULL,
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  currency_code TEXT NOT NULL,
  creditor_name TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  debtor_iban TEXT NOT NULL,
  description TEXT NOT NULL,
  execute_on TEXT,
  return_to TEXT,
  -- The plan for what becomes of it, by its name, and the position reached in it.
  plan TEXT NOT NULL,
  position BIGINT NOT NULL,
  next_at BIGINT,
  status TEXT NOT NULL,
  raw_status TEXT NOT NULL,
  error_class TEXT,
  error_message TEXT,
  -- The payer's place on the hosted pages.
  step TEXT NOT NULL CHECK (step = 'login' OR step = 'tan' OR step = 'confirm' OR step = 'done'),
  wrong_entries BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- The time at which the banking app answers, by the bank's clock. Null if no answer is awaited.
  approval_at BIGINT
);
CREATE UNIQUE INDEX sandbox_payments_by_token ON sandbox_payments (token);
CREATE UNIQUE INDEX sandbox_payments_by_end_to_end ON sandbox_payments (connection_ref, end_to_end_id);
CREATE INDEX sandbox_payments_by_number ON sandbox_payments (end_to_end_id);
CREATE INDEX sandbox_payments_to_advance ON sandbox_payments (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX sandbox_payments_to_approve ON sandbox_payments (approval_at) WHERE approval_at IS NOT NULL;

-- Reports of the bank to us, each written in the transaction of what it reports.
CREATE TABLE sandbox_deliveries (
  number BIGINT PRIMARY KEY,
  id TEXT NOT NULL,
  -- The connection or payment it is about: one after the other for each.
  subject TEXT NOT NULL,
  body BYTEA NOT NULL,
  state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'delivered' OR state = 'given_up'),
  attempts BIGINT NOT NULL,
  next_attempt_at BIGINT NOT NULL,
  last_answer TEXT,
  created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX sandbox_deliveries_by_id ON sandbox_deliveries (id);
CREATE INDEX sandbox_deliveries_waiting ON sandbox_deliveries (number) WHERE state = 'waiting';
CREATE INDEX sandbox_deliveries_by_age ON sandbox_deliveries (created_at);

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
