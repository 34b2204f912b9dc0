"""IBANs as people read them."""

from __future__ import annotations


def in_groups(iban: str) -> str:
    """Returns ``DE02120300000000202051`` as ``DE02 1203 0000 0000 2020 51``."""
    return " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))
