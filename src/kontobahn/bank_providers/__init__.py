"""Adapters of the banking port. Only the composition root names them."""
