-- Until a process is about to send a payment to the bank. If it dies before, the order certainly never left.
ALTER TABLE banking_payments ADD COLUMN unsent SMALLINT NOT NULL DEFAULT 0 CHECK (unsent = 0 OR unsent = 1);
