"""Names of partners that are the same: as they are written, or but for the legal form; never one that only begins alike."""

from __future__ import annotations

import pytest

from kontobahn.ledger.partner_names import NameIndex


@pytest.mark.parametrize(
    ("name", "kontos"),
    [
        ("Müller Bau GmbH", ["1"]),
        ("MUELLER-BAU KG", ["2"]),
        ("Mueller Bau", ["1", "2"]),
        ("Müller Bau OHG", ["1", "2"]),
        ("Müller Bau Nord", []),
        ("OBI", ["3"]),
        ("OBI GmbH", []),
        ("Vereinigte Stadtwerke Lübeck", []),
        ("", []),
        ("–", []),
    ],
)
def test_the_same_name(name: str, kontos: list[str]) -> None:
    index = NameIndex(
        [
            ("1", "Müller Bau GmbH"),
            ("2", "Müller Bau KG"),
            ("3", "OBI"),
            ("4", "Vereinigte Stadtwerke Lübeck Netz GmbH"),
        ]
    )
    assert index.same(name) == kontos
