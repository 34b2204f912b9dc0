-- Mail that is still to be sent, or was given up. What it says is sealed: a link in it is as good as a password.
CREATE TABLE mail_outbox (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  attempts BIGINT NOT NULL,
  lease_until BIGINT,
  last_error TEXT,
  given_up_at BIGINT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX mail_outbox_due ON mail_outbox (next_at) WHERE given_up_at IS NULL;
CREATE INDEX mail_outbox_given_up ON mail_outbox (given_up_at) WHERE given_up_at IS NOT NULL;
