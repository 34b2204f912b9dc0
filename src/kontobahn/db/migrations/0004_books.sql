-- The built-in books: double-entry ledgers of clients (Mandanten), and the read models kept in the writing transaction.
-- Everything below a client leads with its number, which implies the organisation. Dates are ISO texts, amounts are cents;
-- SOLL is positive, HABEN negative. Account numbers have the technical length: 8 digits, 9 for person accounts.

CREATE TABLE books_clients (
  organization_id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  mandant BIGINT NOT NULL,
  bezeichnung TEXT NOT NULL,
  kontenrahmen TEXT NOT NULL,
  konto_laenge SMALLINT NOT NULL CHECK (konto_laenge BETWEEN 4 AND 8),
  is_default SMALLINT NOT NULL CHECK (is_default = 0 OR is_default = 1),
  last_buchung BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id),
  FOREIGN KEY (organization_id, connection_id) REFERENCES ledger_connections (organization_id, id)
);
CREATE UNIQUE INDEX books_clients_by_number ON books_clients (mandant);

CREATE TABLE books_subscriptions (
  mandant BIGINT NOT NULL,
  name TEXT NOT NULL,
  PRIMARY KEY (mandant, name)
);

-- Rights are there unless taken away.
CREATE TABLE books_denied_rights (
  mandant BIGINT NOT NULL,
  bereich TEXT NOT NULL,
  PRIMARY KEY (mandant, bereich)
);

CREATE TABLE books_years (
  mandant BIGINT NOT NULL,
  jahr TEXT NOT NULL,
  ende TEXT NOT NULL,
  has_eb SMALLINT NOT NULL CHECK (has_eb = 0 OR has_eb = 1),
  PRIMARY KEY (mandant, jahr)
);

CREATE TABLE books_accounts (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  beschriftung TEXT NOT NULL,
  PRIMARY KEY (mandant, konto)
);

CREATE TABLE books_payment_terms (
  mandant BIGINT NOT NULL,
  nummer BIGINT NOT NULL,
  wire TEXT NOT NULL,
  PRIMARY KEY (mandant, nummer)
);

CREATE TABLE books_folders (
  mandant BIGINT NOT NULL,
  ordnertyp TEXT NOT NULL CHECK (ordnertyp = 'EINGANGSRECHNUNG' OR ordnertyp = 'AUSGANGSRECHNUNG'),
  bezeichnung TEXT NOT NULL,
  PRIMARY KEY (mandant, ordnertyp, bezeichnung)
);

CREATE TABLE books_document_types (
  mandant BIGINT NOT NULL,
  bezeichnung TEXT NOT NULL,
  kategorie TEXT NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
);

-- What was brought in at once; the checksum over the rows keeps a file from being taken twice.
CREATE TABLE books_batches (
  mandant BIGINT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  source TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  bezeichnung TEXT NOT NULL,
  records BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (mandant, id)
);
CREATE UNIQUE INDEX books_batches_by_content ON books_batches (mandant, sha256);

-- A booking as it was entered: gross, with its tax key. Its legs follow from it by one rule (kontierung.py).
CREATE TABLE books_bookings (
  mandant BIGINT NOT NULL,
  id BIGINT NOT NULL,
  jahr TEXT NOT NULL,
  periode SMALLINT NOT NULL CHECK (periode BETWEEN 0 AND 14),
  batch TEXT NOT NULL,
  umsatz BIGINT NOT NULL,
  soll SMALLINT NOT NULL CHECK (soll = 0 OR soll = 1),
  waehrung TEXT NOT NULL,
  kurs TEXT NOT NULL,
  basis_umsatz BIGINT,
  konto TEXT NOT NULL,
  gegenkonto TEXT NOT NULL,
  bu_schluessel TEXT NOT NULL,
  belegdatum TEXT NOT NULL,
  belegfeld1 TEXT NOT NULL,
  belegfeld2 TEXT NOT NULL,
  skonto BIGINT NOT NULL,
  buchungstext TEXT NOT NULL,
  kost1 TEXT NOT NULL,
  kost2 TEXT NOT NULL,
  generalumkehr SMALLINT NOT NULL CHECK (generalumkehr = 0 OR generalumkehr = 1),
  weitere TEXT NOT NULL,
  PRIMARY KEY (mandant, id)
);
CREATE INDEX books_bookings_by_year ON books_bookings (mandant, jahr, id);

