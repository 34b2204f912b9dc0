-- The statement only ever grows.
CREATE TRIGGER credit_movements_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_movements
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
