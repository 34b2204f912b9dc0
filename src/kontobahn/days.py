"""Arithmetic of calendar days that stays within the calendar, whatever day somebody sends."""

from __future__ import annotations

from datetime import MAXYEAR, date, timedelta


def days_later(day: date, days: int) -> date:
    """Returns the day this many days later, or earlier if they are negative; the calendar's first or last one if it has none there."""
    return date.fromordinal(max(date.min.toordinal(), min(day.toordinal() + days, date.max.toordinal())))


def year_end(start: date) -> date:
    """Returns the last day of the twelve months that begin here, or the calendar's last one."""
    if start.year == MAXYEAR:
        return date.max
    if (start.month, start.day) == (2, 29):
        return date(start.year + 1, 2, 28)
    return start.replace(year=start.year + 1) - timedelta(days=1)
