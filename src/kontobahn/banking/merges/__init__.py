"""Merges: an account that stands twice becomes one, by a person, with a preview and an undoing."""
