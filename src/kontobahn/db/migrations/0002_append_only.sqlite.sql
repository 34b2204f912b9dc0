-- The audit log and the credit statement only ever grow.
CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER credit_movements_no_update BEFORE UPDATE ON credit_movements BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
CREATE TRIGGER credit_movements_no_delete BEFORE DELETE ON credit_movements BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
