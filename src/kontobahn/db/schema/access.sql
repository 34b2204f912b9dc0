-- Organisations, who may act for them and how they prove it, and the record of what they did.
--
-- In all files: instants (*_at) are microseconds since 1970 UTC, flags are 0 or 1, every table leads with the organisation or with
-- what implies it. A check is written with OR: for IN, SQLite would build a small table at every write.

CREATE TABLE organizations (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  second_factor_required BIGINT NOT NULL DEFAULT 0,
  -- Since when a client is closed: everything stays, and nobody works in it.
  closed_at BIGINT
);

CREATE TABLE users (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  name TEXT NOT NULL,
  password_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  role TEXT NOT NULL DEFAULT 'read_only'
    CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner'),
  -- The key whose link the password was set through: it ends with the key.
  password_key_id TEXT,
  -- Grows whenever something that the person signs in with is replaced or taken away.
  ways_version INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, id)
);
-- People sign in with their e-mail address alone, so it is unique over all organisations.
CREATE UNIQUE INDEX users_by_email ON users (email);
-- An agency's user may own connections of client organisations, and is found by the id alone.
CREATE UNIQUE INDEX users_by_id ON users (id);

-- A user's session, of the API or of a browser.
CREATE TABLE sessions (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  ip TEXT NOT NULL,
  -- Of a browser: its device, when it ends unless it is used, and when the person last confirmed who they are.
  device TEXT NOT NULL DEFAULT '',
  idle_until BIGINT,
  confirmed_at BIGINT NOT NULL DEFAULT 0,
  -- The person signed in at the identity provider, and showed a second factor there.
  by_provider BIGINT NOT NULL DEFAULT 0,
  provider_factor BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX sessions_by_token ON sessions (token_hash);
CREATE INDEX sessions_by_user ON sessions (organization_id, user_id);

CREATE TABLE invitations (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  email TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'accepted' OR status = 'revoked'),
  invited_by TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  settled_at BIGINT,
  role TEXT NOT NULL DEFAULT 'read_only'
    CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner'),
  -- The key it was made with, if it was one: it ends with the key.
  key_id TEXT,
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX invitations_by_token ON invitations (token_hash);

-- Links that set a new password.
CREATE TABLE password_resets (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  -- The person or the key that made it, with which it ends; neither for the operator.
  made_by TEXT,
  key_id TEXT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX password_resets_by_token ON password_resets (token_hash);
CREATE INDEX password_resets_by_user ON password_resets (organization_id, user_id);

-- Second factors of people: authenticator apps (a sealed secret) and passkeys (a public key).
CREATE TABLE user_factors (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'totp' OR kind = 'passkey'),
  name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  credential_id TEXT,
  public_key BYTEA,
  counter BIGINT NOT NULL,
  secret BYTEA,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX user_factors_by_user ON user_factors (organization_id, user_id);
-- A passkey signs in by itself, before anybody knows whose it is.
CREATE UNIQUE INDEX user_factors_by_credential ON user_factors (credential_id) WHERE credential_id IS NOT NULL;

CREATE TABLE recovery_codes (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  code_hash TEXT NOT NULL,
  PRIMARY KEY (organization_id, user_id, code_hash),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);

-- Accounts of people at an identity provider, which names them by the subject for as long as they exist.
CREATE TABLE user_identities (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  issuer TEXT NOT NULL,
  subject TEXT NOT NULL,
  -- The name that the person knows the account by; nobody is found by it.
  label TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
-- A person has one account at a provider.
CREATE UNIQUE INDEX user_identities_by_user ON user_identities (organization_id, user_id, issuer);
-- Somebody comes from the provider before anybody knows who it is here.
CREATE UNIQUE INDEX user_identities_by_subject ON user_identities (issuer, subject);

-- The step between the password and the code, the way to an identity provider, or what a passkey is to sign. Used once.
CREATE TABLE sign_in_challenges (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  organization_id TEXT,
  user_id TEXT,
  value BYTEA NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_challenges_by_age ON sign_in_challenges (expires_at);

-- Attempts to sign in, counted by account and by account and address. Subjects are keyed hashes: an account may be nobody's.
CREATE TABLE sign_in_attempts (
  subject TEXT PRIMARY KEY,
  attempts BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_attempts_by_end ON sign_in_attempts (expires_at);

-- Places that a user has signed in from; a place is a keyed hash of the address.
CREATE TABLE sign_in_places (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  place TEXT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, place),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);

CREATE TABLE api_keys (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  hint TEXT NOT NULL,
  is_agency SMALLINT NOT NULL CHECK (is_agency = 0 OR is_agency = 1),
  created_by TEXT,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  last_used_at BIGINT,
  replaced_by TEXT,
  -- Scopes separated by blanks; without a list a key may do all that its role allows.
  scopes TEXT,
  -- Limits in cents, of one payment and of a day's payments.
  payment_limit_minor BIGINT,
  daily_limit_minor BIGINT,
  -- The first key of a row of rotations, under which they share one daily limit. Null for a key that replaced nothing.
  first_key_id TEXT,
  role TEXT NOT NULL DEFAULT 'read_only'
    CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner'),
  PRIMARY KEY (organization_id, id)
);
CREATE UNIQUE INDEX api_keys_by_token ON api_keys (token_hash);

-- The organisations that an agency's key may act for.
CREATE TABLE agency_clients (
  organization_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  client_organization_id TEXT NOT NULL REFERENCES organizations (id),
  PRIMARY KEY (organization_id, key_id, client_organization_id),
  FOREIGN KEY (organization_id, key_id) REFERENCES api_keys (organization_id, id)
);
CREATE INDEX agency_clients_by_client ON agency_clients (client_organization_id);

-- The organisations that a person may work in beside their own, and with which role. Never follows from a key.
CREATE TABLE client_access (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  client_organization_id TEXT NOT NULL REFERENCES organizations (id),
  role TEXT NOT NULL CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin'),
  created_by TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, client_organization_id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX client_access_by_client ON client_access (client_organization_id);

-- Only grows.
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
CREATE INDEX audit_log_by_action ON audit_log (organization_id, action, id);
