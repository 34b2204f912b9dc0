"""Plausible examples made from a schema, for declarations without an example of their own.

The same schema always gives the same example. A text with an unusual pattern needs an example in its Meta; a test
finds those without one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from kontobahn.api.schemas import Schema, resolve

MAX_DEPTH = 12
_BY_FORMAT = {"date": "2026-03-31", "date-time": "2026-03-31T09:30:00Z", "uri": "https://kontobahn.example/",
              "email": "erika@muster.example"}  # fmt: skip
# By the field's name, without case and underscores.
_TEXTS = {
    "anrede": "Frau", "adresszeile": "Musterstraße 1", "beleg": "RE-2026-0042", "belegfeld1": "RE-2026-0042",
    "belegnummer": "RE-2026-0042", "belegtext": "Büromaterial", "bezeichnung": "Muster GmbH", "bic": "COBADEFFXXX",
    "buchungstext": "Büromaterial", "city": "Berlin", "clientid": "29098-55003", "countrycode": "DE",
    "creditoriban": "DE89370400440532013000", "creditorname": "Muster GmbH", "currencycode": "EUR",
    "dateiname": "beleg.pdf", "description": "Rechnung RE-2026-0042", "email": "erika@muster.example",
    "error": "Connection not found.", "firmenname": "Muster GmbH", "gegenkonto": "4930",
    "iban": "DE89370400440532013000", "ip": "203.0.113.7", "kassenname": "Hauptkasse", "kontonummer": "100010000",
    "laendercode": "DE",
    "message": "Done.", "mimetyp": "application/pdf", "nachname": "Mustermann", "name": "Erika Mustermann",
    "nummer": "+49 30 1234567", "ort": "Berlin", "password": "correct horse battery staple", "postalcode": "10115",
    "postleitzahl": "10115", "quelle": "API", "requestid": "req_4f1c2a9be07d35a86b21", "street": "Musterstraße 1",
    "token": "kb_example_0123456789", "ustid": "DE123456789", "vorname": "Erika", "waehrung": "EUR",
}  # fmt: skip
_OTHER_TEXTS = ("example", "EUR", "DE", "1000", "100010000", "29098-55003", "2026-03-31", "10:15:30", "1", "A")
_NUMBERS = {"neuesguthaben": 995, "kontonummernlaenge": 4, "periode": 3, "prozent": 19, "amountincents": 11900}


def example(schema: Schema, components: Mapping[str, Schema], *, whole: bool, name: str = "", depth: int = 0) -> Any:
    """Returns an example with every field if `whole` (an answer), otherwise with those required or with an example (a request)."""
    given = schema.get("examples") or schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if given:
        return given[0]
    if "$ref" in schema:
        schema = resolve(schema, components)
        return example(schema, components, whole=whole, name=name, depth=depth)
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options and depth > MAX_DEPTH:
        return None
    if options:
        return example(options[0], components, whole=whole, name=name, depth=depth)
    match schema.get("type"):
        case "object":
            return dict(_members(schema, components, whole, depth + 1))
        case "array":
            if depth > MAX_DEPTH or "items" not in schema:
                return []
            item = example(schema["items"], components, whole=whole, name=name, depth=depth + 1)
            return [item] * max(1, schema.get("minItems", 1))
        case "string":
            return _text(schema, name)
        case "integer":
            return int(_number(schema, Decimal(_NUMBERS.get(_plain(name), 1))))
        case "number":
            return _number(schema, Decimal(_NUMBERS.get(_plain(name), "119.00")))
        case "boolean":
            return True
    return None


def _members(schema: Schema, components: Mapping[str, Schema], whole: bool, depth: int) -> Iterator[tuple[str, Any]]:
    for name, member in schema.get("properties", {}).items():
        if whole or name in schema.get("required", ()) or "examples" in member:
            yield name, example(member, components, whole=whole, name=name, depth=depth)


def _text(schema: Schema, name: str) -> str:
    form = schema.get("format")
    if form == "uuid":
        # Every name has its own id, so that an example does not suggest that two things are the same.
        return f"01930000-0000-7000-8000-{zlib.crc32(name.encode()):012x}"
    if "contentEncoding" in schema:
        return "S29udG9iYWhu"
    if form == "date-time" and _plain(name).startswith("expires"):
        return "2026-04-07T09:30:00Z"
    wanted = [_BY_FORMAT[form]] if form in _BY_FORMAT else [_TEXTS.get(_plain(name), "example"), *_OTHER_TEXTS]
    least, most = schema.get("minLength", 0), schema.get("maxLength", 10_000)
    pattern = re.compile(schema.get("pattern", ""))
    padded = [text.ljust(least, "x")[:most] for text in wanted]
    return next((text for text in [*wanted, *padded] if least <= len(text) <= most and pattern.search(text)), padded[0])


def _number(schema: Schema, wanted: Decimal) -> Decimal:
    """Returns the allowed number that is nearest to the wanted one."""
    step = Decimal(str(schema.get("multipleOf", 1)))
    bounds = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    limits = {name: Decimal(str(schema[name])) for name in bounds if name in schema}
    if "minimum" in limits:
        wanted = max(wanted, limits["minimum"])
    if "exclusiveMinimum" in limits:
        wanted = max(wanted, limits["exclusiveMinimum"] + step)
    if "maximum" in limits:
        wanted = min(wanted, limits["maximum"])
    if "exclusiveMaximum" in limits:
        wanted = min(wanted, limits["exclusiveMaximum"] - step)
    return wanted if "multipleOf" not in schema else -(-wanted // step) * step


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
