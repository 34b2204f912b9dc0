DROP INDEX books_bookings_by_konto;
DROP INDEX books_bookings_by_gegenkonto;
CREATE INDEX books_bookings_by_konto ON books_bookings (mandant, jahr, konto, periode, belegdatum, id);
CREATE INDEX books_bookings_by_gegenkonto ON books_bookings (mandant, jahr, gegenkonto, periode, belegdatum, id);
CREATE INDEX books_bookings_by_split ON books_bookings (mandant, jahr, aufteilung, periode, belegdatum, id)
  WHERE aufteilung <> '-';
