-- What is asked of payments, batches and the audit log reads those that matter, not the whole history beside them.
CREATE INDEX banking_order_file_payments_by_payment ON banking_order_file_payments (organization_id, payment_id);
CREATE INDEX banking_payments_awaiting ON banking_payments (organization_id, account_id, id)
  WHERE status IN ('authorizing', 'initiated', 'initiated_info_required');
CREATE INDEX books_batches_without_effect ON books_batches (mandant, id) WHERE undone_by <> '' OR undoes <> '';
CREATE INDEX books_batches_listed ON books_batches (mandant, id) WHERE kind <> 'kassenbuch';
CREATE INDEX books_batches_without_content ON books_batches (mandant) WHERE content = '' AND kind LIKE 'extf %';
CREATE INDEX audit_log_by_action ON audit_log (organization_id, action, id);
