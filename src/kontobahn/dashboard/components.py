"""The smallest components of a page: as functions, because they stand in every row and a macro costs several times as much.

Templates know them as `parts.icon`, `parts.money` and so on, beside the macros.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from types import SimpleNamespace
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


def moment(instant: datetime | int | None, *, seconds: bool = False) -> Markup:
    if not instant:
        return _NOTHING
    day_part, comma, time_part = figures.moment(instant, seconds=seconds).partition(", ")
    text = f"{_in_one_line(day_part)}{comma}{time_part}"
    return Markup(f'<time datetime="{figures.machine_time(instant)}">{text}</time>')


def day(value: date | datetime | int | None) -> Markup:
    return Markup(f"<time>{_in_one_line(figures.day(value))}</time>") if value else _NOTHING


def _in_one_line(day: str) -> str:
    """Joins an English day by spaces that do not break, so that a narrow column does not give it three lines."""
    return day.replace(" ", "\N{NO-BREAK SPACE}")


def badge(text: str, kind: Literal["good", "warn", "bad", "plain"] = "plain") -> Markup:
    return Markup(f'<span class="badge {escape(kind)}">{escape(text)}</span>')


def cells(columns: Mapping[str, tuple[str, str] | None]) -> SimpleNamespace:
    """Returns the attributes of each column's cells by its name: the class, and the title as a label for narrow screens.

    A column of the kind `bare` has no label: its content speaks for itself.
    """
    return SimpleNamespace(**{name: _attributes(*column) for name, column in columns.items() if column is not None})


def _attributes(title: str, kind: str) -> Markup:
    name = column_class(kind)
    attributes = Markup(' class="{}"').format(name) if name else Markup("")
    return attributes + Markup(' data-label="{}"').format(title) if title and "bare" not in kind.split() else attributes


def column_class(kind: str) -> str:
    """The class of a column's head and cells."""
    return " ".join(word for word in kind.split() if word != "bare")
