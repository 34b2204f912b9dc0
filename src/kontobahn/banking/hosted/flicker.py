"""The flickering image that an optical TAN generator reads from the screen, drawn as an SVG that moves without a script.

Five bars: the first is the clock, the others are four bits, shown with the clock on and off. Each byte comes with its halves swapped.
"""

from __future__ import annotations

SYNC = "0FFF"
MILLISECONDS = 50
_BARS, _WIDTH, _HEIGHT, _GAP = 5, 60, 160, 12


def frames(code: str) -> list[tuple[bool, ...]]:
    """Returns the bars of each moment, for a code in hexadecimal. Raises ValueError if it is none."""
    digits = SYNC + code
    if len(digits) % 2:
        raise ValueError("a flicker code consists of whole bytes")
    shown = []
    for byte in range(0, len(digits), 2):
        for digit in (digits[byte + 1], digits[byte]):
            bits = tuple(bool(int(digit, 16) >> bit & 1) for bit in range(4))
            shown += [(True, *bits), (False, *bits)]
    return shown


def image(code: str) -> bytes:
    moments = frames(code)
    seconds = len(moments) * MILLISECONDS / 1000
    bars = []
    for bar in range(_BARS):
        values = ";".join("#fff" if moment[bar] else "#000" for moment in moments)
        # Readers expect the clock and the bits at fixed distances; the person sizes the whole with the browser's zoom.
        bars.append(
            f'<rect x="{_GAP + bar * (_WIDTH + _GAP)}" y="{_GAP}" width="{_WIDTH}" height="{_HEIGHT}" fill="#000">'
            f'<animate attributeName="fill" values="{values}" dur="{seconds}s" calcMode="discrete" repeatCount="indefinite"/></rect>'
        )
    width, height = _GAP + _BARS * (_WIDTH + _GAP), _HEIGHT + 2 * _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<rect width="{width}" height="{height}" fill="#000"/>{"".join(bars)}</svg>'
    ).encode()
