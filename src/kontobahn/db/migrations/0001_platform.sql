-- Organisations, who may act for them, what they may spend, and what keeps calls from happening twice.
-- A check is written with OR: for IN, SQLite would build a small table at every write.
-- Instants (*_at) are microseconds since 1970 UTC; flags are 0 or 1. Every table leads with the organisation where there is one.

CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE TABLE users (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  password_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
-- People sign in with their e-mail address alone, so it is unique over all organisations.
CREATE UNIQUE INDEX users_by_email ON users (email);

CREATE TABLE sessions (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ip TEXT NOT NULL,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX sessions_by_token ON sessions (token_hash);
CREATE INDEX sessions_by_user ON sessions (organization_id, user_id);

CREATE TABLE invitations (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  token_hash TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'accepted' OR status = 'revoked'),
  invited_by TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  settled_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_hash);

CREATE TABLE api_keys (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  hint TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role = 'owner' OR role = 'admin' OR role = 'member'),
  is_agency SMALLINT NOT NULL CHECK (is_agency = 0 OR is_agency = 1),
  created_by TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  last_used_at BIGINT,
  replaced_by TEXT,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX api_keys_by_token ON api_keys (token_hash);

CREATE TABLE agency_clients (
  organization_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  client_organization_id TEXT NOT NULL REFERENCES organizations (id),
  PRIMARY KEY (organization_id, key_id, client_organization_id),
  FOREIGN KEY (organization_id, key_id) REFERENCES api_keys (organization_id, id)
);

CREATE TABLE audit_log (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  details TEXT NOT NULL,
  request_id TEXT,
  ip TEXT,
  PRIMARY KEY (organization_id, id)
);

-- One row an organisation: its pots and the number of the last statement line. A reservation is one conditional UPDATE of it.
CREATE TABLE credit_accounts (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  available BIGINT NOT NULL CHECK (available >= 0),
  reserved BIGINT NOT NULL CHECK (reserved >= 0),
  spent BIGINT NOT NULL CHECK (spent >= 0),
  lapsed BIGINT NOT NULL CHECK (lapsed >= 0),
  granted BIGINT NOT NULL CHECK (granted = available + reserved + spent + lapsed),
  last_line BIGINT NOT NULL,
  allocated BIGINT NOT NULL,
  next_lapse_at BIGINT
);

CREATE TABLE credit_grants (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  remaining BIGINT NOT NULL CHECK (remaining >= 0 AND remaining <= amount),
  note TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  lapsed_at BIGINT,
  PRIMARY KEY (organization_id, id)
);

CREATE TABLE credit_holds (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  state TEXT NOT NULL CHECK (state = 'reserved' OR state = 'confirmed' OR state = 'expired'),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX credit_holds_open ON credit_holds (expires_at) WHERE state = 'reserved';

CREATE TABLE credit_movements (
  organization_id TEXT NOT NULL,
  line BIGINT NOT NULL,
  at BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'grant' OR kind = 'reserve' OR kind = 'confirm' OR kind = 'expire' OR kind = 'lapse'),
  from_pot TEXT NOT NULL,
  to_pot TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  available_after BIGINT NOT NULL,
  reserved_after BIGINT NOT NULL,
  reference TEXT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, line)
);

-- The first column is the organisation, or 'public' for the few calls made without one.
CREATE TABLE idempotency_keys (
  scope TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'running' OR state = 'done'),
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  status BIGINT,
  answer BYTEA,
  PRIMARY KEY (scope, idempotency_key)
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

CREATE TABLE usage_counts (
  organization_id TEXT NOT NULL,
  day TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  calls BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  credits BIGINT NOT NULL,
  PRIMARY KEY (organization_id, day, endpoint, api_key_id, quelle)
);

CREATE TABLE job_leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  finished_at BIGINT,
  last_error TEXT
);
