"""pain.001 written, pain.002 read, and what SEPA lets through."""
