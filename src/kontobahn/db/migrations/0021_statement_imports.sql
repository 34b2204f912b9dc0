-- Files with statements that were imported or refused: by whom, when, and what came of it.
CREATE TABLE banking_imports (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  source TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  actor TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status = 'done' OR status = 'failed'),
  -- Why it was refused.
  error TEXT,
  -- JSON: counts and warnings.
  report TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX banking_imports_by_age ON banking_imports (organization_id, created_at);
