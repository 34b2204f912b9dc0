"""Outgoing events: written in the transaction of the change (outbox), sent to the receivers of an organisation (receiver, deliver)."""
