-- Accesses to banks by EBICS, sealed: the data sheet, the keys of both sides, and the rights that the bank told. From the data sheet on,
-- weeks before there is a connection. Of the processes that work with one at a time, `holder` does until `until`.
CREATE TABLE ebics_accesses (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  holder TEXT NOT NULL,
  until BIGINT NOT NULL,
  -- 1 if people may sign orders with it, on our page.
  signs_orders BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, ref)
);
CREATE UNIQUE INDEX ebics_accesses_by_ref ON ebics_accesses (ref);

-- Downloads: stored as the bank encrypted them, in base64, with their key sealed. `segments` is how many there are here; the bank has its receipt
-- from `receipt_at` on, which is never before all of them are here.
CREATE TABLE ebics_downloads (
  organization_id TEXT NOT NULL,
  ref TEXT NOT NULL,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  order_name TEXT NOT NULL,
  transaction_id TEXT NOT NULL,
  sealed_key BYTEA NOT NULL,
  segments BIGINT NOT NULL,
  is_whole BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  receipt_at BIGINT,
  PRIMARY KEY (organization_id, ref, id),
  FOREIGN KEY (organization_id, ref) REFERENCES ebics_accesses (organization_id, ref) ON DELETE CASCADE
);

CREATE TABLE ebics_segments (
  organization_id TEXT NOT NULL,
  ref TEXT NOT NULL,
  download_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  content BYTEA NOT NULL,
  PRIMARY KEY (organization_id, ref, download_id, number),
  FOREIGN KEY (organization_id, ref, download_id) REFERENCES ebics_downloads (organization_id, ref, id) ON DELETE CASCADE
);

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
  -- Of the data that were sent, in hexadecimal digits: what a signature is made over.
  digest TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (organization_id, message_id)
);
CREATE INDEX ebics_orders_open ON ebics_orders (organization_id, ref, created_at) WHERE state IN ('sending', 'unknown', 'waiting');
