"""The GiroCode on an invoice: its content (EPC069-12, version 2), and the QR code as SVG. Pure."""

from __future__ import annotations

import io

from kontobahn.money import amount_text

MAX_AMOUNT_IN_CENTS = 99_999_999_999


def payload(*, name: str, iban: str, bic: str | None, amount_in_cents: int, purpose: str) -> str:
    """Returns a SEPA transfer as a banking app reads it, in eleven lines."""
    return "\n".join(
        ["BCD", "002", "1", "SCT", bic or "", name, iban, f"EUR{amount_text(amount_in_cents)}", "", "", purpose]
    )


def to_svg(text: str) -> str:
    """Draws the code with medium error correction and at most version 13, as the standard requires."""
    import segno

    code = segno.make(text, error="m", boost_error=False, micro=False, encoding="utf-8")
    assert isinstance(code.version, int)
    assert code.version <= 13
    out = io.BytesIO()
    code.save(out, kind="svg", border=0, xmldecl=False, svgclass=None, lineclass=None, dark="#000")
    return out.getvalue().decode()
