"""Electronic invoices, whatever syntax they came in: their content, the rules that they are checked by, and what was found.

`invoice_files.read` reads them.
"""
