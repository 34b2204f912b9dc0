-- A person on the way through a connect flow on our own pages. The address has an unguessable token, of which only the hash is here;
-- what the provider needs to go on is sealed.
CREATE TABLE banking_interactions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  pending_token TEXT NOT NULL,
  token_hash TEXT NOT NULL,
  language TEXT,
  -- Rises with each step: a form of an earlier one comes from the back button or a second click.
  number BIGINT NOT NULL,
  -- The request, the step and the provider's state. Null when it is over.
  sealed BYTEA,
  -- While the bank is asked.
  claimed_until BIGINT,
  next_poll_at BIGINT,
  polls BIGINT NOT NULL,
  -- How it ended.
  outcome TEXT CHECK (outcome = 'done' OR outcome = 'failed'),
  error_class TEXT,
  error_message TEXT,
  expires_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, pending_token)
);
CREATE UNIQUE INDEX banking_interactions_by_token ON banking_interactions (token_hash);
CREATE INDEX banking_interactions_by_age ON banking_interactions (expires_at);
