-- Bank connections, accounts, transactions, statements and payments. Amounts (*_minor) are cents of the row's currency, debits negative.

-- One row an organisation. Numbers are taken here inside the writing transaction, so that they rise in commit order:
-- whoever walks an id cursor never misses a row, however many write at once.
CREATE TABLE banking_counters (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  -- Leads every id, which makes ids unique over all organisations.
  number BIGINT NOT NULL,
  last_connection BIGINT NOT NULL,
  last_account BIGINT NOT NULL,
  last_transaction BIGINT NOT NULL,
  last_payment BIGINT NOT NULL,
  last_change BIGINT NOT NULL,
  last_order_file BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX banking_counters_by_number ON banking_counters (number);

-- A row that is not connected yet is a placeholder: its id is the pending token.
CREATE TABLE banking_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  provider TEXT NOT NULL,
  -- The provider's own id of the connection, empty for a placeholder.
  provider_ref TEXT NOT NULL,
  api TEXT NOT NULL CHECK (api = 'partner' OR api = 'openbanking'),
  provider_code TEXT NOT NULL,
  provider_name TEXT NOT NULL,
  country_code TEXT NOT NULL,
  logo_url TEXT NOT NULL,
  display_name TEXT,
  -- Payment templates the bank offers, separated by blanks.
  templates TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'inactive' OR status = 'disabled' OR status = 'pending'
    OR status = 'pending_connect'),
  owner_user_id TEXT,
  automatic_refresh SMALLINT NOT NULL CHECK (automatic_refresh = 0 OR automatic_refresh = 1),
  next_refresh_possible_at BIGINT NOT NULL,
  -- Null where the end is not known.
  consent_expires_at BIGINT,
  error_class TEXT,
  error_message TEXT,
  -- The refresh that is under way at the provider: automatic, manual, or empty for none.
  refresh_type TEXT NOT NULL,
  refresh_started_at BIGINT,
  last_automatic_at BIGINT,
  -- The last fetch of everything. Null: the next one goes back as far as the bank allows.
  fetched_at BIGINT,
  -- The number of days before its end at which the consent was announced last. Null again with each new consent.
  announced_days BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  -- Sentences: what could not be read at the last fetch of accounts that were never read.
  not_read TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_connections_by_provider ON banking_connections (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX banking_connections_by_owner ON banking_connections (organization_id, owner_user_id);
CREATE INDEX banking_connections_unfinished ON banking_connections (created_at) WHERE status = 'pending_connect';
-- An agency's user may own connections of client organisations: they are found by the user alone.
CREATE INDEX banking_connections_by_user ON banking_connections (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX banking_connections_reconnecting ON banking_connections (refresh_started_at) WHERE status = 'pending';

-- A started connect or reconnect flow. Outlives its placeholder, so that a late answer of the provider still finds its way.
CREATE TABLE banking_connect_flows (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  provider TEXT NOT NULL,
  api TEXT NOT NULL,
  owner_user_id TEXT,
  -- Set from the beginning for a reconnect, from its completion on for a connect.
  connection_id TEXT,
  return_to TEXT,
  custom_fields TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
);
CREATE UNIQUE INDEX banking_connect_flows_by_token ON banking_connect_flows (pending_token);
CREATE INDEX banking_connect_flows_by_age ON banking_connect_flows (created_at);
CREATE INDEX banking_connect_flows_by_user ON banking_connect_flows (owner_user_id) WHERE owner_user_id IS NOT NULL;

-- A person on the way through a connect flow on our own pages. The address has an unguessable token, of which only the hash is here;
-- what the provider needs to go on is sealed.
CREATE TABLE banking_interactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  language TEXT,
  -- Rises with each step: a form of an earlier one comes from the back button or a second click.
  number BIGINT NOT NULL,
  -- The request, the step and the provider's state. Null when it is over.
  sealed BYTEA,
  -- Set while the bank is asked.
  claimed_until BIGINT,
  next_poll_at BIGINT,
  polls BIGINT NOT NULL,
  -- Null until it has ended.
  outcome TEXT CHECK (outcome = 'done' OR outcome = 'failed'),
  error_class TEXT,
  error_message TEXT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
);
CREATE UNIQUE INDEX banking_interactions_by_token ON banking_interactions (token_hash);
CREATE INDEX banking_interactions_by_age ON banking_interactions (expires_at);

-- Connections removed here whose access at the provider is still to be ended.
CREATE TABLE banking_removals (
  provider TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  next_attempt_at BIGINT NOT NULL,
  PRIMARY KEY (provider, provider_ref)
);
CREATE INDEX banking_removals_waiting ON banking_removals (next_attempt_at);

CREATE TABLE banking_accounts (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  -- The connection that it is paid from, one of those that reach it.
  connection_id TEXT NOT NULL,
  iban TEXT,
  name TEXT NOT NULL,
  holder_name TEXT,
  nature TEXT NOT NULL,
  balance_minor BIGINT NOT NULL,
  currency_code TEXT NOT NULL,
  can_hide SMALLINT NOT NULL CHECK (can_hide = 0 OR can_hide = 1),
  posted BIGINT NOT NULL,
  pending BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  -- 0 where the bank gives no balance: then none is shown.
  balance_known SMALLINT NOT NULL DEFAULT 1 CHECK (balance_known = 0 OR balance_known = 1),
  -- The day that the balance is of, and the connection that told it.
  balance_on TEXT,
  balance_from TEXT,
  -- What of it could not be read at the last fetch: sentences, as JSON.
  not_read TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (organization_id, id)
);

-- The accounts as connections call them. Several connections may reach one account.
CREATE TABLE banking_account_sources (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  -- Stays the same while the provider's reference of the account changes.
  identity TEXT,
  PRIMARY KEY (organization_id, connection_id, provider_ref)
);
CREATE INDEX banking_account_sources_by_account ON banking_account_sources (organization_id, account_id);

-- Accounts that a person made one of: an account that stood twice is part of another since.
CREATE TABLE banking_account_merges (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  merged_id BIGINT NOT NULL,
  iban TEXT NOT NULL,
  -- The counts, as JSON.
  report TEXT NOT NULL,
  -- Needed to undo it, as JSON; null once it cannot be undone any more.
  kept TEXT,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  undone_by TEXT,
  undone_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_account_merges_by_account ON banking_account_merges (organization_id, account_id);
-- Those that can still be undone.
CREATE INDEX banking_account_merges_kept ON banking_account_merges (made_at) WHERE kept IS NOT NULL;

-- The bookings of one of the two that are those of the other, as JSON, for as long as the merge can be undone.
CREATE TABLE banking_merged_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  merge_id TEXT NOT NULL,
  id BIGINT NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (organization_id, merge_id, id)
);

-- The ids of accounts that are part of another: they mean that one.
CREATE TABLE banking_account_aliases (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_account_aliases_by_account ON banking_account_aliases (organization_id, account_id);

-- `wire` is the transaction as the API answers it, the other columns are what is searched. Written in one place: ingest.
CREATE TABLE banking_transactions (
  account_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'posted' OR status = 'pending'),
  -- The bank's own id for it, where it has one.
  provider_ref TEXT,
  -- A hash of what it says, whoever delivers it: finds the same booking again.
  fingerprint TEXT NOT NULL,
  -- The booked statement it stands in. Nothing a later booked statement says can be the same booking.
  statement TEXT,
  end_to_end_id TEXT,
  payment_id BIGINT,
  first_change BIGINT NOT NULL,
  last_change BIGINT NOT NULL,
  wire TEXT NOT NULL,
  -- For bookings from statements: the day of booking (made_on is the value date), and the account's balance after it.
  booked_on TEXT,
  balance_minor BIGINT,
  -- The connection that reported it, whose reference `provider_ref` is. Only it can withdraw what is pending.
  source TEXT,
  -- The first of the rows that are parts of one batch, which others report as one sum.
  batch BIGINT,
  PRIMARY KEY (account_id, id)
);
CREATE INDEX banking_transactions_by_day ON banking_transactions (account_id, made_on, id);
CREATE INDEX banking_transactions_by_ref ON banking_transactions (account_id, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_transactions_by_change ON banking_transactions (account_id, last_change);
CREATE INDEX banking_transactions_by_end_to_end ON banking_transactions (account_id, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX banking_transactions_pending ON banking_transactions (account_id, amount_minor) WHERE status = 'pending';
-- Those that a statement may still confirm, or show not to be there.
CREATE INDEX banking_transactions_unconfirmed ON banking_transactions (account_id, made_on) WHERE statement IS NULL;

-- Accounts that are not there yet, whose transactions are being written where nobody sees them: an account that is not there has none.
CREATE TABLE banking_arrivals (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id BIGINT NOT NULL,
  -- 0 if they were given up.
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (organization_id, account_id)
);

-- Accounts that are gone, whose transactions are still to be removed and reported as removed.
CREATE TABLE banking_departures (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id BIGINT NOT NULL,
  -- The connection that was removed.
  connection_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, account_id)
);

-- Transactions that are gone, which the change feed still has to report.
CREATE TABLE banking_removed_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  change_number BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  id BIGINT NOT NULL,
  first_change BIGINT NOT NULL,
  removed_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, change_number)
);

