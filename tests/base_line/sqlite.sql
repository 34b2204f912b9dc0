-- The base line, as the 51 steps before it made it: what a database of that version holds, without rows of anybody.
BEGIN TRANSACTION;
CREATE TABLE agency_clients (
  organization_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  client_organization_id TEXT NOT NULL REFERENCES organizations (id),
  PRIMARY KEY (organization_id, key_id, client_organization_id),
  FOREIGN KEY (organization_id, key_id) REFERENCES api_keys (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  hint TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  is_agency INTEGER NOT NULL CHECK (is_agency = 0 OR is_agency = 1),
  created_by TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  last_used_at INTEGER,
  replaced_by TEXT, scopes TEXT, payment_limit_minor INTEGER, daily_limit_minor INTEGER, first_key_id TEXT,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_tasks (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  source TEXT NOT NULL,
  actor TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'running' OR status = 'done' OR status = 'failed'),
  answer TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  lease_until INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE audit_log (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  details TEXT NOT NULL,
  request_id TEXT,
  ip TEXT,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_accounts (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  iban TEXT,
  name TEXT NOT NULL,
  holder_name TEXT,
  nature TEXT NOT NULL,
  balance_minor INTEGER NOT NULL,
  currency_code TEXT NOT NULL,
  can_hide INTEGER NOT NULL CHECK (can_hide = 0 OR can_hide = 1),
  posted INTEGER NOT NULL,
  pending INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, identity TEXT, balance_known INTEGER NOT NULL DEFAULT 1 CHECK (balance_known = 0 OR balance_known = 1),
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_connect_flows (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  provider TEXT NOT NULL,
  api TEXT NOT NULL,
  owner_user_id TEXT,
  connection_id TEXT,
  return_to TEXT,
  custom_fields TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  provider TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  api TEXT NOT NULL CHECK (api = 'partner' OR api = 'openbanking'),
  provider_code TEXT NOT NULL,
  provider_name TEXT NOT NULL,
  country_code TEXT NOT NULL,
  logo_url TEXT NOT NULL,
  display_name TEXT,
  templates TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'inactive' OR status = 'disabled' OR status = 'pending' OR status = 'pending_connect'),
  owner_user_id TEXT,
  automatic_refresh INTEGER NOT NULL CHECK (automatic_refresh = 0 OR automatic_refresh = 1),
  next_refresh_possible_at INTEGER NOT NULL,
  consent_expires_at INTEGER,
  error_class TEXT,
  error_message TEXT,
  refresh_type TEXT NOT NULL,
  refresh_started_at INTEGER,
  last_automatic_at INTEGER,
  fetched_at INTEGER,
  announced_days INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_counters (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  number INTEGER NOT NULL,
  last_connection INTEGER NOT NULL,
  last_account INTEGER NOT NULL,
  last_transaction INTEGER NOT NULL,
  last_payment INTEGER NOT NULL,
  last_change INTEGER NOT NULL
, last_order_file INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE TABLE banking_imports (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  source TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  actor TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'done' OR status = 'failed'),
  error TEXT,
  report TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_inbox (
  provider TEXT NOT NULL,
  delivery_id TEXT NOT NULL,
  body BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state = 'received' OR state = 'applied' OR state = 'failed'),
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  last_error TEXT,
  received_at INTEGER NOT NULL,
  applied_at INTEGER, kind TEXT,
  PRIMARY KEY (provider, delivery_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_interactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  language TEXT,
  number INTEGER NOT NULL,
  sealed BLOB,
  claimed_until INTEGER,
  next_poll_at INTEGER,
  polls INTEGER NOT NULL,
  outcome TEXT CHECK (outcome = 'done' OR outcome = 'failed'),
  error_class TEXT,
  error_message TEXT,
  expires_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_order_file_payments (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  order_file_id INTEGER NOT NULL,
  payment_id INTEGER NOT NULL,
  instruction_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, order_file_id, payment_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_order_files (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id INTEGER NOT NULL,
  provider TEXT NOT NULL,
  account_id INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  debtor_name TEXT NOT NULL,
  payments INTEGER NOT NULL CHECK (payments > 0),
  amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  discarded_at INTEGER,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_payment_reports (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  payment_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  source TEXT NOT NULL,
  status TEXT,
  raw_provider_status TEXT,
  error_class TEXT,
  error_message TEXT,
  outcome TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, payment_id, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_payments (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id INTEGER NOT NULL,
  provider TEXT NOT NULL,
  provider_ref TEXT,
  connection_id TEXT NOT NULL,
  account_id INTEGER NOT NULL,
  provider_code TEXT NOT NULL,
  provider_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'initiated' OR status = 'initiated_info_required' OR status = 'authorizing' OR status = 'authorized' OR status = 'processing' OR status = 'executed' OR status = 'settled' OR status = 'failed' OR status = 'rejected'),
  raw_provider_status TEXT,
  error_class TEXT,
  error_message TEXT,
  template_identifier TEXT NOT NULL CHECK (template_identifier = 'SEPA' OR template_identifier = 'SEPA_INSTANT'),
  amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
  currency_code TEXT NOT NULL,
  creditor_name TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  debtor_iban TEXT NOT NULL,
  end_to_end_id TEXT NOT NULL,
  description TEXT NOT NULL,
  reference TEXT,
  order_details TEXT NOT NULL,
  custom_fields TEXT,
  customer_ip_address TEXT NOT NULL,
  payment_url TEXT,
  expires_at INTEGER,
  payer_organization_id TEXT NOT NULL,
  hold_id TEXT,
  debit_settles INTEGER NOT NULL CHECK (debit_settles = 0 OR debit_settles = 1),
  idempotency_key TEXT,
  next_poll_at INTEGER,
  polls INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL, order_taken_at INTEGER, order_file_id INTEGER, first_key_id TEXT, idempotency_fingerprint TEXT, unsent INTEGER NOT NULL DEFAULT 0 CHECK (unsent = 0 OR unsent = 1),
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_removals (
  provider TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  PRIMARY KEY (provider, provider_ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_removed_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  change_number INTEGER NOT NULL,
  account_id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  id INTEGER NOT NULL,
  first_change INTEGER NOT NULL,
  removed_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, change_number)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_statement_spans (
  account_id INTEGER NOT NULL,
  number INTEGER NOT NULL,
  opens_minor INTEGER NOT NULL,
  opens_on TEXT NOT NULL,
  closes_minor INTEGER NOT NULL,
  closes_on TEXT NOT NULL,
  begins_on TEXT NOT NULL,
  ends_on TEXT NOT NULL,
  first_number INTEGER,
  last_number INTEGER,
  last_id TEXT NOT NULL,
  PRIMARY KEY (account_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_statements (
  account_id INTEGER NOT NULL,
  position INTEGER NOT NULL,
  identity TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  state TEXT NOT NULL,
  closes_on TEXT NOT NULL,
  entries INTEGER NOT NULL,
  source TEXT NOT NULL,
  taken_at INTEGER NOT NULL, span INTEGER,
  PRIMARY KEY (account_id, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE banking_transactions (
  account_id INTEGER NOT NULL,
  id INTEGER NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status = 'posted' OR status = 'pending'),
  provider_ref TEXT,
  fingerprint TEXT NOT NULL,
  statement TEXT,
  end_to_end_id TEXT,
  payment_id INTEGER,
  first_change INTEGER NOT NULL,
  last_change INTEGER NOT NULL,
  wire TEXT NOT NULL, booked_on TEXT, balance_minor INTEGER,
  PRIMARY KEY (account_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_accounts (
  mandant INTEGER NOT NULL,
  konto TEXT NOT NULL,
  beschriftung TEXT NOT NULL,
  PRIMARY KEY (mandant, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_balances (
  edition INTEGER NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  wire TEXT NOT NULL,
  PRIMARY KEY (edition, jahr, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_batches (
  mandant INTEGER NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  bezeichnung TEXT NOT NULL,
  records INTEGER NOT NULL,
  created_at INTEGER NOT NULL, jahr TEXT NOT NULL DEFAULT '', author TEXT NOT NULL DEFAULT '', content TEXT NOT NULL DEFAULT '', known INTEGER NOT NULL DEFAULT 0, refused INTEGER NOT NULL DEFAULT 0, warnings INTEGER NOT NULL DEFAULT 0, first_booking INTEGER NOT NULL DEFAULT 0, last_booking INTEGER NOT NULL DEFAULT 0, undoes TEXT NOT NULL DEFAULT '', undone_by TEXT NOT NULL DEFAULT '', protokoll TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_bookings (
  mandant INTEGER NOT NULL,
  id INTEGER NOT NULL,
  jahr TEXT NOT NULL,
  periode INTEGER NOT NULL CHECK (periode BETWEEN 0 AND 14),
  batch TEXT NOT NULL,
  umsatz INTEGER NOT NULL,
  soll INTEGER NOT NULL CHECK (soll = 0 OR soll = 1),
  waehrung TEXT NOT NULL,
  kurs TEXT NOT NULL,
  basis_umsatz INTEGER,
  konto TEXT NOT NULL,
  gegenkonto TEXT NOT NULL,
  bu_schluessel TEXT NOT NULL,
  belegdatum TEXT NOT NULL,
  belegfeld1 TEXT NOT NULL,
  belegfeld2 TEXT NOT NULL,
  skonto INTEGER NOT NULL,
  buchungstext TEXT NOT NULL,
  kost1 TEXT NOT NULL,
  kost2 TEXT NOT NULL,
  generalumkehr INTEGER NOT NULL CHECK (generalumkehr = 0 OR generalumkehr = 1),
  weitere TEXT NOT NULL, aufteilung TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_carry_rests (
  edition INTEGER NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  rest INTEGER NOT NULL,
  PRIMARY KEY (edition, jahr, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_cash_books (
  mandant INTEGER NOT NULL,
  bezeichnung TEXT NOT NULL,
  konto TEXT NOT NULL,
  last_nummer INTEGER NOT NULL,
  last_hash TEXT NOT NULL,
  saldo INTEGER NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_cash_days (
  mandant INTEGER NOT NULL,
  kassenname TEXT NOT NULL,
  datum TEXT NOT NULL,
  bewegung INTEGER NOT NULL,
  PRIMARY KEY (mandant, kassenname, datum)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_cash_entries (
  mandant INTEGER NOT NULL,
  kassenname TEXT NOT NULL,
  nummer INTEGER NOT NULL,
  task TEXT NOT NULL,
  booking INTEGER NOT NULL,
  datum TEXT NOT NULL,
  betrag INTEGER NOT NULL,
  storno_von INTEGER,
  record TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (mandant, kassenname, nummer)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_clients (
  organization_id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  mandant INTEGER NOT NULL,
  bezeichnung TEXT NOT NULL,
  kontenrahmen TEXT NOT NULL,
  konto_laenge INTEGER NOT NULL CHECK (konto_laenge BETWEEN 4 AND 8),
  is_default INTEGER NOT NULL CHECK (is_default = 0 OR is_default = 1),
  last_buchung INTEGER NOT NULL,
  created_at INTEGER NOT NULL, edition INTEGER NOT NULL DEFAULT 0, undone_from INTEGER NOT NULL DEFAULT 0, undone_to INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, connection_id, client_id),
  FOREIGN KEY (organization_id, connection_id) REFERENCES ledger_connections (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_denied_rights (
  mandant INTEGER NOT NULL,
  bereich TEXT NOT NULL,
  PRIMARY KEY (mandant, bereich)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_document_types (
  mandant INTEGER NOT NULL,
  bezeichnung TEXT NOT NULL,
  kategorie TEXT NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_folders (
  mandant INTEGER NOT NULL,
  ordnertyp TEXT NOT NULL CHECK (ordnertyp = 'EINGANGSRECHNUNG' OR ordnertyp = 'AUSGANGSRECHNUNG'),
  bezeichnung TEXT NOT NULL,
  PRIMARY KEY (mandant, ordnertyp, bezeichnung)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_item_moves (
  mandant INTEGER NOT NULL,
  belegdatum TEXT NOT NULL,
  booking INTEGER NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  betrag INTEGER NOT NULL,
  PRIMARY KEY (mandant, belegdatum, booking, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_item_years (
  edition INTEGER NOT NULL,
  konto TEXT NOT NULL,
  jahr TEXT NOT NULL,
  eb INTEGER NOT NULL,
  eb_text TEXT NOT NULL,
  bewegung INTEGER NOT NULL,
  PRIMARY KEY (edition, konto, jahr)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_items (
  edition INTEGER NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  soll INTEGER NOT NULL,
  haben INTEGER NOT NULL,
  is_open INTEGER NOT NULL CHECK (is_open = 0 OR is_open = 1),
  belegdatum TEXT NOT NULL,
  buchungstext TEXT NOT NULL, steuer TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (edition, konto, beleg)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_left_editions (
  mandant INTEGER NOT NULL,
  edition INTEGER NOT NULL,
  PRIMARY KEY (mandant, edition)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_open_accounts (
  edition INTEGER NOT NULL,
  konto TEXT NOT NULL,
  saldo INTEGER NOT NULL,
  wire TEXT NOT NULL,
  PRIMARY KEY (edition, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_openings (
  edition INTEGER NOT NULL,
  konto TEXT NOT NULL,
  jahr TEXT NOT NULL,
  booking INTEGER NOT NULL,
  betrag INTEGER NOT NULL,
  gegenkonto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  is_reversal INTEGER NOT NULL CHECK (is_reversal = 0 OR is_reversal = 1),
  is_twin INTEGER NOT NULL CHECK (is_twin = 0 OR is_twin = 1),
  PRIMARY KEY (edition, konto, jahr, booking)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_partial_rows (
  mandant INTEGER NOT NULL,
  batch TEXT NOT NULL,
  digest TEXT NOT NULL,
  kopf TEXT NOT NULL,
  times INTEGER NOT NULL,
  PRIMARY KEY (mandant, batch, digest)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_payment_terms (
  mandant INTEGER NOT NULL,
  nummer INTEGER NOT NULL,
  wire TEXT NOT NULL, extf TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, nummer)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_periods (
  edition INTEGER NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  periode INTEGER NOT NULL,
  soll INTEGER NOT NULL,
  haben INTEGER NOT NULL,
  PRIMARY KEY (edition, jahr, konto, periode)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_person_history (
  mandant INTEGER NOT NULL,
  konto TEXT NOT NULL,
  version INTEGER NOT NULL,
  record TEXT NOT NULL,
  replaced_at INTEGER NOT NULL,
  PRIMARY KEY (mandant, konto, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_persons (
  mandant INTEGER NOT NULL,
  konto TEXT NOT NULL,
  version INTEGER NOT NULL,
  record TEXT NOT NULL,
  extf TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER,
  PRIMARY KEY (mandant, konto)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_preparing (
  mandant INTEGER PRIMARY KEY,
  batch TEXT NOT NULL,
  source TEXT NOT NULL,
  edition INTEGER NOT NULL,
  before INTEGER NOT NULL,
  ceiling INTEGER NOT NULL,
  is_copied INTEGER NOT NULL CHECK (is_copied = 0 OR is_copied = 1),
  carried TEXT NOT NULL,
  lease_until INTEGER NOT NULL
, undoes TEXT NOT NULL DEFAULT '', uncarried TEXT NOT NULL DEFAULT '') STRICT, WITHOUT ROWID;
CREATE TABLE books_receipt_filings (
  mandant INTEGER NOT NULL,
  task TEXT NOT NULL,
  platz INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  dateiname TEXT NOT NULL,
  PRIMARY KEY (mandant, task, platz)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_receipts (
  mandant INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  id TEXT NOT NULL,
  task TEXT NOT NULL,
  dateiname TEXT NOT NULL,
  groesse INTEGER NOT NULL,
  mime_typ TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (mandant, sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_retaxed (
  mandant INTEGER NOT NULL,
  booking INTEGER NOT NULL,
  batch TEXT NOT NULL,
  PRIMARY KEY (mandant, booking)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_subscriptions (
  mandant INTEGER NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (mandant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_tasks (
  mandant INTEGER NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  meldungen TEXT NOT NULL,
  request_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (mandant, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE books_years (
  mandant INTEGER NOT NULL,
  jahr TEXT NOT NULL,
  ende TEXT NOT NULL,
  has_eb INTEGER NOT NULL CHECK (has_eb = 0 OR has_eb = 1),
  PRIMARY KEY (mandant, jahr)
) STRICT, WITHOUT ROWID;
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_accounts (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  available INTEGER NOT NULL CHECK (available >= 0),
  reserved INTEGER NOT NULL CHECK (reserved >= 0),
  spent INTEGER NOT NULL CHECK (spent >= 0),
  lapsed INTEGER NOT NULL CHECK (lapsed >= 0),
  granted INTEGER NOT NULL CHECK (granted = available + reserved + spent + lapsed),
  last_line INTEGER NOT NULL,
  allocated INTEGER NOT NULL,
  next_lapse_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_grants (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  amount INTEGER NOT NULL CHECK (amount > 0),
  remaining INTEGER NOT NULL CHECK (remaining >= 0 AND remaining <= amount),
  note TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  lapsed_at INTEGER,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_holds (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  amount INTEGER NOT NULL CHECK (amount > 0),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE credit_movements (
  organization_id TEXT NOT NULL,
  line INTEGER NOT NULL,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'grant' OR kind = 'reserve' OR kind = 'confirm' OR kind = 'expire' OR kind = 'lapse'),
  from_pot TEXT NOT NULL,
  to_pot TEXT NOT NULL,
  amount INTEGER NOT NULL CHECK (amount > 0),
  available_after INTEGER NOT NULL,
  reserved_after INTEGER NOT NULL,
  reference TEXT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, line)
) STRICT, WITHOUT ROWID;
CREATE TABLE dashboard_preferences (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  language TEXT,
  theme TEXT,
  shortcuts INTEGER NOT NULL DEFAULT 1,
  PRIMARY KEY (organization_id, user_id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE enable_banking_sessions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  pending_token TEXT NOT NULL,
  bank_name TEXT NOT NULL,
  bank_country TEXT NOT NULL,
  psu_type TEXT NOT NULL,
  accounts TEXT NOT NULL,
  rest_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE fints_dialogs (
  login TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE fints_logins (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  sealed BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE idempotency_keys (
  scope TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'running' OR state = 'done'),
  owner TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  status INTEGER,
  answer BLOB, organizations TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (scope, idempotency_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE invitations (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  token_hash TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'accepted' OR status = 'revoked'),
  invited_by TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  settled_at INTEGER,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE job_leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  finished_at INTEGER,
  last_error TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE ledger_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  bezeichnung TEXT,
  provider TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'connected' OR status = 'expired' OR status = 'revoked' OR status = 'error'),
  verbunden_seit INTEGER,
  erstellt_am INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_customers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  provider TEXT NOT NULL,
  customer_number INTEGER NOT NULL,
  mobility_customer_id TEXT,
  name TEXT NOT NULL,
  street TEXT NOT NULL,
  postal_code TEXT NOT NULL,
  city TEXT NOT NULL,
  country_code TEXT NOT NULL,
  email TEXT,
  buyer_reference TEXT,
  vat_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_documents (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'pdf' OR kind = 'xml'),
  file_name TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  content BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, invoice_id, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_documents_due (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, busy_until INTEGER NOT NULL DEFAULT 0, last_error TEXT,
  PRIMARY KEY (organization_id, invoice_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_invoice_lines (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  ticket_id TEXT NOT NULL,
  reference TEXT,
  product TEXT NOT NULL,
  holder_reference TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  price_in_cents INTEGER NOT NULL,
  discount_in_cents INTEGER NOT NULL,
  employer_share_in_cents INTEGER,
  vat_rate INTEGER NOT NULL,
  amount_in_cents INTEGER NOT NULL,
  net_in_cents INTEGER NOT NULL,
  credited_number TEXT,
  credited_on TEXT,
  PRIMARY KEY (organization_id, invoice_id, position)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_invoice_sums (
  organization_id TEXT NOT NULL,
  invoice_id TEXT NOT NULL,
  vat_rate INTEGER NOT NULL,
  net_in_cents INTEGER NOT NULL,
  vat_in_cents INTEGER NOT NULL,
  rounding_in_cents INTEGER NOT NULL,
  amount_in_cents INTEGER NOT NULL CHECK (amount_in_cents = net_in_cents + vat_in_cents + rounding_in_cents),
  PRIMARY KEY (organization_id, invoice_id, vat_rate)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_invoices (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  customer_id TEXT NOT NULL,
  mobility_invoice_id TEXT NOT NULL,
  invoice_number TEXT NOT NULL,
  type_code INTEGER NOT NULL CHECK (type_code = 380 OR type_code = 381),
  amount_in_cents INTEGER NOT NULL,
  ticket_count INTEGER NOT NULL CHECK (ticket_count > 0),
  issued_on TEXT NOT NULL,
  due_on TEXT,
  seller TEXT NOT NULL,
  buyer TEXT NOT NULL,
  invoiced_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL, logo_sha256 TEXT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, customer_id) REFERENCES mobility_customers (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_logos (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sha256 TEXT NOT NULL,
  media_type TEXT NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  content BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, sha256)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_numbers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  series TEXT NOT NULL,
  last_number INTEGER NOT NULL,
  PRIMARY KEY (organization_id, series)
) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_sellers (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  record TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
, logo_sha256 TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE mobility_tickets (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  customer_id TEXT NOT NULL,
  reference TEXT,
  product TEXT NOT NULL,
  holder_reference TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  price_in_cents INTEGER NOT NULL CHECK (price_in_cents >= 0),
  discount_in_cents INTEGER NOT NULL CHECK (discount_in_cents >= 0 AND discount_in_cents <= price_in_cents),
  employer_share_in_cents INTEGER CHECK (employer_share_in_cents >= 0),
  vat_rate INTEGER NOT NULL CHECK (vat_rate = 0 OR vat_rate = 7 OR vat_rate = 19),
  status TEXT NOT NULL CHECK (status = 'open' OR status = 'invoiced' OR status = 'cancelled' OR status = 'credited'),
  invoice_id TEXT,
  credit_invoice_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id),
  CHECK (valid_to >= valid_from),
  FOREIGN KEY (organization_id, customer_id) REFERENCES mobility_customers (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
, second_factor_required INTEGER NOT NULL DEFAULT 0) STRICT, WITHOUT ROWID;
CREATE TABLE password_resets (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_accounts (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  sachkonto TEXT NOT NULL,
  gebuehrenkonto TEXT NOT NULL,
  transferkonto TEXT NOT NULL,
  start_date TEXT NOT NULL,
  bucht TEXT NOT NULL CHECK (bucht = 'kanzlei' OR bucht = 'kontobahn'),
  automatisch TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, account_id),
  FOREIGN KEY (organization_id, connection_id) REFERENCES ledger_connections (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_batch_matches (
  organization_id TEXT NOT NULL,
  match_id TEXT NOT NULL,
  is_undo INTEGER NOT NULL CHECK (is_undo = 0 OR is_undo = 1),
  batch_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, match_id, is_undo),
  FOREIGN KEY (organization_id, match_id) REFERENCES recon_matches (organization_id, id),
  FOREIGN KEY (organization_id, batch_id) REFERENCES recon_batches (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_batches (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  bucht TEXT NOT NULL CHECK (bucht = 'kanzlei' OR bucht = 'kontobahn'),
  wire TEXT NOT NULL,
  rows TEXT NOT NULL,
  file_name TEXT,
  sha256 TEXT,
  content BLOB,
  made_by TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_items (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  pending_minor INTEGER NOT NULL,
  seen_minor INTEGER NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, konto, beleg)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_learned (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'iban' OR kind = 'name'),
  value TEXT NOT NULL,
  konto TEXT NOT NULL,
  times INTEGER NOT NULL CHECK (times > 0),
  first_at INTEGER NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_lines (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  match_id TEXT NOT NULL,
  line INTEGER NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'posten' OR kind = 'skonto' OR kind = 'gebuehr' OR kind = 'differenz' OR kind = 'akonto'
    OR kind = 'ruecklast' OR kind = 'transfer' OR kind = 'sachkonto'),
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  amount_minor INTEGER NOT NULL,
  open_minor INTEGER NOT NULL,
  PRIMARY KEY (organization_id, match_id, line),
  CHECK (kind <> 'posten' OR (amount_minor > 0 AND amount_minor <= open_minor) OR (amount_minor < 0 AND amount_minor >= open_minor))
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_matches (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  transaction_id INTEGER NOT NULL,
  account_id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  proposal_id TEXT,
  evidence TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor INTEGER NOT NULL,
  payer TEXT NOT NULL,
  iban TEXT NOT NULL,
  end_to_end_id TEXT,
  mandate TEXT,
  bank_reference TEXT,
  made_by TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  undo_id TEXT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, undo_id) REFERENCES recon_undos (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_proposals (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  transaction_id INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  place INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  acts INTEGER NOT NULL CHECK (acts = 0 OR acts = 1),
  score_tenths INTEGER NOT NULL,
  lines TEXT NOT NULL,
  reasons TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'confirmed' OR state = 'rejected' OR state = 'replaced'),
  made_at INTEGER NOT NULL,
  decided_by TEXT,
  decided_at INTEGER,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_rules (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  place INTEGER NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  iban TEXT NOT NULL,
  sign TEXT NOT NULL CHECK (sign = 'in' OR sign = 'out' OR sign = 'any'),
  least_minor INTEGER,
  most_minor INTEGER,
  sachkonto TEXT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, place)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_runs (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id INTEGER NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  from_date TEXT NOT NULL,
  to_date TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  wire TEXT NOT NULL,
  made_by TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id INTEGER NOT NULL,
  account_id INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'proposed' OR state = 'matched' OR state = 'ignored' OR state = 'booked'),
  run_id TEXT,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recon_undos (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  match_id TEXT NOT NULL,
  grund TEXT NOT NULL,
  made_by TEXT NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE recovery_codes (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  code_hash TEXT NOT NULL,
  PRIMARY KEY (organization_id, user_id, code_hash),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE request_hours (
  organization_id TEXT NOT NULL,
  hour_at INTEGER NOT NULL,
  calls INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY (organization_id, hour_at)
) STRICT, WITHOUT ROWID;
CREATE TABLE request_log (
  organization_id TEXT NOT NULL,
  id INTEGER NOT NULL,
  at INTEGER NOT NULL,
  api_key_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  target TEXT NOT NULL,
  status INTEGER NOT NULL,
  request_id TEXT NOT NULL,
  credits INTEGER NOT NULL,
  microseconds INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE request_logs (
  organization_id TEXT PRIMARY KEY,
  last_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_accounts (
  connection_ref TEXT NOT NULL,
  ref TEXT NOT NULL,
  position INTEGER NOT NULL,
  name TEXT NOT NULL,
  nature TEXT NOT NULL,
  iban TEXT,
  holder_name TEXT NOT NULL,
  currency_code TEXT NOT NULL,
  balance_minor INTEGER NOT NULL,
  is_chosen INTEGER NOT NULL CHECK (is_chosen = 0 OR is_chosen = 1),
  bookings INTEGER NOT NULL,
  PRIMARY KEY (connection_ref, ref)
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_bookings (
  account_ref TEXT NOT NULL,
  number INTEGER NOT NULL,
  ref TEXT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status = 'posted' OR status = 'pending'),
  description TEXT NOT NULL,
  mode TEXT NOT NULL,
  category TEXT NOT NULL,
  end_to_end_id TEXT,
  extra TEXT NOT NULL,
  PRIMARY KEY (account_ref, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_clock (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ahead_microseconds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_connections (
  ref TEXT PRIMARY KEY,
  bank_code TEXT NOT NULL,
  user_name TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'open' OR status = 'destroyed'),
  scopes TEXT NOT NULL,
  consent_expires_at INTEGER NOT NULL,
  next_refresh_possible_at INTEGER NOT NULL,
  refreshes INTEGER NOT NULL,
  answer_at INTEGER,
  answer_token TEXT,
  next_error_class TEXT,
  next_error_message TEXT,
  created_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_deliveries (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  subject TEXT NOT NULL,
  body BLOB NOT NULL,
  state TEXT NOT NULL CHECK (state = 'waiting' OR state = 'delivered' OR state = 'given_up'),
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER NOT NULL,
  last_answer TEXT,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_flows (
  token TEXT PRIMARY KEY,
  pending_token TEXT NOT NULL,
  api TEXT NOT NULL CHECK (api = 'partner' OR api = 'openbanking'),
  bank_code TEXT NOT NULL,
  is_bank_fixed INTEGER NOT NULL CHECK (is_bank_fixed = 0 OR is_bank_fixed = 1),
  scopes TEXT NOT NULL,
  return_to TEXT,
  renews TEXT,
  step TEXT NOT NULL CHECK (step = 'bank' OR step = 'login' OR step = 'tan' OR step = 'consent' OR step = 'failed' OR step = 'done'),
  user_name TEXT NOT NULL,
  wrong_entries INTEGER NOT NULL,
  error_class TEXT,
  error_message TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
, approval_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE sandbox_payments (
  ref TEXT PRIMARY KEY,
  token TEXT NOT NULL,
  end_to_end_id TEXT NOT NULL,
  connection_ref TEXT NOT NULL,
  account_ref TEXT NOT NULL,
  template_identifier TEXT NOT NULL,
  amount_minor INTEGER NOT NULL CHECK (amount_minor > 0),
  currency_code TEXT NOT NULL,
  creditor_name TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  debtor_iban TEXT NOT NULL,
  description TEXT NOT NULL,
  execute_on TEXT,
  return_to TEXT,
  plan TEXT NOT NULL,
  position INTEGER NOT NULL,
  next_at INTEGER,
  status TEXT NOT NULL,
  raw_status TEXT NOT NULL,
  error_class TEXT,
  error_message TEXT,
  step TEXT NOT NULL CHECK (step = 'login' OR step = 'tan' OR step = 'confirm' OR step = 'done'),
  wrong_entries INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
, approval_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE schema_migrations (
  version BIGINT PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL);
INSERT INTO "schema_migrations" VALUES(1,'platform','2def0583076bcdfde0b3cbc1dc52411bcefd38a2288d77275ce6beff1c53c0d7',1794893611779663);
INSERT INTO "schema_migrations" VALUES(2,'append_only','faff1a1a42b6ba085ced1424fb91bd2bb17272a5677e3267fb330f764ff9affc',1794893611779663);
INSERT INTO "schema_migrations" VALUES(3,'ledger_connections','c53fe6782186fc209f842b26a2b71e455c1c5c70386b5f8927f3379a563d0546',1794893611779663);
INSERT INTO "schema_migrations" VALUES(4,'books','7b9a09c469ed07ab73b4bf669ba6ae5b0192a984bb7e9caf10d50b348979d328',1794893611779663);
INSERT INTO "schema_migrations" VALUES(5,'books_append_only','4d1701a0b59b3a1159d4bf98c755eaeb2049f3d8e9a48745f28a85f297580fb4',1794893611779663);
INSERT INTO "schema_migrations" VALUES(6,'books_answers','0e586ac830c91a0fa8a318630321e168852b2e83319caee9a51b81c31ded3611',1794893611779663);
INSERT INTO "schema_migrations" VALUES(7,'banking','bc00ebfd0483e42f76def1308ce8e7b8a296d67c31e59cd28dda8be6ea3f0cfb',1794893611779663);
INSERT INTO "schema_migrations" VALUES(8,'sandbox','7116b5c5efea31629000dd038547116f765fc4c6d6377ef73f7a9a3c640a7ccd',1794893611779663);
INSERT INTO "schema_migrations" VALUES(9,'webhooks','c93205a9e7774ef9a9a75056becaed8ffe62ac1e1c0f59ce51b7b88379aaebe1',1794893611779663);
INSERT INTO "schema_migrations" VALUES(10,'mobility','0d56ee8576ed897bfed730a5e8a3cefa00a6e0bab47cb3a678f43aeef32672d9',1794893611779663);
INSERT INTO "schema_migrations" VALUES(11,'mobility_append_only','901244dafb40a3c15188cc9a5116c29b7e0a4f4dd048e933284950650386aed8',1794893611779663);
INSERT INTO "schema_migrations" VALUES(12,'tasks','c1a5fcab10accbf7757b429860012f35c8f196a3fbce06ec67676ff5e043c73c',1794893611779663);
INSERT INTO "schema_migrations" VALUES(13,'books_splits','45d72c0ed8c411107c5f9826c533ce24f8b112a52bfdf181aff1bb1a749d2ce7',1794893611779663);
INSERT INTO "schema_migrations" VALUES(14,'books_openings','516d6b46c056b88b940d50d0481d962633123372296635471a7de449b825c741',1794893611779663);
INSERT INTO "schema_migrations" VALUES(15,'order_files','fcc4a488e10ddb98102607e6e2fc156159c027096f202aed959166cf847f0492',1794893611779663);
INSERT INTO "schema_migrations" VALUES(16,'books_receipts','183d1be60b22d8c95e1a05f2db0fcfdf642d19cc26e8f66c3260126f3ef7ba0b',1794893611779663);
INSERT INTO "schema_migrations" VALUES(17,'books_cash_accounts','2acb4357347ebdd3887bd59e84d4f3a29a35a1366c6d265d705888818bde261d',1794893611779663);
INSERT INTO "schema_migrations" VALUES(18,'statement_spans','09b808f6ab39eb073d7c27a7d194ab83326e767d38d0abaa63c674dad32a683a',1794893611779663);
INSERT INTO "schema_migrations" VALUES(19,'statement_bookings','81f9b66ce14fe534b39feb7ab106cfaa8c135937e6225bb60dd06615dc0df343',1794893611779663);
INSERT INTO "schema_migrations" VALUES(20,'batches','32386203dea894b8d8f048e9162fe889dadcd2ae50b17009f251b239b0ceddd4',1794893611779663);
INSERT INTO "schema_migrations" VALUES(21,'statement_imports','0e202218a276a8b7e011a91ec7a1ec756d0a447ac9391923dce76066a12fc616',1794893611779663);
INSERT INTO "schema_migrations" VALUES(22,'several_orders','663837cce5a2cb1c0f3ccf7a9cfdf81e3fee04c040f75476eb0cdbf15521ab6e',1794893611779663);
INSERT INTO "schema_migrations" VALUES(23,'browser_sessions','14bd96cd26771b81bb4aba26bccc57c7ef2bb36601dff9880eea74b648ddf241',1794893611779663);
INSERT INTO "schema_migrations" VALUES(24,'sandbox_approvals','cfca1a5c362e6da12857448fe76ca9f3129a199674f815e083e051711746a625',1794893611779663);
INSERT INTO "schema_migrations" VALUES(25,'key_rights','8a701f35d0605aee59eea4d2f33beec57bfe03da9561113f370e586d4ffaaec2',1794893611779663);
INSERT INTO "schema_migrations" VALUES(26,'second_factors','9b0d3e70bf555620faa3723968f05b134589fc81eb3f19e8d850c0df4296cce4',1794893611779663);
INSERT INTO "schema_migrations" VALUES(27,'sign_in','e9b1aec251fc538c6bd4240ef030e730f2fe34480f95f1e1c5ef17bda4cc04ff',1794893611779663);
INSERT INTO "schema_migrations" VALUES(28,'webhook_receivers','0a901d816728422f0dcb14c5172a32fa51fbc23eda417ceb7a627d3452000fc3',1794893611779663);
INSERT INTO "schema_migrations" VALUES(29,'payment_term_rows','4259dfabc53fa0a855e0fe7e3dc8c86ca26968474480e40408cb8c633e5732fe',1794893611779663);
INSERT INTO "schema_migrations" VALUES(30,'document_tries','b26f319764f52f181718c530f9dee40dcf4f35e4c014e2548e93cbd118e1487d',1794893611779663);
INSERT INTO "schema_migrations" VALUES(31,'claims','adaca8eaca8495b0ea5a6eea1de260267560dac6c22c2fd3ce5db59e5b3e657d',1794893611779663);
INSERT INTO "schema_migrations" VALUES(32,'owners','833bc27eff132f41d25b69c685c7c4f7e8c053d23eaa4ba69d4626a0f3debe81',1794893611779663);
INSERT INTO "schema_migrations" VALUES(33,'request_log','25be50b7bee517c9d6ebbaf7dd2186154d78ad1ea70567ff8d6a27ef5d04b6c7',1794893611779663);
INSERT INTO "schema_migrations" VALUES(34,'books_by_account','91b929bc36f7a1a364e103314fca5285a3e1b180379ad92151ad8f0b932a142c',1794893611779663);
INSERT INTO "schema_migrations" VALUES(35,'failed_deliveries','9fed170b4acc83e552454b6a46add3e68675c73f58eda38f86bb16ec15e8ece3',1794893611779663);
INSERT INTO "schema_migrations" VALUES(36,'mobility_logos','7092a7aeaf925eb88fdb28d6ebadc8af8cc90a747c441a06a5d2d7ee36f30f21',1794893611779663);
INSERT INTO "schema_migrations" VALUES(37,'bank_providers','66c0f564b023007452cc4255f82cd5c3ec6a32c2dbc576b7f10692883f375c17',1794893611779663);
INSERT INTO "schema_migrations" VALUES(38,'bank_interactions','62bad713ccd5ac6aa865bf220964f1d383236194082053d8a48532f9fce8c600',1794893611779663);
INSERT INTO "schema_migrations" VALUES(39,'reconciliation','e0018d2c09a2966ae4e742d5c48a0284695763c19dbb006c873fa9ea5005ae38',1794893611779663);
INSERT INTO "schema_migrations" VALUES(40,'reconciliation_adds_up','e4f9348528be1339bcc71369da7b00a35f5639abb07b15d053b9f0d7ce7db252',1794893611779663);
INSERT INTO "schema_migrations" VALUES(41,'fints','e59be22dda41f310360d162224dd0a0916d3cc8e7c7cda42055875f8b19b6cca',1794893611779663);
INSERT INTO "schema_migrations" VALUES(42,'bank_returns','d7d806daaed17885e1057605902de1b175279d51d43f3c5d38a06c4a0104e292',1794893611779663);
INSERT INTO "schema_migrations" VALUES(43,'books_due_dates','a708fc34950c5017bc6f6576a4c883b94a363c80bebe677ba26c0d2b923e1d59',1794893611779663);
INSERT INTO "schema_migrations" VALUES(44,'enable_banking','894ced487977dacd198d194d39f31ead6f70cb12aa97997f9b915421d347ef10',1794893611779663);
INSERT INTO "schema_migrations" VALUES(45,'reconciliation_batches','3182796d45c35143648ceb35428c24d7c43358ef484cd237b79d248cb3a3ee6c',1794893611779663);
INSERT INTO "schema_migrations" VALUES(46,'reconciliation_booked','fbdda6142971f8cece4f4cd215329ea9c823544d714d466c1b531949ef994a75',1794893611779663);
INSERT INTO "schema_migrations" VALUES(47,'untold_balances','eb2d46d711aadeec081c26b5fbf18aef54e3620225df5fe521b212843d95a363',1794893611779663);
INSERT INTO "schema_migrations" VALUES(48,'unsent_payments','c23c39c44a8896def7efc1a29d4049c0aeb7a4cfd21b1f4db0381b5fb0214af8',1794893611779663);
INSERT INTO "schema_migrations" VALUES(49,'books_editions','51e77e8c6a1b7df9734d4fa18fc654b5881751177f5aeb6b638ed4f8fdd9b4ae',1794893611779663);
INSERT INTO "schema_migrations" VALUES(50,'open_holds','4d796d837b7c0cd6342ec11f85181d3f72d910da89285758d432fb0d0ef75285',1794893611779663);
INSERT INTO "schema_migrations" VALUES(51,'undone_in_slices','d53430337d3b11b1bcb20129e36987651b590b087a08fdffc02dbeeef2000d0d',1794893611779663);
CREATE TABLE sessions (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  ip TEXT NOT NULL, device TEXT NOT NULL DEFAULT '', idle_until INTEGER, confirmed_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE sign_in_attempts (
  subject TEXT PRIMARY KEY,
  attempts INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sign_in_challenges (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  organization_id TEXT,
  user_id TEXT,
  value BLOB NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE sign_in_places (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  place TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, user_id, place),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_counts (
  organization_id TEXT NOT NULL,
  day TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  calls INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  credits INTEGER NOT NULL,
  PRIMARY KEY (organization_id, day, endpoint, api_key_id, quelle)
) STRICT, WITHOUT ROWID;
CREATE TABLE user_factors (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'totp' OR kind = 'passkey'),
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER,
  credential_id TEXT,
  public_key BLOB,
  counter INTEGER NOT NULL,
  secret BLOB,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE users (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  password_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_attempts (
  organization_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  receiver_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  milliseconds INTEGER NOT NULL,
  status INTEGER,
  reason TEXT,
  PRIMARY KEY (organization_id, sequence, receiver_id, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_deliveries (
  organization_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  receiver_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'pending' OR state = 'delivered' OR state = 'failed' OR state = 'cancelled'),
  attempts INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  settled_at INTEGER,
  PRIMARY KEY (organization_id, sequence, receiver_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_events (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sequence INTEGER NOT NULL,
  id TEXT NOT NULL,
  event TEXT NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL,
  received_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_lanes (
  organization_id TEXT NOT NULL,
  receiver_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  head INTEGER NOT NULL,
  next_at INTEGER NOT NULL,
  owner TEXT,
  PRIMARY KEY (organization_id, receiver_id, subject)
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_logs (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  last_sequence INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE webhook_receivers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  url TEXT,
  state TEXT NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'gone' OR state = 'none'),
  events TEXT,
  description TEXT,
  secret BLOB,
  previous_secret BLOB,
  previous_until INTEGER,
  failing_since INTEGER,
  stopped_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (organization_id, id),
  CHECK ((url IS NULL) = (state = 'none')),
  CHECK ((url IS NULL) = (secret IS NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX users_by_email ON users (email);
CREATE UNIQUE INDEX sessions_by_token ON sessions (token_hash);
CREATE INDEX sessions_by_user ON sessions (organization_id, user_id);
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_hash);
CREATE UNIQUE INDEX api_keys_by_token ON api_keys (token_hash);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER credit_movements_no_update BEFORE UPDATE ON credit_movements BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
CREATE TRIGGER credit_movements_no_delete BEFORE DELETE ON credit_movements BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
CREATE UNIQUE INDEX books_clients_by_number ON books_clients (mandant);
CREATE INDEX books_bookings_by_year ON books_bookings (mandant, jahr, id);
CREATE UNIQUE INDEX books_receipts_by_id ON books_receipts (mandant, id);
CREATE TRIGGER books_bookings_no_update BEFORE UPDATE ON books_bookings BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
CREATE TRIGGER books_cash_entries_no_update BEFORE UPDATE ON books_cash_entries BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_cash_entries_no_delete BEFORE DELETE ON books_cash_entries BEGIN SELECT RAISE(ABORT, 'books_cash_entries is append-only'); END;
CREATE TRIGGER books_person_history_no_update BEFORE UPDATE ON books_person_history BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_person_history_no_delete BEFORE DELETE ON books_person_history BEGIN SELECT RAISE(ABORT, 'books_person_history is append-only'); END;
CREATE TRIGGER books_tasks_no_update BEFORE UPDATE ON books_tasks BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
CREATE TRIGGER books_tasks_no_delete BEFORE DELETE ON books_tasks BEGIN SELECT RAISE(ABORT, 'books_tasks is append-only'); END;
CREATE INDEX books_items_open ON books_items (edition, is_open, konto, beleg, soll, haben, belegdatum, buchungstext) WHERE is_open = 1;
CREATE UNIQUE INDEX banking_counters_by_number ON banking_counters (number);
CREATE UNIQUE INDEX banking_connect_flows_by_token ON banking_connect_flows (pending_token);
CREATE INDEX banking_connect_flows_by_age ON banking_connect_flows (created_at);
CREATE UNIQUE INDEX banking_accounts_by_provider ON banking_accounts (organization_id, connection_id, provider_ref);
CREATE INDEX banking_transactions_by_day ON banking_transactions (account_id, made_on, id);
CREATE INDEX banking_transactions_by_ref ON banking_transactions (account_id, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_transactions_by_change ON banking_transactions (account_id, last_change);
CREATE INDEX banking_transactions_by_end_to_end ON banking_transactions (account_id, end_to_end_id) WHERE end_to_end_id IS NOT NULL;
CREATE INDEX banking_transactions_pending ON banking_transactions (account_id, amount_minor) WHERE status = 'pending';
CREATE UNIQUE INDEX banking_statements_by_identity ON banking_statements (account_id, identity);
CREATE UNIQUE INDEX banking_payments_by_end_to_end ON banking_payments (organization_id, end_to_end_id);
CREATE UNIQUE INDEX banking_payments_by_provider ON banking_payments (provider, provider_ref) WHERE provider_ref IS NOT NULL;
CREATE INDEX banking_payments_by_age ON banking_payments (organization_id, created_at);
CREATE INDEX banking_payments_by_key ON banking_payments (payer_organization_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX banking_payments_to_poll ON banking_payments (next_poll_at) WHERE next_poll_at IS NOT NULL;
CREATE INDEX banking_inbox_waiting ON banking_inbox (next_attempt_at) WHERE state = 'received';
CREATE INDEX banking_inbox_by_age ON banking_inbox (received_at);
CREATE INDEX banking_removals_waiting ON banking_removals (next_attempt_at);
CREATE INDEX sandbox_flows_by_age ON sandbox_flows (expires_at);
CREATE INDEX sandbox_connections_to_answer ON sandbox_connections (answer_at) WHERE answer_at IS NOT NULL;
CREATE INDEX sandbox_connections_ended ON sandbox_connections (ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX sandbox_accounts_by_ref ON sandbox_accounts (ref);
CREATE INDEX sandbox_accounts_by_iban ON sandbox_accounts (iban) WHERE iban IS NOT NULL;
CREATE INDEX sandbox_bookings_by_day ON sandbox_bookings (account_ref, made_on);
CREATE INDEX sandbox_bookings_pending ON sandbox_bookings (account_ref) WHERE status = 'pending';
CREATE UNIQUE INDEX sandbox_payments_by_token ON sandbox_payments (token);
CREATE UNIQUE INDEX sandbox_payments_by_end_to_end ON sandbox_payments (connection_ref, end_to_end_id);
CREATE INDEX sandbox_payments_by_number ON sandbox_payments (end_to_end_id);
CREATE INDEX sandbox_payments_to_advance ON sandbox_payments (next_at) WHERE next_at IS NOT NULL;
CREATE UNIQUE INDEX sandbox_deliveries_by_id ON sandbox_deliveries (id);
CREATE INDEX sandbox_deliveries_waiting ON sandbox_deliveries (number) WHERE state = 'waiting';
CREATE INDEX sandbox_deliveries_by_age ON sandbox_deliveries (created_at);
CREATE UNIQUE INDEX webhook_events_by_id ON webhook_events (organization_id, id);
CREATE INDEX webhook_events_by_subject ON webhook_events (organization_id, subject, sequence);
CREATE INDEX webhook_events_by_age ON webhook_events (received_at);
CREATE UNIQUE INDEX mobility_customers_by_number ON mobility_customers (organization_id, customer_number);
CREATE UNIQUE INDEX mobility_customers_by_platform_id ON mobility_customers (organization_id, mobility_customer_id);
CREATE INDEX mobility_tickets_of_customer ON mobility_tickets (organization_id, customer_id, valid_from, id);
CREATE INDEX mobility_tickets_to_bill ON mobility_tickets (organization_id, customer_id) WHERE status = 'open' OR status = 'cancelled';
CREATE UNIQUE INDEX mobility_tickets_by_reference ON mobility_tickets (organization_id, customer_id, reference);
CREATE UNIQUE INDEX mobility_invoices_by_number ON mobility_invoices (organization_id, invoice_number);
CREATE INDEX mobility_invoices_by_day ON mobility_invoices (organization_id, issued_on, id);
CREATE TRIGGER mobility_invoices_no_update BEFORE UPDATE ON mobility_invoices BEGIN SELECT RAISE(ABORT, 'mobility_invoices is append-only'); END;
CREATE TRIGGER mobility_invoices_no_delete BEFORE DELETE ON mobility_invoices BEGIN SELECT RAISE(ABORT, 'mobility_invoices is append-only'); END;
CREATE TRIGGER mobility_invoice_lines_no_update BEFORE UPDATE ON mobility_invoice_lines BEGIN SELECT RAISE(ABORT, 'mobility_invoice_lines is append-only'); END;
CREATE TRIGGER mobility_invoice_lines_no_delete BEFORE DELETE ON mobility_invoice_lines BEGIN SELECT RAISE(ABORT, 'mobility_invoice_lines is append-only'); END;
CREATE TRIGGER mobility_invoice_sums_no_update BEFORE UPDATE ON mobility_invoice_sums BEGIN SELECT RAISE(ABORT, 'mobility_invoice_sums is append-only'); END;
CREATE TRIGGER mobility_invoice_sums_no_delete BEFORE DELETE ON mobility_invoice_sums BEGIN SELECT RAISE(ABORT, 'mobility_invoice_sums is append-only'); END;
CREATE TRIGGER mobility_documents_no_update BEFORE UPDATE ON mobility_documents BEGIN SELECT RAISE(ABORT, 'mobility_documents is append-only'); END;
CREATE TRIGGER mobility_documents_no_delete BEFORE DELETE ON mobility_documents BEGIN SELECT RAISE(ABORT, 'mobility_documents is append-only'); END;
CREATE INDEX api_tasks_running ON api_tasks (lease_until) WHERE status = 'running';
CREATE INDEX api_tasks_finished ON api_tasks (finished_at) WHERE finished_at IS NOT NULL;
CREATE TRIGGER books_retaxed_no_update BEFORE UPDATE ON books_retaxed BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
CREATE TRIGGER books_retaxed_no_delete BEFORE DELETE ON books_retaxed BEGIN SELECT RAISE(ABORT, 'books_retaxed is append-only'); END;
CREATE INDEX books_receipt_filings_by_content ON books_receipt_filings (mandant, sha256);
CREATE INDEX books_cash_entries_by_task ON books_cash_entries (mandant, task);
CREATE TRIGGER books_receipts_no_update BEFORE UPDATE ON books_receipts BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipts_no_delete BEFORE DELETE ON books_receipts BEGIN SELECT RAISE(ABORT, 'books_receipts is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_update BEFORE UPDATE ON books_receipt_filings BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
CREATE TRIGGER books_receipt_filings_no_delete BEFORE DELETE ON books_receipt_filings BEGIN SELECT RAISE(ABORT, 'books_receipt_filings is append-only'); END;
CREATE INDEX banking_statement_spans_by_day ON banking_statement_spans (account_id, ends_on);
CREATE INDEX books_batches_by_sha256 ON books_batches (mandant, sha256);
CREATE UNIQUE INDEX books_batches_by_content ON books_batches (mandant, content) WHERE content <> '' AND undone_by = '';
CREATE INDEX books_bookings_by_day ON books_bookings (mandant, belegdatum);
CREATE INDEX banking_imports_by_age ON banking_imports (organization_id, created_at);
CREATE UNIQUE INDEX banking_order_files_by_message ON banking_order_files (organization_id, message_id);
CREATE INDEX sandbox_flows_to_approve ON sandbox_flows (approval_at) WHERE approval_at IS NOT NULL;
CREATE INDEX sandbox_payments_to_approve ON sandbox_payments (approval_at) WHERE approval_at IS NOT NULL;
CREATE INDEX banking_payments_by_maker ON banking_payments (payer_organization_id, first_key_id, created_at)
  WHERE first_key_id IS NOT NULL;
CREATE UNIQUE INDEX password_resets_by_token ON password_resets (token_hash);
CREATE INDEX password_resets_by_user ON password_resets (organization_id, user_id);
CREATE INDEX user_factors_by_user ON user_factors (organization_id, user_id);
CREATE UNIQUE INDEX user_factors_by_credential ON user_factors (credential_id) WHERE credential_id IS NOT NULL;
CREATE INDEX sign_in_challenges_by_age ON sign_in_challenges (expires_at);
CREATE INDEX sign_in_attempts_by_end ON sign_in_attempts (expires_at);
CREATE INDEX webhook_deliveries_of_lane ON webhook_deliveries (organization_id, receiver_id, subject, sequence)
  WHERE state = 'pending';
CREATE INDEX webhook_lanes_due_of_receiver ON webhook_lanes (organization_id, receiver_id, next_at);
CREATE INDEX webhook_lanes_of_owner ON webhook_lanes (owner) WHERE owner IS NOT NULL;
CREATE UNIQUE INDEX users_by_id ON users (id);
CREATE INDEX banking_connect_flows_by_user ON banking_connect_flows (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX books_bookings_by_konto ON books_bookings (mandant, jahr, konto, id);
CREATE INDEX books_bookings_by_gegenkonto ON books_bookings (mandant, jahr, gegenkonto, id);
CREATE INDEX books_clients_by_connection ON books_clients (connection_id, client_id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (organization_id, receiver_id, sequence) WHERE state = 'failed';
CREATE INDEX mobility_invoices_by_logo ON mobility_invoices (organization_id, logo_sha256) WHERE logo_sha256 IS NOT NULL;
CREATE UNIQUE INDEX banking_connections_by_provider ON banking_connections (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX banking_connections_by_owner ON banking_connections (organization_id, owner_user_id);
CREATE INDEX banking_connections_unfinished ON banking_connections (created_at) WHERE status = 'pending_connect';
CREATE INDEX banking_connections_by_user ON banking_connections (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX banking_connections_reconnecting ON banking_connections (refresh_started_at) WHERE status = 'pending';
CREATE UNIQUE INDEX banking_interactions_by_token ON banking_interactions (token_hash);
CREATE INDEX banking_interactions_by_age ON banking_interactions (expires_at);
CREATE INDEX recon_proposals_by_transaction ON recon_proposals (organization_id, transaction_id, state, place);
CREATE UNIQUE INDEX recon_lines_by_item ON recon_lines (organization_id, match_id, konto, beleg) WHERE kind = 'posten';
CREATE INDEX recon_lines_of_item ON recon_lines (organization_id, konto, beleg);
CREATE UNIQUE INDEX recon_undos_by_match ON recon_undos (organization_id, match_id);
CREATE UNIQUE INDEX recon_matches_live ON recon_matches (organization_id, transaction_id) WHERE undo_id IS NULL;
CREATE INDEX recon_matches_by_transaction ON recon_matches (organization_id, transaction_id, id);
CREATE INDEX recon_matches_by_client ON recon_matches (organization_id, connection_id, client_id, id);
CREATE INDEX recon_matches_by_account ON recon_matches (organization_id, account_id, made_on);
CREATE UNIQUE INDEX recon_learned_by_value ON recon_learned (organization_id, connection_id, client_id, kind, value, konto);
CREATE TRIGGER recon_matches_add_up BEFORE INSERT ON recon_matches
WHEN NEW.amount_minor IS NOT (SELECT SUM(amount_minor) FROM recon_lines
    WHERE organization_id = NEW.organization_id AND match_id = NEW.id)
  OR NEW.amount_minor IS NOT (SELECT amount_minor FROM banking_transactions
    WHERE account_id = NEW.account_id AND id = NEW.transaction_id AND status = 'posted')
BEGIN SELECT RAISE(ABORT, 'the lines of a match must sum to its transaction'); END;
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON recon_lines
WHEN EXISTS (SELECT 1 FROM recon_matches WHERE organization_id = NEW.organization_id AND id = NEW.match_id)
BEGIN SELECT RAISE(ABORT, 'a match that stands gets no more lines'); END;
CREATE TRIGGER recon_matches_undone_once BEFORE UPDATE ON recon_matches WHEN OLD.undo_id IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;
CREATE TRIGGER recon_matches_no_update BEFORE UPDATE OF organization_id, id, transaction_id, account_id, connection_id, client_id,
  proposal_id, evidence, engine_version, made_on, amount_minor, payer, iban, end_to_end_id, mandate, bank_reference, made_by, made_at
ON recon_matches BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;
CREATE TRIGGER recon_matches_no_delete BEFORE DELETE ON recon_matches BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;
CREATE TRIGGER recon_lines_no_update BEFORE UPDATE ON recon_lines BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
CREATE TRIGGER recon_lines_no_delete BEFORE DELETE ON recon_lines BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
CREATE TRIGGER recon_undos_no_update BEFORE UPDATE ON recon_undos BEGIN SELECT RAISE(ABORT, 'recon_undos is append-only'); END;
CREATE TRIGGER recon_undos_no_delete BEFORE DELETE ON recon_undos BEGIN SELECT RAISE(ABORT, 'recon_undos is append-only'); END;
CREATE UNIQUE INDEX fints_logins_by_ref ON fints_logins (ref);
CREATE INDEX books_bookings_due ON books_bookings (belegfeld1, mandant) WHERE weitere LIKE '%"117":%';
CREATE UNIQUE INDEX enable_banking_sessions_by_ref ON enable_banking_sessions (ref);
CREATE UNIQUE INDEX enable_banking_sessions_by_token ON enable_banking_sessions (pending_token);
CREATE INDEX recon_batches_by_account ON recon_batches (organization_id, account_id, id);
CREATE INDEX recon_transactions_by_state ON recon_transactions (organization_id, account_id, state, id);
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON books_bookings
  WHEN OLD.id <= COALESCE((SELECT last_buchung FROM books_clients WHERE mandant = OLD.mandant), OLD.id)
  BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
CREATE INDEX credit_holds_by_expiry ON credit_holds (expires_at);
CREATE INDEX credit_accounts_by_lapse ON credit_accounts (next_lapse_at) WHERE next_lapse_at IS NOT NULL;
COMMIT;
