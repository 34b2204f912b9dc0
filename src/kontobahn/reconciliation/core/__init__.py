"""The matcher: from a bank transaction, open items and knowledge to ranked proposals. Pure and deterministic."""
