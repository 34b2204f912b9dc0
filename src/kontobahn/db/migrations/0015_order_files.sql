-- Orders that a payer uploads as files: when one was handed out, and until when its page is there.

-- When the order was first handed out as a file. From then on the bank may have it, so it does not expire by itself.
ALTER TABLE banking_payments ADD COLUMN order_taken_at BIGINT;

-- Nobody knows which of the earlier orders were taken: they count as taken. Their pages last as long as those of new ones,
-- or longer than any day of execution they may name.
UPDATE banking_payments
SET order_taken_at = created_at,
    expires_at = created_at + CASE WHEN order_details LIKE '%"date"%' THEN 34128000000000 ELSE 2592000000000 END
WHERE provider = 'files' AND expires_at IS NULL;
