-- Files that no invoice could be read from, until a person types what they say or sets them aside.
CREATE TABLE payables_unread (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  file_id TEXT NOT NULL,
  -- Facts that the text of the file says plainly, as JSON: proposals and nothing more.
  proposal TEXT NOT NULL,
  -- Where it came from, if by mail: the sender and the subject.
  note TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, file_id)
);

-- The mailbox of an organisation that invoices are read from, and how far it was read.
CREATE TABLE payables_mailboxes (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  host TEXT NOT NULL,
  port BIGINT NOT NULL,
  username TEXT NOT NULL,
  password BYTEA NOT NULL,
  folder TEXT NOT NULL,
  -- What becomes of a message that was read: keep, move, delete.
  afterwards TEXT NOT NULL,
  moved_to TEXT NOT NULL,
  -- The day from which on messages are read, a text like 2026-03-31.
  since TEXT NOT NULL,
  -- The server's number of the folder as it is, and of the last message in it that was read; 0 before the first.
  validity BIGINT NOT NULL,
  last_number BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  checked_at BIGINT,
  failures BIGINT NOT NULL,
  -- A word for what went wrong the last time; empty if nothing did.
  trouble TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL
);
CREATE INDEX payables_mailboxes_due ON payables_mailboxes (next_at);

-- Messages that were read from a mailbox, and what came of each; for as long as a person may ask.
CREATE TABLE payables_mails (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  sender TEXT NOT NULL,
  subject TEXT NOT NULL,
  invoices BIGINT NOT NULL,
  unread BIGINT NOT NULL,
  -- A word for why it could not be read; empty if it could.
  trouble TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX payables_mails_by_time ON payables_mails (organization_id, created_at);
