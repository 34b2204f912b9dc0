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

-- The step between the password and the code, or what a passkey is to sign. Used once.
CREATE TABLE sign_in_challenges (
  token_hash TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  organization_id TEXT,
  user_id TEXT,
  value BYTEA NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_challenges_by_age ON sign_in_challenges (expires_at);

ALTER TABLE organizations ADD COLUMN second_factor_required BIGINT NOT NULL DEFAULT 0;
