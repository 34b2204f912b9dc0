"""What a JSON body must not be although a decoder takes it: a name twice in one object, NUL characters, endless nesting.

Walks the decoded text level by level, so that no depth of nesting uses up the stack.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from kontobahn.errors import BadRequest, TooLarge

MAX_DEPTH = 100
# Objects and arrays of a body, many more than any call takes: each costs the garbage collector time that all calls wait for.
MAX_CONTAINERS = 50_000
_PATH_LENGTH = 200
_LONG_TEXT = 1024
_BACKSLASH = ord("\\")
_decode = msgspec.json.Decoder().decode
# Every name is followed by a colon; inside a text the same characters have a backslash before them.
_COLON = re.compile(rb"[ \t\r\n]*:")
_END_OF_NAME = re.compile(rb'"[ \t\r\n]*:')


def refuse_what_nobody_means(body: bytes) -> None:
    """Raises BadRequest for valid JSON that has no clear meaning, or that cannot be stored."""
    value = _decode(body)
    names = _count_names(value)
    if rb"\u0000" in body:
        _refuse_nul(value)
    # Choice 43: with a name given twice, fewer arrive than were sent. Counting colons settles nearly every body.
    if names == body.count(b":") or names == len(_END_OF_NAME.findall(body)):
        return
    repeated = _find_repeated(body)
    if repeated is not None:
        raise BadRequest(f"The field `{repeated}` is given twice in one object.", field=repeated)


def refuse_too_many(body: bytes) -> None:
    """Raises BadRequest for a body with more objects and arrays than anybody sends."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise BadRequest(f"The request body has more than {MAX_CONTAINERS} objects and arrays.")


def without_long_texts(body: bytes, limit: int) -> bytes:
    """Returns the body with its long plain texts (files in base64) cut to a letter. Raises TooLarge if more than the limit is left.

    A text costs little to read however long it is; a megabyte of numbers and braces does not.
    """
    parts: list[bytes] = []
    size = position = 0
    while (start := body.find(b'"', position)) >= 0:
        end = _end_of_text(body, start)
        if end - start >= _LONG_TEXT and _is_plain(body[start:end]) and not _COLON.match(body, end):
            parts += (body[position:start], b'"A"')
            size += start - position
        else:
            parts.append(body[position:end])
            size += end - position
        position = end
        if size > limit:
            break
    if size + len(body) - position > limit:
        raise TooLarge(f"Without its long texts (files in base64) the request body is larger than {limit} bytes.")
    return b"".join((*parts, body[position:]))


def _end_of_text(body: bytes, start: int) -> int:
    """Where the text that begins with the quotation mark at `start` is over; the body's end if it never is."""
    end = start
    while (end := body.find(b'"', end + 1)) >= 0:
        before = end
        while body[before - 1] == _BACKSLASH:
            before -= 1
        if (end - before) % 2 == 0:
            return end + 1
    return len(body)


def _is_plain(text: bytes) -> bool:
    return text.isascii() and rb"\u" not in text


def _count_names(value: Any) -> int:
    """The number of names in all objects together."""
    names = 0
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                names += len(item)
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
        if not below:
            return names
        level = below
    raise BadRequest(f"The request body is nested too deeply: at most {MAX_DEPTH} levels are accepted.")


def _refuse_nul(value: Any) -> None:
    """NUL is a legal escape in JSON, but PostgreSQL cannot store it in a text."""
    # In parallel lists, because as many small objects would keep the garbage collector busy for seconds.
    values: list[Any] = [value]
    names: list[str | int] = [""]
    above = [-1]
    for number, here in enumerate(values):
        if isinstance(here, str):
            if "\0" in here:
                path = _path(number, names, above)
                raise BadRequest(f"The field `{path}` contains a NUL character.", field=path)
        elif isinstance(here, dict):
            # A key stands before its value, under a name that says so.
            values += here.keys()
            names += ["(a key)"] * len(here)
            values += here.values()
            names += here.keys()
            above += [number] * (2 * len(here))
        elif isinstance(here, list):
            values += here
            names += range(len(here))
            above += [number] * len(here)


def _path(number: int, names: list[str | int], above: list[int]) -> str:
    steps = []
    while number > 0:
        steps.append(names[number])
        number = above[number]
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_PATH_LENGTH]}" for step in reversed(steps))
    return text.removeprefix(".")[:_PATH_LENGTH]


def _find_repeated(body: bytes) -> str | None:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if not found:
            seen: set[str] = set()
            for name, _ in pairs:
                if name in seen:
                    found.append(name[:80])
                    return
                seen.add(name)

    json.loads(body, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found[0] if found else None
