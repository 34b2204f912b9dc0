-- Accounts that stood twice become one by a person, and matches go with their transactions.
-- Accounts that a person made one of: an account that stood twice is part of another since.
CREATE TABLE banking_account_merges (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  merged_id BIGINT NOT NULL,
  iban TEXT NOT NULL,
  -- The counts, as JSON.
  report TEXT NOT NULL,
  -- Needed to undo it, as JSON; null once it cannot be undone any more.
  kept TEXT,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  undone_by TEXT,
  undone_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_account_merges_by_account ON banking_account_merges (organization_id, account_id);
-- Those that can still be undone.
CREATE INDEX banking_account_merges_kept ON banking_account_merges (made_at) WHERE kept IS NOT NULL;

-- The bookings of one of the two that are those of the other, as JSON, for as long as the merge can be undone.
CREATE TABLE banking_merged_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  merge_id TEXT NOT NULL,
  id BIGINT NOT NULL,
  content TEXT NOT NULL,
  PRIMARY KEY (organization_id, merge_id, id)
);

-- The ids of accounts that are part of another: they mean that one.
CREATE TABLE banking_account_aliases (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_account_aliases_by_account ON banking_account_aliases (organization_id, account_id);
DROP TRIGGER recon_matches_undone_once ON recon_matches;
DROP TRIGGER recon_matches_no_update ON recon_matches;
CREATE TRIGGER recon_matches_undone_once BEFORE UPDATE OF undo_id ON recon_matches FOR EACH ROW EXECUTE FUNCTION recon_check_undo();
CREATE TRIGGER recon_matches_no_update BEFORE UPDATE OF organization_id, id, transaction_id, connection_id, client_id,
  proposal_id, evidence, engine_version, made_on, amount_minor, payer, iban, end_to_end_id, mandate, bank_reference, made_by, made_at
ON recon_matches FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
