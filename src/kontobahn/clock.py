"""Time. An instant is whole microseconds since 1970 UTC (columns ``*_at``); a date is a Europe/Berlin calendar day."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
# Not from `strftime`, which follows the locale of the process.
ENGLISH_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Clock(Protocol):
    def now(self) -> int:
        """The current instant."""

    def monotonic(self) -> int:
        """Microseconds that only pass: for how long something lasts in this process, whatever the clock is set to."""


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1000

    def monotonic(self) -> int:
        return time.monotonic_ns() // 1000


class ManualClock:
    """A clock that stands still until it is advanced: for tests, and for the sandbox bank."""

    def __init__(self, start: int) -> None:
        self._now = self._monotonic = start

    def now(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._monotonic

    def advance(self, *, seconds: float) -> None:
        self._now += round(seconds * SECOND)
        self._monotonic += round(seconds * SECOND)

    def set_back(self, *, seconds: float) -> None:
        """Sets the clock as an operator would, while no time passes."""
        self._now -= round(seconds * SECOND)


# Rows that are asked for again and again have the same instants each time.
@lru_cache(maxsize=4096)
def to_datetime(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / SECOND, UTC)


def optional_datetime(instant: int | None) -> datetime | None:
    return None if instant is None else to_datetime(instant)


def from_datetime(value: datetime) -> int:
    return round(value.timestamp() * SECOND)


@cache
def _berlin() -> ZoneInfo:
    return ZoneInfo("Europe/Berlin")


# Choice 8: dates are Europe/Berlin calendar days.
def berlin_date(instant: int) -> date:
    return berlin_datetime(instant).date()


def berlin_datetime(instant: int) -> datetime:
    return datetime.fromtimestamp(instant / SECOND, _berlin())


def from_berlin(value: datetime) -> int:
    """The instant at which clocks in Berlin show this; the earlier one if they do so twice."""
    return from_datetime(value.replace(tzinfo=_berlin()))


def start_of_day(day: date) -> int:
    """The instant at which a Berlin calendar day begins."""
    return from_datetime(datetime(day.year, day.month, day.day, tzinfo=_berlin()))


def end_of_day(day: date) -> int:
    """The instant at which a Berlin calendar day is over. The calendar's last one has no next day, and never ends here."""
    return start_of_day(day + timedelta(days=1) if day < date.max else day)
