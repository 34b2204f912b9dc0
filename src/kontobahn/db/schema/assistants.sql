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
  -- The first of a row of rotated keys, or the grant, that limits of a day count by.
  counted_by TEXT NOT NULL DEFAULT '',
  amount_minor BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX assistants_prepared_by_state ON assistants_prepared (organization_id, state, id);
CREATE INDEX assistants_prepared_by_digest ON assistants_prepared (organization_id, digest, id);
CREATE INDEX assistants_prepared_by_caller ON assistants_prepared (organization_id, counted_by, created_at);

-- A person lets an assistant ask in their name, with a preset. It stands until it ends, expires, or the person has another role.
CREATE TABLE assistants_grants (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  role TEXT NOT NULL,
  -- The address of the document that describes the assistant, its name there, and the address that the code was sent to.
  client_id TEXT NOT NULL,
  client_name TEXT NOT NULL,
  redirect_uri TEXT NOT NULL,
  -- The address that its tokens are for, and the hash that whoever redeems the code proves to know the origin of.
  resource TEXT NOT NULL,
  challenge TEXT NOT NULL,
  preset TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  connected_at BIGINT,
  used_at BIGINT,
  ended_at BIGINT,
  ended_by TEXT,
  -- The version of the person's ways to sign in: with another one they decide anew.
  ways_version INTEGER NOT NULL DEFAULT 0,
  -- As JSON, the clients it is restricted to; null for everything. What it may prepare a day, in cents; null without a limit.
  clients TEXT,
  daily_limit_minor BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX assistants_grants_by_expiry ON assistants_grants (expires_at);
CREATE INDEX assistants_grants_unredeemed ON assistants_grants (created_at) WHERE connected_at IS NULL;

-- The code and the tokens of a grant, as hashes. Used ones stay until they expire, so that a second use is noticed.
CREATE TABLE assistants_tokens (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  grant_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'code' OR kind = 'access' OR kind = 'refresh'),
  token_hash TEXT NOT NULL UNIQUE,
  expires_at BIGINT NOT NULL,
  used_at BIGINT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, grant_id) REFERENCES assistants_grants (organization_id, id)
);
CREATE INDEX assistants_tokens_by_grant ON assistants_tokens (organization_id, grant_id);
CREATE INDEX assistants_tokens_by_expiry ON assistants_tokens (expires_at);
