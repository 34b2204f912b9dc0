-- Outgoing events: their receivers, the events themselves, and how far each delivery has got.

-- One row an organisation: the number of its last event. Whoever writes an event holds this row to the commit, so numbers rise
-- in the order of the commits, and who walks the log by number misses none.
CREATE TABLE webhook_logs (
  organization_id TEXT PRIMARY KEY REFERENCES organizations (id),
  last_sequence BIGINT NOT NULL
);

-- The contract's one URL, whose id is 'url', and further endpoints with a filter of events. Secrets are sealed; the previous one signs
-- too until its time is over.
CREATE TABLE webhook_receivers (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  id TEXT NOT NULL,
  url TEXT,
  state TEXT NOT NULL CHECK (state = 'active' OR state = 'paused' OR state = 'gone' OR state = 'none'),
  -- Names separated by blanks. Null for all events.
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

-- The body is the text that is signed and sent, made once.
CREATE TABLE webhook_events (
  organization_id TEXT NOT NULL REFERENCES organizations (id),
  sequence BIGINT NOT NULL,
  id TEXT NOT NULL,
  event TEXT NOT NULL,
  subject TEXT NOT NULL,
  body TEXT NOT NULL,
  received_at BIGINT NOT NULL,
  PRIMARY KEY (organization_id, sequence)
);
CREATE UNIQUE INDEX webhook_events_by_id ON webhook_events (organization_id, id);
CREATE INDEX webhook_events_by_subject ON webhook_events (organization_id, subject, sequence);
CREATE INDEX webhook_events_by_age ON webhook_events (received_at);

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
CREATE INDEX webhook_deliveries_of_lane ON webhook_deliveries (organization_id, receiver_id, subject, sequence)
  WHERE state = 'pending';
-- For the deliveries to a receiver, which may be few of many.
CREATE INDEX webhook_deliveries_of_receiver ON webhook_deliveries (organization_id, receiver_id, sequence);
-- For sending again what a receiver did not take while it was down.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (organization_id, receiver_id, sequence) WHERE state = 'failed';

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

-- A lane is a receiver and a subject with something to deliver: its earliest event is its head, and nothing overtakes the head.
-- next_at is when the head is due; while a process has it in hand, when that claim runs out.
CREATE TABLE webhook_lanes (
  organization_id TEXT NOT NULL,
  receiver_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  head BIGINT NOT NULL,
  next_at BIGINT NOT NULL,
  owner TEXT,
  PRIMARY KEY (organization_id, receiver_id, subject)
);
CREATE INDEX webhook_lanes_due_of_receiver ON webhook_lanes (organization_id, receiver_id, next_at);
CREATE INDEX webhook_lanes_of_owner ON webhook_lanes (owner) WHERE owner IS NOT NULL;
