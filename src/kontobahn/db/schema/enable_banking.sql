-- Sessions at Enable Banking, kept as soon as they exist: the code that leads to one can be used once. The accounts are what the
-- session began with; references to them are valid in it only.
CREATE TABLE enable_banking_sessions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  pending_token TEXT NOT NULL,
  bank_name TEXT NOT NULL,
  bank_country TEXT NOT NULL,
  psu_type TEXT NOT NULL,
  accounts TEXT NOT NULL,
  rest_until BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, ref)
);
CREATE UNIQUE INDEX enable_banking_sessions_by_ref ON enable_banking_sessions (ref);
CREATE UNIQUE INDEX enable_banking_sessions_by_token ON enable_banking_sessions (pending_token);
