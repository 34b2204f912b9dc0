-- Banks check the payee's name before an order is released, and tell the holder's name where it is close.
ALTER TABLE banking_payments ADD COLUMN payee_result TEXT CHECK (payee_result = 'match' OR payee_result = 'close_match'
  OR payee_result = 'no_match' OR payee_result = 'not_possible' OR payee_result = 'pending');
ALTER TABLE banking_payments ADD COLUMN payee_submitted_name TEXT;
ALTER TABLE banking_payments ADD COLUMN payee_returned_name TEXT;
ALTER TABLE banking_payments ADD COLUMN payee_source TEXT;
ALTER TABLE banking_payments ADD COLUMN payee_checked_at BIGINT;

CREATE TABLE banking_payees (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  iban TEXT NOT NULL,
  name TEXT NOT NULL,
  taken_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, iban)
);
