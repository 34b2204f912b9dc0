-- Rows that only versions before 0.1.0 wrote, and that are no longer read: a database that has some is refused.
SELECT 'statements that are part of no span' WHERE EXISTS (SELECT 1 FROM banking_statements WHERE span IS NULL);
