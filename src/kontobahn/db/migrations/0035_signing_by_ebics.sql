-- Whether people may sign orders with an access, and the hash of what was sent, which a signature is made over.
ALTER TABLE ebics_accesses ADD COLUMN signs_orders BIGINT NOT NULL DEFAULT 0;
ALTER TABLE ebics_orders ADD COLUMN digest TEXT NOT NULL DEFAULT '';
