-- The kinds of lines in English. A match and its lines never change: this renames, and changes no amount.
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
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON recon_lines FOR EACH ROW EXECUTE FUNCTION recon_check_open();
CREATE TRIGGER recon_lines_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
