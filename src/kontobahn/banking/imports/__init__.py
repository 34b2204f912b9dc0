"""Statement files: taken in whole and in order, account by account."""
