"""Outgoing events: written in the transaction of the change (outbox), sent to one URL an organisation (endpoint, deliver)."""
