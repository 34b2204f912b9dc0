-- The key whose link a password was set through, with which it ends. Of passwords that were set before it is not known.
ALTER TABLE users ADD COLUMN password_key_id TEXT;
