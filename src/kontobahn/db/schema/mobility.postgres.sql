-- An invoice, its lines, its sums and its documents never change: a mistake is credited by the next invoice.
CREATE TRIGGER mobility_invoices_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON mobility_invoices
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER mobility_invoice_lines_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON mobility_invoice_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER mobility_invoice_sums_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON mobility_invoice_sums
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER mobility_documents_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON mobility_documents
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
