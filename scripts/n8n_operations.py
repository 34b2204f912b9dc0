"""Writes the table of operations of the n8n node from the OpenAPI document: `make n8n-operations`; tests/test_n8n_node.py compares.

The node reads the table and nothing else, so a call of the API is in the node when it stands in `scripts/n8n_tasks.py`.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts.n8n_tasks import LABELS, LEFT_OUT, LOCATORS, NOTES, SEARCHES, SIMPLE, TASKS
from scripts.reference import document

TARGET = Path(__file__).resolve().parent.parent / "clients" / "n8n" / "nodes" / "Kontobahn" / "operations.json"
# Parameters that the node fills by itself.
OWN = ("quelle", "Idempotency-Key", "x-request-purpose", "zweck", "limit")
PAGED_BY = ("from_id", "from_code", "cursor")
# A cursor that is kept from one run to the next, and so is given.
KEPT_CURSOR = ("list_transaction_changes",)
MAX_SIMPLE = 10
# A page costs the same however long it is.
MAX_PAGE = 2000
JSON = "application/json"


class Table:
    """Makes the rows of the table out of an OpenAPI document."""

    def __init__(self, source: dict[str, Any]) -> None:
        self.schemas = source["components"]["schemas"]
        self.events = sorted({*source["webhooks"]})
        self.calls = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in source["paths"].items()
            for method, operation in methods.items()
        }

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Follows references, and takes the null out of what may be null."""
        while "$ref" in schema:
            schema = self.schemas[schema["$ref"].rpartition("/")[2]]
        kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
        if len(kinds) == 1 and len(schema["anyOf"]) == 2:
            return {**self.resolved(kinds[0]), "nullable": True}
        return schema

    def whole(self) -> dict[str, Any]:
        known = {call for operations in TASKS.values() for call in operations.values()}
        missing, gone = self.calls.keys() - known - LEFT_OUT.keys(), (known | LEFT_OUT.keys()) - self.calls.keys()
        if missing or gone:
            raise SystemExit(
                f"scripts/n8n_tasks.py, then `make n8n-operations`: calls without an operation {sorted(missing)}, "
                f"calls that are gone {sorted(gone)}."
            )
        return {
            "events": self.events,
            "searches": {name: self.search(name) for name in sorted(SEARCHES)},
            "resources": [
                {"name": name, "value": camel(name), "operations": [self.row(name, *one) for one in operations.items()]}
                for name, operations in sorted(TASKS.items())
            ],
        }

    def search(self, name: str) -> dict[str, Any]:
        _, path, operation = self.calls[str(SEARCHES[name]["call"])]
        paging = {"limit": 100} if "limit" in {item["name"] for item in operation["parameters"]} else {}
        return {**SEARCHES[name], "path": path, "query": paging}

    def row(self, resource: str, name: str, call: str) -> dict[str, Any]:
        method, path, operation = self.calls[call]
        given = {item["name"]: item["schema"] for item in operation["parameters"]}
        content = operation.get("requestBody", {}).get("content", {})
        row = {
            "name": name,
            "value": camel(name),
            "call": call,
            "action": action(resource, name),
            "description": plain(operation["summary"]),
            "note": NOTES.get(call),
            "method": method,
            "path": path,
            "scopes": operation["x-required-scopes"],
            "credits": operation["x-credits"],
            "fields": list(self.fields(call)),
            "list": method == "GET" and self.answer(call)[1].get("type") == "array",
            "paged": any(name in given for name in PAGED_BY),
            "pageSize": min(given["limit"].get("maximum", MAX_PAGE), MAX_PAGE) if "limit" in given else 0,
            "simple": self.simple(call) if method == "GET" else [],
            "idempotent": "Idempotency-Key" in given,
            "upload": bool(content) and JSON not in content,
            "download": JSON not in self.answer(call)[0],
            "numbers": sorted(set(self.numbers(content[JSON]["schema"]))) if JSON in content else [],
        }
        return {key: value for key, value in row.items() if value not in (None, False, 0, [])} | {
            "fields": row["fields"]
        }

    def fields(self, call: str) -> Iterator[dict[str, Any]]:
        _, path, operation = self.calls[call]
        one_of = operation.get("x-required-one-of", [])
        for item in operation["parameters"]:
            paging = item["name"] in PAGED_BY and call not in KEPT_CURSOR
            if item["name"] not in OWN and not paging:
                schema = {"description": item.get("description"), **self.resolved(item["schema"])}
                yield self.field(item["name"], item["in"], path, schema, bool(item.get("required")), one_of)
        body = operation.get("requestBody", {}).get("content", {}).get(JSON)
        if body:
            whole = self.resolved(body["schema"])
            for name, schema in whole["properties"].items():
                described = {"description": schema.get("description"), **self.resolved(schema)}
                yield self.field(name, "body", path, described, name in whole.get("required", ()), one_of)

    def field(
        self, name: str, place: str, path: str, schema: dict[str, Any], required: bool, one_of: list[str]
    ) -> dict[str, Any]:
        kind = self.kind(schema)
        search = next((found for field, start, found in LOCATORS if field == name and path.startswith(start)), "")
        choices = schema.get("enum") or schema.get("items", {}).get("enum") or []
        described = {
            "name": name,
            "label": label(name),
            "in": place,
            "kind": kind,
            "search": search if kind == "text" else "",
            "required": required,
            "shown": name in one_of,
            "nullable": bool(schema.get("nullable")),
            "secret": "password" in name,
            "plain": kind == "json" and any(inner.get("type") == "string" for inner in schema.get("anyOf", ())),
            "description": plain(schema.get("description") or ""),
            "choices": [choice for choice in choices if choice is not None],
            "example": example(schema, kind),
        }
        return {key: value for key, value in described.items() if value not in ("", False, [], None)}

    def kind(self, schema: dict[str, Any]) -> str:
        types = {schema.get("type"), *(self.resolved(kind).get("type") for kind in schema.get("anyOf", ()))} - {None}
        if "enum" in schema:
            return "choice"
        if "number" in types:
            return "amount"
        if "object" in types:
            return "json"
        if types == {"array"}:
            items = self.resolved(schema["items"])
            return "choices" if "enum" in items else "texts" if items.get("type") == "string" else "json"
        return str({"date": "date", "date-time": "moment"}.get(schema.get("format", ""), {
            "integer": "integer", "boolean": "boolean"}.get(str(schema.get("type")), "text")))  # fmt: skip

    def numbers(self, schema: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[str]:
        """The names of the fields of a body, however deep, that hold an amount."""
        if schema.get("$ref", "") in above:
            return
        above += (schema["$ref"],) if "$ref" in schema else ()
        schema = self.resolved(schema)
        for name, inner in schema.get("properties", {}).items():
            if self.kind(self.resolved(inner)) == "amount":
                yield name
            yield from self.numbers(inner, above)
        for inner in (schema.get("items"), *schema.get("anyOf", ())):
            if inner:
                yield from self.numbers(inner, above)

    def answer(self, call: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The content of the first good answer, and the schema of its rows or of the one thing it holds."""
        answers = self.calls[call][2]["responses"]
        content = next(answer.get("content", {}) for status, answer in answers.items() if status.startswith("2"))
        schema = self.resolved(content.get(JSON, {}).get("schema", {}))
        inside = schema.get("properties", {})
        return content, self.resolved(inside.get("data") or inside.get("connections") or schema)

    def simple(self, call: str) -> list[str]:
        """The fields that Simplify keeps: nothing if the answer is simple already."""
        schema = self.answer(call)[1]
        inside = self.resolved(schema["items"] if schema.get("type") == "array" else schema).get("properties", {})
        flat = [name for name, inner in inside.items() if self.kind(self.resolved(inner)) != "json"]
        if call in SIMPLE:
            return SIMPLE[call]
        return flat[:MAX_SIMPLE] if len(inside) > MAX_SIMPLE and flat else []


def action(resource: str, name: str) -> str:
    noun, words = (
        resource.lower().replace("url", "URL"),
        name.lower().replace("pdf", "PDF").replace("xml", "XML").replace("vat", "VAT"),
    )
    words = words[0].upper() + words[1:]
    if name == "Get Many":
        return f"{words} {noun}{'es' if noun.endswith(('s', 'ch')) else 's'}"
    return f"{words} ({noun})" if " " in name else f"{words} {'an' if noun[0] in 'aeio' else 'a'} {noun}"


def camel(name: str) -> str:
    first, *rest = re.findall(r"[A-Za-z0-9]+", name)
    return "".join([str(first).lower(), *(word[0].upper() + word[1:].lower() for word in rest)])


def label(name: str) -> str:
    if name in LABELS:
        return LABELS[name]
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").split()
    upper = {"id": "ID", "ids": "IDs", "iban": "IBAN", "bic": "BIC", "url": "URL", "ip": "IP", "api": "API"}
    return " ".join(upper.get(word.lower(), word[0].upper() + word[1:]) for word in words)


def plain(text: str) -> str:
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text).removesuffix(".")


def example(schema: dict[str, Any], kind: str) -> str:
    """A text to show in an empty field; none where the field shows its choices."""
    found = (schema.get("examples") or [None])[0]
    return "" if found is None or kind in ("choice", "choices", "boolean", "json") else str(found)


def text() -> str:
    return json.dumps(Table(document()).whole(), indent=1, ensure_ascii=False, default=str) + "\n"


def main() -> None:
    TARGET.write_text(text(), "utf-8")


if __name__ == "__main__":
    main()
