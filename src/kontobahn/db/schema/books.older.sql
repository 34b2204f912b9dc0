-- Rows that only versions before 0.1.0 wrote, and that are no longer read: a database that has some is refused.
SELECT 'bookings without their split'
  WHERE EXISTS (SELECT 1 FROM books_bookings WHERE aufteilung = '')
UNION ALL SELECT 'cash entries without the checksums of their receipts'
  WHERE EXISTS (SELECT 1 FROM books_cash_entries WHERE record NOT LIKE '%"belege":%')
UNION ALL SELECT 'cash books that share an account'
  WHERE EXISTS (SELECT 1 FROM books_cash_books GROUP BY mandant, konto HAVING COUNT(*) > 1);
