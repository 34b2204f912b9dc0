-- Logins at FinTS banks, sealed: bank, user, PIN if it is to be kept, and the parameters that the bank sent.
CREATE TABLE fints_logins (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  ref TEXT NOT NULL,
  sealed BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, ref)
);
CREATE UNIQUE INDEX fints_logins_by_ref ON fints_logins (ref);

-- Dialogs with banks that are open now, by a hash of the organisation and its login: two may have the same, and none locks another out.
CREATE TABLE fints_dialogs (
  login TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until BIGINT NOT NULL
);
