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
