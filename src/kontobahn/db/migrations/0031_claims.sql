-- What an idempotency key was sent for, kept with the payment: its claim may be gone when the call is repeated.
ALTER TABLE banking_payments ADD COLUMN idempotency_fingerprint TEXT;

-- The organisations that the first caller could act for, separated by blanks: its answer is not for callers who may do less.
-- Empty for claims from before.
ALTER TABLE idempotency_keys ADD COLUMN organizations TEXT NOT NULL DEFAULT '';
