"""The ledger area: the books of clients, reached through connections."""
