-- How a client's sales are taxed; and since when books or a client are closed: everything stays, and nothing asks for attention.
ALTER TABLE books_clients ADD COLUMN versteuerung TEXT NOT NULL DEFAULT 'soll'
  CHECK (versteuerung = 'soll' OR versteuerung = 'ist' OR versteuerung = 'kleinunternehmer');
ALTER TABLE ledger_connections ADD COLUMN geschlossen_am BIGINT;
ALTER TABLE organizations ADD COLUMN closed_at BIGINT;
CREATE INDEX agency_clients_by_client ON agency_clients (client_organization_id);
