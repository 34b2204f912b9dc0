"""Long lists: fifty rows at a time by keyset, filters that are addresses, and a chip for each filter that is set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from kontobahn.banking.wire import Word
from kontobahn.dashboard import figures
from kontobahn.dashboard.forms import Form
from kontobahn.dashboard.words import _, language
from kontobahn.money import to_minor

PAGE_SIZE = 50
AFTER = "after"
SORT = "sort"
T = TypeVar("T")
S = TypeVar("S", bound=Struct)
MAX_WORDS = 8
MAX_TYPED = 200
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_AMOUNT = re.compile(r"[-+−]?[0-9][0-9.,\s\u00a0\u202f]*(€|EUR)?", re.IGNORECASE)
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{4,30}", re.IGNORECASE)


class Rows(NamedTuple, Generic[T]):
    """One page of a list. Ask for one row more than `PAGE_SIZE` and cut it with `first_page`."""

    rows: list[T]
    # The address of the next page, and of the first one if this is not it.
    next_url: str | None
    first_url: str | None


class Chip(NamedTuple):
    label: str
    value: str
    # The address without this filter.
    without: str


class SortLink(NamedTuple):
    """The head of a column that a list can be sorted by."""

    url: str
    # The direction in which the list is sorted by this column now, if it is.
    direction: Literal["ascending", "descending", ""]


class Filters(Generic[S]):
    """The filters of a list, read from the address; a value that makes no sense is said beside its field and left out."""

    def __init__(self, path: str, struct: type[S], sent: Mapping[str, Sequence[str]]) -> None:
        self._path = path
        names = struct.__struct_fields__
        self.form = Form({name: values for name, values in sent.items() if name in names})
        wanted = self.form.read(struct)
        if wanted is None:
            good = {name: values for name, values in self.form.values.items() if name not in self.form.errors}
            wanted = Form(good).read(struct)
        assert wanted is not None, "every filter has a default"
        self.wanted: S = wanted
        self.after = (sent.get(AFTER) or [""])[-1]

    @property
    def is_set(self) -> bool:
        return any(self._set().values())

    def _set(self) -> dict[str, list[str]]:
        given = {name: [text for text in values if text.strip()] for name, values in self.form.values.items()}
        return {name: values for name, values in given.items() if values and name not in self.form.errors}

    def url(self, **changed: Any) -> str:
        """The address of this list with some filters changed; None takes one out."""
        fields: dict[str, Any] = {**self._set(), **changed}
        query = urlencode({name: value for name, value in fields.items() if value is not None}, doseq=True)
        return f"{self._path}?{query}" if query else self._path

    def chips(self, labels: Mapping[str, str], show: Callable[[str, str], str] = lambda name, text: text) -> list[Chip]:
        """One for each filter that is set and has a label; `show` turns a value into words, unless it is a day."""
        return [
            Chip(labels[name], ", ".join(_day(text) or show(name, text) for text in values), self.url(**{name: None}))
            for name, values in self._set().items()
            if name in labels
        ]

    def first_page(self, found: Sequence[T], key: Callable[[T], Any], stopped_at: str | None = None) -> Rows[T]:
        """`stopped_at` is the key of the place where a search gave up: the next page goes on from there."""
        rows = list(found[:PAGE_SIZE])
        last = stopped_at or (key(rows[-1]) if len(found) > PAGE_SIZE else None)
        next_url = self.url(**{AFTER: last}) if last is not None else None
        return Rows(rows, next_url, self.url() if self.after else None)

    def place(self) -> int:
        """Returns how many rows come before this page, in a list whose place is a number."""
        return int(self.after) if self.after.isascii() and self.after.isdigit() and len(self.after) < 10 else 0

    def cut(self, rows: Sequence[T]) -> Rows[T]:
        """Returns this page of a list that is held as a whole; the address of the next one names its place."""
        start = self.place()
        end = start + PAGE_SIZE
        next_url = self.url(**{AFTER: end}) if end < len(rows) else None
        return Rows(list(rows[start:end]), next_url, self.url() if start else None)

    def csv_url(self) -> str:
        """The address of this list as a CSV file."""
        return self.as_file("csv")

    def as_file(self, ending: str) -> str:
        """The address of this list as a file: `/open-items` is `/open-items.pdf`."""
        return self.url().replace(self._path, f"{self._path}.{ending}", 1)

    # --- The order of a list, by any of its columns: `sort=name`, or `sort=-name` for the other direction

    def in_order(self, rows: Iterable[T], keys: Mapping[str, Callable[[T], Any]], first: str) -> list[T]:
        """Returns the rows in the order that the address asks for; `first` if it asks for none."""
        wanted = self._order(keys, first)
        return sorted(rows, key=keys[wanted.removeprefix("-")], reverse=wanted.startswith("-"))

    def sort_links(self, keys: Mapping[str, Any], first: str) -> dict[str, SortLink]:
        """Returns the link of each column's head: to the list sorted by it, or the other way round if it is already."""
        wanted = self._order(keys, first)
        found: dict[str, SortLink] = {}
        for name in keys:
            url = self.url(**{SORT: f"-{name}" if wanted == name else name})
            direction: Literal["ascending", "descending", ""] = ""
            if name == wanted.removeprefix("-"):
                direction = "descending" if wanted.startswith("-") else "ascending"
            found[name] = SortLink(url, direction)
        return found

    def _order(self, keys: Mapping[str, Any], first: str) -> str:
        wanted = self.form.text(SORT)
        return wanted if wanted.removeprefix("-") in keys else first

    def days(self, today: date, since: str = "from_date", until: str = "to_date") -> list[tuple[str, str, bool]]:
        """Links to the usual spans: text, address, and whether it is the present one."""
        month, year = today.replace(day=1), today.replace(month=1, day=1)
        spans = [
            (_("Today"), today),
            (_("7 days"), today - timedelta(days=6)),
            (_("30 days"), today - timedelta(days=29)),
            (_("90 days"), today - timedelta(days=89)),
            (_("This month"), month),
            (_("This year"), year),
        ]
        present = (self.form.text(since), self.form.text(until))
        return [
            (
                text,
                self.url(**{since: first.isoformat(), until: today.isoformat()}),
                present == (first.isoformat(), today.isoformat()),
            )
            for text, first in spans
        ]


