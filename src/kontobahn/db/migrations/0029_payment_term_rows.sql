-- The row of the file that payment terms came from: an export writes it again. Terms from before have none.
ALTER TABLE books_payment_terms ADD COLUMN extf TEXT NOT NULL DEFAULT '';
