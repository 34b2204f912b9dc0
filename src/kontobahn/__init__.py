"""Kontobahn: ledger, banking and mobility invoicing behind one JSON API."""

__version__ = "0.2.0"
