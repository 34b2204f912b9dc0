-- Bank connections, accounts, transactions and payments. Amounts (*_minor) are cents of the row's currency, debits negative.

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
  last_change BIGINT NOT NULL
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
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'inactive' OR status = 'disabled' OR status = 'pending' OR status = 'pending_connect'),
  owner_user_id TEXT,
  automatic_refresh SMALLINT NOT NULL CHECK (automatic_refresh = 0 OR automatic_refresh = 1),
  next_refresh_possible_at BIGINT NOT NULL,
  consent_expires_at BIGINT NOT NULL,
  error_class TEXT,
  error_message TEXT,
  -- What is under way at the provider: automatic, manual, or nothing.
  refresh_type TEXT NOT NULL,
  refresh_started_at BIGINT,
  last_automatic_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_connections_by_provider ON banking_connections (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX banking_connections_by_owner ON banking_connections (organization_id, owner_user_id);
CREATE INDEX banking_connections_unfinished ON banking_connections (created_at) WHERE status = 'pending_connect';

-- A started connect or reconnect flow. Outlives its placeholder, so that a late answer of the provider still finds its way.
CREATE TABLE banking_connect_flows (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  provider TEXT NOT NULL,
  api TEXT NOT NULL,
  owner_user_id TEXT,
  -- Of a reconnect from the beginning, of a connect from its completion on.
  connection_id TEXT,
  return_to TEXT,
  custom_fields TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
);
CREATE UNIQUE INDEX banking_connect_flows_by_token ON banking_connect_flows (pending_token);
CREATE INDEX banking_connect_flows_by_age ON banking_connect_flows (created_at);

CREATE TABLE banking_accounts (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
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
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_accounts_by_provider ON banking_accounts (organization_id, connection_id, provider_ref);

-- `wire` is the transaction as the API answers it, the other columns are what is searched. Written in one place: ingest.
CREATE TABLE banking_transactions (
  account_id BIGINT NOT NULL,
  id BIGINT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'posted' OR status = 'pending'),
  -- The bank's own id for it, where it has one.
  provider_ref TEXT,
  -- What it says, whoever delivers it: finds the same booking again.
  fingerprint TEXT NOT NULL,
  -- The booked statement it stands in. Nothing a later booked statement says can be the same booking.
  statement TEXT,
  end_to_end_id TEXT,
  payment_id BIGINT,
  first_change BIGINT NOT NULL,
  last_change BIGINT NOT NULL,
  wire TEXT NOT NULL,
  PRIMARY KEY (account_id, id)
);
CREATE INDEX banking_transactions_by_day ON banking_transactions (account_id, made_on, id);
CREATE INDEX banking_transactions_by_ref ON banking_transactions (account_id, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_transactions_by_change ON banking_transactions (account_id, last_change);
CREATE INDEX banking_transactions_by_end_to_end ON banking_transactions (account_id, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX banking_transactions_pending ON banking_transactions (account_id, amount_minor) WHERE status = 'pending';

-- What the change feed still has to say of transactions that are gone.
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
  PRIMARY KEY (account_id, position)
);
CREATE UNIQUE INDEX banking_statements_by_identity ON banking_statements (account_id, identity);

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
  status TEXT NOT NULL CHECK (status = 'initiated' OR status = 'initiated_info_required' OR status = 'authorizing' OR status = 'authorized' OR status = 'processing' OR status = 'executed' OR status = 'settled' OR status = 'failed' OR status = 'rejected'),
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
  -- What else the order says, as JSON: creditor's address and bank, date, return address.
  order_details TEXT NOT NULL,
  custom_fields TEXT,
  customer_ip_address TEXT NOT NULL,
  payment_url TEXT,
  expires_at BIGINT,
  -- The three credits: whose, and under which reservation.
  payer_organization_id TEXT NOT NULL,
  hold_id TEXT,
  -- Whether its booked debit alone settles it, also where the bank says nothing else.
  debit_settles SMALLINT NOT NULL CHECK (debit_settles = 0 OR debit_settles = 1),
  idempotency_key TEXT,
  next_poll_at BIGINT,
  polls BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_payments_by_end_to_end ON banking_payments (organization_id, end_to_end_id);
CREATE UNIQUE INDEX banking_payments_by_provider ON banking_payments (provider, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_payments_by_age ON banking_payments (organization_id, created_at);
CREATE INDEX banking_payments_by_key ON banking_payments (payer_organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX banking_payments_to_poll ON banking_payments (next_poll_at) WHERE next_poll_at IS NOT NULL;

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

-- What providers sent, stored before it is applied.
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
  PRIMARY KEY (provider, delivery_id)
);
CREATE INDEX banking_inbox_waiting ON banking_inbox (next_attempt_at) WHERE state = 'received';
CREATE INDEX banking_inbox_by_age ON banking_inbox (received_at);

-- Connections removed here whose access at the provider is still to be ended.
CREATE TABLE banking_removals (
  provider TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  attempts BIGINT NOT NULL,
  next_attempt_at BIGINT NOT NULL,
  PRIMARY KEY (provider, provider_ref)
);
CREATE INDEX banking_removals_waiting ON banking_removals (next_attempt_at);
