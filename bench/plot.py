"""Draws a curve as SVG: both axes by powers of ten, the colours of our pages for light and dark, each line named at its end.

Lines differ in dash and in the shape of their points as well, and the figures stand in the picture's description.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape

from bench.report import Curve

WIDTH, HEIGHT = 760, 340
LEFT, RIGHT, TOP, BOTTOM = 74, 206, 44, 44
# As in tokens.css: light, dark, dash. Ours is the first.
LINES = (
    ("#0f5c56", "#74c7bb", ""),
    ("#2b4c9b", "#9db6f5", "7 4"),
    ("#8a5a00", "#e3b866", "2 4"),
    ("#a12d24", "#f0948b", "10 3 2 3"),
    ("#55605d", "#a5b2ad", "4 2"),
)
_SANS = "ui-sans-serif,system-ui,Segoe UI,Roboto,DejaVu Sans,sans-serif"
_APART = 17.0


def duration(seconds: float) -> str:
    """Three digits: 12.3 ms, 1.20 s, 345 µs."""
    unit, factor = ("s", 1) if seconds >= 1 else ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
    value = seconds * factor
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f} {unit}"


def draw(curve: Curve) -> str:
    known = [value for series in curve.series for value in series.seconds if value]
    low = math.floor(math.log10(min(known)))
    high = max(math.ceil(math.log10(max(known))), low + 1)
    first, last = math.log10(curve.sizes[0]), math.log10(curve.sizes[-1])

    def x(size: float) -> float:
        return LEFT + (math.log10(size) - first) / ((last - first) or 1) * (WIDTH - LEFT - RIGHT)

    def y(seconds: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(seconds) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [_grid(curve, [(10.0**power, y(10.0**power)) for power in range(low, high + 1)], x)]
    ends = []
    for number, series in enumerate(curve.series):
        spots = [(x(size), y(value)) for size, value in zip(curve.sizes, series.seconds, strict=True) if value]
        if not spots:
            continue
        parts.append(_line(number, spots))
        ends.append((spots[-1][1], number, series.name))
    parts += _names(ends)
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img"'
        ' aria-labelledby="title description">',
        f'<title id="title">{escape(curve.title)}</title>',
        f'<desc id="description">{escape(in_words(curve))}</desc>',
        _style(),
        f'<rect class="paper" fill="#ffffff" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="ink" fill="#1b2422" x="16" y="26" font-family="{_SANS}" font-size="15" font-weight="600">'
        f"{escape(curve.title)}</text>",
        *parts,
        "</svg>\n",
    ])  # fmt: skip


def in_words(curve: Curve) -> str:
    lines = []
    for series in curve.series:
        found = [
            f"{duration(value)} at {size:,} {curve.what}"
            for size, value in zip(curve.sizes, series.seconds, strict=True)
            if value
        ]
        lines.append(f"{series.name}: {', '.join(found) or 'not run'}.")
    return " ".join(lines)


def _style() -> str:
    """Only for dark: light colours are attributes, so they hold where a style is not allowed either."""
    lines = "".join(
        f".s{number}{{stroke:{dark}}}.f{number}{{fill:{dark}}}" for number, (_, dark, _) in enumerate(LINES)
    )
    return (
        "<style>@media(prefers-color-scheme:dark){.paper{fill:#182020}.ink{fill:#e4e9e6}.soft{fill:#a5b2ad}"
        f".rule{{stroke:#28332f}}{lines}}}</style>"
    )


def _grid(curve: Curve, steps: list[tuple[float, float]], x: Callable[[float], float]) -> str:
    right = WIDTH - RIGHT
    soft = f'class="soft" fill="#55605d" font-family="{_SANS}" font-size="12"'
    found = []
    for value, height in steps:
        found.append(f'<path class="rule" stroke="#e3e5df" d="M{LEFT} {height:.1f}H{right}"/>')
        label = duration(value).replace(".00", "").replace(".0", "")
        found.append(f'<text {soft} x="{LEFT - 10}" y="{height + 4:.1f}" text-anchor="end">{label}</text>')
    for size in curve.sizes:
        across = f"{x(size):.1f}"
        found.append(f'<path class="rule" stroke="#e3e5df" d="M{across} {TOP}V{HEIGHT - BOTTOM}"/>')
        found.append(f'<text {soft} x="{across}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{size:,}</text>')
    found.append(
        f'<text {soft} x="{(LEFT + right) / 2:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(curve.what)}</text>'
    )
    return "\n".join(found)


def _line(number: int, spots: list[tuple[float, float]]) -> str:
    light, _, dash = LINES[number % len(LINES)]
    way = " ".join(f"{'L' if place else 'M'}{x:.1f} {y:.1f}" for place, (x, y) in enumerate(spots))
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    wide = 2.5 if number == 0 else 1.7
    found = [
        f'<path class="s{number % len(LINES)}" fill="none" stroke="{light}" stroke-width="{wide}"{dashes} d="{way}"/>'
    ]
    found += [_point(number % len(LINES), light, x, y) for x, y in spots]
    return "\n".join(found)


def _point(number: int, light: str, x: float, y: float) -> str:
    """A disc, a square, a diamond, a triangle, a bar."""
    shapes = (
        f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
        f"M{x - 3.5:.1f} {y - 3.5:.1f}h7v7h-7z",
        f"M{x:.1f} {y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z",
        f"M{x:.1f} {y - 4.5:.1f}l4.5 8h-9z",
        f"M{x - 1.5:.1f} {y - 5:.1f}h3v10h-3z",
    )
    return f'<path class="f{number}" fill="{light}" d="{shapes[number]}"/>'


def _names(ends: list[tuple[float, int, str]]) -> list[str]:
    """Beside the ends of the lines, moved apart where they would cover each other."""
    placed: list[float] = []
    for height, _, _ in sorted(ends):
        placed.append(max(height, placed[-1] + _APART) if placed else height)
    over = (placed[-1] - (HEIGHT - BOTTOM)) if placed else 0
    return [
        f'<text class="f{number % len(LINES)}" fill="{LINES[number % len(LINES)][0]}" x="{WIDTH - RIGHT + 12}"'
        f' y="{place - max(over, 0) + 4:.1f}" font-family="{_SANS}" font-size="13">{escape(name)}</text>'
        for place, (_, number, name) in zip(placed, sorted(ends), strict=True)
    ]
