"""Charts as SVG: lines and bars, drawn on the server. Colours come from classes, so they follow the theme and print."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from markupsafe import Markup, escape

Value = int | Decimal


class Point(NamedTuple):
    # Its meaning ("3 Mar") and its value in words ("€12.00"), for whoever points at it or cannot see it.
    label: str
    value: Value
    words: str


class Bar(NamedTuple):
    label: str
    # From the bottom upwards; the classes `series-1` to `series-4` colour them.
    values: Sequence[Value]
    words: str


def line(points: Sequence[Point], title: str, *, width: int = 240, height: int = 48, axis: bool = False) -> Markup:
    """A line over time. `title` says in words what it shows."""
    if len(points) < 2:
        return Markup("")
    low, high = min(point.value for point in points), max(point.value for point in points)
    pad = 3
    bottom = height - pad
    step = Decimal(width - 2 * pad) / (len(points) - 1)
    spread = Decimal(high - low) or Decimal(1)
    spots = [
        (pad + step * number, bottom - (Decimal(point.value - low) / spread) * (height - 2 * pad))
        for number, point in enumerate(points)
    ]
    path = " ".join(f"{'M' if not number else 'L'}{_n(x)} {_n(y)}" for number, (x, y) in enumerate(spots))
    area = f"{path} L{_n(spots[-1][0])} {height} L{_n(spots[0][0])} {height} Z"
    zero = ""
    if low < 0 < high:
        y = _n(bottom - (Decimal(-low) / spread) * (height - 2 * pad))
        zero = f'<path class="zero" d="M0 {y} H{width}"/>'
    dots = "".join(
        f'<circle cx="{_n(x)}" cy="{_n(y)}" r="3"><title>{escape(point.label)}: {escape(point.words)}</title></circle>'
        for (x, y), point in zip(spots, points, strict=True)
        if axis
    )
    return Markup(
        f'<svg class="chart line" role="img" viewBox="0 0 {width} {height}" preserveAspectRatio="none">'
        f'<title>{escape(title)}</title>{zero}<path class="area" d="{area}"/><path class="stroke" d="{path}"/>{dots}</svg>'
    )


def bars(rows: Sequence[Bar], title: str, *, width: int = 560, height: int = 140) -> Markup:
    """A bar for each row, its values on top of each other."""
    if not rows:
        return Markup("")
    highest = max([sum(map(Decimal, row.values), Decimal(0)) for row in rows]) or Decimal(1)
    slot = Decimal(width) / len(rows)
    wide = min(slot * Decimal("0.72"), Decimal(48))
    drawn = []
    for number, row in enumerate(rows):
        x = slot * number + (slot - wide) / 2
        y = Decimal(height)
        drawn.append(f"<g><title>{escape(row.label)}: {escape(row.words)}</title>")
        drawn.append(f'<rect class="reach" x="{_n(slot * number)}" y="0" width="{_n(slot)}" height="{height}"/>')
        for series, value in enumerate(row.values, 1):
            tall = Decimal(value) / highest * (height - 4)
            y -= tall
            if tall > 0:
                drawn.append(
                    f'<rect class="series-{series}" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(tall)}" rx="2"/>'
                )
        drawn.append("</g>")
    return Markup(
        f'<svg class="chart bars" role="img" viewBox="0 0 {width} {height}" preserveAspectRatio="none">'
        f"<title>{escape(title)}</title>{''.join(drawn)}"
        f'<path class="zero" d="M0 {height} H{width}"/></svg>'
    )


def _n(value: Decimal | int) -> str:
    """A coordinate with one decimal at most."""
    return f"{Decimal(value).quantize(Decimal('0.1')).normalize():f}"
