-- Logins at FinTS banks, sealed: bank, user, PIN if it is to be kept, and what the bank told of itself.
CREATE TABLE fints_logins (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, ref)
);
CREATE UNIQUE INDEX fints_logins_by_ref ON fints_logins (ref);

-- Who has a dialog with a bank now, by a hash of the login: a bank login belongs to no organisation, and two may have the same.
CREATE TABLE fints_dialogs (
  login TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until BIGINT NOT NULL
);
