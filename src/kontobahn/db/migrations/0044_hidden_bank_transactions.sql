-- Accounts that are not there yet, whose transactions are being written where nobody sees them.
CREATE TABLE banking_arrivals (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (organization_id, account_id)
);

-- Accounts that are gone, whose transactions are still to be removed and reported as removed.
CREATE TABLE banking_departures (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  account_id BIGINT NOT NULL,
  connection_id TEXT NOT NULL,
  PRIMARY KEY (organization_id, account_id)
);
