"""JSON as it stands on the wire and in the database: decimals as numbers, exact. One encoder for everything."""

from __future__ import annotations

import msgspec

encode = msgspec.json.Encoder(decimal_format="number").encode
