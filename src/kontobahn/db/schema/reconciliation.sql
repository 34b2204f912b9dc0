-- Payments matched to invoices: what was proposed, what was decided, what was learned from it, and what was handed over.

-- A bank account and the books that its movements belong to.
CREATE TABLE recon_accounts (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  -- The ledger accounts of the bank, of its fees, and of transfers between own accounts. The last two may be empty.
  konto TEXT NOT NULL,
  fee_konto TEXT NOT NULL,
  transfer_konto TEXT NOT NULL,
  -- Movements before this day were dealt with elsewhere. Empty for none.
  start_date TEXT NOT NULL,
  booked_by TEXT NOT NULL CHECK (booked_by = 'adviser' OR booked_by = 'kontobahn'),
  -- The classes that may act alone, with a blank between them. Empty until somebody switches one on.
  automatic_classes TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, account_id),
  FOREIGN KEY (organization_id, connection_id) REFERENCES ledger_connections (organization_id, id)
);

CREATE TABLE recon_rules (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  place BIGINT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  text TEXT NOT NULL,
  iban TEXT NOT NULL,
  sign TEXT NOT NULL CHECK (sign = 'in' OR sign = 'out' OR sign = 'any'),
  least_minor BIGINT,
  most_minor BIGINT,
  konto TEXT NOT NULL,
  -- Whether somebody has said that it may act alone.
  acts SMALLINT NOT NULL DEFAULT 0 CHECK (acts = 0 OR acts = 1),
  PRIMARY KEY (organization_id, connection_id, client_id, place)
);

-- Payers that were confirmed for a person account. `value` is an IBAN, or a name in its normal form.
CREATE TABLE recon_learned (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'iban' OR kind = 'name'),
  value TEXT NOT NULL,
  konto TEXT NOT NULL,
  times BIGINT NOT NULL CHECK (times > 0),
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX recon_learned_by_value ON recon_learned (organization_id, connection_id, client_id, kind, value, konto);

CREATE TABLE recon_runs (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  from_date TEXT NOT NULL,
  to_date TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  -- As it was answered.
  wire TEXT NOT NULL,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);

-- A transaction that the books show already is `booked`: neither matched by anybody nor waiting.
CREATE TABLE recon_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'proposed' OR state = 'matched' OR state = 'ignored' OR state = 'booked'),
  run_id TEXT,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX recon_transactions_by_state ON recon_transactions (organization_id, account_id, state, id);
CREATE INDEX recon_transactions_of_account ON recon_transactions (organization_id, account_id, id);
CREATE INDEX recon_transactions_waiting ON recon_transactions (organization_id) WHERE state = 'open' OR state = 'proposed';

-- A proposal that a later run makes again keeps its row; one that it does not is `replaced`.
CREATE TABLE recon_proposals (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  transaction_id BIGINT NOT NULL,
  run_id TEXT NOT NULL,
  place BIGINT NOT NULL,
  evidence TEXT NOT NULL,
  acts SMALLINT NOT NULL CHECK (acts = 0 OR acts = 1),
  score_tenths BIGINT NOT NULL,
  lines TEXT NOT NULL,
  reasons TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'confirmed' OR state = 'rejected' OR state = 'replaced'),
  made_at BIGINT NOT NULL,
  decided_by TEXT,
  decided_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX recon_proposals_by_transaction ON recon_proposals (organization_id, transaction_id, state, place);

-- The lines of a match, written before it: a match is refused unless they sum to it, and then gets no more.
CREATE TABLE recon_lines (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  match_id TEXT NOT NULL,
  line BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'item' OR kind = 'skonto' OR kind = 'fee' OR kind = 'difference' OR kind = 'on_account'
    OR kind = 'return' OR kind = 'transfer' OR kind = 'ledger_account'),
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  -- The amount that was open of the document before this line: no line takes more.
  open_minor BIGINT NOT NULL,
  PRIMARY KEY (organization_id, match_id, line),
  CHECK (kind <> 'item' OR (amount_minor > 0 AND amount_minor <= open_minor) OR (amount_minor < 0 AND amount_minor >= open_minor))
);
CREATE UNIQUE INDEX recon_lines_by_item ON recon_lines (organization_id, match_id, konto, beleg) WHERE kind = 'item';
CREATE INDEX recon_lines_of_item ON recon_lines (organization_id, konto, beleg);

-- Undoing a match is a row.
CREATE TABLE recon_undos (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  match_id TEXT NOT NULL,
  reason TEXT NOT NULL,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX recon_undos_by_match ON recon_undos (organization_id, match_id);

-- A match never changes, except that it is undone once.
CREATE TABLE recon_matches (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  transaction_id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  proposal_id TEXT,
  -- Empty if it was made by hand.
  evidence TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  made_on TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  -- The payer, as the bank said: learned, and forgotten when the match is undone.
  payer TEXT NOT NULL,
  iban TEXT NOT NULL,
  end_to_end_id TEXT,
  mandate TEXT,
  bank_reference TEXT,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  undo_id TEXT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, undo_id) REFERENCES recon_undos (organization_id, id)
);
-- A transaction has one live match at most.
CREATE UNIQUE INDEX recon_matches_live ON recon_matches (organization_id, transaction_id) WHERE undo_id IS NULL;
CREATE INDEX recon_matches_by_transaction ON recon_matches (organization_id, transaction_id, id);
CREATE INDEX recon_matches_by_client ON recon_matches (organization_id, connection_id, client_id, id);
CREATE INDEX recon_matches_by_account ON recon_matches (organization_id, account_id, made_on);
CREATE INDEX recon_matches_of_account ON recon_matches (organization_id, account_id, id);

-- By document: the amount that live matches took and the books do not show yet, and the amount that the books showed when last read.
CREATE TABLE recon_items (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  pending_minor BIGINT NOT NULL,
  seen_minor BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, konto, beleg)
);

-- Matches that were handed over at once: booked in our own books, or as a list for the office that books.
CREATE TABLE recon_batches (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  booked_by TEXT NOT NULL CHECK (booked_by = 'adviser' OR booked_by = 'kontobahn'),
  -- As it is answered: without its lines, and these.
  wire TEXT NOT NULL,
  rows TEXT NOT NULL,
  -- The DATEV file, the same every time. A list has none.
  file_name TEXT,
  sha256 TEXT,
  content BYTEA,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX recon_batches_by_account ON recon_batches (organization_id, account_id, id);

-- DATEV files of batches that nobody has fetched yet.
CREATE TABLE recon_batches_to_fetch (
  organization_id TEXT NOT NULL,
  batch_id TEXT NOT NULL,
  -- If it goes to a provider by itself: it is to be fetched if that fails.
  transmission_id TEXT,
  PRIMARY KEY (organization_id, batch_id),
  FOREIGN KEY (organization_id, batch_id) REFERENCES recon_batches (organization_id, id)
);

-- A match is handed over once, and its undoing once.
CREATE TABLE recon_batch_matches (
  organization_id TEXT NOT NULL,
  match_id TEXT NOT NULL,
  is_undo SMALLINT NOT NULL CHECK (is_undo = 0 OR is_undo = 1),
  batch_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, match_id, is_undo),
  FOREIGN KEY (organization_id, match_id) REFERENCES recon_matches (organization_id, id),
  FOREIGN KEY (organization_id, batch_id) REFERENCES recon_batches (organization_id, id)
);
