"""Amounts are JSON numbers. msgspec reads a Decimal from a string as well; here it is found out where that was done.

A body is decoded a second time into a shadow of its struct, which has the exact decimals only and skips everything else.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

import msgspec
from msgspec import Meta, Struct
from msgspec import inspect as shape

# For a field that the contract lets be a string as well.
OR_TEXT = Meta(extra={"or_text": True})
_Number = int | float | None


def decoder_of_numbers(struct: type[Struct]) -> msgspec.json.Decoder[Any] | None:
    """Returns a decoder that refuses strings in place of numbers, None if the struct has no decimals."""
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
        return None if (kind.extra or {}).get("or_text") else _shadow_of_type(kind.type)
    if isinstance(kind, shape.DecimalType):
        return _Number
    if isinstance(kind, shape.StructType):
        shadow = _shadow(kind.cls)
        return None if shadow is None else shadow | None
    if isinstance(kind, shape.ListType):
        item = _shadow_of_type(kind.item_type)
        return None if item is None else GenericAlias(list, item) | None
    return None
