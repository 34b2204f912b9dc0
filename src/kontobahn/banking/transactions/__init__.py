"""Transactions: ingested from what banks report, listed, and followed by a feed of changes."""
