-- The built-in books: double-entry ledgers of clients (Mandanten), and the read models kept in the writing transaction.
--
-- Everything below a client leads with its number (mandant), which implies the organisation; read models lead with the client's
-- edition. Dates are ISO texts, amounts are cents; SOLL is positive, HABEN negative. Account numbers have the technical length:
-- 8 digits, 9 for person accounts.
--
-- COLLATE "C": texts are compared byte by byte, as SQLite does anyway, whatever language a PostgreSQL database was made for. Order is
-- part of the answers.

-- The last number given to a client, over all organisations.
CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value BIGINT NOT NULL
);

CREATE TABLE books_clients (
  organization_id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT COLLATE "C" NOT NULL,
  mandant BIGINT NOT NULL,
  bezeichnung TEXT COLLATE "C" NOT NULL,
  kontenrahmen TEXT COLLATE "C" NOT NULL,
  konto_laenge SMALLINT NOT NULL CHECK (konto_laenge BETWEEN 4 AND 8),
  is_default SMALLINT NOT NULL CHECK (is_default = 0 OR is_default = 1),
  last_buchung BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  -- A large file is written in slices that nobody sees until this row says so: bookings and movements count up to last_buchung, and
  -- the read models of the client are those of its edition, so that a new one can be made beside it.
  edition BIGINT NOT NULL DEFAULT 0,
  -- The bookings of a large batch that was undone: its movements no longer count and are being deleted. 0 if there is none.
  undone_from BIGINT NOT NULL DEFAULT 0,
  undone_to BIGINT NOT NULL DEFAULT 0,
  -- How the client's sales are taxed: when they are invoiced, when they are paid, or not at all.
  versteuerung TEXT NOT NULL DEFAULT 'soll'
    CHECK (versteuerung = 'soll' OR versteuerung = 'ist' OR versteuerung = 'kleinunternehmer'),
  PRIMARY KEY (organization_id, connection_id, client_id),
  FOREIGN KEY (organization_id, connection_id) REFERENCES ledger_connections (organization_id, id)
);
CREATE UNIQUE INDEX books_clients_by_number ON books_clients (mandant);
-- For pages: these know the connection, which was found in the caller's scope, and the client's id there.
CREATE INDEX books_clients_by_connection ON books_clients (connection_id, client_id);

CREATE TABLE books_subscriptions (
  mandant BIGINT NOT NULL,
  name TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, name)
);

-- Rights are there unless taken away.
CREATE TABLE books_denied_rights (
  mandant BIGINT NOT NULL,
  bereich TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, bereich)
);

CREATE TABLE books_years (
  mandant BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  ende TEXT COLLATE "C" NOT NULL,
  has_eb SMALLINT NOT NULL CHECK (has_eb = 0 OR has_eb = 1),
  PRIMARY KEY (mandant, jahr)
);

CREATE TABLE books_accounts (
  mandant BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  beschriftung TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, konto)
);

CREATE TABLE books_payment_terms (
  mandant BIGINT NOT NULL,
  nummer BIGINT NOT NULL,
  wire TEXT COLLATE "C" NOT NULL,
  -- The row of the file that the terms came from: an export writes it again. Empty if they came otherwise.
  extf TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, nummer)
);

CREATE TABLE books_folders (
  mandant BIGINT NOT NULL,
  ordnertyp TEXT COLLATE "C" NOT NULL CHECK (ordnertyp = 'EINGANGSRECHNUNG' OR ordnertyp = 'AUSGANGSRECHNUNG'),
  bezeichnung TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, ordnertyp, bezeichnung)
);

CREATE TABLE books_document_types (
  mandant BIGINT NOT NULL,
  bezeichnung TEXT COLLATE "C" NOT NULL,
  kategorie TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
);

-- Master data of person accounts. `extf` is the row of the file that it came from: an export writes it again.
CREATE TABLE books_persons (
  mandant BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  record TEXT COLLATE "C" NOT NULL,
  extf TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT,
  PRIMARY KEY (mandant, konto)
);

-- Earlier versions of person accounts. Only grows.
CREATE TABLE books_person_history (
  mandant BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  version BIGINT NOT NULL,
  record TEXT COLLATE "C" NOT NULL,
  replaced_at BIGINT NOT NULL,
  PRIMARY KEY (mandant, konto, version)
);

