"""DATEV's online services as a ledger provider: sign-in, sealed tokens, reads through a durable job."""