-- Booked statements taken from files: what the next one must follow on.
CREATE TABLE banking_statements (
  account_id BIGINT NOT NULL,
  position BIGINT NOT NULL,
  -- Names the statement. `sha256` is what it says.
  identity TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  state TEXT NOT NULL,
  closes_on TEXT NOT NULL,
  entries BIGINT NOT NULL,
  source TEXT NOT NULL,
  taken_at BIGINT NOT NULL,
  -- The span that the statement is part of. 0 for one without balances.
  span BIGINT,
  PRIMARY KEY (account_id, position)
);
CREATE UNIQUE INDEX banking_statements_by_identity ON banking_statements (account_id, identity);

-- A stretch of an account that is known without a gap, from one balance to another; its bookings make exactly the difference.
-- Statements that overlap share one.
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
  -- The bank's name for the last statement.
  last_id TEXT NOT NULL,
  PRIMARY KEY (account_id, number)
);
CREATE INDEX banking_statement_spans_by_day ON banking_statement_spans (account_id, ends_on);

-- Files with statements that were imported or refused: by whom, when, and what came of it.
CREATE TABLE banking_imports (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  source TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  actor TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'done' OR status = 'failed'),
  -- The reason why it was refused.
  error TEXT,
  -- JSON: counts and warnings.
  report TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_imports_by_age ON banking_imports (organization_id, created_at);

