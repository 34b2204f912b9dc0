-- Five roles instead of three; everybody keeps the one they have. The new columns say with whom a link and an invitation end.
-- A check cannot be changed on both engines, so the column is made anew.
ALTER TABLE users RENAME COLUMN role TO role_before;
ALTER TABLE users ADD COLUMN role TEXT NOT NULL DEFAULT 'read_only'
  CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner');
UPDATE users SET role = role_before;
ALTER TABLE users DROP COLUMN role_before;
ALTER TABLE invitations RENAME COLUMN role TO role_before;
ALTER TABLE invitations ADD COLUMN role TEXT NOT NULL DEFAULT 'read_only'
  CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner');
UPDATE invitations SET role = role_before;
ALTER TABLE invitations DROP COLUMN role_before;
ALTER TABLE api_keys RENAME COLUMN role TO role_before;
ALTER TABLE api_keys ADD COLUMN role TEXT NOT NULL DEFAULT 'read_only'
  CHECK (role = 'read_only' OR role = 'bookkeeping' OR role = 'member' OR role = 'admin' OR role = 'owner');
UPDATE api_keys SET role = role_before;
ALTER TABLE api_keys DROP COLUMN role_before;
ALTER TABLE invitations ADD COLUMN key_id TEXT;
ALTER TABLE password_resets ADD COLUMN made_by TEXT;
ALTER TABLE password_resets ADD COLUMN key_id TEXT;
