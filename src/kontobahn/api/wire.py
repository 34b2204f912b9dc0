"""From bytes to typed input. Strict: an unknown name is refused, and every refusal names the field.

Query, Body and Answer are the roots of all structs that cross the wire.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from types import GenericAlias
from typing import Annotated, Any, BinaryIO, ClassVar, NamedTuple, NoReturn, TypeVar, get_type_hints
from urllib.parse import unquote_plus

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as shape

from kontobahn import money
from kontobahn.errors import BadRequest, TooLarge
from kontobahn.json_text import encode
from kontobahn.sentences import said

# Numbers of a request body where their type alone does not settle what is taken: `6300.0` for an integer, `"119.00"`
# for a decimal.


# --- Integers

# No whole number that a call takes has more digits.
_MAX_DIGITS = 20
_decode_exactly = msgspec.json.Decoder(float_hook=Decimal).decode


def with_whole_numbers(body: bytes, struct: type[Struct]) -> bytes:
    """Returns the body with `6300` for `6300.0` wherever the struct has an integer: for JSON Schema the two are the same number."""
    return encode(_whole(_decode_exactly(body), shape.type_info(struct)))


def _whole(value: Any, kind: shape.Type) -> Any:
    if isinstance(kind, shape.Metadata):
        return _whole(value, kind.type)
    if isinstance(kind, shape.UnionType):
        for option in kind.types:
            value = _whole(value, option)
    elif isinstance(value, Decimal):
        takes_integers = isinstance(kind, shape.IntType) or (
            isinstance(kind, shape.LiteralType) and isinstance(kind.values[0], int)
        )
        if takes_integers and value.adjusted() < _MAX_DIGITS and value == value.to_integral_value():
            return int(value)
    elif isinstance(value, dict) and isinstance(kind, shape.StructType):
        fields = {field.encode_name: field.type for field in kind.fields}
        return {name: _whole(item, fields.get(name, shape.AnyType())) for name, item in value.items()}
    elif isinstance(value, list) and isinstance(kind, shape.ListType):
        return [_whole(item, kind.item_type) for item in value]
    return value


# --- Decimals

_Number = int | float | None


def or_text(text: Meta) -> Meta:
    """For a field that the contract lets be a string as well, of this form."""
    return Meta(extra={"or_text": text})


def decoder_of_numbers(struct: type[Struct]) -> msgspec.json.Decoder[Any] | None:
    """Returns a decoder that refuses strings in place of numbers but for those of a published form.

    None if the struct has no decimals.
    """
    shadow = _shadow(struct)
    return None if shadow is None else msgspec.json.Decoder(shadow)


def _shadow(struct: type[Struct]) -> type[Struct] | None:
    fields: list[tuple[str, Any, Any]] = []
    info = shape.type_info(struct)
    assert isinstance(info, shape.StructType)
    for field in info.fields:
        kind = _shadow_of_type(field.type)
        if kind is not None:
            fields.append((field.encode_name, kind, None))
    return msgspec.defstruct(struct.__name__, fields) if fields else None


def _shadow_of_type(kind: shape.Type) -> Any:
    if isinstance(kind, shape.UnionType):
        others = [option for option in kind.types if not isinstance(option, shape.NoneType)]
        return _shadow_of_type(others[0]) if len(others) == 1 else None
    if isinstance(kind, shape.Metadata):
        text = (kind.extra or {}).get("or_text")
        return _shadow_of_type(kind.type) if text is None else _Number | Annotated[str, text]
    if isinstance(kind, shape.DecimalType):
        return _Number
    if isinstance(kind, shape.StructType):
        shadow = _shadow(kind.cls)
        return None if shadow is None else shadow | None
    if isinstance(kind, shape.ListType):
        item = _shadow_of_type(kind.item_type)
        return None if item is None else GenericAlias(list, item) | None
    return None


T = TypeVar("T")

# The words of error messages instead of a regular expression, which would help nobody.
_FORMS: dict[str, str] = {}


# No place on one line of text, for patterns: control characters, line and paragraph separators, and those that XML forbids.
CONTROL = r"\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff"
# For Python, `$` also matches before a line feed at the very end; in JSON Schema it does not.
AT_THE_END = r"(?!\n)"


def form(words: str, pattern: str, **rules: Any) -> Meta:
    """A pattern whose mismatch is refused with “must be <words>”. Raises TypeError if it has other words elsewhere."""
    if _FORMS.setdefault(pattern, words) != words:
        raise TypeError(f"The pattern {pattern} is {_FORMS[pattern]} already, and cannot be {words} as well.")
    return Meta(pattern=pattern + AT_THE_END if pattern.endswith("$") else pattern, **rules)


def words_of(pattern: str) -> str | None:
    return _FORMS.get(pattern)


Uuid = Annotated[
    str, form("a UUID", r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", extra_json_schema={"format": "uuid"})
]
Text = Annotated[str, Meta(min_length=1, max_length=200)]
# Blanks by their code points: \s is not the same set in Python and in JavaScript, and the pattern is published.
BLANKS_BUT_NUL = r"\x01-\x20\x7f-\xa0\u1680\u2000-\u200f\u2028-\u202f\u205f\u3000\ufeff"
BLANKS = rf"\x00{BLANKS_BUT_NUL}"
# Those of them that are no control characters.
BLANKS_ON_ONE_LINE = r"\x20\xa0\u1680\u2000-\u200f\u202a-\u202f\u205f\u3000\ufeff"
Name = Annotated[
    str,
    form("a name, not only blanks", rf"^[{BLANKS_BUT_NUL}]*[^{BLANKS}][^\x00]*$", min_length=1, max_length=200),
]
Timestamp = Annotated[datetime, Meta(tz=True)]

# Names and values that a caller chose are cut to this before anything is done with them.
SHOWN_LENGTH = 80
MAX_QUERY_BYTES = 8 * 1024
# Of a body that may be larger, what is beyond this is files in base64.
MAX_PLAIN_BYTES = 5 * 1024 * 1024
# msgspec's own words and path are short: what stands between them was sent.
_MESSAGE_LENGTH = 1000
_FIELD_IN_MESSAGE = re.compile(r"^Object (?:missing required|contains unknown) field `(.*)`$", re.DOTALL)
_PATTERN = re.compile(r"^Expected `str` matching regex (.+)$", re.DOTALL)
_WRONG_TYPE = re.compile(r"^Expected `([^`]+)`, got `([^`]+)`$")
_BOUND = re.compile(r"^Expected `(\w+)` (of length )?([<>]=) (-?[0-9.]+)$")
_WORDS = {
    "Expected `datetime` with a timezone component": "must say its time zone, as in 2026-03-31T18:00:00+02:00",
    "Invalid RFC3339 encoded datetime": "must be a time of the calendar with its zone, as in 2026-03-31T18:00:00+02:00",
    "Invalid RFC3339 encoded date": "must be a day of the calendar, as in 2026-03-31",
}


class Query(Struct, kw_only=True, forbid_unknown_fields=True):
    """Every endpoint takes `quelle`, the label of the calling source."""

    # Names that may be given several times: then their values are parted by commas.
    _repeatable: ClassVar[frozenset[str]] = frozenset()
    quelle: Annotated[str, Meta(min_length=1, max_length=100, description="Label of the calling source.")] = "API"


class ListQuery(Query, kw_only=True):
    """A list that an agency may narrow to one of its client organisations."""

    organization_id: (
        Annotated[Uuid, Meta(description="Agency keys: list this organisation only; otherwise all in the key's scope.")]
        | None
    ) = None


class OrganizationQuery(Query, kw_only=True):
    """A call about something that an organisation has one of; an agency may ask for a client's."""

    organization_id: (
        Annotated[Uuid, Meta(description="Agency keys: whose it is; the key's own organisation when left out.")] | None
    ) = None