CREATE TABLE banking_payments (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  provider TEXT NOT NULL,
  -- The provider's own id, unknown until the provider has answered.
  provider_ref TEXT,
  connection_id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  provider_code TEXT NOT NULL,
  provider_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'initiated' OR status = 'initiated_info_required' OR status = 'authorizing'
    OR status = 'authorized' OR status = 'processing' OR status = 'executed' OR status = 'settled' OR status = 'failed'
    OR status = 'rejected'),
  raw_provider_status TEXT,
  error_class TEXT,
  error_message TEXT,
  template_identifier TEXT NOT NULL CHECK (template_identifier = 'SEPA' OR template_identifier = 'SEPA_INSTANT'),
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  currency_code TEXT NOT NULL,
  creditor_name TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  debtor_iban TEXT NOT NULL,
  end_to_end_id TEXT NOT NULL,
  description TEXT NOT NULL,
  reference TEXT,
  -- The rest of the order, as JSON: creditor's address and bank, date, return address.
  order_details TEXT NOT NULL,
  custom_fields TEXT,
  customer_ip_address TEXT NOT NULL,
  payment_url TEXT,
  expires_at BIGINT,
  -- The three credits: whose, and under which reservation.
  payer_organization_id TEXT NOT NULL,
  hold_id TEXT,
  -- 1 if its booked debit alone settles it, also where the bank says nothing else.
  debit_settles SMALLINT NOT NULL CHECK (debit_settles = 0 OR debit_settles = 1),
  idempotency_key TEXT,
  next_poll_at BIGINT,
  polls BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  -- The first time the order was handed out as a file. From then on the bank may have it, so it does not expire by itself.
  order_taken_at BIGINT,
  -- The file that the order is in now.
  order_file_id BIGINT,
  -- The key that the payment was made with: the first one of its row of rotations.
  first_key_id TEXT,
  -- The call that the idempotency key was sent for: its claim may be gone when the call is repeated.
  idempotency_fingerprint TEXT,
  -- 1 until a process is about to send the payment to the bank. If the process dies before, the order certainly never left.
  unsent SMALLINT NOT NULL DEFAULT 0 CHECK (unsent = 0 OR unsent = 1),
  -- The last time the order was issued as a file by itself, if that was later than the first: its day had passed.
  order_issued_at BIGINT,
  -- The last check of the payee that was reported; null if none was.
  payee_result TEXT CHECK (payee_result = 'match' OR payee_result = 'close_match' OR payee_result = 'no_match'
    OR payee_result = 'not_possible' OR payee_result = 'pending'),
  payee_submitted_name TEXT,
  payee_returned_name TEXT,
  payee_source TEXT,
  payee_checked_at BIGINT,
  -- The second person's release: waited for, or given; null if it needed none. Until then it goes into no file and to no bank.
  release_state TEXT CHECK (release_state = 'waiting' OR release_state = 'released'),
  -- The limit that it was above when it was made, and when it is given up.
  release_limit_minor BIGINT,
  release_expires_at BIGINT,
  -- The person who made it, also by a key of theirs; null for a key of nobody.
  maker_user_id TEXT,
  released_by TEXT,
  released_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
