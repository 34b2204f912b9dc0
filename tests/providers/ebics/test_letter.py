"""The letter to the bank says every digit of a key, in a form that people can compare."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import pytest

from kontobahn.bank_providers.ebics import letter

MODULUS = int("C0FFEE" * 100, 16)


@pytest.mark.parametrize("protocol", ["H004", "H005"])
def test_a_key_is_there_digit_by_digit(protocol: Literal["H004", "H005"]) -> None:
    public = SimpleNamespace(modulus=MODULUS, exponent=65537, digest=lambda given: bytes([int(given[-1])] * 32))
    kept: Any = SimpleNamespace(version="A006", own=lambda: SimpleNamespace(public=lambda: public))
    access: Any = SimpleNamespace(protocol=protocol)
    texts = letter._TEXTS["en"]
    said = letter._key(access, kept, texts, texts["A"])
    facts = dict(said["facts"])
    lines = facts[texts["modulus"]].split("\n")
    assert [len(line.split(" ")) for line in lines] == [24] * 12 + [12]
    assert {len(pair) for line in lines for pair in line.split(" ")} == {2}
    assert "".join(lines).replace(" ", "") == f"{MODULUS:X}"
    assert facts[texts["exponent"]] == "10001"
    assert said["hash"].split() == [f"0{protocol[-1]}"] * 32
    assert said["hash_title"] == texts[f"hash_{protocol}"]
