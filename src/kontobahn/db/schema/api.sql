-- Calls that must not happen twice, work that outlives its call, and the count and list of calls.

-- The scope is the organisation, or 'public' for the few calls made without one.
CREATE TABLE idempotency_keys (
  scope TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'running' OR state = 'done'),
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  status BIGINT,
  answer BYTEA,
  -- The organisations that the first caller could act for, separated by blanks: its answer is not for callers who may do less.
  organizations TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (scope, idempotency_key)
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at);

-- Work that goes on after its answer: the import of a large file. Its effect and its end are written in one transaction.
CREATE TABLE api_tasks (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  -- The id of the connection that it works on.
  subject TEXT NOT NULL,
  source TEXT NOT NULL,
  actor TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'running' OR status = 'done' OR status = 'failed'),
  -- JSON: the answer of one that is done, the error of one that failed.
  answer TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  finished_at BIGINT,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX api_tasks_running ON api_tasks (lease_until) WHERE status = 'running';
CREATE INDEX api_tasks_finished ON api_tasks (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE usage_counts (
  organization_id TEXT NOT NULL,
  day TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  calls BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  credits BIGINT NOT NULL,
  PRIMARY KEY (organization_id, day, endpoint, api_key_id, quelle)
);

-- Calls of the API as people look at them, and how many there were by the hour. Written in batches after the answers: what a killed
-- process had not written yet is lost. Ids rise without gaps within an organisation, so the number of rows is bounded by them.
CREATE TABLE request_logs (
  organization_id TEXT PRIMARY KEY,
  last_id BIGINT NOT NULL
);

CREATE TABLE request_log (
  organization_id TEXT NOT NULL,
  id BIGINT NOT NULL,
  at BIGINT NOT NULL,
  -- Empty for a person who is signed in.
  api_key_id TEXT NOT NULL,
  quelle TEXT NOT NULL,
  -- The declared one, and the path and query that were asked for, without values that may be about a person.
  endpoint TEXT NOT NULL,
  target TEXT NOT NULL,
  status BIGINT NOT NULL,
  request_id TEXT NOT NULL,
  credits BIGINT NOT NULL,
  microseconds BIGINT NOT NULL,
  -- The sentence that it was refused with, without values that were sent, and the field that was at fault.
  error TEXT NOT NULL DEFAULT '',
  field TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (organization_id, id)
);

CREATE TABLE request_hours (
  organization_id TEXT NOT NULL,
  -- The beginning of the hour.
  hour_at BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  PRIMARY KEY (organization_id, hour_at)
);
