-- The kinds of lines in English. A match and its lines never change: this renames, and changes no amount.
-- Renaming the table would rewrite the triggers that name it.
DROP TRIGGER recon_matches_add_up;
DROP TRIGGER recon_lines_before_match;
DROP TRIGGER recon_lines_no_update;
DROP TRIGGER recon_lines_no_delete;
DROP INDEX recon_lines_by_item;
DROP INDEX recon_lines_of_item;
ALTER TABLE recon_lines RENAME TO recon_lines_before;
CREATE TABLE recon_lines (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  match_id TEXT NOT NULL,
  line BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'item' OR kind = 'skonto' OR kind = 'fee' OR kind = 'difference' OR kind = 'on_account'
    OR kind = 'return' OR kind = 'transfer' OR kind = 'ledger_account'),
  konto TEXT NOT NULL,
  beleg TEXT NOT NULL,
  amount_minor BIGINT NOT NULL,
  -- What was open of the document before this line: no line takes more.
  open_minor BIGINT NOT NULL,
  PRIMARY KEY (organization_id, match_id, line),
  CHECK (kind <> 'item' OR (amount_minor > 0 AND amount_minor <= open_minor) OR (amount_minor < 0 AND amount_minor >= open_minor))
);
INSERT INTO recon_lines (organization_id, match_id, line, kind, konto, beleg, amount_minor, open_minor)
  SELECT organization_id, match_id, line, CASE kind 
    WHEN 'posten' THEN 'item' WHEN 'gebuehr' THEN 'fee' WHEN 'differenz' THEN 'difference'
    WHEN 'akonto' THEN 'on_account' WHEN 'ruecklast' THEN 'return' WHEN 'sachkonto' THEN 'ledger_account' ELSE kind END,
    konto, beleg, amount_minor, open_minor FROM recon_lines_before;
DROP TABLE recon_lines_before;
CREATE UNIQUE INDEX recon_lines_by_item ON recon_lines (organization_id, match_id, konto, beleg) WHERE kind = 'item';
CREATE INDEX recon_lines_of_item ON recon_lines (organization_id, konto, beleg);
CREATE TRIGGER recon_matches_add_up BEFORE INSERT ON recon_matches
WHEN NEW.amount_minor IS NOT (SELECT SUM(amount_minor) FROM recon_lines
    WHERE organization_id = NEW.organization_id AND match_id = NEW.id)
  OR NEW.amount_minor IS NOT (SELECT amount_minor FROM banking_transactions
    WHERE account_id = NEW.account_id AND id = NEW.transaction_id AND status = 'posted')
BEGIN SELECT RAISE(ABORT, 'the lines of a match must sum to its transaction'); END;
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON recon_lines
WHEN EXISTS (SELECT 1 FROM recon_matches WHERE organization_id = NEW.organization_id AND id = NEW.match_id)
BEGIN SELECT RAISE(ABORT, 'a match that stands gets no more lines'); END;
CREATE TRIGGER recon_lines_no_update BEFORE UPDATE ON recon_lines BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
CREATE TRIGGER recon_lines_no_delete BEFORE DELETE ON recon_lines BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
