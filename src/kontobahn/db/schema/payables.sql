-- Received invoices: the files as they came, the invoices read from them, and what people decided about them.

-- A file, byte for byte, once by its content. Neither it nor its name ever changes.
CREATE TABLE payables_files (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  file_name TEXT NOT NULL,
  media_type TEXT NOT NULL,
  size BIGINT NOT NULL,
  content BYTEA NOT NULL,
  actor TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  -- Findings of a file that no invoice could be read from, as JSON; empty for any other.
  refused TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX payables_files_by_content ON payables_files (organization_id, sha256);

-- An invoice, in whatever form it came. Sums are those of the file, in cents; days are texts like 2026-03-31.
CREATE TABLE payables (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (
    status = 'new' OR status = 'to_release' OR status = 'released' OR status = 'in_payment' OR status = 'paid'
    OR status = 'rejected' OR status = 'needs_person'
  ),
  kind TEXT NOT NULL,
  format TEXT NOT NULL,
  profile TEXT NOT NULL,
  number TEXT NOT NULL,
  issue_date TEXT NOT NULL,
  due_date TEXT,
  currency_code TEXT NOT NULL,
  total_minor BIGINT NOT NULL,
  payable_minor BIGINT NOT NULL,
  creditor_name TEXT NOT NULL,
  creditor_vat_id TEXT NOT NULL,
  creditor_tax_number TEXT NOT NULL,
  creditor_iban TEXT NOT NULL,
  -- Seller, number and day, by which an invoice is recognised in another form; with its sums nobody has it twice.
  identity TEXT NOT NULL,
  -- The books that it belongs to, and the creditor's account there; empty while they are not known.
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  konto TEXT NOT NULL,
  -- Why a person has to look at it, separated by blanks.
  stops TEXT NOT NULL,
  hold_until TEXT,
  -- BT-81; empty if the file says none.
  means_code TEXT NOT NULL,
  -- The invoice as formats/invoices has it, its Skonto, findings, warnings and the proposal as JSON.
  invoice TEXT NOT NULL,
  terms TEXT NOT NULL,
  findings TEXT NOT NULL,
  warnings TEXT NOT NULL,
  proposal TEXT NOT NULL,
  file_id TEXT NOT NULL,
  document_guid TEXT NOT NULL,
  payment_id BIGINT,
  match_id TEXT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  -- The sets of rules that an invoice was checked by, with their versions, as JSON.
  rule_sets TEXT NOT NULL DEFAULT '[]',
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX payables_by_identity ON payables (organization_id, identity, total_minor);
CREATE INDEX payables_by_status ON payables (organization_id, status, id);
CREATE INDEX payables_by_due_date ON payables (organization_id, due_date, id);
CREATE INDEX payables_by_number ON payables (organization_id, number, id);
CREATE INDEX payables_by_konto ON payables (organization_id, konto, id);
CREATE INDEX payables_by_tax_number ON payables (organization_id, creditor_tax_number, id);
CREATE UNIQUE INDEX payables_by_document ON payables (organization_id, document_guid);

-- The files that an invoice came in, the first one and its other forms.
CREATE TABLE payables_arrivals (
  organization_id TEXT NOT NULL,
  file_id TEXT NOT NULL,
  payable_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, file_id)
);
CREATE INDEX payables_arrivals_of_payable ON payables_arrivals (organization_id, payable_id);

-- What was done with an invoice, by whom, with what comment.
CREATE TABLE payables_steps (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  payable_id TEXT NOT NULL,
  action TEXT NOT NULL,
  -- The person behind it, also where a key was used; empty of the system itself.
  user_id TEXT NOT NULL,
  actor TEXT NOT NULL,
  comment TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX payables_steps_of_payable ON payables_steps (organization_id, payable_id, id);

-- One row for an organisation that has said something: above which sum two people release, and which books its invoices belong to.
CREATE TABLE payables_settings (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  two_people_minor BIGINT,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  -- When invoices are booked into built-in books: acceptance, release, or empty for not at all.
  book_on TEXT NOT NULL DEFAULT ''
);

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

-- Payment runs: invoices that were paid at once from one account, by payments of one kind and day.
CREATE TABLE payables_runs (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  account_id BIGINT NOT NULL,
  template TEXT NOT NULL,
  -- The day that was asked for; null for as soon as possible.
  execution_date TEXT,
  payments BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  actor TEXT NOT NULL,
  -- The call that made it, so that its repeat goes on with it instead of paying once more.
  caller_id TEXT NOT NULL,
  idempotency_key TEXT,
  idempotency_fingerprint TEXT,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX payables_runs_by_key ON payables_runs (caller_id, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- A payment of a run. It is open until the bank has booked it, or it has failed.
CREATE TABLE payables_run_payments (
  organization_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  payment_id BIGINT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'paid' OR state = 'failed'),
  PRIMARY KEY (organization_id, run_id, payment_id)
);
CREATE INDEX payables_run_payments_open ON payables_run_payments (organization_id, payment_id) WHERE state = 'open';

-- An invoice in a payment: what it adds to it, and the Skonto that was deducted before; both in cents, of a credit note negative.
CREATE TABLE payables_run_invoices (
  organization_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  payable_id TEXT NOT NULL,
  payment_id BIGINT NOT NULL,
  amount_minor BIGINT NOT NULL,
  skonto_minor BIGINT NOT NULL,
  PRIMARY KEY (organization_id, run_id, payable_id)
);
CREATE INDEX payables_run_invoices_of_payment ON payables_run_invoices (organization_id, payment_id);

-- The accounts that a person has accepted for an invoice, and whether it was booked with them or handed over.
CREATE TABLE payables_bookings (
  organization_id TEXT NOT NULL,
  payable_id TEXT NOT NULL,
  -- Accounts, tax keys and amounts in cents, as JSON.
  accounts TEXT NOT NULL,
  -- known: the books had the document already.
  state TEXT NOT NULL CHECK (state = 'accepted' OR state = 'booked' OR state = 'known'),
  -- The imports that it can be undone by, separated by blanks.
  import_ids TEXT NOT NULL,
  accepted_by TEXT NOT NULL,
  accepted_at BIGINT NOT NULL,
  booked_at BIGINT,
  -- The hand-over that it was in, if others keep the books.
  handover_id TEXT,
  PRIMARY KEY (organization_id, payable_id)
);
CREATE INDEX payables_bookings_waiting ON payables_bookings (organization_id, payable_id) WHERE state = 'accepted' AND handover_id IS NULL;
CREATE INDEX payables_bookings_of_handover ON payables_bookings (organization_id, handover_id) WHERE handover_id IS NOT NULL;

-- Invoices that were handed over at once to somebody who keeps the books elsewhere.
CREATE TABLE payables_handovers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  invoices BIGINT NOT NULL,
  total_minor BIGINT NOT NULL,
  made_by TEXT NOT NULL,
  made_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);

-- The DATEV files of a hand-over, one for each fiscal year, as they were made.
CREATE TABLE payables_handover_files (
  organization_id TEXT NOT NULL,
  handover_id TEXT NOT NULL,
  name TEXT NOT NULL,
  content BYTEA NOT NULL,
  -- If it goes to a provider by itself.
  transmission_id TEXT,
  PRIMARY KEY (organization_id, handover_id, name),
  FOREIGN KEY (organization_id, handover_id) REFERENCES payables_handovers (organization_id, id)
);
