"""JSON Schema of everything that crosses the wire, from the structs that decode and encode it.

msgspec writes the schema; here it is corrected where it differs from what the service really takes and sends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from kontobahn import money
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
            unfolded[name] = [(field, schema, field in required) for field, schema in struct["properties"].items()]
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


def _promise_every_field(component: Schema) -> None:
    """An answer always contains a field that has a default; only a request may leave it out."""
    required = set(component.get("required", ()))
    for name, schema in component.get("properties", {}).items():
        if "default" in schema:
            del schema["default"]
            required.add(name)
    if required:
        component["required"] = [name for name in component["properties"] if name in required]
