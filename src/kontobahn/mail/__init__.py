"""Mail to people: an outbox in the database, and the server that messages are handed to."""
