"""Payments: created, moved by reports, polled, and read."""
