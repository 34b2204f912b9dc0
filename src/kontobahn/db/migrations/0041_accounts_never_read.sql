-- What could not be read at the last fetch of accounts that were never read.
ALTER TABLE banking_connections ADD COLUMN not_read TEXT NOT NULL DEFAULT '[]';