-- Read model of the trial balance; period 0 is the opening balance.
CREATE TABLE books_periods (
  mandant BIGINT NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  periode SMALLINT NOT NULL,
  soll BIGINT NOT NULL,
  haben BIGINT NOT NULL,
  PRIMARY KEY (mandant, jahr, konto, periode)
);

-- Read model of the open items: what each document comes to, without opening balances.
CREATE TABLE books_items (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  soll BIGINT NOT NULL,
  haben BIGINT NOT NULL,
  is_open SMALLINT NOT NULL CHECK (is_open = 0 OR is_open = 1),
  belegdatum TEXT NOT NULL,
  buchungstext TEXT NOT NULL,
  -- The item as a call answers it, up to its balance: a list is these texts joined.
  wire TEXT NOT NULL,
  PRIMARY KEY (mandant, konto, beleg)
);
-- Holds the open ones only, and all that is asked of them: the cost of a list is the length of the list.
CREATE INDEX books_items_open ON books_items (mandant, is_open, konto, beleg, soll, haben, wire) WHERE is_open = 1;

-- The movements behind the items, by date, to go back to an earlier cut-off.
CREATE TABLE books_item_moves (
  mandant BIGINT NOT NULL,
  belegdatum TEXT NOT NULL,
  booking BIGINT NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  betrag BIGINT NOT NULL,
  PRIMARY KEY (mandant, belegdatum, booking, konto)
);

-- A person account in a year: its opening balance and the sum of its movements.
CREATE TABLE books_item_years (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  jahr TEXT NOT NULL,
  eb BIGINT NOT NULL,
  eb_text TEXT NOT NULL,
  bewegung BIGINT NOT NULL,
  PRIMARY KEY (mandant, konto, jahr)
);

-- What the opening balance of a carried year holds beyond the documents of the years before; only where that is not nothing.
CREATE TABLE books_carry_rests (
  mandant BIGINT NOT NULL,
  jahr TEXT NOT NULL,
  konto TEXT NOT NULL,
  rest BIGINT NOT NULL,
  PRIMARY KEY (mandant, jahr, konto)
);

CREATE TABLE books_persons (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  version BIGINT NOT NULL,
  record TEXT NOT NULL,
  extf TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT,
  PRIMARY KEY (mandant, konto)
);

CREATE TABLE books_person_history (
  mandant BIGINT NOT NULL,
  konto TEXT NOT NULL,
  version BIGINT NOT NULL,
  record TEXT NOT NULL,
  replaced_at BIGINT NOT NULL,
  PRIMARY KEY (mandant, konto, version)
);

CREATE TABLE books_cash_books (
  mandant BIGINT NOT NULL,
  bezeichnung TEXT NOT NULL,
  konto TEXT NOT NULL,
  last_nummer BIGINT NOT NULL,
  last_hash TEXT NOT NULL,
  saldo BIGINT NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
);

-- One entry a line, numbered without gaps in the order of entry, chained by hash, never changed.
CREATE TABLE books_cash_entries (
  mandant BIGINT NOT NULL,
  kassenname TEXT NOT NULL,
  nummer BIGINT NOT NULL,
  task TEXT NOT NULL,
  booking BIGINT NOT NULL,
  datum TEXT NOT NULL,
  betrag BIGINT NOT NULL,
  storno_von BIGINT,
  record TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (mandant, kassenname, nummer)
);

-- Movement of a cash book by day, to see that no day ends below nothing.
CREATE TABLE books_cash_days (
  mandant BIGINT NOT NULL,
  kassenname TEXT NOT NULL,
  datum TEXT NOT NULL,
  bewegung BIGINT NOT NULL,
  PRIMARY KEY (mandant, kassenname, datum)
);

CREATE TABLE books_receipts (
  mandant BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  id TEXT NOT NULL,
  task TEXT NOT NULL,
  dateiname TEXT NOT NULL,
  groesse BIGINT NOT NULL,
  mime_typ TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  content BYTEA NOT NULL,
  PRIMARY KEY (mandant, sha256)
);
CREATE UNIQUE INDEX books_receipts_by_id ON books_receipts (mandant, id);

-- The protocol of every write, as the ledger kept it.
CREATE TABLE books_tasks (
  mandant BIGINT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  meldungen TEXT NOT NULL,
  request_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (mandant, id)
);

CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);
