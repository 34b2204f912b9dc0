-- From an account of the trial balance to its bookings, whichever of a booking's two accounts it is.
CREATE INDEX books_bookings_by_konto ON books_bookings (mandant, jahr, konto, id);
CREATE INDEX books_bookings_by_gegenkonto ON books_bookings (mandant, jahr, gegenkonto, id);
-- A page knows the connection, which was found in the caller's scope, and the client's number there.
CREATE INDEX books_clients_by_connection ON books_clients (connection_id, client_id);
