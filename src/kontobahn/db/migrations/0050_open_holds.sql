-- Only what is still set aside is kept: what became of the rest stands in the statement. The account that a hold belongs to is changed
-- in the same transaction, so that there is such an organisation need not be asked again for each of them.
ALTER TABLE credit_holds RENAME TO credit_holds_before;
CREATE TABLE credit_holds (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
INSERT INTO credit_holds (organization_id, id, amount, created_at, expires_at, request_id, endpoint, api_key_id, quelle)
SELECT organization_id, id, amount, created_at, expires_at, request_id, endpoint, api_key_id, quelle
FROM credit_holds_before WHERE state = 'reserved';
DROP TABLE credit_holds_before;
CREATE INDEX credit_holds_by_expiry ON credit_holds (expires_at);
-- The job that lets grants lapse would read all accounts, once a minute.
CREATE INDEX credit_accounts_by_lapse ON credit_accounts (next_lapse_at) WHERE next_lapse_at IS NOT NULL;
