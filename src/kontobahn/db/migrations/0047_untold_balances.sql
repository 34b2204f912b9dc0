-- Some banks tell no balance of an account: then none is shown, and 0 would be a guess.
ALTER TABLE banking_accounts ADD COLUMN balance_known SMALLINT NOT NULL DEFAULT 1 CHECK (balance_known = 0 OR balance_known = 1);
