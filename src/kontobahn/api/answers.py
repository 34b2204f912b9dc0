"""Answers: the envelopes they come in, errors, and structs made from rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType

from kontobahn.api.wire import Answer
from kontobahn.clock import to_datetime

T = TypeVar("T")
S = TypeVar("S", bound=Struct)


# --- Envelopes


class Platform(Struct, frozen=True):
    """The credit balance after the call."""

    neuesGuthaben: int


# The balance in the answer to a write, until the charge is confirmed in the transaction of the effect.
NOT_YET_KNOWN = Platform(neuesGuthaben=0)


class Data(Answer, Generic[T]):
    """An answer that is only its data. In the OpenAPI document `Data[X]` is XAnswer, and `Data[list[X]]` is XList."""

    data: T


class Charged(Answer, Generic[T]):
    """An answer with the balance beside its data: ChargedXAnswer and ChargedXList."""

    data: T
    platform: Platform = NOT_YET_KNOWN


class Ready:
    """An answer that is JSON already, in one part or more: to put ten megabytes together costs more than to read them."""

    __slots__ = ("parts",)

    def __init__(self, parts: Sequence[bytes]) -> None:
        self.parts = parts


class Error(Answer, kw_only=True):
    """An error, for a person and for a program. An area with further fields adds them in a type of its own."""

    # Bodies for the documentation, by status, in place of those of every area.
    samples: ClassVar[Mapping[int, dict[str, Any]]] = MappingProxyType({})

    error: Annotated[str, Meta(description="One sentence for a person.")]
    message: Annotated[str, Meta(description="What to do about it.")] | UnsetType = UNSET
    field: Annotated[str, Meta(description="The parameter, header or body field that is wrong.")] | UnsetType = UNSET
    missing_scope: Annotated[str, Meta(description="403: the scope that the API key lacks.")] | UnsetType = UNSET
    request_id: Annotated[str, Meta(description="Identifies this call to the operator.")]


# --- From rows


def from_row(kind: type[S], row: object, /, **further: Any) -> S:
    """Returns a struct whose fields are those of the row with the same names, and the further ones.

    Instants, days and truth values, which rows hold as numbers and text, become what the struct says they are.
    """
    for name, convert in _fields(kind).items():
        if name not in further and hasattr(row, name):
            value = getattr(row, name)
            further[name] = convert(value) if convert and value is not None else value
    return kind(**further)


_FROM_STORED: dict[Any, Callable[[Any], Any]] = {datetime: to_datetime, date: date.fromisoformat, bool: bool}


@cache
def _fields(kind: type[Struct]) -> dict[str, Callable[[Any], Any] | None]:
    """Returns the fields of the struct, each with what makes it of what is stored, if anything."""
    hints = get_type_hints(kind)
    return {name: _FROM_STORED.get(_without_none(hints[name])) for name in kind.__struct_fields__}


def _without_none(hint: Any) -> Any:
    if get_origin(hint) not in (Union, UnionType):
        return hint
    kinds = [kind for kind in get_args(hint) if kind is not NoneType]
    return kinds[0] if len(kinds) == 1 else hint
