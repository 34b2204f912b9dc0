-- A file may come again for what no longer stands of it: two imports of the same content may count.
DROP INDEX books_batches_by_content;
CREATE INDEX books_batches_by_content ON books_batches (mandant, content) WHERE content <> '' AND undone_by = '';
CREATE INDEX books_bookings_reversals ON books_bookings (mandant, belegfeld1) WHERE generalumkehr = 1;
