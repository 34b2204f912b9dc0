-- A transaction that the books show already is `booked`: neither matched by anybody nor waiting.
DROP INDEX recon_transactions_by_state;
ALTER TABLE recon_transactions RENAME TO recon_transactions_before;
CREATE TABLE recon_transactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  account_id BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'proposed' OR state = 'matched' OR state = 'ignored' OR state = 'booked'),
  run_id TEXT,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
INSERT INTO recon_transactions (organization_id, id, account_id, state, run_id, changed_at)
  SELECT organization_id, id, account_id, state, run_id, changed_at FROM recon_transactions_before;
DROP TABLE recon_transactions_before;
CREATE INDEX recon_transactions_by_state ON recon_transactions (organization_id, account_id, state, id);
