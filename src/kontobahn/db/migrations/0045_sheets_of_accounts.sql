CREATE TABLE books_sheets (
  mandant BIGINT NOT NULL,
  jahr TEXT COLLATE "C" NOT NULL,
  blatt TEXT COLLATE "C" NOT NULL,
  periode SMALLINT NOT NULL,
  belegdatum TEXT COLLATE "C" NOT NULL,
  booking BIGINT NOT NULL,
  PRIMARY KEY (mandant, jahr, blatt, periode, belegdatum, booking)
);
INSERT INTO books_sheets (mandant, jahr, blatt, periode, belegdatum, booking)
  SELECT mandant, jahr, konto, periode, belegdatum, id FROM books_bookings
  UNION ALL SELECT mandant, jahr, gegenkonto, periode, belegdatum, id FROM books_bookings WHERE gegenkonto <> konto
  UNION ALL SELECT mandant, jahr, aufteilung, periode, belegdatum, id FROM books_bookings WHERE aufteilung <> '-'
  ORDER BY 1, 2, 3, 4, 5, 6;
DROP INDEX books_bookings_by_konto;
DROP INDEX books_bookings_by_gegenkonto;
DROP INDEX books_bookings_by_split;
