"""The OpenAPI document as the documentation page shows it: areas, calls, events, rows of fields; and text as HTML.

Everything here that returns Markup has escaped its input.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from kontobahn import money
from kontobahn.api.schemas import DEFAULT, NO_NUL, REFERENCE, Schema, resolve
from kontobahn.api.wire import words_of
from kontobahn.json_text import encode

# Samples of calls in curl, Python and JavaScript, with the document's own examples. Python is that of clients/python.


URL_VARIABLE = "$API_URL"
_BACKSLASH = "\\"
_WIDTH = 88


class Sample(NamedTuple):
    language: str
    text: str


class _Made(NamedTuple):
    """A call with the document's examples: the address, and what is sent."""

    id: str
    method: str
    base: str
    path: str
    # By name: what stands in the path, and what in the query; and the schema of each.
    path_values: dict[str, Any]
    query: dict[str, Any]
    schemas: dict[str, Schema]
    has_key: bool
    takes_file: bool
    body: Any
    body_schema: Schema | None
    gives_file: bool

    @property
    def address(self) -> str:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in self.query.items())
        path = self.path
        for name, value in self.path_values.items():
            path = path.replace("{" + name + "}", quote(str(value), safe=""))
        return f"{self.base}{path}{'?' if query else ''}{query}"


