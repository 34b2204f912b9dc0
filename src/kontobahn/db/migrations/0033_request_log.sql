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
  PRIMARY KEY (organization_id, id)
);

CREATE TABLE request_hours (
  organization_id TEXT NOT NULL,
  -- Where the hour begins.
  hour_at BIGINT NOT NULL,
  calls BIGINT NOT NULL,
  failed BIGINT NOT NULL,
  PRIMARY KEY (organization_id, hour_at)
);
