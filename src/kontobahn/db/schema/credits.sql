-- Credits: one account an organisation, the grants that fill it, what is set aside for calls, and the statement.

-- One row an organisation: its pots and the number of the last statement line. A reservation is one conditional UPDATE of it.
CREATE TABLE credit_accounts (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  available BIGINT NOT NULL CHECK (available >= 0),
  reserved BIGINT NOT NULL CHECK (reserved >= 0),
  spent BIGINT NOT NULL CHECK (spent >= 0),
  lapsed BIGINT NOT NULL CHECK (lapsed >= 0),
  granted BIGINT NOT NULL CHECK (granted = available + reserved + spent + lapsed),
  last_line BIGINT NOT NULL,
  allocated BIGINT NOT NULL,
  next_lapse_at BIGINT
);
-- For the job that lets grants lapse, which would read all accounts once a minute.
CREATE INDEX credit_accounts_by_lapse ON credit_accounts (next_lapse_at) WHERE next_lapse_at IS NOT NULL;

CREATE TABLE credit_grants (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  remaining BIGINT NOT NULL CHECK (remaining >= 0 AND remaining <= amount),
  note TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  lapsed_at BIGINT,
  PRIMARY KEY (organization_id, id)
);

-- Credits that are set aside. What became of the others stands in the statement. The account that a hold belongs to is changed in the
-- same transaction, so that there is such an organisation need not be checked for each of them.
CREATE TABLE credit_holds (
  organization_id TEXT NOT NULL,
  id TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, id)
);
CREATE INDEX credit_holds_by_expiry ON credit_holds (expires_at);

-- The statement: every movement from one pot to another, with the balance after it. Only grows.
CREATE TABLE credit_movements (
  organization_id TEXT NOT NULL,
  line BIGINT NOT NULL,
  at BIGINT NOT NULL,
  kind TEXT NOT NULL CHECK (kind = 'grant' OR kind = 'reserve' OR kind = 'confirm' OR kind = 'expire' OR kind = 'lapse'),
  from_pot TEXT NOT NULL,
  to_pot TEXT NOT NULL,
  amount BIGINT NOT NULL CHECK (amount > 0),
  available_after BIGINT NOT NULL,
  reserved_after BIGINT NOT NULL,
  reference TEXT NOT NULL,
  request_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  api_key_id TEXT,
  quelle TEXT NOT NULL,
  PRIMARY KEY (organization_id, line)
);
