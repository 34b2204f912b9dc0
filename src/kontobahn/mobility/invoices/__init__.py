"""Collective invoices: issued in one transaction, frozen, and turned into PDF and XML afterwards."""
