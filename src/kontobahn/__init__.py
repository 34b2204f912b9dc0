"""Kontobahn: ledger, banking and mobility invoicing behind one JSON API."""

__version__ = "1.0.0"
