-- Every booking on the account of a cash book counts for it: the days are counted anew from the bookings.
DELETE FROM books_cash_days;
