-- Assistants: which organisations let them in, and what they have prepared for a person.

-- One row for an organisation that has said something; without one, assistants are kept out.
CREATE TABLE assistants_settings (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  enabled INTEGER NOT NULL,
  changed_by TEXT NOT NULL,
  changed_at BIGINT NOT NULL
);

-- A payment or cash entry as it was prepared. Its content never changes: whatever is to be different is prepared anew.
CREATE TABLE assistants_prepared (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'payment' OR kind = 'cash_entry'),
  state TEXT NOT NULL CHECK (
    state = 'waiting' OR state = 'approved' OR state = 'refused' OR state = 'withdrawn' OR state = 'expired'
  ),
  -- The body of the call that an approval makes, as JSON, and the hash that an approval names.
  content TEXT NOT NULL,
  digest TEXT NOT NULL,
  actor TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_by TEXT,
  decided_at BIGINT,
  -- The payment that an approval made; null for a cash entry, and until it is made.
  payment_id BIGINT,
  -- Set once the call of the approval has been answered.
  done_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX assistants_prepared_by_state ON assistants_prepared (organization_id, state, id);
CREATE INDEX assistants_prepared_by_digest ON assistants_prepared (organization_id, digest, id);
