-- Banks refuse an order whose day has passed: it is issued again, for a later day and under the same ids.
ALTER TABLE banking_payments ADD COLUMN order_issued_at BIGINT;
ALTER TABLE banking_order_files ADD COLUMN issued_at BIGINT;
