-- What a person restricts an assistant to, and what ends it: a new password, a factor that is removed.
ALTER TABLE users ADD COLUMN ways_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE assistants_grants ADD COLUMN ways_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE assistants_grants ADD COLUMN clients TEXT;
ALTER TABLE assistants_grants ADD COLUMN daily_limit_minor BIGINT;
ALTER TABLE assistants_prepared ADD COLUMN counted_by TEXT NOT NULL DEFAULT '';
ALTER TABLE assistants_prepared ADD COLUMN amount_minor BIGINT NOT NULL DEFAULT 0;
CREATE INDEX assistants_prepared_by_caller ON assistants_prepared (organization_id, counted_by, created_at);