-- Bookings that were brought in at once, with their author, their protocol, and the batch that took them back.
CREATE TABLE books_batches (
  mandant BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  source TEXT COLLATE "C" NOT NULL,
  sha256 TEXT COLLATE "C" NOT NULL,
  bezeichnung TEXT COLLATE "C" NOT NULL,
  records BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL DEFAULT '',
  author TEXT COLLATE "C" NOT NULL DEFAULT '',
  -- A checksum over the rows as they were read, whatever their order and spelling. Empty for batches that are no file.
  content TEXT COLLATE "C" NOT NULL DEFAULT '',
  known BIGINT NOT NULL DEFAULT 0,
  refused BIGINT NOT NULL DEFAULT 0,
  warnings BIGINT NOT NULL DEFAULT 0,
  -- Its bookings have numbers without gaps. 0 where it has none.
  first_booking BIGINT NOT NULL DEFAULT 0,
  last_booking BIGINT NOT NULL DEFAULT 0,
  undoes TEXT COLLATE "C" NOT NULL DEFAULT '',
  undone_by TEXT COLLATE "C" NOT NULL DEFAULT '',
  protokoll TEXT COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, id)
);
CREATE INDEX books_batches_by_sha256 ON books_batches (mandant, sha256);
-- A file may come again once it was taken back, for what no longer stands of it.
CREATE INDEX books_batches_by_content ON books_batches (mandant, content) WHERE content <> '' AND undone_by = '';
-- Every call and every entry of a cash book is a batch: these are the few that are asked for.
CREATE INDEX books_batches_without_effect ON books_batches (mandant, id) WHERE undone_by <> '' OR undoes <> '';
CREATE INDEX books_batches_listed ON books_batches (mandant, id) WHERE kind <> 'kassenbuch';
CREATE INDEX books_batches_without_content ON books_batches (mandant) WHERE content = '' AND kind LIKE 'extf %';

-- A booking as it was entered: gross, with its tax key. Its legs follow from it by one rule (kontierung.py). Never changed: mistakes
-- are taken back by their opposite.
CREATE TABLE books_bookings (
  mandant BIGINT NOT NULL,
  id BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  periode SMALLINT NOT NULL CHECK (periode BETWEEN 0 AND 14),
  batch TEXT COLLATE "C" NOT NULL,
  umsatz BIGINT NOT NULL,
  soll SMALLINT NOT NULL CHECK (soll = 0 OR soll = 1),
  waehrung TEXT COLLATE "C" NOT NULL,
  kurs TEXT COLLATE "C" NOT NULL,
  basis_umsatz BIGINT,
  konto TEXT COLLATE "C" NOT NULL,
  gegenkonto TEXT COLLATE "C" NOT NULL,
  bu_schluessel TEXT COLLATE "C" NOT NULL,
  belegdatum TEXT COLLATE "C" NOT NULL,
  belegfeld1 TEXT COLLATE "C" NOT NULL,
  belegfeld2 TEXT COLLATE "C" NOT NULL,
  skonto BIGINT NOT NULL,
  buchungstext TEXT COLLATE "C" NOT NULL,
  kost1 TEXT COLLATE "C" NOT NULL,
  kost2 TEXT COLLATE "C" NOT NULL,
  generalumkehr SMALLINT NOT NULL CHECK (generalumkehr = 0 OR generalumkehr = 1),
  weitere TEXT COLLATE "C" NOT NULL,
  -- Its split, decided when it was posted and read from here ever after.
  aufteilung TEXT COLLATE "C" NOT NULL DEFAULT '',
  -- The day that decides in which period its tax is declared, where the row names one (columns 116 and 115). Empty: the document's.
  steuertag TEXT COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (mandant, id)
);
CREATE INDEX books_bookings_by_year ON books_bookings (mandant, jahr, id);
-- For seeing whether a row looks booked already.
CREATE INDEX books_bookings_by_day ON books_bookings (mandant, belegdatum);
-- For seeing whether a booking was reversed.
CREATE INDEX books_bookings_reversals ON books_bookings (mandant, belegfeld1) WHERE generalumkehr = 1;
-- The bookings whose tax is declared in another period than that of their document, for the figures of that period.
CREATE INDEX books_bookings_by_tax_day ON books_bookings (mandant, steuertag) WHERE steuertag <> '';

-- The sheet of an account, in its order: the bookings that name it on either side. One of a split has those that are split so, to find
-- the bookings with a leg on an account of tax or discounts. A table and no index, so that a large file is written to both in their order:
-- its bookings by number, their places on sheets by sheet.
CREATE TABLE books_sheets (
  mandant BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  -- An account, or a split.
  blatt TEXT COLLATE "C" NOT NULL,
  periode SMALLINT NOT NULL,
  belegdatum TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  PRIMARY KEY (mandant, jahr, blatt, periode, belegdatum, booking)
);

-- Bookings that were taken back and made again because the rule of splitting had changed.
CREATE TABLE books_retaxed (
  mandant BIGINT NOT NULL,
  booking BIGINT NOT NULL,
  batch TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, booking)
);

