-- A person's wishes for the dashboard. Null follows the browser.
CREATE TABLE dashboard_preferences (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  language TEXT,
  theme TEXT,
  shortcuts BIGINT NOT NULL DEFAULT 1,
  PRIMARY KEY (organization_id, user_id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);

-- The notices by mail that a person has chosen, for and against.
CREATE TABLE dashboard_notices (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  wanted BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, kind),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);

-- The matters of an organisation that somebody was told, for as long as they last.
CREATE TABLE dashboard_notices_told (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  user_id TEXT NOT NULL,
  fact TEXT NOT NULL,
  told_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, user_id, fact)
);
CREATE INDEX dashboard_notices_told_by_time ON dashboard_notices_told (told_at);
