"""camt.052, 053 and 054: account reports, statements and advices in XML."""