-- Rows of a file that was taken without its refused ones: the mended file must not bring them again.
CREATE TABLE books_partial_rows (
  mandant BIGINT NOT NULL,
  batch TEXT COLLATE "C" NOT NULL,
  digest TEXT COLLATE "C" NOT NULL,
  kopf TEXT COLLATE "C" NOT NULL,
  times BIGINT NOT NULL,
  PRIMARY KEY (mandant, batch, digest)
);

-- Read model of the trial balance; period 0 is the opening balance.
CREATE TABLE books_periods (
  edition BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  periode SMALLINT NOT NULL,
  soll BIGINT NOT NULL,
  haben BIGINT NOT NULL,
  -- The legs behind it, without what was undone: a row without any is no row. From before they were counted, there are very many.
  anzahl BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (edition, jahr, konto, periode)
);

-- An account's line of a trial balance as a call answers it, after its label.
CREATE TABLE books_balances (
  edition BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  wire TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (edition, jahr, konto)
);

-- Read model of the open items: what each document comes to, without opening balances.
CREATE TABLE books_items (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  beleg TEXT COLLATE "C" NOT NULL,
  soll BIGINT NOT NULL,
  haben BIGINT NOT NULL,
  is_open SMALLINT NOT NULL CHECK (is_open = 0 OR is_open = 1),
  belegdatum TEXT COLLATE "C" NOT NULL,
  buchungstext TEXT COLLATE "C" NOT NULL,
  -- The tax of the document's invoice, by which a later discount is split. '*' where it has several.
  steuer TEXT COLLATE "C" NOT NULL DEFAULT '',
  -- The day of its first invoice, a blank, and the due date that this names or `~`; empty while there is none. The due date follows
  -- from it, whatever the document began with. A credit note that names a due date has a `~` before.
  rechnung TEXT COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (edition, konto, beleg)
);
-- Holds the open ones only, and all that is asked of them: the cost of a list is the length of the list.
CREATE INDEX books_items_open ON books_items (edition, is_open, konto, beleg, soll, haben, belegdatum, buchungstext, rechnung)
  WHERE is_open = 1;

-- Discounts of documents: the tax of the document that each was split by, and the split. If the invoice comes later, both change.
CREATE TABLE books_discounts (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  beleg TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  steuer TEXT COLLATE "C" NOT NULL,
  aufteilung TEXT COLLATE "C" NOT NULL,
  -- The split that the booking was posted with.
  gebucht TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (edition, konto, beleg, booking)
);
-- Those that are split otherwise than they were posted, for the sheets of accounts.
CREATE INDEX books_discounts_changed ON books_discounts (edition, aufteilung, booking) WHERE aufteilung <> gebucht;

-- An account with open items as a call answers it: one row of text, written anew when the account is booked on.
CREATE TABLE books_open_accounts (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  saldo BIGINT NOT NULL,
  -- After its number and label. Empty where it has more than a thousand open items.
  wire TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (edition, konto)
);

-- The movements behind the items, by date, to go back to an earlier cut-off.
CREATE TABLE books_item_moves (
  mandant BIGINT NOT NULL,
  belegdatum TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  beleg TEXT COLLATE "C" NOT NULL,
  betrag BIGINT NOT NULL,
  PRIMARY KEY (mandant, belegdatum, booking, konto)
);

-- A person account in a year: its opening balance and the sum of its movements.
CREATE TABLE books_item_years (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  eb BIGINT NOT NULL,
  eb_text TEXT COLLATE "C" NOT NULL,
  bewegung BIGINT NOT NULL,
  PRIMARY KEY (edition, konto, jahr)
);

-- Legs of person accounts in opening balances that may be half of a pair. A twin is counted by no read model.
CREATE TABLE books_openings (
  edition BIGINT NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  betrag BIGINT NOT NULL,
  gegenkonto TEXT COLLATE "C" NOT NULL,
  beleg TEXT COLLATE "C" NOT NULL,
  is_reversal SMALLINT NOT NULL CHECK (is_reversal = 0 OR is_reversal = 1),
  is_twin SMALLINT NOT NULL CHECK (is_twin = 0 OR is_twin = 1),
  PRIMARY KEY (edition, konto, jahr, booking)
);

-- The part of a carried year's opening balance beyond the documents of the years before; only where that is not zero.
CREATE TABLE books_carry_rests (
  edition BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  rest BIGINT NOT NULL,
  PRIMARY KEY (edition, jahr, konto)
);

