CREATE INDEX recon_transactions_of_account ON recon_transactions (organization_id, account_id, id);
CREATE INDEX recon_transactions_waiting ON recon_transactions (organization_id) WHERE state = 'open' OR state = 'proposed';
CREATE INDEX recon_matches_of_account ON recon_matches (organization_id, account_id, id);
