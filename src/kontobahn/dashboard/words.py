"""German and English. Texts are written in English; `locale/de/*.po` hold the German, one file a page module, read once.

The language is that of the request, so `_("Save")` is right in a handler and in a template alike. For a text that is made when a
module is loaded, mark it with `N_` and translate it where it is shown.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast, get_args

from kontobahn.dashboard import po

Language = Literal["de", "en"]
LANGUAGES: dict[Language, str] = {"de": "Deutsch", "en": "English"}
DEFAULT: Language = "de"
FOLDER = Path(__file__).parent / "locale"
_current: ContextVar[Language] = ContextVar("language", default=DEFAULT)


def language() -> Language:
    return _current.get()


def speak(chosen: Language) -> None:
    """Sets the language of this request."""
    _current.set(chosen)


def choose(*wishes: str | None) -> Language:
    """The first wish that is a language of ours."""
    return next((cast(Language, wish) for wish in wishes if wish in get_args(Language)), DEFAULT)


def accepted(header: str) -> str | None:
    """The language of ours that a browser prefers."""
    weighed = []
    for position, part in enumerate(header.lower().split(",")[:20]):
        tag, _, quality = part.strip().partition(";q=")
        try:
            weight = float(quality) if quality else 1.0
        except ValueError:
            continue
        weighed.append((-weight, position, tag.partition("-")[0].strip()))
    return next((tag for weight, _, tag in sorted(weighed) if weight < 0 and tag in LANGUAGES), None)


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
        for message in [] if path.stem.startswith("refusals") else po.read(path.read_text("utf-8")):
            if not message.is_translated:
                continue
            if message.plural:
                plurals[message.text] = message.translations
            else:
                texts[message.text] = message.translations[0]
    return Catalogue(texts, plurals)
