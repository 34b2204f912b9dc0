-- A rule acts alone where somebody says so.
ALTER TABLE recon_rules ADD COLUMN acts SMALLINT NOT NULL DEFAULT 0 CHECK (acts = 0 OR acts = 1);
