-- Several receivers an organisation: the contract's one URL, whose id is 'url', and further endpoints with a filter of events.
-- What was about an organisation's URL is about a receiver now.

CREATE TABLE webhook_receivers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  url TEXT,
  state TEXT NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'gone' OR state = 'none'),
  -- Names separated by blanks. Without a list: all events.
  events TEXT,
  description TEXT,
  secret BYTEA,
  previous_secret BYTEA,
  previous_until BIGINT,
  failing_since BIGINT,
  stopped_at BIGINT,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, id),
  CHECK ((url IS NULL) = (state = 'none')),
  CHECK ((url IS NULL) = (secret IS NULL))
);
INSERT INTO webhook_receivers (organization_id, id, url, state, secret, previous_secret, previous_until, failing_since, stopped_at,
  created_at, updated_at)
SELECT organization_id, 'url', url, state, secret, previous_secret, previous_until, failing_since, stopped_at, updated_at, updated_at
FROM webhook_endpoints;
DROP TABLE webhook_endpoints;

ALTER TABLE webhook_deliveries RENAME TO webhook_deliveries_before;
CREATE TABLE webhook_deliveries (
  organization_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  receiver_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state = 'pending' OR state = 'delivered' OR state = 'failed' OR state = 'cancelled'),
  attempts BIGINT NOT NULL,
  tries BIGINT NOT NULL,
  due_at BIGINT NOT NULL,
  settled_at BIGINT,
  PRIMARY KEY (organization_id, sequence, receiver_id)
);
INSERT INTO webhook_deliveries (organization_id, sequence, receiver_id, subject, state, attempts, tries, due_at, settled_at)
SELECT organization_id, sequence, 'url', subject, state, attempts, tries, due_at, settled_at FROM webhook_deliveries_before;
DROP TABLE webhook_deliveries_before;
CREATE INDEX webhook_deliveries_of_lane ON webhook_deliveries (organization_id, receiver_id, subject, sequence)
  WHERE state = 'pending';

ALTER TABLE webhook_attempts RENAME TO webhook_attempts_before;
CREATE TABLE webhook_attempts (
  organization_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  receiver_id TEXT NOT NULL,
  number BIGINT NOT NULL,
  at BIGINT NOT NULL,
  milliseconds BIGINT NOT NULL,
  status BIGINT,
  reason TEXT,
  PRIMARY KEY (organization_id, sequence, receiver_id, number)
);
INSERT INTO webhook_attempts (organization_id, sequence, receiver_id, number, at, milliseconds, status, reason)
SELECT organization_id, sequence, 'url', number, at, milliseconds, status, reason FROM webhook_attempts_before;
DROP TABLE webhook_attempts_before;

-- A lane is a receiver and a subject with something to deliver.
ALTER TABLE webhook_lanes RENAME TO webhook_lanes_before;
CREATE TABLE webhook_lanes (
  organization_id TEXT NOT NULL,
  receiver_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  head BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  owner TEXT,
  PRIMARY KEY (organization_id, receiver_id, subject)
);
INSERT INTO webhook_lanes (organization_id, receiver_id, subject, head, next_at, owner)
SELECT organization_id, 'url', subject, head, next_at, owner FROM webhook_lanes_before;
DROP TABLE webhook_lanes_before;
CREATE INDEX webhook_lanes_due_of_receiver ON webhook_lanes (organization_id, receiver_id, next_at);
CREATE INDEX webhook_lanes_of_owner ON webhook_lanes (owner) WHERE owner IS NOT NULL;
