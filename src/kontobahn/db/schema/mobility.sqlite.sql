-- An invoice, its lines, its sums and its documents never change: a mistake is credited by the next invoice.
CREATE TRIGGER mobility_invoices_no_update BEFORE UPDATE ON mobility_invoices
  BEGIN SELECT RAISE(ABORT, 'mobility_invoices is append-only'); END;
CREATE TRIGGER mobility_invoices_no_delete BEFORE DELETE ON mobility_invoices
  BEGIN SELECT RAISE(ABORT, 'mobility_invoices is append-only'); END;
CREATE TRIGGER mobility_invoice_lines_no_update BEFORE UPDATE ON mobility_invoice_lines
  BEGIN SELECT RAISE(ABORT, 'mobility_invoice_lines is append-only'); END;
CREATE TRIGGER mobility_invoice_lines_no_delete BEFORE DELETE ON mobility_invoice_lines
  BEGIN SELECT RAISE(ABORT, 'mobility_invoice_lines is append-only'); END;
CREATE TRIGGER mobility_invoice_sums_no_update BEFORE UPDATE ON mobility_invoice_sums
  BEGIN SELECT RAISE(ABORT, 'mobility_invoice_sums is append-only'); END;
CREATE TRIGGER mobility_invoice_sums_no_delete BEFORE DELETE ON mobility_invoice_sums
  BEGIN SELECT RAISE(ABORT, 'mobility_invoice_sums is append-only'); END;
CREATE TRIGGER mobility_documents_no_update BEFORE UPDATE ON mobility_documents
  BEGIN SELECT RAISE(ABORT, 'mobility_documents is append-only'); END;
CREATE TRIGGER mobility_documents_no_delete BEFORE DELETE ON mobility_documents
  BEGIN SELECT RAISE(ABORT, 'mobility_documents is append-only'); END;
