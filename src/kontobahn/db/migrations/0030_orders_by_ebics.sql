-- When an order file was sent to the bank by us.
ALTER TABLE banking_order_files ADD COLUMN submitted_at BIGINT;

-- Order files on their way to the bank, and where they are there. A row is written before anything is sent.
CREATE TABLE ebics_orders (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  message_id TEXT NOT NULL,
  ref TEXT NOT NULL,
  transaction_id TEXT NOT NULL,
  -- The bank's number, from its first answer on: the data themselves follow later.
  order_id TEXT NOT NULL,
  state TEXT NOT NULL,
  said TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, message_id)
);
CREATE INDEX ebics_orders_open ON ebics_orders (organization_id, ref, created_at) WHERE state IN ('sending', 'unknown', 'waiting');
