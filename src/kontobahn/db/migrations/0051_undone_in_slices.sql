-- A large batch is undone in slices that nobody sees until one row of books_clients says so.
-- The batch whose movements do not count any more and are being deleted, by its bookings; 0 if there is none.
ALTER TABLE books_clients ADD COLUMN undone_from BIGINT NOT NULL DEFAULT 0;
ALTER TABLE books_clients ADD COLUMN undone_to BIGINT NOT NULL DEFAULT 0;
-- The batch that is being undone instead of a file being written, and the fiscal year that is not carried over without it.
ALTER TABLE books_preparing ADD COLUMN undoes TEXT NOT NULL DEFAULT '';
ALTER TABLE books_preparing ADD COLUMN uncarried TEXT NOT NULL DEFAULT '';
