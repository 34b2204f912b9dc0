-- Sessions in a browser: they end when they are not used, know their device, and when the person last confirmed who they are.
ALTER TABLE sessions ADD COLUMN device TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN idle_until BIGINT;
ALTER TABLE sessions ADD COLUMN confirmed_at BIGINT NOT NULL DEFAULT 0;

-- How a person wants the dashboard to look. NULL follows the browser.
CREATE TABLE dashboard_preferences (
  organization_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  language TEXT,
  theme TEXT,
  shortcuts BIGINT NOT NULL DEFAULT 1,
  PRIMARY KEY (organization_id, user_id),
  FOREIGN KEY (organization_id, user_id) REFERENCES users (organization_id, id) ON DELETE CASCADE
);