-- Few at any time: those that wait for a release.
CREATE INDEX banking_payments_to_release ON banking_payments (organization_id, id)
  WHERE release_state = 'waiting' AND status = 'initiated';
CREATE UNIQUE INDEX banking_payments_by_end_to_end ON banking_payments (organization_id, end_to_end_id);
CREATE UNIQUE INDEX banking_payments_by_provider ON banking_payments (provider, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_payments_by_age ON banking_payments (organization_id, created_at);
CREATE INDEX banking_payments_by_key ON banking_payments (payer_organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX banking_payments_to_poll ON banking_payments (next_poll_at) WHERE next_poll_at IS NOT NULL;
-- Those that may go into an order file.
CREATE INDEX banking_payments_awaiting ON banking_payments (organization_id, account_id, id)
  WHERE status IN ('authorizing', 'initiated', 'initiated_info_required');
CREATE INDEX banking_payments_by_maker ON banking_payments (payer_organization_id, first_key_id, created_at)
  WHERE first_key_id IS NOT NULL;

-- Every report on a payment and what came of it, in the order of arrival.
CREATE TABLE banking_payment_reports (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  payment_id BIGINT NOT NULL,
  position BIGINT NOT NULL,
  source TEXT NOT NULL,
  status TEXT,
  raw_provider_status TEXT,
  error_class TEXT,
  error_message TEXT,
  outcome TEXT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, payment_id, position)
);

-- The amount above which a payment needs a second person's release.
CREATE TABLE banking_payment_limits (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  limit_minor BIGINT NOT NULL CHECK (limit_minor >= 0),
  changed_at BIGINT NOT NULL
);

-- The names of account holders that a bank has told and somebody has taken over.
CREATE TABLE banking_payees (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  iban TEXT NOT NULL,
  name TEXT NOT NULL,
  taken_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, iban)
);

-- Files that hold several orders from one account.
CREATE TABLE banking_order_files (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  provider TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  message_id TEXT NOT NULL,
  -- As it stands in the file, which stays the same whatever the account is called later.
  debtor_name TEXT NOT NULL,
  payments BIGINT NOT NULL CHECK (payments > 0),
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- Somebody said that it was not uploaded. Its orders are free for another file.
  discarded_at BIGINT,
  -- The last time it was issued, if that was later than the first: one of its days had passed.
  issued_at BIGINT,
  -- When it was sent to the bank by us. From then on it is neither discarded nor handed out, until the bank is known not to have it.
  submitted_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_order_files_by_message ON banking_order_files (organization_id, message_id);
CREATE INDEX banking_order_files_latest ON banking_order_files (organization_id, created_at, id);

-- The orders in a file. Kept, because a status report may come late.
CREATE TABLE banking_order_file_payments (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  order_file_id BIGINT NOT NULL,
  payment_id BIGINT NOT NULL,
  -- The instruction (PmtInfId) that it stands in.
  instruction_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, order_file_id, payment_id)
);
-- For the daily limit of a key, which counts what is in a file.
CREATE INDEX banking_order_file_payments_by_payment ON banking_order_file_payments (organization_id, payment_id);

-- Deliveries of providers, stored before they are applied.
CREATE TABLE banking_inbox (
  provider TEXT NOT NULL,
  delivery_id TEXT NOT NULL,
  body BYTEA NOT NULL,
  state TEXT NOT NULL CHECK (state = 'received' OR state = 'applied' OR state = 'failed'),
  attempts BIGINT NOT NULL,
  next_attempt_at BIGINT NOT NULL,
  last_error TEXT,
  received_at BIGINT NOT NULL,
  applied_at BIGINT,
  -- The kind of news, from the end of the path that it came to. A person's return from a bank's page is a delivery as well, and sealed.
  kind TEXT,
  PRIMARY KEY (provider, delivery_id)
);
CREATE INDEX banking_inbox_waiting ON banking_inbox (next_attempt_at) WHERE state = 'received';
CREATE INDEX banking_inbox_by_age ON banking_inbox (received_at);
