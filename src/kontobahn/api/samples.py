"""Samples of calls in curl, Python and JavaScript, with the document's own examples. Python is that of clients/python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from kontobahn.api.schemas import REFERENCE, Schema, resolve
from kontobahn.json_text import encode

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
