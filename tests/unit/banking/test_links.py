"""Links for payers: a token of ours opens what it was made for until its end, and no other text opens anything."""

from __future__ import annotations

import string
import uuid

import pytest

from kontobahn.banking.payments.links import Kind, Link, make_token, read_token
from kontobahn.vault import Vault

VAULT, ENDS = Vault(b"k" * 32), 1_900_000_000_000_000
SYMBOLS = string.ascii_letters + string.digits + "-_"


def link(kind: Kind = "payment", number: int = 7) -> Link:
    return Link(kind, str(uuid.UUID(int=5)), number, ENDS)


@pytest.mark.parametrize("made", [link(), link("file"), link(number=0), link(number=2**62)])
def test_a_token_opens_what_it_was_made_for_until_its_end(made: Link) -> None:
    token = make_token(VAULT, made)
    assert len(token) == 66, "as long as 33 bytes and a signature of 16"
    assert read_token(VAULT, token, ENDS - 1) == made
    assert read_token(VAULT, token, ENDS) is None
    assert read_token(Vault(b"x" * 32), token, ENDS - 1) is None


def test_an_altered_token_opens_nothing() -> None:
    token = make_token(VAULT, link())
    for place, symbol in enumerate(token[:-1]):
        other = SYMBOLS[SYMBOLS.index(symbol) - 1]
        assert read_token(VAULT, token[:place] + other + token[place + 1 :], 0) is None
        for added in ("!", "!!!!", "    ", "A", "="):
            assert read_token(VAULT, token[:place] + added + token[place:], 0) is None, "nothing is passed over"
    for wrong in ("", "A", token[:-1], token[:-4], token + "AAAA", "ä" + token):
        assert read_token(VAULT, wrong, 0) is None
