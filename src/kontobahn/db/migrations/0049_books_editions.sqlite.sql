-- A large file is written in slices that nobody sees until one row of books_clients says so. Bookings and movements count up to
-- last_buchung. The read models of a client are an edition: a number of its own, so that a new one can be made beside it.
ALTER TABLE books_clients ADD COLUMN edition BIGINT NOT NULL DEFAULT 0;
UPDATE books_clients SET edition = mandant;
ALTER TABLE books_periods RENAME COLUMN mandant TO edition;
ALTER TABLE books_balances RENAME COLUMN mandant TO edition;
ALTER TABLE books_items RENAME COLUMN mandant TO edition;
ALTER TABLE books_open_accounts RENAME COLUMN mandant TO edition;
ALTER TABLE books_item_years RENAME COLUMN mandant TO edition;
ALTER TABLE books_openings RENAME COLUMN mandant TO edition;
ALTER TABLE books_carry_rests RENAME COLUMN mandant TO edition;

-- The file that is being written into a client's books, and the edition that it makes.
CREATE TABLE books_preparing (
  mandant BIGINT PRIMARY KEY,
  batch TEXT NOT NULL,
  source TEXT NOT NULL,
  edition BIGINT NOT NULL,
  -- The last booking when it began, and the last number that others may use meanwhile.
  before BIGINT NOT NULL,
  ceiling BIGINT NOT NULL,
  -- Whether the new edition holds what the old one does: whoever posts from here on posts to both.
  is_copied SMALLINT NOT NULL CHECK (is_copied = 0 OR is_copied = 1),
  -- The fiscal year that the file carries over, if it does.
  carried TEXT NOT NULL,
  lease_until BIGINT NOT NULL
);

-- Editions that nobody reads any more, until their rows are deleted.
CREATE TABLE books_left_editions (
  mandant BIGINT NOT NULL,
  edition BIGINT NOT NULL,
  PRIMARY KEY (mandant, edition)
);

-- Only what nobody has seen may be deleted: a file that was given up.
DROP TRIGGER books_bookings_no_delete;
CREATE TRIGGER books_bookings_no_delete BEFORE DELETE ON books_bookings
  WHEN OLD.id <= COALESCE((SELECT last_buchung FROM books_clients WHERE mandant = OLD.mandant), OLD.id)
  BEGIN SELECT RAISE(ABORT, 'books_bookings is append-only'); END;
