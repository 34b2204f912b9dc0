"""Reads and writes message catalogues (.po): the part of the format that translators' programs need. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_PART = re.compile(r'^(msgid|msgid_plural|msgstr(?:\[(\d)\])?) (".*")$')


class Message(NamedTuple):
    text: str
    plural: str = ""
    # One translation, or one for each plural form.
    translations: tuple[str, ...] = ("",)
    fuzzy: bool = False

    @property
    def is_translated(self) -> bool:
        return all(self.translations) and not self.fuzzy


def read(catalogue: str) -> list[Message]:
    """The messages of a catalogue, without its head."""
    found = []
    for block in re.split(r"\n\s*\n", catalogue):
        message = _message(block.splitlines())
        if message is not None and message.text:
            found.append(message)
    return found


def _message(lines: Iterable[str]) -> Message | None:
    parts: dict[str, str] = {}
    fuzzy, last = False, ""
    for line in lines:
        if line.startswith("#"):
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif match := _PART.match(line):
            last = match[1]
            parts[last] = _text(match[3])
        elif line.startswith('"') and last:
            parts[last] += _text(line)
        elif line.strip():
            raise ValueError(f"a catalogue has no line like this: {line}")
    if "msgid" not in parts:
        return None
    translations = tuple(parts[name] for name in ("msgstr", "msgstr[0]", "msgstr[1]") if name in parts)
    return Message(parts["msgid"], parts.get("msgid_plural", ""), translations, fuzzy)


def write(messages: Sequence[Message], language: str) -> str:
    blocks = [f'msgid ""\nmsgstr ""\n"Language: {language}\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"']
    if any(message.plural for message in messages):
        blocks[0] += '\n"Plural-Forms: nplurals=2; plural=(n != 1);\\n"'
    for message in messages:
        lines = ["#, fuzzy"] if message.fuzzy else []
        lines.append(f"msgid {_quoted(message.text)}")
        if message.plural:
            lines.append(f"msgid_plural {_quoted(message.plural)}")
            lines += [f"msgstr[{number}] {_quoted(text)}" for number, text in enumerate(message.translations)]
        else:
            lines.append(f"msgstr {_quoted(message.translations[0])}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _text(quoted: str) -> str:
    return str(ast.literal_eval(quoted))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