# --- Words typed into the one search field of a list: an amount, an IBAN or words. Every word must be found.


def _day(text: str) -> str | None:
    """Returns a day of an address as people write it; None for anything else."""
    try:
        return figures.day(date.fromisoformat(text)) if _DAY.fullmatch(text) else None
    except ValueError:
        return None


def search_words(typed: str) -> list[Word]:
    """An amount or an IBAN may contain blanks; everything else is taken word by word."""
    text = " ".join(typed[:MAX_TYPED].split())
    if not text:
        return []
    amounts = _amounts(text)
    if amounts:
        return [Word(text.casefold(), _pattern(text), amounts)]
    compact = text.replace(" ", "")
    if is_iban(text):
        groups = [compact[start : start + 4] for start in range(0, len(compact), 4)]
        return [Word(compact.casefold(), "%".join(_pattern(group).strip("%") for group in groups).join("%%"))]
    return [Word(word.casefold(), _pattern(word), _amounts(word)) for word in text.split()[:MAX_WORDS]]


def is_iban(text: str) -> bool:
    """Returns whether this looks like an IBAN or the beginning of one."""
    compact = text.replace(" ", "")
    return bool(_IBAN.fullmatch(compact)) and any(character.isdigit() for character in compact[4:])


def _amounts(text: str) -> tuple[int, ...]:
    """The cents that are meant: without a sign, money in and money out."""
    if not _AMOUNT.fullmatch(text):
        return ()
    try:
        cents = to_minor(figures.parse_amount(text.lstrip("+")))
    except ValueError:
        return ()
    return (cents,) if text[0] in "-+−" else (cents, -cents)


def _pattern(word: str) -> str:
    return f"%{''.join(map(_letter, word.casefold().replace('ss', 'ß')))}%"


def _letter(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character
    # A letter of another case may have more bytes, and the stored text may write it in another way.
    return "%" if character in 'ß"\\ ' or not character.isprintable() else "_"


# A table as a CSV file that spreadsheet programs open as it is meant, and do not run.


Cell = str | int | Decimal | date | None
# Characters that a spreadsheet program may take as the start of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")
# Without it, spreadsheet programs take UTF-8 for something else.
_BYTE_ORDER_MARK = "\ufeff"


def write_csv(head: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Text is defused; Decimals are amounts, written as the language does."""
    separator = ";" if language() == "de" else ","
    lines = [separator.join(_quoted(title, separator) for title in head)]
    lines += [separator.join(_cell(value, separator) for value in row) for row in rows]
    return (_BYTE_ORDER_MARK + "\r\n".join(lines) + "\r\n").encode()


def _cell(value: Cell, separator: str) -> str:
    if value is None:
        return ""
    if isinstance(value, Decimal):
        return _quoted(figures.plain_amount(value), separator)
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int):
        return str(value)
    return _quoted(f"'{value}" if value.startswith(_FORMULA) else value, separator)


def _quoted(text: str, separator: str) -> str:
    if any(character in text for character in (separator, '"', "\n", "\r", ",", ";")):
        return '"' + text.replace('"', '""') + '"'
    return text
