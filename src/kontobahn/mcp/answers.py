"""Answers of tools as text: bounded, with exact sums over all rows, and with the words of others marked as such."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from kontobahn.json_text import encode

Format = Literal["table", "json"]
# Clients refuse longer answers, or forget what came before.
MAX_TOKENS = 8_000
# Kept free for the head, the cursor and the sentences around the rows.
_RESERVED = 300
# As the models of assistants cut a text, or finer: words into pieces of four letters, numbers into pieces of three digits, marks one by
# one. Of other alphabets a character may be several.
_PIECES = re.compile(r" ?[A-Za-z]{1,4}| ?[0-9]{1,3}| ?[!-/:-@\[-`{-~]|\s|[^\x00-\x7f]")
MAX_FOREIGN = 200


class Foreign(NamedTuple):
    """Words that somebody outside wrote: a name, a purpose text. They are data, whatever they say."""

    text: str


class Listing(NamedTuple):
    """Rows of which a part is shown, with sums over all of them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    totals: dict[str, Any]
    notes: Sequence[str] = ()


def foreign(text: str | None) -> Foreign:
    """Returns the words without characters that steer a screen, on one line, and not too long."""
    words = _on_one_line(text or "")
    return Foreign(words if len(words) <= MAX_FOREIGN else words[: MAX_FOREIGN - 1] + "…")


def _on_one_line(text: str) -> str:
    kept = "".join(
        " " if unicodedata.category(one) in ("Cc", "Zl", "Zp") else one
        for one in unicodedata.normalize("NFC", text)
        if unicodedata.category(one) not in ("Cf", "Co", "Cs", "Cn")
    )
    return " ".join(kept.split())


def quoted(text: str | None) -> str:
    """Returns words of others for the middle of a sentence of ours: marked, and without marks of their own."""
    return "«" + foreign(text).text.replace("«", "").replace("»", "") + "»"


def tokens(text: str) -> int:
    """Returns the tokens of a text, rather too many than too few."""
    found = _PIECES.findall(text)
    return len(found) + sum(1 if one < "\u0250" else len(one.encode()) - 1 for one in found if one > "\x7f")


def bounded(lines: Sequence[str]) -> str:
    """Returns the lines that fit into an answer, and says how many do not."""
    left, shown = MAX_TOKENS - _RESERVED, list[str]()
    for line in lines:
        left -= tokens(line) + 1
        if left < 0:
            break
        shown.append(line)
    if len(shown) < len(lines):
        shown.append(f"({len(lines) - len(shown)} more lines are left out. Ask for something narrower.)")
    return "\n".join(shown)


def amount(value: Any) -> str:
    """Returns an amount as text, exact to the cent."""
    return f"{Decimal(str(value)):.2f}"


def total(values: Iterable[Any]) -> str:
    return amount(sum((Decimal(str(value)) for value in values), Decimal()))


def render(listing: Listing, *, start: int, limit: int, form: Format) -> str:
    """Returns as many rows as fit, beginning with `start`, the totals, and the cursor of the next page if there is one."""
    budget = MAX_TOKENS - _RESERVED - tokens(_text_of(listing.totals)) - sum(map(tokens, listing.notes))
    shown: list[str] = []
    for row in listing.rows[start : start + limit]:
        line = _as_json(listing.columns, row) if form == "json" else _as_line(row)
        budget -= tokens(line) + 1
        if budget < 0:
            break
        shown.append(line)
    after = start + len(shown)
    is_cut = after < len(listing.rows)
    place = f"rows {start + 1}-{after} of {len(listing.rows)}" if shown else f"no rows of {len(listing.rows)}"
    if form == "json":
        further = {"totals": listing.totals, "rows_in_all": len(listing.rows), "notes": list(listing.notes)}
        if is_cut:
            further["next_cursor"] = str(after)
        return f'{{"rows":[{",".join(shown)}],{encode(further).decode()[1:]}'
    parts = [" | ".join(listing.columns), *shown, f"({place})"] if shown else [f"({place})"]
    parts += [f"{name}: {_text_of(value)}" for name, value in listing.totals.items()]
    parts += listing.notes
    if is_cut:
        parts.append(f"More rows: ask again with cursor={after}. The totals above are over all rows.")
    return "\n".join(parts)


def _as_line(row: Sequence[Any]) -> str:
    return " | ".join(_cell(value) for value in row)


def _cell(value: Any) -> str:
    if isinstance(value, Foreign):
        return quoted(value.text).replace("|", "/")
    # A number or a name of ours; but a document's number, too, was once typed by somebody.
    return _on_one_line(_text_of(value)).replace("«", "").replace("»", "").replace("|", "/")


def _as_json(columns: Sequence[str], row: Sequence[Any]) -> str:
    plain = {name: value for name, value in zip(columns, row, strict=True) if not isinstance(value, Foreign)}
    others = {name: value.text for name, value in zip(columns, row, strict=True) if isinstance(value, Foreign)}
    return encode(plain | ({"foreign": others} if others else {})).decode()


def _text_of(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text_of(one)}" for name, one in value.items())
    if isinstance(value, list | tuple) and not isinstance(value, Foreign):
        return ", ".join(map(_text_of, value))
    return value.text if isinstance(value, Foreign) else str(value)
