CREATE UNIQUE INDEX payables_by_document ON payables (organization_id, document_guid);
ALTER TABLE payables_settings ADD COLUMN book_on TEXT NOT NULL DEFAULT '';

-- An invoice in built-in books: the accounts that a person has accepted for it, and whether it was booked with them.
CREATE TABLE payables_bookings (
  organization_id TEXT NOT NULL,
  payable_id TEXT NOT NULL,
  -- Accounts, tax keys and amounts in cents, as JSON.
  accounts TEXT NOT NULL,
  -- known: the books had the document already.
  state TEXT NOT NULL CHECK (state = 'accepted' OR state = 'booked' OR state = 'known'),
  -- The imports that it can be undone by, separated by blanks.
  import_ids TEXT NOT NULL,
  accepted_by TEXT NOT NULL,
  accepted_at BIGINT NOT NULL,
  booked_at BIGINT,
  PRIMARY KEY (organization_id, payable_id)
);
