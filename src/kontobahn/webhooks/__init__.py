"""Outgoing events: written in the transaction of the change (outbox), sent to one URL per organisation (endpoint, deliver)."""
