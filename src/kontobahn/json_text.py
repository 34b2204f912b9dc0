"""JSON as it stands on the wire and in the database: decimals as numbers, exact. One encoder for everything.

On the wire a sentence is its text. Where it is stored to be shown later it is kept as code and values, `{"said": …, "values": {…}}`,
so that it can be said in any language.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeVar, overload

import msgspec

from kontobahn.sentences import Sentence

T = TypeVar("T")


def plain(value: object) -> str:
    """Returns the text alone of a sentence, which encoders do not know. Raises TypeError for anything else."""
    if isinstance(value, Sentence):
        return str.__str__(value)
    raise TypeError(f"A {type(value).__name__} cannot be encoded.")


def _kept(value: object) -> dict[str, Any]:
    if isinstance(value, Sentence):
        return {"said": value.code, "values": dict(value.values)}
    raise TypeError(f"A {type(value).__name__} cannot be encoded.")


encode = msgspec.json.Encoder(decimal_format="number", enc_hook=plain).encode
# With sentences as code and values; `decode_kept` reads it.
encode_kept = msgspec.json.Encoder(decimal_format="number", enc_hook=_kept).encode
_decode = msgspec.json.Decoder(float_hook=Decimal).decode


def decode_kept(text: str | bytes, kind: type[T]) -> T:
    """Returns what `encode_kept`, or `encode`, has written, with the sentences that were kept."""
    content = text.encode() if isinstance(text, str) else text
    if b'"said"' not in content:
        return msgspec.json.decode(content, type=kind)
    return msgspec.convert(_revived(_decode(content)), kind)


def _revived(value: Any) -> Any:
    if isinstance(value, list):
        return [_revived(item) for item in value]
    if not isinstance(value, dict):
        return value
    revived = {name: _revived(item) for name, item in value.items()}
    return Sentence(revived["said"], revived["values"]) if value.keys() == {"said", "values"} else revived


@overload
def decode_foreign(content: bytes | str, kind: type[T]) -> T: ...


@overload
def decode_foreign(content: bytes | str, kind: Any = Any) -> Any: ...


def decode_foreign(content: bytes | str, kind: Any = Any) -> Any:
    """Decodes what somebody else wrote. Raises msgspec.DecodeError whatever is wrong with it, the depth of its nesting included."""
    try:
        return msgspec.json.decode(content, type=kind)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None
    except UnicodeError as error:
        raise msgspec.DecodeError(f"it is not valid UTF-8: {error}") from None
