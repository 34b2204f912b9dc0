CREATE INDEX webhook_deliveries_of_receiver ON webhook_deliveries (organization_id, receiver_id, sequence);
CREATE INDEX banking_order_files_latest ON banking_order_files (organization_id, created_at, id);
