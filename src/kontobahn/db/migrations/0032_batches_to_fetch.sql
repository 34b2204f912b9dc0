-- DATEV files of batches that nobody has fetched yet.
CREATE TABLE recon_batches_to_fetch (
  organization_id TEXT NOT NULL,
  batch_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, batch_id),
  FOREIGN KEY (organization_id, batch_id) REFERENCES recon_batches (organization_id, id)
);
