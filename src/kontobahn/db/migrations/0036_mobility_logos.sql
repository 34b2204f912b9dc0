-- Pictures in the letterhead of invoices, by their content. An invoice names the one it was issued with.
CREATE TABLE mobility_logos (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sha256 TEXT NOT NULL,
  media_type TEXT NOT NULL,
  width BIGINT NOT NULL,
  height BIGINT NOT NULL,
  content BYTEA NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, sha256)
);
ALTER TABLE mobility_sellers ADD COLUMN logo_sha256 TEXT;
ALTER TABLE mobility_invoices ADD COLUMN logo_sha256 TEXT;
CREATE INDEX mobility_invoices_by_logo ON mobility_invoices (organization_id, logo_sha256) WHERE logo_sha256 IS NOT NULL;
