"""JSON Schema of everything that crosses the wire, from the structs that decode and encode it.

msgspec writes the schema; here it is corrected where it differs from what the service really takes and sends.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, get_args, get_origin

import msgspec

from kontobahn import money
from kontobahn.api.answers import Charged, Data
from kontobahn.api.wire import AT_THE_END

Schema = dict[str, Any]
# Name, schema, and whether it is required.
Field = tuple[str, Schema, bool]

REFERENCE = "#/components/schemas/"
OF_ANSWERS = "Output"
DEFAULT = "x-default"
# A NUL is refused everywhere (PostgreSQL cannot store it), so the schema of an otherwise free text says so.
NO_NUL = r"^[^\x00]*$"


class Schemas:
    """The schemas of many types under the caller's own names, and the components they share."""

    def __init__(self, asked: Mapping[str, Any], answered: Mapping[str, Any]) -> None:
        """`asked` are the types of requests, `answered` those of answers."""
        schemas, self.components = msgspec.json.schema_components(
            [*asked.values(), *answered.values()], ref_template=REFERENCE + "{name}"
        )
        self._by_name = dict(zip([*asked, *answered], schemas, strict=True))
        self._name_envelopes(answered)
        of_requests = self._reached_from([self._by_name[name] for name in asked])
        self._split_shared(of_requests, [self._by_name[name] for name in answered])
        for name in asked:
            _correct(self._by_name[name], asked=True)
        for name in answered:
            _correct(self._by_name[name], asked=False)
        for name, component in self.components.items():
            _correct(component, asked=name in of_requests)
            if name in of_requests:
                _tell_defaults(component)
            else:
                _promise_every_field(component)

    def _name_envelopes(self, answered: Mapping[str, Any]) -> None:
        """Names the components of envelopes after what is in them, so that generated clients have a name for each."""
        names: dict[str, str] = {}
        for key, kind in answered.items():
            name = envelope_name(kind)
            if name is not None:
                names[self._by_name[key]["$ref"].removeprefix(REFERENCE)] = name
        if len({*names.values()} | self.components.keys()) != len(names) + len(self.components):
            raise TypeError("Two components of the OpenAPI document have the same name.")
        self.components = {names.get(name, name): component for name, component in self.components.items()}
        for name in names.values():
            # The words of the envelope's class are for those who read the code.
            self.components[name]["title"] = name
            self.components[name].pop("description", None)
        renamed = {REFERENCE + old: REFERENCE + name for old, name in names.items()}
        for schema in self._by_name.values():
            _rename_references(schema, renamed)

    def _split_shared(self, of_requests: set[str], answers: list[Schema]) -> None:
        """Gives answers a component of their own for what is asked and answered: an answer promises more and forbids nothing."""
        shared = of_requests & self._reached_from(answers)
        copies = {name: msgspec.json.decode(msgspec.json.encode(self.components[name])) for name in shared}
        for name, copy in copies.items():
            copy.pop("additionalProperties", None)
            copy["title"] = name + OF_ANSWERS
            self.components[name + OF_ANSWERS] = copy
        outside = [self.components[name] for name in self._reached_from(answers) - of_requests]
        for schema in [*answers, *outside, *copies.values()]:
            _rename_references(schema, {REFERENCE + name: REFERENCE + name + OF_ANSWERS for name in shared})

    def __getitem__(self, name: str) -> Schema:
        return self._by_name[name]

    def unfold(self, names: Iterable[str]) -> dict[str, list[Field]]:
        """Returns the fields of structs that are lists of parameters on the wire, and removes these from the components."""
        unfolded: dict[str, list[Field]] = {}
        for name in names:
            struct = resolve(self._by_name[name], self.components)
            required = struct.get("required", ())
            unfolded[name] = [
                (field, _of_parameter(schema), field in required) for field, schema in struct["properties"].items()
            ]
        for name in unfolded:
            self.components.pop(self._by_name[name]["$ref"].removeprefix(REFERENCE), None)
        return unfolded

    def _reached_from(self, roots: list[Schema]) -> set[str]:
        reached: set[str] = set()
        waiting = list(roots)
        while waiting:
            schema = waiting.pop()
            name = schema.get("$ref", "").removeprefix(REFERENCE)
            if name and name not in reached:
                reached.add(name)
                waiting.append(self.components[name])
            waiting.extend(_inner(schema))
        return reached


