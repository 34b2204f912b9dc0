ALTER TABLE sessions ADD COLUMN by_provider BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN provider_factor BIGINT NOT NULL DEFAULT 0;

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
