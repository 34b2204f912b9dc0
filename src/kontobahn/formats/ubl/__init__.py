"""Electronic invoices by EN 16931 in UBL: the places of their terms, and a writer."""