def samples(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> list[Sample]:
    made = _made(document, method, path, operation)
    components = document["components"]["schemas"]
    found = [
        Sample("curl", _curl(made)),
        Sample("Python", _python(made, components)),
        Sample("JavaScript", _javascript(made)),
    ]
    # Banks make this call, and sign it: a program of ours has no method for it.
    return found if operation["security"] or "/webhooks/" not in path else found[:1]


def _made(document: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> _Made:
    server = document["servers"][0]["url"]
    needed = {item["name"] for item in operation["parameters"] if item.get("required")}
    needed |= set(operation.get("x-required-one-of", ())[:1])
    values = {item["name"]: item for item in operation["parameters"] if item["name"] in needed}
    content = operation.get("requestBody", {}).get("content", {})
    json_body = content.get("application/json", {})
    answers = next(item for status, item in operation["responses"].items() if status < "300")["content"]
    return _Made(
        id=operation["operationId"],
        method=method,
        base=URL_VARIABLE if server == "/" else server.rstrip("/"),
        path=path,
        path_values={name: item["example"] for name, item in values.items() if item["in"] == "path"},
        query={name: item["example"] for name, item in values.items() if item["in"] == "query"},
        schemas={name: item["schema"] for name, item in values.items()},
        has_key=bool(operation["security"]),
        takes_file="multipart/form-data" in content,
        body=json_body.get("example"),
        body_schema=json_body.get("schema"),
        gives_file="application/json" not in answers,
    )


def indented_json(value: Any) -> str:
    return msgspec.json.format(encode(value), indent=2).decode()


def _indented(text: str, by: str = "  ") -> str:
    return text.replace("\n", "\n" + by)


def _curl(made: _Made) -> str:
    parts = [("curl" if made.method == "GET" else f"curl -X {made.method}") + f' "{made.address}"']
    if made.has_key:
        parts.append('-H "x-api-key: $API_KEY"')
    if made.takes_file:
        parts.append("-F file=@FILE")
    elif made.body_schema is not None:
        parts.append('-H "Content-Type: application/json"')
        parts.append("-d '" + _indented(indented_json(made.body).replace("'", "'\\''")) + "'")
    if made.gives_file:
        parts.append("-OJ")
    return " \\\n  ".join(parts)


def _javascript(made: _Made) -> str:
    headers = []
    if made.has_key:
        headers.append('"x-api-key": process.env.API_KEY')
    if made.method in ("POST", "PUT"):
        headers.append('"Idempotency-Key": (await import("node:crypto")).randomUUID()')
    options = [] if made.method == "GET" else [f'method: "{made.method}"']
    if made.takes_file:
        options.append('body: new Blob([await (await import("node:fs/promises")).readFile("FILE")])')
    elif made.body_schema is not None:
        headers.append('"Content-Type": "application/json"')
        options.append(f"body: JSON.stringify({_indented(indented_json(made.body))})")
    if headers:
        options.append(f"headers: {{ {', '.join(headers)} }}")
    given = ", {\n  " + ",\n  ".join(options) + ",\n}" if options else ""
    content = "Buffer.from(await answer.arrayBuffer())" if made.gives_file else "await answer.json()"
    return (
        f'const answer = await fetch("{made.address}"{given});\n'
        f"if (!answer.ok) throw new Error((await answer.json()).error);\nconsole.log({content});"
    )


# --- Python


def _python(made: _Made, components: Mapping[str, Schema]) -> str:
    values = made.path_values | made.query
    given = [f"{_snake(name)}={_literal(value, made.schemas[name])}" for name, value in values.items()]
    models: set[str] = set()
    if made.takes_file:
        given.append('file=Path("FILE")')
    elif made.body_schema is not None:
        given.append("body=" + _construct(made.body, made.body_schema, components, models))
    who = 'os.environ["API_KEY"]' if made.has_key else ""
    call = _wrapped(f"kb.{made.id}", given)
    lines = [f'with Kontobahn("{made.base}"{", " if who else ""}{who}) as kb:']
    lines.append(f"    answer = {_indented(call, '    ')}")
    lines.append('    answer.save(".")' if made.gives_file else "    print(answer)")
    text = "\n".join(lines)
    return "\n".join([*_imports(text, models), "", text])


def _imports(text: str, models: set[str]) -> list[str]:
    standard = [
        line
        for word, line in (
            ("base64.", "import base64"),
            ("os.environ", "import os"),
            ("date(|datetime.", "from datetime import date, datetime"),
            ("Decimal(", "from decimal import Decimal"),
            ("Path(", "from pathlib import Path"),
        )
        if any(part in text for part in word.split("|"))
    ]
    if "from datetime import date, datetime" in standard:
        used = [
            name
            for name, mark in (("date", r"(?<!\.)\bdate\("), ("datetime", r"\bdatetime\."))
            if re.search(mark, text)
        ]
        standard[standard.index("from datetime import date, datetime")] = f"from datetime import {', '.join(used)}"
    own = ["from kontobahn_client import Kontobahn"]
    if models:
        own.append(f"from kontobahn_client.models import {', '.join(sorted(models))}")
    return [*standard, "", *own] if standard else own


def _wrapped(name: str, parts: list[str]) -> str:
    """A call on one line if it fits, else with a line for each argument."""
    line = f"{name}({', '.join(parts)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    return f"{name}(\n" + "".join(f"    {_indented(part, '    ')},\n" for part in parts) + ")"


def _construct(value: Any, schema: Schema, components: Mapping[str, Schema], models: set[str]) -> str:
    """The value as the client's types are written: structs by the names of their schemas."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options and isinstance(value, dict):
        schema = next((option for option in options if "$ref" in option), options[0])
    elif options:
        schema = options[0]
    name = schema.get("$ref", "").removeprefix(REFERENCE)
    schema = resolve(schema, components)
    if isinstance(value, dict) and name:
        models.add(name)
        members = schema.get("properties", {})
        return _wrapped(
            name, [f"{key}={_construct(item, members[key], components, models)}" for key, item in value.items()]
        )
    if isinstance(value, list):
        items = [_construct(item, schema.get("items", {}), components, models) for item in value]
        return "[" + _wrapped("", items)[1:-1] + "]"
    return _literal(value, schema)


def _literal(value: Any, schema: Schema | None = None) -> str:
    kind = schema or {}
    if kind.get("type") == "number" and value is not None:
        return f'Decimal("{value}")'
    if kind.get("format") == "date":
        return "date({0.year}, {0.month}, {0.day})".format(date.fromisoformat(value))
    if kind.get("format") == "date-time":
        return f'datetime.fromisoformat("{value}")'
    if "contentEncoding" in kind:
        return f'base64.b64decode("{value}")'
    if isinstance(value, str):
        return '"' + value.replace(_BACKSLASH, _BACKSLASH * 2).replace('"', '\\"') + '"'
    return str(value) if isinstance(value, Decimal | int) or value is None else repr(value)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])[A-Z]", lambda found: "_" + found[0].lower(), name)


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
