-- What providers other than the sandbox need: a consent whose end nobody tells, accounts whose reference changes with each session,
-- how far a connection has been fetched, and which announcement of a consent's end was made.

ALTER TABLE banking_connections RENAME TO banking_connections_before;
CREATE TABLE banking_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  provider TEXT NOT NULL,
  -- The provider's own id of the connection, empty for a placeholder.
  provider_ref TEXT NOT NULL,
  api TEXT NOT NULL CHECK (api = 'partner' OR api = 'openbanking'),
  provider_code TEXT NOT NULL,
  provider_name TEXT NOT NULL,
  country_code TEXT NOT NULL,
  logo_url TEXT NOT NULL,
  display_name TEXT,
  -- Payment templates the bank offers, separated by blanks.
  templates TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'inactive' OR status = 'disabled' OR status = 'pending' OR status = 'pending_connect'),
  owner_user_id TEXT,
  automatic_refresh SMALLINT NOT NULL CHECK (automatic_refresh = 0 OR automatic_refresh = 1),
  next_refresh_possible_at BIGINT NOT NULL,
  -- Null if nobody tells.
  consent_expires_at BIGINT,
  error_class TEXT,
  error_message TEXT,
  -- What is under way at the provider: automatic, manual, or nothing.
  refresh_type TEXT NOT NULL,
  refresh_started_at BIGINT,
  last_automatic_at BIGINT,
  -- When everything was fetched last. Null: the next fetch goes back as far as the bank allows.
  fetched_at BIGINT,
  -- How many days before its end the consent was announced last. Null again with each new consent.
  announced_days BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
INSERT INTO banking_connections (organization_id, id, provider, provider_ref, api, provider_code, provider_name, country_code, logo_url,
  display_name, templates, status, owner_user_id, automatic_refresh, next_refresh_possible_at, consent_expires_at, error_class,
  error_message, refresh_type, refresh_started_at, last_automatic_at, created_at, updated_at)
SELECT organization_id, id, provider, provider_ref, api, provider_code, provider_name, country_code, logo_url, display_name, templates,
  status, owner_user_id, automatic_refresh, next_refresh_possible_at,
  -- Connections that are kept by files had the year 2999 as their end.
  CASE WHEN provider = 'files' THEN NULL ELSE consent_expires_at END,
  error_class, error_message, refresh_type, refresh_started_at, last_automatic_at, created_at, updated_at
FROM banking_connections_before;
DROP TABLE banking_connections_before;
CREATE UNIQUE INDEX banking_connections_by_provider ON banking_connections (provider, provider_ref) WHERE provider_ref <> '';
CREATE INDEX banking_connections_by_owner ON banking_connections (organization_id, owner_user_id);
CREATE INDEX banking_connections_unfinished ON banking_connections (created_at) WHERE status = 'pending_connect';
CREATE INDEX banking_connections_by_user ON banking_connections (owner_user_id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX banking_connections_reconnecting ON banking_connections (refresh_started_at) WHERE status = 'pending';

-- What stays the same of an account while the provider's reference changes.
ALTER TABLE banking_accounts ADD COLUMN identity TEXT;
