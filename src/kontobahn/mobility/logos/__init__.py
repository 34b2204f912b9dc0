"""The logo in the letterhead of invoices: what is taken and kept, and the calls that set it."""
