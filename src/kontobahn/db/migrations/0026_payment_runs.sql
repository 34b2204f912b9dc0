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
