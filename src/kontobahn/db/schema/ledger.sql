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

-- A write on its way to a provider that carries it out in its own time: the intent, how far it is, and what became of it.
CREATE TABLE ledger_transmissions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  title TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'OPEN' OR state = 'IN_PROGRESS' OR state = 'SUCCESS' OR state = 'PARTIAL_SUCCESS'
    OR state = 'FAILED' OR state = 'UNKNOWN'),
  -- As JSON: what is to be sent, how far that is, and the messages about it.
  content TEXT NOT NULL,
  progress TEXT NOT NULL,
  messages TEXT NOT NULL,
  payer_organization_id TEXT NOT NULL REFERENCES organizations (id),
  hold_id TEXT,
  idempotency_key TEXT,
  idempotency_fingerprint TEXT,
  request_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  -- Counts those who have worked on it.
  attempt BIGINT NOT NULL,
  polls BIGINT NOT NULL,
  next_step_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  -- Of one that failed: that which was sent in its place, or `file` if somebody handed its file over.
  followed_by TEXT,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX ledger_transmissions_of_connection ON ledger_transmissions (organization_id, connection_id, id);
CREATE INDEX ledger_transmissions_of_client ON ledger_transmissions (organization_id, connection_id, client_id, id);
CREATE INDEX ledger_transmissions_of_kind ON ledger_transmissions (organization_id, connection_id, client_id, kind, id);
CREATE INDEX ledger_transmissions_troubled ON ledger_transmissions (organization_id, updated_at)
  WHERE followed_by IS NULL AND (state = 'UNKNOWN' OR state = 'PARTIAL_SUCCESS' OR (state = 'FAILED' AND kind = 'BUCHUNGSSTAPEL'));
CREATE INDEX ledger_transmissions_due ON ledger_transmissions (next_step_at, id) WHERE state = 'OPEN' OR state = 'IN_PROGRESS';
CREATE INDEX ledger_transmissions_on_their_way ON ledger_transmissions (organization_id, connection_id, client_id, kind, id)
  WHERE state = 'OPEN' OR state = 'IN_PROGRESS';
CREATE INDEX ledger_transmissions_by_key ON ledger_transmissions (payer_organization_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE TABLE ledger_transmission_files (
  organization_id TEXT NOT NULL,
  transmission_id TEXT NOT NULL,
  position BIGINT NOT NULL,
  id TEXT NOT NULL,
  dateiname TEXT NOT NULL,
  mime_typ TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  groesse BIGINT NOT NULL,
  content BYTEA NOT NULL,
  PRIMARY KEY (organization_id, transmission_id, position),
  FOREIGN KEY (organization_id, transmission_id) REFERENCES ledger_transmissions (organization_id, id)
);
CREATE INDEX ledger_transmission_files_by_id ON ledger_transmission_files (organization_id, id);
