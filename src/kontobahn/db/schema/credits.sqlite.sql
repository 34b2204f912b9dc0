-- The statement only ever grows.
CREATE TRIGGER credit_movements_no_update BEFORE UPDATE ON credit_movements
  BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
CREATE TRIGGER credit_movements_no_delete BEFORE DELETE ON credit_movements
  BEGIN SELECT RAISE(ABORT, 'the credit statement is append-only'); END;
