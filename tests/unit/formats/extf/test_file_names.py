"""Names of written files: the format allows EXTF_ and 51 characters more."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from kontobahn.formats import extf


@pytest.mark.parametrize(
    "category", [extf.BUCHUNGSSTAPEL, extf.PERSONENKONTEN, extf.KONTENBESCHRIFTUNGEN, extf.ZAHLUNGSBEDINGUNGEN]
)
@pytest.mark.parametrize("suffix", ["", "_Abschluss", "_Abschluss_99"])
def test_the_longest_client_number_still_fits(category: extf.Category, suffix: str) -> None:
    header = extf.make_header(
        category, erzeugt_am=datetime(2026, 1, 2, 12), berater=9_999_999, mandant=99_999, wj_beginn=date(2024, 1, 1),
        sachkontenlaenge=4, datum_von=date(2024, 1, 1), datum_bis=date(2024, 12, 31), skr="03",
    )  # fmt: skip
    name = extf.file_name(header, suffix)
    assert name.startswith("EXTF_")
    assert name.endswith(f"{suffix}.csv")
    assert "9999999_99999_20240101" in name
    if category is extf.BUCHUNGSSTAPEL or not suffix:
        assert len(name.removeprefix("EXTF_").removesuffix(".csv")) <= 51


def test_a_name_that_fits_keeps_the_whole_period() -> None:
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2026, 1, 2, 12), berater=1234, mandant=1, wj_beginn=date(2024, 1, 1),
        sachkontenlaenge=4, datum_von=date(2024, 1, 1), datum_bis=date(2024, 12, 31), skr="03",
    )  # fmt: skip
    assert extf.file_name(header) == "EXTF_Buchungsstapel_1234_1_20240101_20241231.csv"