def envelope_name(kind: Any) -> str | None:
    """Returns `UserAnswer` for `Data[UserView]`, `UserList` for `Data[list[UserView]]`; None if it is no envelope."""
    origin = get_origin(kind)
    if origin not in (Data, Charged):
        return None
    (inner,) = get_args(kind)
    is_list = get_origin(inner) is list
    item = get_args(inner)[0] if is_list else inner
    before = "Charged" if origin is Charged else ""
    return before + str(item.__name__).removesuffix("View") + ("List" if is_list else "Answer")


def resolve(schema: Schema, components: Mapping[str, Schema]) -> Schema:
    """Returns the component that the schema refers to, or the schema itself."""
    while "$ref" in schema:
        schema = components[schema["$ref"].removeprefix(REFERENCE)]
    return schema


def without_null(schema: Schema) -> Schema:
    """Returns the schema of a parameter, which may be left out but is never null."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    plain = {name: value for name, value in schema.items() if name != "anyOf" and (name, value) != ("default", None)}
    if len(options) == 1:
        return {**options[0], **plain}
    return {**plain, "anyOf": options} if options else plain


def _inner(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("properties", {}).values()
    for keyword in ("anyOf", "oneOf", "allOf", "prefixItems"):
        yield from schema.get(keyword, ())
    for keyword in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(keyword), dict):
            yield schema[keyword]


def _correct(schema: Schema, *, asked: bool) -> None:
    if schema.get("format") == "decimal":
        _make_number(schema, asked=asked)
    if "enum" in schema and "type" not in schema:
        kinds = {type(value) for value in schema["enum"]}
        if len(kinds) == 1:
            schema["type"] = {str: "string", int: "integer"}[kinds.pop()]
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].removesuffix(AT_THE_END)
    is_text = schema.get("type") == "string"
    if asked and is_text and not schema.keys() & {"pattern", "format", "enum", "contentEncoding"}:
        schema["pattern"] = NO_NUL
    for inner in _inner(schema):
        _correct(inner, asked=asked)


def _rename_references(schema: Schema, names: Mapping[str, str]) -> None:
    if schema.get("$ref") in names:
        schema["$ref"] = names[schema["$ref"]]
    for inner in _inner(schema):
        _rename_references(inner, names)


def _make_number(schema: Schema, *, asked: bool) -> None:
    """An exact decimal is a JSON number on the wire; msgspec calls it a string."""
    del schema["format"]
    if "anyOf" in schema:
        del schema["type"]  # its type says itself how it may be written
        return
    schema["type"] = "number"
    if schema.get("default") is not None:
        schema["default"] = Decimal(schema["default"])
    if asked:
        # No `multipleOf: 0.01` for the two decimals: validators that divide floats refuse 19.99 by it.
        schema.setdefault("minimum", -money.MAX_AMOUNT)
        schema.setdefault("maximum", money.MAX_AMOUNT)


def _tell_defaults(component: Schema) -> None:
    """A request need not contain a field with a default. Generators for TypeScript take the keyword `default` for a promise
    that the field is there, and would make callers send it; so the default is told under another name."""
    for schema in component.get("properties", {}).values():
        default = schema.pop("default", None)
        if default not in (None, []):
            schema[DEFAULT] = default


def _of_parameter(schema: Schema) -> Schema:
    """A parameter tells its default by the usual keyword: no generator takes that for a promise. An empty one means none."""
    default = schema.get(DEFAULT)
    plain = {name: value for name, value in schema.items() if name != DEFAULT}
    return plain if default in (None, "") else {**plain, "default": default}


def _promise_every_field(component: Schema) -> None:
    """An answer always contains a field that has a default; only a request may leave it out."""
    required = set(component.get("required", ()))
    for name, schema in component.get("properties", {}).items():
        if "default" in schema:
            del schema["default"]
            required.add(name)
    if required:
        component["required"] = [name for name in component["properties"] if name in required]


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
