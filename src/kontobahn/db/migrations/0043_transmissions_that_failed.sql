-- A transmission that failed is sent again by a person, or its file is handed over: once, whichever it is.
ALTER TABLE ledger_transmissions ADD COLUMN followed_by TEXT;
CREATE INDEX ledger_transmissions_of_kind ON ledger_transmissions (organization_id, connection_id, client_id, kind, id);
DROP INDEX ledger_transmissions_troubled;
CREATE INDEX ledger_transmissions_troubled ON ledger_transmissions (organization_id, updated_at)
  WHERE followed_by IS NULL AND (state = 'UNKNOWN' OR state = 'PARTIAL_SUCCESS' OR (state = 'FAILED' AND kind = 'BUCHUNGSSTAPEL'));
-- Batches whose file goes to a provider by itself: it is to be fetched if that fails.
ALTER TABLE recon_batches_to_fetch ADD COLUMN transmission_id TEXT;
ALTER TABLE payables_handover_files ADD COLUMN transmission_id TEXT;
