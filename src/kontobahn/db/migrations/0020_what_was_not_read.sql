-- One account that cannot be read no longer keeps the others from being read; it says so itself.
ALTER TABLE banking_accounts ADD COLUMN not_read TEXT NOT NULL DEFAULT '[]';
