ALTER TABLE payables_bookings ADD COLUMN handover_id TEXT;
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
  PRIMARY KEY (organization_id, handover_id, name),
  FOREIGN KEY (organization_id, handover_id) REFERENCES payables_handovers (organization_id, id)
);
