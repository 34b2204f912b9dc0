-- Approvals in the banking app at the sandbox bank: when the app answers, in the bank's time. Null if none is awaited.

ALTER TABLE sandbox_flows ADD COLUMN approval_at BIGINT;
ALTER TABLE sandbox_payments ADD COLUMN approval_at BIGINT;
CREATE INDEX sandbox_flows_to_approve ON sandbox_flows (approval_at) WHERE approval_at IS NOT NULL;
CREATE INDEX sandbox_payments_to_approve ON sandbox_payments (approval_at) WHERE approval_at IS NOT NULL;
