-- Deliveries are told apart by the path they came to; a person's return from a bank's page is one as well, and sealed.
ALTER TABLE banking_inbox ADD COLUMN kind TEXT;