-- The file that is being written into a client's books, and the edition that it makes.
CREATE TABLE books_preparing (
  mandant BIGINT PRIMARY KEY,
  batch TEXT NOT NULL,
  source TEXT NOT NULL,
  edition BIGINT NOT NULL,
  -- The last booking when it began, and the last number that others may use meanwhile.
  before BIGINT NOT NULL,
  ceiling BIGINT NOT NULL,
  -- 1 once the new edition holds what the old one does: whoever posts from here on posts to both.
  is_copied SMALLINT NOT NULL CHECK (is_copied = 0 OR is_copied = 1),
  -- The fiscal year that the file carries over, if it does.
  carried TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  -- The batch that is being undone, if no file is being written, and the fiscal year that is not carried over without it.
  undoes TEXT NOT NULL DEFAULT '',
  uncarried TEXT NOT NULL DEFAULT ''
);

-- Editions that nobody reads any more, until their rows are deleted.
CREATE TABLE books_left_editions (
  mandant BIGINT NOT NULL,
  edition BIGINT NOT NULL,
  PRIMARY KEY (mandant, edition)
);

CREATE TABLE books_cash_books (
  mandant BIGINT NOT NULL,
  bezeichnung TEXT COLLATE "C" NOT NULL,
  konto TEXT COLLATE "C" NOT NULL,
  last_nummer BIGINT NOT NULL,
  last_hash TEXT COLLATE "C" NOT NULL,
  saldo BIGINT NOT NULL,
  PRIMARY KEY (mandant, bezeichnung)
);

-- One entry a line, numbered without gaps in the order of entry, chained by hash, never changed.
CREATE TABLE books_cash_entries (
  mandant BIGINT NOT NULL,
  kassenname TEXT COLLATE "C" NOT NULL,
  nummer BIGINT NOT NULL,
  task TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  datum TEXT COLLATE "C" NOT NULL,
  betrag BIGINT NOT NULL,
  storno_von BIGINT,
  record TEXT COLLATE "C" NOT NULL,
  hash TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, kassenname, nummer)
);
CREATE INDEX books_cash_entries_by_task ON books_cash_entries (mandant, task);
-- For going from a booking of a cash book's account to its entry, and from an entry to the one that reverses it.
CREATE INDEX books_cash_entries_by_booking ON books_cash_entries (mandant, booking);
CREATE INDEX books_cash_entries_by_storno ON books_cash_entries (mandant, kassenname, storno_von) WHERE storno_von IS NOT NULL;
-- For the receipts of some days.
CREATE INDEX books_cash_entries_by_day ON books_cash_entries (mandant, datum);

-- Movement of a cash book's account by day, to see that no day ends below zero.
CREATE TABLE books_cash_days (
  mandant BIGINT NOT NULL,
  kassenname TEXT COLLATE "C" NOT NULL,
  datum TEXT COLLATE "C" NOT NULL,
  bewegung BIGINT NOT NULL,
  PRIMARY KEY (mandant, kassenname, datum)
);

-- The bookings on a cash book's account, by day, whatever they came with: opening balances only if they were entered in the cash book.
-- Those of a large file count up to books_clients.last_buchung.
CREATE TABLE books_cash_rows (
  mandant BIGINT NOT NULL,
  kassenname TEXT COLLATE "C" NOT NULL,
  datum TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  PRIMARY KEY (mandant, kassenname, datum, booking)
);

-- The bytes of a receipt never change.
CREATE TABLE books_receipts (
  mandant BIGINT NOT NULL,
  sha256 TEXT COLLATE "C" NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  task TEXT COLLATE "C" NOT NULL,
  dateiname TEXT COLLATE "C" NOT NULL,
  groesse BIGINT NOT NULL,
  mime_typ TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  content BYTEA NOT NULL,
  PRIMARY KEY (mandant, sha256)
);
CREATE UNIQUE INDEX books_receipts_by_id ON books_receipts (mandant, id);

-- A receipt is stored once, and filed with a cash entry: again, too, once the entries that it was filed with are reversed.
CREATE TABLE books_receipt_filings (
  mandant BIGINT NOT NULL,
  task TEXT COLLATE "C" NOT NULL,
  platz BIGINT NOT NULL,
  sha256 TEXT COLLATE "C" NOT NULL,
  dateiname TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (mandant, task, platz)
);
CREATE INDEX books_receipt_filings_by_content ON books_receipt_filings (mandant, sha256);

-- The protocol of every write, as it was answered. Only grows.
CREATE TABLE books_tasks (
  mandant BIGINT NOT NULL,
  id TEXT COLLATE "C" NOT NULL,
  kind TEXT COLLATE "C" NOT NULL,
  status TEXT COLLATE "C" NOT NULL,
  meldungen TEXT COLLATE "C" NOT NULL,
  request_id TEXT COLLATE "C" NOT NULL,
  quelle TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (mandant, id)
);
