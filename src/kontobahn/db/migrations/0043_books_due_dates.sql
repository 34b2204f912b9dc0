-- The due dates that bookings name themselves, by document: open items ask for them, whatever the history holds besides.
CREATE INDEX books_bookings_due ON books_bookings (belegfeld1, mandant) WHERE weitere LIKE '%"117":%';
