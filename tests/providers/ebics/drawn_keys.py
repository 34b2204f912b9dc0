"""Keys for the tests of EBICS: making the three of an access takes longer than whatever a test does with them."""

from __future__ import annotations

import itertools
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from kontobahn.formats.ebics import keys

# More than any test has made: all of its own differ.
KEYS = 12
_numbers = itertools.count()


@cache
def _key(number: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, keys.MIN_BITS)


def draw_keys(patch: pytest.MonkeyPatch) -> None:
    """From now on, a key that is made is the next of a few that are made once in a process."""
    patch.setattr(keys, "BITS", keys.MIN_BITS)
    patch.setattr(keys, "_make", lambda bits: _key(next(_numbers) % KEYS))
