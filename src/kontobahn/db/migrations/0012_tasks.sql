-- Work that goes on after its answer: the import of a large file. Its effect and its end are written in one transaction.
CREATE TABLE api_tasks (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  -- What it works on: the id of a connection.
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
