-- How often making the documents was tried, until when a try is under way, and why the last one failed.
ALTER TABLE mobility_documents_due ADD COLUMN tries BIGINT NOT NULL DEFAULT 0;
ALTER TABLE mobility_documents_due ADD COLUMN busy_until BIGINT NOT NULL DEFAULT 0;
ALTER TABLE mobility_documents_due ADD COLUMN last_error TEXT;
