"""The Python client has every call of the API, with its parameters, and types that say what the OpenAPI document says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import inspect as shape

from kontobahn.api.declare import Endpoint
from kontobahn_client import AsyncKontobahn, Kontobahn, webhooks
from kontobahn_client.calls.declarations import Declared, Pages
from kontobahn_client.models.common import File
from tests.openapi_samples import REAL, build, named, operation

DOCUMENT = build(REAL)
COMPONENTS = DOCUMENT["components"]["schemas"]
# Calls that no client of ours makes, and why.
NOT_OURS = dict.fromkeys(
    ("receive_webhook", "receive_webhook_of_kind"), "banks make it, and sign it with a secret of theirs"
)
OURS = [endpoint for endpoint in REAL if endpoint.handler.__name__ not in NOT_OURS]
# For every call: `quelle` is said once, when the client is made.
OF_THE_CLIENT = {"quelle"}
# Fields that answers of one kind have and others do not.
NOT_EVERYWHERE = {"platform"}


def declared(endpoint: Endpoint) -> Declared[Any, Any]:
    found = inspect.getattr_static(Kontobahn, endpoint.handler.__name__)
    assert isinstance(found, Declared), endpoint.handler.__name__
    return found


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: "_" + found[0].lower(), name)


def test_the_client_has_every_call_and_no_other() -> None:
    members = inspect.getmembers_static(Kontobahn, lambda item: isinstance(item, Declared))
    assert {name for name, _ in members} == {endpoint.handler.__name__ for endpoint in OURS}
    assert {name for name, _ in inspect.getmembers_static(AsyncKontobahn, lambda item: isinstance(item, Declared))} == {
        name for name, _ in members
    }


@named(OURS)
def test_a_call_has_the_path_and_the_parameters_of_the_document(endpoint: Endpoint) -> None:
    call, described = declared(endpoint), operation(endpoint, DOCUMENT)
    assert (call.method, call.path) == (endpoint.method, endpoint.path)
    assert isinstance(call, Pages) == bool(endpoint.pages_by)
    assert inspect.getdoc(call)
    wanted = {
        snake(item["name"]): item["required"]
        for item in described["parameters"]
        if item["in"] != "header" and item["name"] not in OF_THE_CLIENT
    }
    if any(item["name"] == "Idempotency-Key" for item in described["parameters"]):
        wanted["idempotency_key"] = False
    if "requestBody" in described:
        wanted["file" if endpoint.takes_upload else "body"] = described["requestBody"]["required"]
    taken = {
        name: parameter.default is parameter.empty
        for name, parameter in call.signature.parameters.items()
        if name != "self"
    }
    assert taken == wanted
    hints = get_type_hints(call.function)
    for item in described["parameters"]:
        if item["in"] == "query" and snake(item["name"]) in hints and "enum" in item["schema"]:
            assert _words(hints[snake(item["name"])]) == set(item["schema"]["enum"]), item["name"]


def _words(hint: Any) -> set[str]:
    return {word for option in (hint, *get_args(hint)) if get_origin(option) is Literal for word in get_args(option)}


@named(OURS)
def test_bodies_and_answers_have_the_fields_of_the_document(endpoint: Endpoint) -> None:
    call, described = declared(endpoint), operation(endpoint, DOCUMENT)
    if endpoint.media_types:
        assert call.answer is File
    else:
        schema = described["responses"][str(endpoint.statuses[0])]["content"]["application/json"]["schema"]
        assert list(differences(schema, shape.type_info(call.answer), "answer", is_sent=False)) == []
    if isinstance(call, Pages):
        assert shape.type_info(call.answer).fields[0].type.item_type == shape.type_info(call.item)  # type: ignore[attr-defined]
    if endpoint.body is not None:
        schema = described["requestBody"]["content"]["application/json"]["schema"]
        hint = get_type_hints(call.function)["body"]
        body = next(kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and kind is not type(None))
        assert list(differences(schema, shape.type_info(body), "body", is_sent=True)) == []


def test_events_have_the_fields_of_the_document() -> None:
    assert webhooks.KINDS.keys() | {"webhook_test"} == DOCUMENT["webhooks"].keys() | {"webhook_test"}
    for name, kind in webhooks.KINDS.items():
        content = DOCUMENT["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
        found = differences(content["schema"]["properties"]["data"], shape.type_info(kind), name, is_sent=False)
        assert list(found) == []


def resolved(schema: Any) -> Any:
    while "$ref" in schema:
        schema = COMPONENTS[schema["$ref"].rpartition("/")[2]]
    return schema


def differences(schema: Any, kind: shape.Type, at: str, *, is_sent: bool) -> Iterator[str]:
    """Lists where a type of the client says something else than the document."""
    schema = resolved(schema)
    # One of several forms may have several itself: an amount, as a number or a text, that may be null.
    options = [form for option in schema.get("anyOf", [schema]) for form in resolved(option).get("anyOf", [option])]
    plain = [resolved(option) for option in options if option.get("type") != "null"]
    kinds = kind.types if isinstance(kind, shape.UnionType) else (kind,)
    own = [option for option in kinds if not isinstance(option, shape.NoneType)]
    if len(plain) < len(options) and len(own) == len(kinds):
        yield f"{at}: may be null"
    for option in plain:
        if not any(_fits(option, candidate, is_sent) for candidate in own):
            yield f"{at}: {option.get('type')} {option.get('format', '')} is {own}"
        for candidate in own:
            if option.get("type") == "object" and isinstance(candidate, shape.StructType):
                yield from _fields(option, candidate, at, is_sent)
            if option.get("type") == "array" and isinstance(candidate, shape.ListType):
                yield from differences(option["items"], candidate.item_type, f"{at}[]", is_sent=is_sent)


def _fields(schema: Any, kind: shape.StructType, at: str, is_sent: bool) -> Iterator[str]:
    fields, known = {field.encode_name: field for field in kind.fields}, schema.get("properties", {})
    if missing := known.keys() - fields.keys():
        yield f"{at}: lacks {missing}"
    if invented := fields.keys() - known.keys() - NOT_EVERYWHERE:
        yield f"{at}: has {invented}"
    for name in known.keys() & fields.keys():
        needed = name in schema.get("required", ())
        if is_sent and fields[name].required != needed:
            yield f"{at}.{name}: required is {needed}"
        if not is_sent and fields[name].required and not needed:
            yield f"{at}.{name}: may be left out"
        yield from differences(known[name], fields[name].type, f"{at}.{name}", is_sent=is_sent)


def _fits(schema: Any, kind: shape.Type, is_sent: bool) -> bool:
    if "enum" in schema and is_sent and isinstance(kind, shape.LiteralType):
        return set(kind.values) == set(schema["enum"])
    if schema.get("contentEncoding") == "base64" or (
        schema.get("type") == "string" and isinstance(kind, shape.BytesType)
    ):
        return isinstance(kind, shape.BytesType)
    match schema.get("type"), schema.get("format"):
        case "number", _:
            return isinstance(kind, shape.DecimalType)
        case "integer", _:
            return isinstance(kind, shape.IntType)
        case "boolean", _:
            return isinstance(kind, shape.BoolType)
        case "array", _:
            return isinstance(kind, shape.ListType)
        case "object", _:
            return isinstance(kind, shape.StructType if "properties" in schema else shape.DictType)
        case "string", "date":
            return isinstance(kind, shape.DateType)
        case "string", "date-time":
            return isinstance(kind, shape.DateTimeType)
        case "string", _:
            # A sum of money may be sent as a text, which a Decimal needs not.
            return isinstance(kind, shape.StrType | (shape.DecimalType if is_sent else shape.StrType))
    return isinstance(kind, shape.IntType | shape.StrType) and "enum" in schema


def test_sums_of_money_are_exact() -> None:
    text = b'{"betrag":0.10,"sollHabenKennzeichen":"SOLL"}'
    from kontobahn_client.models import Saldo

    found = msgspec.json.decode(text, type=Saldo)
    assert found.betrag + Decimal("0.20") == Decimal("0.30")
    assert str(found.betrag) == "0.10"
