"""Every text of the dashboard has its German, and every template can be read in both languages."""

from __future__ import annotations

import re
import runpy

import pytest

from kontobahn.api.pages import accepted
from kontobahn.dashboard import page_templates, refusals, words
from kontobahn.dashboard.pages import overview
from kontobahn.dashboard.words import Message
from kontobahn.webhooks.outbox import EVENT_TYPES
from tests.tidy_rules import ROOT

BY_HAND = sorted((words.FOLDER / "de").glob(refusals.CATALOGUES))
CATALOGUES = sorted((words.FOLDER / "de").glob("*.po"))


def messages() -> list[tuple[str, Message]]:
    return [(path.stem, message) for path in CATALOGUES for message in words.read_catalogue(path.read_text("utf-8"))]


def test_the_catalogues_hold_what_the_pages_say() -> None:
    wanted = runpy.run_path(str(ROOT / "scripts" / "words.py"))["catalogues"]()
    for path, text in wanted.items():
        assert path.exists(), f"run `make words`: {path.name} is missing"
        assert path.read_text("utf-8") == text, f"run `make words`: {path.name} is out of date"
    assert {path.stem for path in CATALOGUES} == {path.stem for path in wanted} | {path.stem for path in BY_HAND}


def test_nothing_is_untranslated_or_fuzzy() -> None:
    assert [(stem, message.text) for stem, message in messages() if not message.is_translated] == []


def test_a_text_is_translated_in_one_way() -> None:
    known: dict[str, tuple[str, ...]] = {}
    for stem, message in messages():
        assert known.setdefault(message.text, message.translations) == message.translations, (stem, message.text)


def test_a_translation_has_the_places_of_its_text() -> None:
    places = re.compile(r"%\(\w+\)s|\{\w+\}")
    for stem, message in messages():
        wanted = set(places.findall(message.text)) | set(places.findall(message.plural))
        for translation in message.translations:
            found = set(places.findall(translation))
            # A sentence of an area may be said without its details; a form for one may say “one”.
            optional = stem.startswith("refusals") or message.plural
            assert found <= wanted if optional else found == wanted, (stem, message.text)


@pytest.mark.parametrize("name", sorted(path.name for path in page_templates.TEMPLATES.rglob("*.html")))
def test_every_template_compiles(name: str) -> None:
    page_templates.environment().get_template(name)
    text = next(path for path in page_templates.TEMPLATES.rglob("*.html") if path.name == name).read_text("utf-8")
    assert '"parts.html" as parts with context' not in text, "with context its components are made anew for every page"


def test_a_catalogue_is_read_as_it_was_written() -> None:
    written = [
        Message("Save", "", ("Sichern",)),
        Message('Quoted "text"\nwith \\ lines', "", ("Zitiert „Text“\n",)),
        Message("One row", "%(num)s rows", ("Eine Zeile", "%(num)s Zeilen")),
        Message("Unsure", "", ("Unsicher",), fuzzy=True),
        Message("Open", "", ("",)),
    ]
    assert words.read_catalogue(words.write_catalogue(written, "de")) == written
    assert [message.is_translated for message in written] == [True, True, True, False, False]


def test_the_language_is_the_one_the_browser_prefers() -> None:
    assert accepted("fr,en;q=0.5,de;q=0.8") == "de"
    assert accepted("en-GB,en;q=0.9") == "en"
    assert accepted("de;q=0,en;q=0.1") == "en"
    assert accepted("fr") is None
    assert words.choose(None, "xx", "en") == "en"
    assert words.choose(None) == "de"


def test_every_event_has_words() -> None:
    assert overview.EVENT_WORDS.keys() == EVENT_TYPES.keys()
