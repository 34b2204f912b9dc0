"""Assistants: whether an organisation lets them in, and what they prepare for a person to approve."""
