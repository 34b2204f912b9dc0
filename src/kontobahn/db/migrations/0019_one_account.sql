-- One IBAN of an organisation is one account: how connections call it stands beside it, because there may be several.
CREATE TABLE banking_account_sources (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  provider_ref TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  identity TEXT,
  PRIMARY KEY (organization_id, connection_id, provider_ref)
);
CREATE INDEX banking_account_sources_by_account ON banking_account_sources (organization_id, account_id);
INSERT INTO banking_account_sources (organization_id, connection_id, provider_ref, account_id, identity)
  SELECT organization_id, connection_id, provider_ref, id, identity FROM banking_accounts;
DROP INDEX banking_accounts_by_provider;
ALTER TABLE banking_accounts DROP COLUMN provider_ref;
ALTER TABLE banking_accounts DROP COLUMN identity;
ALTER TABLE banking_accounts ADD COLUMN balance_on TEXT;
ALTER TABLE banking_accounts ADD COLUMN balance_from TEXT;
ALTER TABLE banking_transactions ADD COLUMN source TEXT;
ALTER TABLE banking_transactions ADD COLUMN batch BIGINT;
UPDATE banking_transactions SET source = a.connection_id FROM banking_accounts a WHERE a.id = banking_transactions.account_id;
