"""Numbers of a request body where their type alone does not settle what is taken: `6300.0` for an integer, `"119.00"` for a decimal."""

from __future__ import annotations

from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as shape

from kontobahn.json_text import encode

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
