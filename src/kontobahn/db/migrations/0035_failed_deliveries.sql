-- What a receiver did not take, to send it again after it was down.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (organization_id, receiver_id, sequence) WHERE state = 'failed';
