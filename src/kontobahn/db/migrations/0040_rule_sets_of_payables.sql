-- The sets of rules that an invoice was checked by, with their versions, as JSON.
ALTER TABLE payables ADD COLUMN rule_sets TEXT NOT NULL DEFAULT '[]';
CREATE INDEX payables_by_tax_number ON payables (organization_id, creditor_tax_number, id);
