-- A payment above the organisation's limit waits for a second person.
ALTER TABLE banking_payments ADD COLUMN release_state TEXT CHECK (release_state = 'waiting' OR release_state = 'released');
ALTER TABLE banking_payments ADD COLUMN release_limit_minor BIGINT;
ALTER TABLE banking_payments ADD COLUMN release_expires_at BIGINT;
ALTER TABLE banking_payments ADD COLUMN maker_user_id TEXT;
ALTER TABLE banking_payments ADD COLUMN released_by TEXT;
ALTER TABLE banking_payments ADD COLUMN released_at BIGINT;
CREATE INDEX banking_payments_to_release ON banking_payments (organization_id, id)
  WHERE release_state = 'waiting' AND status = 'initiated';

CREATE TABLE banking_payment_limits (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  limit_minor BIGINT NOT NULL CHECK (limit_minor >= 0),
  changed_at BIGINT NOT NULL
);
