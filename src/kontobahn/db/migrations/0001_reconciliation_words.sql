-- Reconciliation speaks English: columns, kinds of lines, and the texts that are kept as they are answered.
-- In these texts a quotation mark inside a value is escaped, so what is replaced is always a name, never a value.

ALTER TABLE recon_rules RENAME COLUMN sachkonto TO konto;
ALTER TABLE recon_undos RENAME COLUMN grund TO reason;

ALTER TABLE recon_accounts RENAME TO recon_accounts_before;
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
INSERT INTO recon_accounts (organization_id, account_id, connection_id, client_id, konto, fee_konto, transfer_konto, start_date,
    booked_by, automatic_classes, changed_by, changed_at)
  SELECT organization_id, account_id, connection_id, client_id, sachkonto, gebuehrenkonto, transferkonto, start_date,
    CASE WHEN bucht = 'kanzlei' THEN 'adviser' ELSE bucht END, automatisch, changed_by, changed_at FROM recon_accounts_before;
DROP TABLE recon_accounts_before;

DROP INDEX recon_batches_by_account;
ALTER TABLE recon_batch_matches RENAME TO recon_batch_matches_before;
ALTER TABLE recon_batches RENAME TO recon_batches_before;
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
INSERT INTO recon_batches (organization_id, id, account_id, connection_id, client_id, booked_by, wire, rows, file_name, sha256, content,
    made_by, made_at)
  SELECT organization_id, id, account_id, connection_id, client_id, CASE WHEN bucht = 'kanzlei' THEN 'adviser' ELSE bucht END, wire, rows,
    file_name, sha256, content, made_by, made_at FROM recon_batches_before;
UPDATE recon_batches SET wire = REPLACE(wire, '"bucht":"kanzlei"', '"booked_by":"adviser"');
UPDATE recon_batches SET wire = REPLACE(wire, '"connectionId":', '"connection_id":');
UPDATE recon_batches SET wire = REPLACE(wire, '"clientId":', '"client_id":');
UPDATE recon_batches SET wire = REPLACE(wire, '"bucht":', '"booked_by":');
UPDATE recon_batches SET wire = REPLACE(wire, '"geschaeftsjahrStartDatum":', '"fiscal_year_start":');
UPDATE recon_batches SET wire = REPLACE(wire, '"zuordnungen":', '"matches":');
UPDATE recon_batches SET wire = REPLACE(wire, '"stornos":', '"reversals":');
UPDATE recon_batches SET wire = REPLACE(wire, '"summe":', '"total":');
UPDATE recon_batches SET wire = REPLACE(wire, '"dateiname":', '"file_name":');
UPDATE recon_batches SET wire = REPLACE(wire, '"importe":', '"import_ids":');
UPDATE recon_batches SET wire = REPLACE(wire, '"von":', '"created_by":');
UPDATE recon_batches SET wire = REPLACE(wire, '"am":', '"created_at":');
UPDATE recon_batches SET rows = REPLACE(rows, '"zeilen":', '"lines":');
UPDATE recon_batches SET rows = REPLACE(rows, '"ausgelassen":', '"left_out":');
UPDATE recon_batches SET rows = REPLACE(rows, '"posten":', '"items":');
UPDATE recon_batches SET rows = REPLACE(rows, '"storno":', '"reversal":');
UPDATE recon_batches SET rows = REPLACE(rows, '"kontonummer":', '"konto":');
UPDATE recon_batches SET rows = REPLACE(rows, '"betrag":', '"amount":');
UPDATE recon_batches SET rows = REPLACE(rows, '"buchungstext":', '"text":');
UPDATE recon_batches SET rows = REPLACE(rows, '"grund":', '"reason":');
UPDATE recon_batches SET rows = REPLACE(rows, '"offen":', '"open_amount":');
UPDATE recon_batches SET rows = REPLACE(rows, '"vorher":', '"open_before":');
UPDATE recon_batches SET rows = REPLACE(rows, '"nachher":', '"open_after":');
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
INSERT INTO recon_batch_matches (organization_id, match_id, is_undo, batch_id)
  SELECT organization_id, match_id, is_undo, batch_id FROM recon_batch_matches_before;
DROP TABLE recon_batch_matches_before;
DROP TABLE recon_batches_before;

UPDATE recon_runs SET wire = REPLACE(wire, '"klasse":', '"evidence_class":');
UPDATE recon_runs SET wire = REPLACE(wire, '"anzahl":', '"count":');
UPDATE recon_runs SET wire = REPLACE(wire, '"eindeutig":', '"clear":');
UPDATE recon_runs SET wire = REPLACE(wire, '"betrag":', '"amount":');
UPDATE recon_proposals SET lines = REPLACE(lines, '["posten",', '["item",');
UPDATE recon_proposals SET lines = REPLACE(lines, '["gebuehr",', '["fee",');
UPDATE recon_proposals SET lines = REPLACE(lines, '["differenz",', '["difference",');
UPDATE recon_proposals SET lines = REPLACE(lines, '["akonto",', '["on_account",');
UPDATE recon_proposals SET lines = REPLACE(lines, '["ruecklast",', '["return",');
UPDATE recon_proposals SET lines = REPLACE(lines, '["sachkonto",', '["ledger_account",');
