"""The GiroCode on an invoice: the text behind it (EPC069-12, version 2) and its picture. Pure."""

from __future__ import annotations

import io

from kontobahn.money import amount_text

LARGEST_AMOUNT_IN_CENTS = 99_999_999_999


def payload(*, name: str, iban: str, bic: str | None, amount_in_cents: int, purpose: str) -> str:
    """A SEPA transfer as a banking app reads it: eleven lines, the last ones left out where they are empty."""
    return "\n".join(
        ["BCD", "002", "1", "SCT", bic or "", name, iban, f"EUR{amount_text(amount_in_cents)}", "", "", purpose]
    )


def picture(text: str) -> str:
    """The code as SVG. Medium error correction and at most version 13, as the standard has it."""
    import segno

    code = segno.make(text, error="m", boost_error=False, micro=False, encoding="utf-8")
    assert isinstance(code.version, int)
    assert code.version <= 13
    out = io.BytesIO()
    code.save(out, kind="svg", border=0, xmldecl=False, svgclass=None, lineclass=None, dark="#000")
    return out.getvalue().decode()
