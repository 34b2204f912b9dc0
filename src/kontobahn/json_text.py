"""JSON as it stands on the wire and in the database: decimals as numbers, exact. One encoder for everything."""

from __future__ import annotations

from typing import Any

import msgspec

encode = msgspec.json.Encoder(decimal_format="number").encode


def encode_text(value: Any) -> str:
    return encode(value).decode()