class Body(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request body. Amounts of money are exact to the cent or refused."""

    _money: ClassVar[tuple[str, ...] | None] = None

    def __post_init__(self) -> None:
        for name in _money_fields(type(self)):
            value = getattr(self, name)
            if value is not None:
                try:
                    setattr(self, name, money.euro(value))
                except ValueError as error:
                    raise ValueError(f"`{name}` {error}") from None


class Answer(Struct, kw_only=True):
    """A response body."""


class Download(NamedTuple):
    """A response that is a file, not JSON."""

    content: bytes
    media_type: str
    file_name: str


class FileDownload:
    """The same from an open file, which is sent part by part. The server closes it, sent or not."""

    __slots__ = ("_on_close", "file", "file_name", "media_type")

    def __init__(self, file: BinaryIO, media_type: str, file_name: str, on_close: Callable[[], None]) -> None:
        self.file = file
        self.media_type = media_type
        self.file_name = file_name
        self._on_close = on_close

    def close(self) -> None:
        if not self.file.closed:
            self.file.close()
            self._on_close()


class RawBody(NamedTuple):
    """A request as it came, for a handler that checks its signature. Header names are in lower case."""

    headers: Mapping[str, str]
    content: bytes


class Upload:
    """A file that was sent: the request body itself, or the one file of a form.

    It lies on disk without a name, so that nothing is left of it when it is closed or the process ends. The server closes it
    when the call is over, unless a task works on.
    """

    __slots__ = ("file", "name", "sha256", "size", "work_goes_on")

    def __init__(self, file: BinaryIO, name: str, size: int, sha256: str) -> None:
        self.file = file
        # As the sender named it; empty if it has no name.
        self.name = name
        self.size = size
        self.sha256 = sha256
        self.work_goes_on = False


def _money_fields(cls: type[Body]) -> tuple[str, ...]:
    if "_money" not in cls.__dict__:
        hints = get_type_hints(cls)
        cls._money = tuple(name for name in cls.__struct_fields__ if hints[name] in (Decimal, Decimal | None))
    return cls._money or ()


class QueryDecoder:
    """Query parameters by name; case and underscores do not matter (connectionId, connection_id)."""

    def __init__(self, struct: type[Query]) -> None:
        self._struct = struct

    # The types are looked at only at the first call: for all calls together it would be a quarter of the start.
    @cached_property
    def _attributes(self) -> dict[str, str]:
        return {field.encode_name: field.name for field in msgspec.structs.fields(self._struct)}

    @cached_property
    def names(self) -> set[str]:
        return set(self._attributes)

    @cached_property
    def _by_plain_name(self) -> dict[str, str]:
        # Choice 1: `connectionId` and `connection_id` are the same name.
        return {_plain(name): name for name in self.names}

    @cached_property
    def _requires_something(self) -> bool:
        return any(field.required for field in msgspec.structs.fields(self._struct))

    def decode(self, query_string: bytes) -> Query:
        if not query_string:
            return self._convert({}) if self._requires_something else self._struct()
        if len(query_string) > MAX_QUERY_BYTES:
            raise BadRequest(said("The query is longer than {most} bytes.", most=MAX_QUERY_BYTES))
        values: dict[str, str] = {}
        for part in query_string.split(b"&"):
            if not part:
                continue
            raw_name, _, raw_value = part.partition(b"=")
            name, value = (
                _unquote(raw_name, "A query parameter's name"),
                _unquote(raw_value, raw_name.decode("latin-1")),
            )
            known = self._by_plain_name.get(_plain(name))
            if known is None:
                raise unknown_name("query parameter", name, self.names)
            if known in values and known in self._struct._repeatable:
                value = ",".join(filter(None, (values[known], value)))
            elif known in values:
                raise BadRequest(said("The query parameter `{name}` is given twice.", name=known), field=known)
            if "\0" in value:
                raise BadRequest(
                    said("The query parameter `{name}` contains a NUL character.", name=known), field=known
                )
            # Choice 43: an empty parameter counts as absent.
            if value:
                values[known] = value
        return self._convert(values)

    def _convert(self, values: dict[str, str]) -> Query:
        try:
            query = msgspec.convert(values, self._struct, strict=False)
        except msgspec.ValidationError as error:
            refuse(error, self._struct, "query parameter")
        # msgspec reads the text "null" as a missing number: the filter would silently be dropped.
        for name in values:
            if getattr(query, self._attributes[name]) is None:
                raise BadRequest(said("The query parameter `{name}` must not be null.", name=name), field=name)
        return query


class BodyDecoder:
    def __init__(self, struct: type[Body]) -> None:
        self._struct = struct

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Body]:
        return msgspec.json.Decoder(self._struct)

    @cached_property
    def _numbers(self) -> msgspec.json.Decoder[Any] | None:
        return decoder_of_numbers(self._struct)

    @cached_property
    def is_optional(self) -> bool:
        """If no field is required, no body need be sent."""
        return not any(field.required for field in msgspec.structs.fields(self._struct))

    def decode(self, body: bytes) -> Body:
        if not body:
            if not self.is_optional:
                raise BadRequest("The request body is missing: send a JSON object.")
            body = b"{}"
        try:
            if not body.isascii():
                body.decode("utf-8")
            plain = body
            if len(body) > MAX_PLAIN_BYTES:
                plain = without_long_texts(body, MAX_PLAIN_BYTES)
            reject_too_many(plain)
            if plain is not body:
                # A fault in it is found here, where a message cannot contain megabytes.
                self._decode(plain)
            decoded = self._decode(body)
            reject_ambiguous_json(plain)
            self._refuse_text_as_number(plain)
        except msgspec.ValidationError as error:
            refuse(error, self._struct, "field")
        except UnicodeDecodeError as error:
            raise BadRequest(said("The request body is not valid UTF-8 (byte {byte}).", byte=error.start)) from None
        except msgspec.DecodeError as error:
            raise BadRequest(said("The request body is not valid JSON: {why}.", why=error)) from None
        except RecursionError:
            raise BadRequest("The request body is nested too deeply.") from None
        return decoded

    def _decode(self, body: bytes) -> Body:
        try:
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            wrong_type = _WRONG_TYPE.match(str(error).partition(" - at ")[0])
            if wrong_type is None or wrong_type[2] != "float" or "int" not in wrong_type[1]:
                raise
        return self._decoder.decode(with_whole_numbers(body, self._struct))

    def _refuse_text_as_number(self, body: bytes) -> None:
        if self._numbers is None:
            return
        try:
            self._numbers.decode(body)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at ")
            if message.endswith("got `str`"):
                refuse(msgspec.ValidationError(f"Expected `decimal`, got `str` - at {path}"), self._struct, "field")
            if _PATTERN.match(message):
                refuse(error, self._struct, "field")


def check_date_range(from_date: date | None, to_date: date | None) -> None:
    if from_date is not None and to_date is not None and from_date > to_date:
        raise BadRequest("The query parameter `from_date` must not be after `to_date`.", field="from_date")


def unknown_name(kind: str, name: str, known: set[str]) -> BadRequest:
    # Choice 1: a misspelt filter must never lead to wrong amounts, so it is refused, with the nearest name.
    shown = name[:SHOWN_LENGTH]
    near = difflib.get_close_matches(_plain(shown), sorted(map(_plain, known)), n=1, cutoff=0.5)
    by_plain_name = {_plain(item): item for item in known}
    hint = (
        said(" Did you mean `{name}`?", name=by_plain_name[near[0]])
        if near
        else said(" Known here: {names}.", names=", ".join(sorted(known)) or "none")
    )
    return BadRequest(said("Unknown {what} `{name}`.{hint}", what=kind, name=shown, hint=hint), field=shown)


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _unquote(raw: bytes, where: str) -> str:
    try:
        return unquote_plus(raw.decode("ascii"), errors="strict")
    except UnicodeDecodeError:
        raise BadRequest(said("{where} is not valid UTF-8.", where=where[:80])) from None


def refuse(error: msgspec.ValidationError, struct: type[Struct], kind: str) -> NoReturn:
    """Raises BadRequest with a sentence, from msgspec's message and path."""
    text = str(error)
    if len(text) > 2 * _MESSAGE_LENGTH:
        text = f"{text[:_MESSAGE_LENGTH]}…{text[-_MESSAGE_LENGTH:]}"
    message, path = _with_path(text)
    named = _FIELD_IN_MESSAGE.match(message)
    if named is None:
        inner = re.match(r"^`(\w+)` (.+)$", message, re.DOTALL)
        if inner:
            path, message = f"{path}.{inner[1]}" if path else inner[1], inner[2]
        reason = plain_words(message)
        if not path:
            raise BadRequest(said("The request body {reason}.", reason=reason)) from None
        raise BadRequest(
            said("The {what} `{path}` {reason}.", what=kind, path=path, reason=reason), field=path
        ) from None
    field = f"{path}.{named[1]}" if path else named[1]
    if "missing" in message:
        raise BadRequest(said("The {what} `{path}` is required.", what=kind, path=field), field=field) from None
    refusal = unknown_name(kind, named[1], _fields_at(struct, path))
    refusal.extra["field"] = field[:200]
    raise refusal from None


def _with_path(text: str) -> tuple[str, str]:
    """Returns msgspec's message, and the path that it ends with: ``… - at `$.lines[0].amount` ``."""
    if text.endswith("`"):
        for mark in (" - at `$", " - at `key in $"):
            message, found, path = text[:-1].rpartition(mark)
            if found:
                return message, path.removeprefix(".")
    return text, ""


def plain_words(message: str) -> str:
    if message in _WORDS:
        return _WORDS[message]
    wrong_type = _WRONG_TYPE.match(message)
    if wrong_type:
        return said("must be {what}, not {given}", what=_json_name(wrong_type[1]), given=_json_name(wrong_type[2]))
    pattern = _PATTERN.match(message)
    if pattern:
        written = ast.literal_eval(pattern[1]).removesuffix(AT_THE_END)
        return said("must be {what}", what=_FORMS.get(written, "of the form " + written))
    bound = _BOUND.match(message)
    if bound:
        return _within(_json_name(bound[1]), bool(bound[2]), bound[3], bound[4])
    message = re.sub(r"^Expected `(\w+)` (of|matching|[<>])", lambda m: f"must be {_json_name(m[1])} {m[2]}", message)
    enum_value = message.removeprefix("Invalid enum value ")
    if enum_value != message:
        return said("does not take the value {value}", value=_shown(enum_value))
    if message.startswith("Invalid "):
        return said("is not a valid {what}", what=message.removeprefix("Invalid ")[:_MESSAGE_LENGTH].rstrip("."))
    return message[:_MESSAGE_LENGTH].rstrip(".")


def _within(what: str, is_length: bool, sign: str, number: str) -> str:
    if is_length and sign == ">=":
        if number == "1":
            return said("must not be empty")
        if what == "a string":
            return said("must have at least {number} characters", number=number)
        return said("must have at least {number} entries", number=number)
    if is_length and what == "a string":
        return said("must have at most {number} characters", number=number)
    if is_length:
        return said("must have at most {number} entries", number=number)
    if sign == ">=":
        return said("must be {what} >= {number}", what=what, number=number)
    return said("must be {what} <= {number}", what=what, number=number)


def _shown(value: str) -> str:
    return value if len(value) <= SHOWN_LENGTH else f"{value[:SHOWN_LENGTH]}…"


def _json_name(type_name: str) -> str:
    names = {"str": "a string", "int": "an integer", "float": "a number", "decimal": "a number", "bool": "a boolean",
             "array": "an array", "object": "an object", "null": "null", "date": "a date", "datetime": "a date-time"}  # fmt: skip
    return " or ".join(names.get(part.strip(), part.strip()) for part in type_name.split("|"))


def _fields_at(struct: type[Struct], path: str) -> set[str]:
    """The field names that stand at a path of the body, for the nearest name."""
    here = shape.type_info(struct)
    for step in filter(None, re.split(r"\.|(\[\.\.\.\]|\[\d+\])", path)):
        here = _enter(here, step)
    here = _unwrap(here)
    return {field.encode_name for field in here.fields} if isinstance(here, shape.StructType) else set()


def _enter(here: shape.Type, step: str) -> shape.Type:
    here = _unwrap(here)
    if step.startswith("["):
        inner = getattr(here, "item_type", None) or getattr(here, "value_type", None)
        return inner if inner is not None else shape.AnyType()
    if isinstance(here, shape.StructType):
        return next((field.type for field in here.fields if field.encode_name == step), shape.AnyType())
    return shape.AnyType()


def _unwrap(here: shape.Type) -> shape.Type:
    if isinstance(here, shape.UnionType):
        return next((option for option in here.types if not isinstance(option, shape.NoneType)), here)
    return here


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


def reject_ambiguous_json(body: bytes) -> None:
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
        raise BadRequest(said("The field `{path}` is given twice in one object.", path=repeated), field=repeated)


def reject_too_many(body: bytes) -> None:
    """Raises BadRequest for a body with more objects and arrays than anybody sends."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:
        raise BadRequest(said("The request body has more than {most} objects and arrays.", most=MAX_CONTAINERS))


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
        raise TooLarge(
            said("Without its long texts (files in base64) the request body is larger than {most} bytes.", most=limit)
        )
    return b"".join((*parts, body[position:]))


def _end_of_text(body: bytes, start: int) -> int:
    """Returns where the text that begins with the quotation mark at `start` is over; the body's end if it never is."""
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
    raise BadRequest(said("The request body is nested too deeply: at most {most} levels are accepted.", most=MAX_DEPTH))


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
                raise BadRequest(said("The field `{path}` contains a NUL character.", path=path), field=path)
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
