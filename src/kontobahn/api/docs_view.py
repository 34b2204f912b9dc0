"""The OpenAPI document as the documentation page shows it: areas, calls, events, rows of fields; and text as HTML.

Everything here that returns Markup has escaped its input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from kontobahn import money
from kontobahn.api.samples import URL_VARIABLE, Sample, indented_json, samples
from kontobahn.api.schemas import DEFAULT, NO_NUL, Schema, resolve
from kontobahn.api.wire import words_of

_CALLERS = {(): "Anybody", ("apiKey",): "API key", ("apiKey", "session"): "API key or signed-in person"}
_JSON_TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*|\btrue\b|\bfalse\b|\bnull\b)')
_MAX_DEPTH = 6


class Field(NamedTuple):
    name: str
    # The path of the objects around it, for example `data.posten[].`
    within: str
    kind: str
    required: bool
    description: str
    rules: list[str]
    schema: Schema
    place: str = ""
    example: Any = None
    # The fields of which one is required, if this is one of them.
    one_of: str = ""


class Failure(NamedTuple):
    status: str
    description: str


class Operation(NamedTuple):
    id: str
    method: str
    path: str
    summary: str
    description: str
    credits: int
    free_as_dropdown: bool
    caller: str
    takes_session: bool
    role: str
    rate_limit: str
    parameters: list[Field]
    body: list[Field]
    body_example: Any
    status: str
    answer: list[Field]
    answer_example: Any
    failures: list[Failure]
    samples: list[Sample]


class Area(NamedTuple):
    name: str
    description: str
    operations: list[Operation]


class Event(NamedTuple):
    id: str
    name: str
    summary: str
    description: str
    headers: list[Field]
    body: list[Field]
    example: Any


class Section(NamedTuple):
    id: str
    title: str
    text: str


def areas(document: dict[str, Any]) -> list[Area]:
    by_tag: dict[str, list[Operation]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            shown = _operation(document, method.upper(), path, operation)
            by_tag.setdefault(operation["tags"][0], []).append(shown)
    return [Area(tag["name"], tag["description"], by_tag[tag["name"]]) for tag in document["tags"]]


def events(document: dict[str, Any]) -> list[Event]:
    components = document["components"]["schemas"]
    shown = []
    for name, methods in document["webhooks"].items():
        call = methods["post"]
        content = call["requestBody"]["content"]["application/json"]
        shown.append(
            Event(
                id=f"event-{name}",
                name=name,
                summary=call["summary"],
                description=call["description"],
                headers=[_parameter(item, components) for item in call["parameters"]],
                body=list(_fields(content["schema"], components)),
                example=content["example"],
            )
        )
    return shown


def guide(text: str) -> tuple[str, list[Section]]:
    """Returns the introduction and the sections of the text about the whole interface."""
    introduction, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    sections = []
    for part in parts:
        title, _, body = part.partition("\n")
        sections.append(Section("guide-" + re.sub(r"\W+", "-", title.lower()).strip("-"), title, body))
    return introduction, sections


def _operation(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> Operation:
    components = document["components"]["schemas"]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    successes = [(status, item) for status, item in operation["responses"].items() if status < "300"]
    content = successes[0][1]["content"]
    answer = content.get("application/json")
    summary, description = operation["summary"], operation["description"]
    schemes = tuple(dict.fromkeys(name for option in operation["security"] for name in option))
    limit = operation["x-rate-limit"]
    return Operation(
        id=operation["operationId"],
        method=method,
        path=path,
        summary=summary,
        description="" if description.rstrip(".") == summary else description,
        credits=operation["x-credits"],
        free_as_dropdown=operation["x-free-as-dropdown"],
        caller=_CALLERS[schemes],
        takes_session="session" in schemes,
        role=operation["x-required-role"] or "",
        rate_limit=f"{limit['requests']} requests in {_duration(limit['window_seconds'])}",
        parameters=_with_choice([_parameter(item, components) for item in operation["parameters"]], operation),
        body=_with_choice(list(_fields(body["schema"], components)), operation) if body else [],
        body_example=body.get("example"),
        status=" or ".join(status for status, _ in successes),
        answer=list(_fields(answer["schema"], components)) if answer else [],
        answer_example=answer["example"] if answer else f"a file: {', '.join(content)}",
        failures=list(_failures(document, operation)),
        samples=samples(document, method, path, operation),
    )


def _with_choice(fields: list[Field], operation: dict[str, Any]) -> list[Field]:
    choice = operation.get("x-required-one-of", ())
    words = " or ".join(choice)
    return [field._replace(one_of=words) if field.name in choice and not field.within else field for field in fields]


def _failures(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[Failure]:
    shared = document["components"]["responses"]
    for status, response in operation["responses"].items():
        if status >= "300":
            yield Failure(status, shared[response["$ref"].rpartition("/")[2]]["description"])


def _parameter(parameter: dict[str, Any], components: Mapping[str, Schema]) -> Field:
    schema = parameter["schema"]
    return Field(
        name=parameter["name"],
        within="",
        kind=_kind(schema, components),
        required=parameter.get("required", False),
        description=parameter.get("description", ""),
        rules=_rules(schema, with_pattern=parameter["in"] != "header"),
        schema=resolve(schema, components),
        place=parameter["in"],
        example=parameter.get("example"),
    )


def _fields(schema: Schema, components: Mapping[str, Schema], within: str = "", depth: int = 0) -> Iterator[Field]:
    """A row for every field, those of inner objects after the field that holds them."""
    schema = resolve(schema, components)
    if schema.get("type") == "array":
        yield from _fields(schema["items"], components, within + "[].", depth)
    for name, declared in schema.get("properties", {}).items():
        plain = _not_null(declared)
        yield Field(
            name=name,
            within=within,
            kind=_kind(declared, components),
            required=name in schema.get("required", ()),
            description=declared.get("description") or plain.get("description", ""),
            rules=_rules(plain),
            schema=plain,
        )
        inner = resolve(plain, components)
        if depth < _MAX_DEPTH and inner.get("type") in ("object", "array"):
            is_list = inner["type"] == "array"
            yield from _fields(inner.get("items", {}) if is_list else inner, components,
                               f"{within}{name}{'[]' if is_list else ''}.", depth + 1)  # fmt: skip


def _not_null(schema: Schema) -> Schema:
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema


def _kind(schema: Schema, components: Mapping[str, Schema]) -> str:
    if "anyOf" in schema:
        return " or ".join(_kind(option, components) for option in schema["anyOf"])
    schema = resolve(schema, components)
    if schema.get("type") == "array":
        return f"array of {_kind(schema.get('items', {}), components)}"
    if "contentEncoding" in schema:
        return str(schema["contentEncoding"])
    return str(schema.get("format") or schema.get("type") or "any")


def _rules(schema: Schema, *, with_pattern: bool = True) -> list[str]:
    rules = []
    if "enum" in schema:
        rules.append(" · ".join(f"`{value}`" for value in schema["enum"]))
    if schema.get("maximum") == money.MAX_AMOUNT:
        rules.append("at most two decimals")
    else:
        rules += _range(schema.get("minimum"), schema.get("maximum"))
    rules += _range(schema.get("minLength"), schema.get("maxLength"), " characters")
    rules += _range(schema.get("minItems"), schema.get("maxItems"), " entries")
    if with_pattern and schema.get("pattern", NO_NUL) != NO_NUL and "format" not in schema:
        rules.append(words_of(schema["pattern"]) or f"`{schema['pattern']}`")
    default = schema.get("default", schema.get(DEFAULT))
    if default is not None:
        rules.append(f"default `{default}`")
    return rules


def _range(least: Any, most: Any, unit: str = "") -> list[str]:
    if least is None and most is None:
        return []
    if most is None:
        return [f"at least {least}{unit}"]
    return [f"at most {most}{unit}" if least is None else f"{least} to {most}{unit}"]


def _duration(seconds: int) -> str:
    return f"{seconds} s" if seconds % 60 else f"{seconds // 60} min"


def json(value: Any) -> Markup:
    """Indented JSON, with its tokens marked up for the style sheet."""

    def mark(match: re.Match[str]) -> Markup:
        text, colon, other = match.groups()
        if text is None:
            return Markup('<span class="j-value">{}</span>').format(other)
        if colon is not None:
            return Markup('<span class="j-key">{}</span>{}').format(text, colon)
        return Markup('<span class="j-text">{}</span>').format(text)

    return _replace(_JSON_TOKEN, mark, indented_json(value))


def shell(text: str) -> Markup:
    """A command line; the page's script replaces the variable with its own address."""
    parts = [escape(part) for part in text.split(URL_VARIABLE)]
    return Markup('<span class="origin">{}</span>').format(URL_VARIABLE).join(parts)


def _fence(_renderer: object, tokens: Sequence[Token], number: int, _options: object, _env: object) -> str:
    return Markup('<pre tabindex="0"><code>{}</code></pre>\n').format(shell(tokens[number].content.strip()))


# HTML in a text is escaped; an indented line is not code.
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable("code")
_MARKDOWN.add_render_rule("fence", _fence)


def prose(text: str) -> Markup:
    """Renders Markdown, which the guide and the docstrings are written in."""
    return Markup(_MARKDOWN.render(text))


def _replace(pattern: re.Pattern[str], mark: Any, text: str) -> Markup:
    """As re.sub, but what lies between the matches is escaped."""
    pieces, end = [], 0
    for match in pattern.finditer(text):
        pieces += [escape(text[end : match.start()]), mark(match)]
        end = match.end()
    return Markup("").join([*pieces, escape(text[end:])])
