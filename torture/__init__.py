"""Faults on purpose: what must hold when processes die and messages come twice, late and in the wrong order."""
