-- The names of a client's cash books or folders in a month, which DATEV tells only in answer to a job.
CREATE TABLE datev_folders (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  month TEXT NOT NULL,
  names TEXT NOT NULL,
  asked_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, kind)
);
