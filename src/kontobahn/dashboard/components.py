"""The smallest components of a page: as functions, because they stand in every row and a macro costs several times as much.

Templates know them as `parts.icon`, `parts.money` and so on, beside the macros.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Literal

from markupsafe import Markup, escape

from kontobahn.dashboard import figures
from kontobahn.dashboard.static_files import static_url

_NOTHING = Markup("–")


@cache
def icon(name: str) -> Markup:
    use = Markup('<use href="{}#{}"></use>').format(static_url("icons.svg"), name)
    return Markup('<svg class="icon" aria-hidden="true" focusable="false">{}</svg>').format(use)


def money(amount: int | Decimal | None, currency: str = "EUR", sign: bool = False) -> Markup:
    """None is what nobody told, which is not nothing."""
    if amount is None:
        return _NOTHING
    kind = " minus" if amount < 0 else " plus" if sign and amount > 0 else ""
    return Markup(f'<span class="money{kind}">{escape(figures.money(amount, currency))}</span>')


def moment(instant: datetime | int | None) -> Markup:
    if not instant:
        return _NOTHING
    return Markup(f'<time datetime="{figures.machine_time(instant)}">{figures.moment(instant)}</time>')


def day(value: date | datetime | int | None) -> Markup:
    return Markup(f"<time>{figures.day(value)}</time>") if value else _NOTHING


def badge(text: str, kind: Literal["good", "warn", "bad", "plain"] = "plain") -> Markup:
    return Markup(f'<span class="badge {escape(kind)}">{escape(text)}</span>')
