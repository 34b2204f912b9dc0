-- Files that hold several orders from one account.

ALTER TABLE banking_counters ADD COLUMN last_order_file BIGINT NOT NULL DEFAULT 0;

CREATE TABLE banking_order_files (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id BIGINT NOT NULL,
  provider TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  message_id TEXT NOT NULL,
  -- As it stands in the file, which stays the same whatever the account is called later.
  debtor_name TEXT NOT NULL,
  payments BIGINT NOT NULL CHECK (payments > 0),
  amount_minor BIGINT NOT NULL CHECK (amount_minor > 0),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- Somebody said that it was not uploaded. Its orders are free for another file.
  discarded_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX banking_order_files_by_message ON banking_order_files (organization_id, message_id);

-- What a file holds. It is kept, because a status report may come late.
CREATE TABLE banking_order_file_payments (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  order_file_id BIGINT NOT NULL,
  payment_id BIGINT NOT NULL,
  -- The instruction (PmtInfId) that it stands in.
  instruction_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, order_file_id, payment_id)
);

-- The file that the order is in now.
ALTER TABLE banking_payments ADD COLUMN order_file_id BIGINT;
