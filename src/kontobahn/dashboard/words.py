"""German and English. Texts are written in English; `locale/de/*.po` hold the German, one file a page module, read once.

The language is that of the request, so `_("Save")` is right in a handler and in a template alike. For a text that is made when a
module is loaded, mark it with `N_` and translate it where it is shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kontobahn.api.pages import Language, wished

DEFAULT: Language = "de"
FOLDER = Path(__file__).parent / "locale"
_current: ContextVar[Language] = ContextVar("language", default=DEFAULT)
_PART = re.compile(r'^(msgid|msgid_plural|msgstr(?:\[(\d)\])?) (".*")$')


def language() -> Language:
    return _current.get()


def speak(chosen: Language) -> None:
    """Sets the language of this request."""
    _current.set(chosen)


def choose(*wishes: str | None) -> Language:
    """The first wish that is a language of ours."""
    return wished(*wishes) or DEFAULT


def gettext(text: str, **values: Any) -> str:
    found = text_in(language(), text)
    return found % values if values else found


def text_in(chosen: Language, text: str) -> str:
    return _catalogue(chosen).texts.get(text, text)


def ngettext(one: str, many: str, count: int, **values: Any) -> str:
    return plural_form(one, many, count) % {"num": count, **values}


def plural_form(one: str, many: str, count: int) -> str:
    """The right form, with its places still open: templates fill them themselves, escaped."""
    forms = _catalogue(language()).plurals.get(one, (one, many))
    return forms[0] if count == 1 else forms[1]


_ = gettext


def N_(text: str) -> str:
    """Marks a text that is translated later."""
    return text


class Catalogue(NamedTuple):
    texts: dict[str, str]
    plurals: dict[str, tuple[str, ...]]


@cache
def _catalogue(chosen: Language) -> Catalogue:
    texts: dict[str, str] = {}
    plurals: dict[str, tuple[str, ...]] = {}
    for path in sorted((FOLDER / chosen).glob("*.po")):
        # Sentences of the areas are looked up by `refusals.py`.
        for message in [] if path.stem.startswith("refusals") else read_catalogue(path.read_text("utf-8")):
            if not message.is_translated:
                continue
            if message.plural:
                plurals[message.text] = message.translations
            else:
                texts[message.text] = message.translations[0]
    return Catalogue(texts, plurals)


# --- Catalogues (.po): the part of the format that translators' programs need


class Message(NamedTuple):
    text: str
    plural: str = ""
    # One translation, or one for each plural form.
    translations: tuple[str, ...] = ("",)
    fuzzy: bool = False

    @property
    def is_translated(self) -> bool:
        return all(self.translations) and not self.fuzzy


def read_catalogue(catalogue: str) -> list[Message]:
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
            parts[last] = _unquoted(match[3])
        elif line.startswith('"') and last:
            parts[last] += _unquoted(line)
        elif line.strip():
            raise ValueError(f"a catalogue has no line like this: {line}")
    if "msgid" not in parts:
        return None
    translations = tuple(parts[name] for name in ("msgstr", "msgstr[0]", "msgstr[1]") if name in parts)
    return Message(parts["msgid"], parts.get("msgid_plural", ""), translations, fuzzy)


def write_catalogue(messages: Sequence[Message], language: str) -> str:
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


def _unquoted(quoted: str) -> str:
    return str(ast.literal_eval(quoted))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
