"""Received invoices: taken in, understood, released by people."""
