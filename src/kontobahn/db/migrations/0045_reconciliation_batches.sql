-- Matches that were handed over at once: booked in our own books, or as a list for the office that books.
CREATE TABLE recon_batches (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  bucht TEXT NOT NULL CHECK (bucht = 'kanzlei' OR bucht = 'kontobahn'),
  -- As it is answered: without its rows, and these.
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
