"""Writes docs/reference from the code: settings, commands, events and errors. `make reference` runs it; tests/test_reference.py
compares. What a page says is said where the thing is declared: mend it there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import typer.main

from kontobahn.api.docs_view import _fields, indented_json
from kontobahn.api.openapi import build_openapi
from kontobahn.app import ERRORS, EVENTS, all_endpoints
from kontobahn.cli.entry import ExitCode, command_line
from kontobahn.settings import PREFIX, Settings, describe

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference"
MADE = "<!-- made by `make reference` -->\n"
# Options that mean the same everywhere.
_EVERYWHERE = ("data", "as_json", "output", "organization")


def cell(text: Any) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def table(*rows: tuple[Any, ...]) -> str:
    head, *rest = rows
    lines = [head, tuple("---" for _ in head), *rest]
    return "\n".join(f"| {' | '.join(map(cell, row))} |".replace(" ---", "---").replace("--- ", "---") for row in lines)


def _with_code(text: str) -> str:
    """Shows addresses and other long values as code, in which a line may end between their parts."""
    return re.sub(r"\{[^}]{18,}\}|(?:https?://|[a-z]+:)[\w:/.-]{18,}\w", r"`\g<0>`", text)


def document() -> dict[str, Any]:
    return dict(json.loads(build_openapi(all_endpoints(), Settings(), EVENTS, ERRORS), parse_float=Decimal))


# ---------------------------------------------------------------------------------------------------------------------


def settings_page() -> str:
    rows = [
        (f"`{name}` `{PREFIX}{name.upper()}`", f"`{msgspec.json.encode(default).decode()}`", _with_code(meaning))
        for name, default, meaning in describe()
    ]
    return f"""# Settings

{MADE}
From the environment, otherwise from `kontobahn.toml` in the data directory (or the file that `{PREFIX}CONFIG` names), otherwise
the default. In the file a setting has its plain name: `base_url = "https://konto.example"`. `prices` is a table there, and a JSON
object in the environment.

A setting that does not exist stops the start, with the nearest name that does, so keep `{PREFIX}` for settings (`{PREFIX}API_KEY` and
`{PREFIX}URL` are for `kontobahn listen`). `kontobahn doctor --settings` shows what is in force.

{table(("Setting and variable", "Default", "Meaning"), *rows)}
"""


# ---------------------------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line, with what typer knows of it."""

    def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
        children = getattr(command, "commands", None)
        if not children:
            yield name, command
        for part, child in (children or {}).items():
            yield from walk(child, f"{name} {part}")

    yield from walk(typer.main.get_command(command_line()), "kontobahn")


def _help(command: Any) -> tuple[str, list[str]]:
    """The first sentence of a command's help, and its other paragraphs; examples as lines to copy."""
    first, *rest = re.split(r"\n\s*\n", (command.help or "").strip())
    return " ".join(first.split()), [_paragraph(part) for part in rest]


def _paragraph(text: str) -> str:
    if examples := re.match(r"Examples?:\s*(.*)", text, re.DOTALL):
        lines = [" ".join(line.split()) for line in re.split(r"\s{3,}\|\s{3,}|\n", examples[1]) if line.strip()]
        return "```sh\n" + "\n".join(lines) + "\n```"
    return " ".join(text.split())


def _parameter(parameter: Any) -> tuple[str, str]:
    if _is_argument(parameter):
        names = f"`{_argument(parameter)}`"
    else:
        names = ", ".join(f"`{name}`" for name in sorted([*parameter.opts, *parameter.secondary_opts], key=len))
        if parameter.metavar:
            names += f" {parameter.metavar}"
    facts = []
    if parameter.required:
        facts.append("required")
    elif not getattr(parameter, "is_flag", False) and parameter.default not in (None, "", (), []):
        facts.append(f"default `{getattr(parameter.default, 'value', parameter.default)}`")
    if choices := getattr(parameter.type, "choices", ()):
        facts.append(" or ".join(f"`{choice}`" for choice in choices))
    text = (parameter.help or "").strip()
    return names, f"{text} ({'; '.join(facts)})" if facts else text


def _is_argument(parameter: Any) -> bool:
    return not parameter.opts[0].startswith("-")


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper()) + ("…" if parameter.nargs == -1 else "")


