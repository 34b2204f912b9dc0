"""Reconciliation: which payment paid which invoice, with reasons. Above the areas, which do not know each other."""
