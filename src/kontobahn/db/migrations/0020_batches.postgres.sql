-- A batch knows its content, its author, its bookings, its protocol, and which batch took it back.
ALTER TABLE books_batches ADD COLUMN jahr TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE books_batches ADD COLUMN author TEXT COLLATE "C" NOT NULL DEFAULT '';
-- Over the rows as they were read, whatever their order and spelling. Empty for batches before this, and for those that are no file.
ALTER TABLE books_batches ADD COLUMN content TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE books_batches ADD COLUMN known BIGINT NOT NULL DEFAULT 0;
ALTER TABLE books_batches ADD COLUMN refused BIGINT NOT NULL DEFAULT 0;
ALTER TABLE books_batches ADD COLUMN warnings BIGINT NOT NULL DEFAULT 0;
-- The bookings of a batch have numbers without gaps; 0 where it has none.
ALTER TABLE books_batches ADD COLUMN first_booking BIGINT NOT NULL DEFAULT 0;
ALTER TABLE books_batches ADD COLUMN last_booking BIGINT NOT NULL DEFAULT 0;
ALTER TABLE books_batches ADD COLUMN undoes TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE books_batches ADD COLUMN undone_by TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE books_batches ADD COLUMN protokoll TEXT COLLATE "C" NOT NULL DEFAULT '';

UPDATE books_batches SET jahr = found.jahr, first_booking = found.first_id, last_booking = found.last_id FROM (
  SELECT mandant, batch, MIN(jahr) AS jahr, MIN(id) AS first_id, MAX(id) AS last_id FROM books_bookings GROUP BY mandant, batch
) found WHERE found.mandant = books_batches.mandant AND found.batch = books_batches.id;

-- A file may come again once it was taken back, and equal rows may come in another year.
DROP INDEX books_batches_by_content;
CREATE INDEX books_batches_by_sha256 ON books_batches (mandant, sha256);
CREATE UNIQUE INDEX books_batches_by_content ON books_batches (mandant, content) WHERE content <> '' AND undone_by = '';

-- To see whether a row looks booked already.
CREATE INDEX books_bookings_by_day ON books_bookings (mandant, belegdatum);
