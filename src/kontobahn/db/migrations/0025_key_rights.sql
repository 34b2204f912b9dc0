-- Keys that may do less: scopes, and limits in euros. Links that set a new password.

-- Scopes separated by blanks; without a list a key may do all that its role allows.
ALTER TABLE api_keys ADD COLUMN scopes TEXT;
ALTER TABLE api_keys ADD COLUMN payment_limit_minor BIGINT;
ALTER TABLE api_keys ADD COLUMN daily_limit_minor BIGINT;
-- The first key of a row of rotations, under which they share one daily limit; none for a key that replaced nothing.
ALTER TABLE api_keys ADD COLUMN first_key_id TEXT;

-- From now on a key below admin without a list may not say where events are sent. Those that exist keep what they can:
-- a list of everything, within their role.
UPDATE api_keys
SET scopes = 'ledger:read ledger:write banking:read banking:write payments mobility:read mobility:write webhooks admin'
WHERE role = 'member';

-- The key that a payment was made with: the first one of its row of rotations.
ALTER TABLE banking_payments ADD COLUMN first_key_id TEXT;
CREATE INDEX banking_payments_by_maker ON banking_payments (payer_organization_id, first_key_id, created_at)
  WHERE first_key_id IS NOT NULL;

CREATE TABLE password_resets (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX password_resets_by_token ON password_resets (token_hash);
CREATE INDEX password_resets_by_user ON password_resets (organization_id, user_id);