def _command(name: str, command: Any) -> str:
    first, rest = _help(command)
    parts = [f"### {name}", first, *rest]
    known = [item for item in command.params if item.name not in ("help", *_EVERYWHERE)]
    arguments = [_argument(item) if item.required else f"[{_argument(item)}]" for item in known if _is_argument(item)]
    usage = " ".join([name, *arguments])
    parts.append(f"```\n{usage}{' [OPTIONS]' if len(command.params) > len(arguments) else ''}\n```")
    if known:
        parts.append(table(("Argument or option", "Meaning"), *map(_parameter, known)))
    return "\n\n".join(parts)


def _shared(found: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    known = {item.name: item for _, command in found for item in command.params if item.name in _EVERYWHERE}
    return [
        *(_parameter(known[name]) for name in _EVERYWHERE),
        ("`-h`, `--help`", "Show what a command does and takes."),
    ]


def commands_page() -> str:
    found = list(commands())
    rows = [(f"[`{name}`](#{name.replace(' ', '-')})", _help(command)[0].rstrip(".")) for name, command in found]
    families: dict[str, list[str]] = {}
    for name, command in found:
        family = name.split()[1] if name.count(" ") > 1 else "The service"
        families.setdefault(family, []).append(_command(name, command))
    pieces = "\n\n".join(f"## {family}\n\n" + "\n\n".join(parts) for family, parts in families.items())
    codes = ", ".join(f"{code.value}" for code in ExitCode)
    return f"""# Commands

{MADE}
Exit codes ({codes}) are explained in [operating.md](../operating.md#exit-codes). These options mean the same wherever they are taken:

{table(("Option", "Meaning"), *_shared(found))}

{table(("Command", "Does"), *rows)}

{pieces}
"""


# ---------------------------------------------------------------------------------------------------------------------


def events_page() -> str:
    known = document()
    parts = []
    for name, item in known["webhooks"].items():
        operation = item["post"]
        content = operation["requestBody"]["content"]["application/json"]
        data = content["schema"]["properties"]["data"]
        rows = [
            (f"`{field.within}{field.name}`", field.kind, field.description)
            for field in _fields(data, known["components"]["schemas"])
        ]
        example = indented_json(content["example"])
        fields = table(("Field of `data`", "Type", "Meaning"), *rows) if rows else ""
        parts.append(f"## {name}\n\n{operation['description'].strip()}\n\n{fields}\n\n```json\n{example}\n```")
    return f"""# Events

{MADE}
What is sent to your [webhook URL and further endpoints](../webhooks.md): a POST with `event`, `data` and `received_at`. How
deliveries are signed, retried and kept in order is in the [contract](../spec/events.md#delivery). Accept names you do not know.

{chr(10).join(f"{part}{chr(10)}" for part in parts).rstrip()}
"""


# ---------------------------------------------------------------------------------------------------------------------


def _example(response: dict[str, Any]) -> str:
    return indented_json(response["content"]["application/json"]["example"])


def errors_page() -> str:
    known = document()
    responses, schemas = known["components"]["responses"], known["components"]["schemas"]
    found: dict[str, dict[str, Any]] = {}
    for methods in known["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                if status >= "300":
                    said = responses[response["$ref"].rpartition("/")[2]]
                    found.setdefault(status, {}).setdefault(said["description"], said)
    parts = [
        f"### {status}\n\n"
        + "\n\n".join(f"{text}\n\n```json\n{_example(said)}\n```" for text, said in meanings.items())
        for status, meanings in sorted(found.items())
    ]
    fields = [
        (f"`{field.name}`", field.kind, field.description)
        for name in ("Error", "OutOfCredits", *(error.__name__ for error in ERRORS.values()))
        for field in _fields({"$ref": f"#/components/schemas/{name}"}, schemas)
    ]
    unique = list(dict.fromkeys(fields))
    return f"""# Errors

{MADE}
An error is a JSON object with a sentence and a request id. What to do about each status, and which `code` has which cause, is in the
[contract](../spec/errors.md).

## Fields of an error

{table(("Field", "Type", "Meaning"), *unique)}

## Statuses

{(chr(10) * 2).join(parts)}
"""


PAGES: dict[str, Callable[[], str]] = {
    "settings": settings_page,
    "commands": commands_page,
    "events": events_page,
    "errors": errors_page,
}


def main() -> None:
    TARGET.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (TARGET / f"{name}.md").write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
