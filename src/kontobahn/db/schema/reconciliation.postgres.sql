-- The lines of a match sum to the transaction, and none is added once the match stands.
CREATE FUNCTION recon_check_sum() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.amount_minor IS DISTINCT FROM (SELECT SUM(amount_minor) FROM recon_lines
      WHERE organization_id = NEW.organization_id AND match_id = NEW.id)
    OR NEW.amount_minor IS DISTINCT FROM (SELECT amount_minor FROM banking_transactions
      WHERE account_id = NEW.account_id AND id = NEW.transaction_id AND status = 'posted') THEN
    RAISE EXCEPTION 'the lines of a match must sum to its transaction';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER recon_matches_add_up BEFORE INSERT ON recon_matches FOR EACH ROW EXECUTE FUNCTION recon_check_sum();
CREATE FUNCTION recon_check_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT 1 FROM recon_matches WHERE organization_id = NEW.organization_id AND id = NEW.match_id) THEN
    RAISE EXCEPTION 'a match that stands gets no more lines';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON recon_lines FOR EACH ROW EXECUTE FUNCTION recon_check_open();

-- A match never changes, except that it is undone once, and that it goes with its transaction when two accounts become one.
CREATE FUNCTION recon_check_undo() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.undo_id IS NOT NULL THEN
    RAISE EXCEPTION 'recon_matches is append-only';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER recon_matches_undone_once BEFORE UPDATE OF undo_id ON recon_matches FOR EACH ROW EXECUTE FUNCTION recon_check_undo();
CREATE TRIGGER recon_matches_no_update BEFORE UPDATE OF organization_id, id, transaction_id, connection_id, client_id,
  proposal_id, evidence, engine_version, made_on, amount_minor, payer, iban, end_to_end_id, mandate, bank_reference, made_by, made_at
ON recon_matches FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER recon_matches_no_delete BEFORE DELETE OR TRUNCATE ON recon_matches
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Neither do its lines, nor its undoing.
CREATE TRIGGER recon_lines_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER recon_undos_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON recon_undos
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
