-- The log of requests says why a call was refused.
ALTER TABLE request_log ADD COLUMN error TEXT NOT NULL DEFAULT '';
ALTER TABLE request_log ADD COLUMN field TEXT NOT NULL DEFAULT '';
