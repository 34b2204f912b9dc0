-- The lines of a match sum to the transaction, and none is added once the match stands.
CREATE TRIGGER recon_matches_add_up BEFORE INSERT ON recon_matches
WHEN NEW.amount_minor IS NOT (SELECT SUM(amount_minor) FROM recon_lines
    WHERE organization_id = NEW.organization_id AND match_id = NEW.id)
  OR NEW.amount_minor IS NOT (SELECT amount_minor FROM banking_transactions
    WHERE account_id = NEW.account_id AND id = NEW.transaction_id AND status = 'posted')
BEGIN SELECT RAISE(ABORT, 'the lines of a match must sum to its transaction'); END;
CREATE TRIGGER recon_lines_before_match BEFORE INSERT ON recon_lines
WHEN EXISTS (SELECT 1 FROM recon_matches WHERE organization_id = NEW.organization_id AND id = NEW.match_id)
BEGIN SELECT RAISE(ABORT, 'a match that stands gets no more lines'); END;

-- A match never changes, except that it is undone once, and that it goes with its transaction when two accounts become one.
CREATE TRIGGER recon_matches_undone_once BEFORE UPDATE OF undo_id ON recon_matches WHEN OLD.undo_id IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;
CREATE TRIGGER recon_matches_no_update BEFORE UPDATE OF organization_id, id, transaction_id, connection_id, client_id,
  proposal_id, evidence, engine_version, made_on, amount_minor, payer, iban, end_to_end_id, mandate, bank_reference, made_by, made_at
ON recon_matches BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;
CREATE TRIGGER recon_matches_no_delete BEFORE DELETE ON recon_matches BEGIN SELECT RAISE(ABORT, 'recon_matches is append-only'); END;

-- Neither do its lines, nor its undoing.
CREATE TRIGGER recon_lines_no_update BEFORE UPDATE ON recon_lines
  BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
CREATE TRIGGER recon_lines_no_delete BEFORE DELETE ON recon_lines
  BEGIN SELECT RAISE(ABORT, 'recon_lines is append-only'); END;
CREATE TRIGGER recon_undos_no_update BEFORE UPDATE ON recon_undos
  BEGIN SELECT RAISE(ABORT, 'recon_undos is append-only'); END;
CREATE TRIGGER recon_undos_no_delete BEFORE DELETE ON recon_undos
  BEGIN SELECT RAISE(ABORT, 'recon_undos is append-only'); END;
