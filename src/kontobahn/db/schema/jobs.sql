-- The process that does a scheduled job now, and when the job is next due.
CREATE TABLE job_leases (
  name TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  lease_until BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  finished_at BIGINT,
  last_error TEXT
);
