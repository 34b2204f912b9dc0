"""Charts as SVG: lines and bars, drawn on the server. Colours come from classes, so they follow the theme and print."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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


def line(points: Sequence[Point], title: str, *, width: int = 240, height: int = 48) -> Markup:
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
    return Markup(
        f'<svg class="chart line" role="img" viewBox="0 0 {width} {height}" preserveAspectRatio="none">'
        f'<title>{escape(title)}</title>{zero}<path class="area" d="{area}"/><path class="stroke" d="{path}"/></svg>'
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


def course(past: Sequence[Point], later: Sequence[Point], title: str, write: Callable[[Value], str]) -> Markup:
    """A line up to today and, dashed, beyond it, with a scale. `past` ends and `later` begins with today; `write` words a value."""
    points = [*past, *later[1:]]
    if len(points) < 2:
        return Markup("")
    least, most = min(point.value for point in points), max(point.value for point in points)
    # A value that stays the same is seen against zero: between two of them a cent apart it would say nothing.
    ticks = scale(least, most) if least < most else scale(min(least, 0), max(most, 100))
    low, spread = ticks[0], ticks[-1] - ticks[0]
    width, height = 600, 200
    step = Decimal(width) / (len(points) - 1)
    spots = [
        (step * number, height - Decimal(point.value - low) / spread * height) for number, point in enumerate(points)
    ]
    lines = "".join(
        f'<path class="zero" d="M0 {_n(height - Decimal(tick - low) / spread * height)} H{width}"/>' for tick in ticks
    )
    known, unknown = spots[: len(past)], spots[max(len(past) - 1, 0) :]
    drawn = ""
    if len(known) > 1:
        path = _path(known)
        drawn += f'<path class="area" d="{path} L{_n(known[-1][0])} {height} L0 {height} Z"/><path class="stroke" d="{path}"/>'
    if len(unknown) > 1:
        drawn += f'<path class="stroke later" d="{_path(unknown)}"/>'
        drawn += f'<path class="today" d="M{_n(unknown[0][0])} 0 V{height}"/>'
    reach = "".join(
        f'<rect class="reach" x="{_n(x - step / 2)}" y="0" width="{_n(step)}" height="{height}">'
        f"<title>{escape(point.label)}: {escape(point.words)}</title></rect>"
        for (x, _), point in zip(spots, points, strict=True)
    )
    days = [points[0], *([past[-1]] if past and len(later) > 1 and len(past) > 1 else []), points[-1]]
    marks, labels = _listed(write(tick) for tick in reversed(ticks)), _listed(day.label for day in days)
    return Markup(
        f'<div class="plot"><ol class="ticks" aria-hidden="true">{marks}</ol>'
        f'<svg class="chart" role="img" viewBox="0 0 {width} {height}" preserveAspectRatio="none"><title>{escape(title)}</title>'
        f'{lines}{drawn}{reach}</svg><ol class="days" aria-hidden="true">{labels}</ol></div>'
    )


def _listed(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def scale(low: Value, high: Value) -> list[int]:
    """Returns round values from below the lowest to above the highest, at equal distances. Where nothing changes, a tenth of it apart:
    nobody reads cents beside thousands."""
    least, most = math.floor(low), math.ceil(high)
    wanted = most - least or max(abs(most) // 10, 1)
    unit = 10 ** max(len(str(wanted // 4)) - 1, 0)
    step = next(unit * times for times in (1, 2, 5, 10, 20) if unit * times * 4 >= wanted)
    bottom = least // step * step
    top = max(-(-most // step) * step, bottom + step)
    return list(range(bottom, top + 1, step))


def _path(spots: Sequence[tuple[Decimal, Decimal]]) -> str:
    return " ".join(f"{'L' if number else 'M'}{_n(x)} {_n(y)}" for number, (x, y) in enumerate(spots))


def _n(value: Decimal | int) -> str:
    """A coordinate with one decimal at most."""
    return f"{Decimal(value).quantize(Decimal('0.1')).normalize():f}"
