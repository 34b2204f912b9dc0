-- Person accounts that DATEV took from here: it does not say which it has.
CREATE TABLE datev_persons (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  konto TEXT NOT NULL,
  sent_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, konto)
);
