-- The audit log and the credit statement only ever grow.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME;
END $$;
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER credit_movements_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_movements
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
