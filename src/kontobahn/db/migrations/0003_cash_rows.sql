-- The bookings on a cash book's account, by day.
CREATE TABLE books_cash_rows (
  mandant BIGINT NOT NULL,
  kassenname TEXT COLLATE "C" NOT NULL,
  datum TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  PRIMARY KEY (mandant, kassenname, datum, booking)
);
CREATE INDEX books_cash_entries_by_booking ON books_cash_entries (mandant, booking);
CREATE INDEX books_cash_entries_by_storno ON books_cash_entries (mandant, kassenname, storno_von) WHERE storno_von IS NOT NULL;
INSERT INTO books_cash_rows (mandant, kassenname, datum, booking)
  SELECT c.mandant, c.bezeichnung, b.belegdatum, b.id FROM books_cash_books c
  JOIN books_bookings b ON b.mandant = c.mandant AND (b.konto = c.konto OR b.gegenkonto = c.konto)
  WHERE b.periode <> 0 OR EXISTS (
    SELECT 1 FROM books_cash_entries e WHERE e.mandant = c.mandant AND e.booking = b.id AND e.kassenname = c.bezeichnung
  );
