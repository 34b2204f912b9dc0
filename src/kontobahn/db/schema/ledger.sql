-- A connection to a client's books, whichever provider keeps them.
CREATE TABLE ledger_connections (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  bezeichnung TEXT,
  provider TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'pending' OR status = 'connected' OR status = 'expired' OR status = 'revoked' OR status = 'error'),
  verbunden_seit BIGINT,
  erstellt_am BIGINT NOT NULL,
  -- Since when it is closed: revoked on purpose, so that nobody is asked to renew it.
  geschlossen_am BIGINT,
  PRIMARY KEY (organization_id, id)
);
