-- The way of a person to DATEV's sign-in and back: whose browser set out, for which connection, and the secrets of the attempt, sealed.
CREATE TABLE datev_sign_ins (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  state_hash TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  secrets BYTEA NOT NULL,
  begun_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, state_hash)
);

-- A sign-in at DATEV, one for a connection. It lives from the sign-in on; no refresh prolongs it.
CREATE TABLE datev_sessions (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  -- Both tokens, sealed; empty once it has ended.
  tokens BYTEA NOT NULL,
  access_until BIGINT NOT NULL,
  signed_in_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  person TEXT NOT NULL,
  -- Counts the pairs of tokens that it has had.
  generation BIGINT NOT NULL,
  -- How often the present refresh token may have been redeemed: counted before it is sent.
  tries BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id)
);

-- The clients that a sign-in can see, with the services that they have booked and their fiscal years, both as JSON.
CREATE TABLE datev_clients (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  name TEXT NOT NULL,
  services TEXT NOT NULL,
  is_default BIGINT NOT NULL,
  years TEXT NOT NULL,
  years_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id)
);

-- The postings of a client's fiscal year: a job at DATEV, and once it is done its rows, kept as long as DATEV keeps them.
CREATE TABLE datev_jobs (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  jahr TEXT NOT NULL,
  job_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'none' OR state = 'running' OR state = 'done'),
  asked_at BIGINT NOT NULL,
  polls BIGINT NOT NULL,
  next_poll_at BIGINT NOT NULL,
  -- Labels of accounts as JSON, packed.
  labels BYTEA NOT NULL,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, jahr)
);
CREATE TABLE datev_postings (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  jahr TEXT NOT NULL,
  job_id TEXT NOT NULL,
  part BIGINT NOT NULL,
  -- Postings of some accounts in columns. The number says which accounts, and which postings they are the first of.
  content BYTEA NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, jahr, job_id, part)
);

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

-- Person accounts that DATEV took from here: it does not say which it has.
CREATE TABLE datev_persons (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  connection_id TEXT NOT NULL,
  client_id TEXT NOT NULL,
  konto TEXT NOT NULL,
  sent_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, connection_id, client_id, konto)
);

-- Requests to DATEV, without tokens, codes and secrets: those who help are asked for them.
CREATE TABLE datev_requests (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  connection_id TEXT NOT NULL,
  sent_at BIGINT NOT NULL,
  method TEXT NOT NULL,
  url TEXT NOT NULL,
  headers TEXT NOT NULL,
  -- Null if there was no answer.
  status BIGINT,
  transaction_id TEXT NOT NULL,
  request_id TEXT NOT NULL,
  -- Of errors and of questions about a state; of other answers empty.
  body TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX datev_requests_by_time ON datev_requests (sent_at);
CREATE INDEX datev_requests_of_connection ON datev_requests (organization_id, connection_id, id);
