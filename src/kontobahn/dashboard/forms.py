"""Forms as they were sent: values kept as they were typed, and what is wrong with each, to be shown beside its field."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from types import TracebackType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from kontobahn.api.wire import plain_words
from kontobahn.dashboard import figures
from kontobahn.dashboard.refusals import help_url_of, refusal, words_of
from kontobahn.dashboard.words import _
from kontobahn.errors import Refusal
from kontobahn.sentences import said

S = TypeVar("S", bound=Struct)
MAX_FIELDS = 500
_NAMED = re.compile(r"^The field `[^`]+`(:? )(.)")


class Form:
    """``form.read(NewKey)`` gives a struct, or None with `errors` filled. A blank form has no values and no errors."""

    def __init__(self, values: Mapping[str, Sequence[str]] | None = None) -> None:
        self.values: dict[str, list[str]] = {name: list(sent) for name, sent in (values or {}).items()}
        # By the name of the field; "" for what concerns the form as a whole.
        self.errors: dict[str, str] = {}
        # The labels of the fields that the page shows, which what is wrong with them is listed by.
        self.labels: dict[str, str] = {}
        # The page on which a provider explains what is wrong, if it names one.
        self.explained_at = ""

    def __contains__(self, name: str) -> bool:
        return name in self.values

    @property
    def is_good(self) -> bool:
        return not self.errors

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """Fields and what is wrong with each, in the order of the page; those that it does not show come last."""
        shown = [*self.labels, *self.errors]
        return sorted(self.errors.items(), key=lambda item: shown.index(item[0]))

    def text(self, name: str, default: str = "") -> str:
        """Returns the last value of this name: after a hidden default comes the button that was pressed."""
        return self.values.get(name, [default])[-1]

    def all(self, name: str) -> list[str]:
        return self.values.get(name, [])

    def fail(self, name: str, message: str) -> None:
        """Says what is wrong with a field; the first thing said stays."""
        self.errors.setdefault(name, _without_name(message) if name else message)

    def labelled(self, name: str, label: str) -> str:
        """Notes the label of a field, and returns it."""
        self.labels[name] = label
        return label

    def refusals(self, **names: str) -> Refusals:
        """Puts what an area refuses beside its field. `names` say which field of the form a field of the call is."""
        return Refusals(self, names)

    def read(self, struct: type[S]) -> S | None:
        """Reads the fields of a struct: texts without blanks around them, amounts and days as people type them."""
        read: dict[str, Any] = {}
        for name, kind, is_required in _fields(struct):
            sent = [text.strip() for text in self.all(name)]
            if _is(kind, bool):
                read[name] = bool(sent and sent[-1] not in ("", "false", "0"))
            elif get_origin(_plain(kind)) in (list, tuple):
                read[name] = [text for text in sent if text]
            elif sent and sent[-1]:
                self._convert(read, name, kind, sent[-1])
            elif is_required:
                self.fail(name, _("Please fill this in."))
        if self.errors:
            return None
        try:
            return msgspec.convert(read, struct, strict=False)
        except msgspec.ValidationError as error:
            self.fail("", str(error))
            return None

    def _convert(self, read: dict[str, Any], name: str, kind: Any, text: str) -> None:
        if "\0" in text:
            self.fail(name, _("This contains a character that cannot be stored."))
            return
        try:
            if _is(kind, Decimal):
                read[name] = figures.parse_amount(text)
            else:
                read[name] = msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            self.fail(name, _what_is_wrong(kind, str(error)))
        except ValueError:
            self.fail(name, _("Please enter an amount such as %(example)s.", example=figures.plain_amount(123456)))


@cache
def _fields(struct: type[Struct]) -> list[tuple[str, Any, bool]]:
    """Name, type and whether it is required. Kept, because msgspec reads the annotations again each time."""
    hints = get_type_hints(struct, include_extras=True)
    return [(field.name, hints[field.name], field.required) for field in msgspec.structs.fields(struct)]


class Refusals:
    """Around work that may be refused; a class, so that type checkers know that what follows can be reached."""

    def __init__(self, form: Form, names: Mapping[str, str]) -> None:
        self._form = form
        self._names = names

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Refusal):
            return False
        field = str(error.extra.get("field", ""))
        field = self._names.get(field, field)
        self._form.fail(field if field in self._form.values else "", words_of(error))
        self._form.explained_at = help_url_of(error)
        return True


def _plain(kind: Any) -> Any:
    """The type inside Annotated and `| None`."""
    while True:
        if hasattr(kind, "__metadata__"):
            kind = kind.__origin__
        elif type(None) in get_args(kind):
            kind = next(part for part in get_args(kind) if part is not type(None))
        else:
            return kind


def _is(kind: Any, wanted: type) -> bool:
    return _plain(kind) is wanted


def _without_name(message: str) -> str:
    """Returns what a call says of a field by its name, as it is said beside the field, which has a label."""
    return _NAMED.sub(lambda found: f"This {found[2]}" if found[1] == " " else found[2].upper(), message)


def _what_is_wrong(kind: Any, message: str) -> str:
    if _is(kind, date):
        return _("Please enter a day of the calendar.")
    if "length >=" in message:
        return _("This is too short: at least %(count)s characters.", count=message.rpartition(">= ")[2])
    if "length <=" in message:
        return _("This is too long: at most %(count)s characters.", count=message.rpartition("<= ")[2])
    if "enum value" in message:
        return _("Please choose one of these.")
    if "Expected `int`" in message:
        return _("Please enter a whole number in the allowed range.")
    return refusal(said("This {reason}.", reason=plain_words(message)))
