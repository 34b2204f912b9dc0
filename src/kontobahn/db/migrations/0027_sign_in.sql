-- Attempts to sign in, counted by account and by account and address. Subjects are keyed hashes: an account may be nobody's.
CREATE TABLE sign_in_attempts (
  subject TEXT PRIMARY KEY,
  attempts BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX sign_in_attempts_by_end ON sign_in_attempts (expires_at);

-- Where a user has signed in from; the place is a keyed hash of the address.
CREATE TABLE sign_in_places (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  place TEXT NOT NULL,
  last_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, place),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
