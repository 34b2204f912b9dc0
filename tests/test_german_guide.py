"""The German guide: it is chosen by the visitor's language, found by German questions, names only what stands on the screen, and
explains every page of the dashboard."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import unquote

import pytest

from kontobahn.api.pages import LANGUAGES, Language
from kontobahn.dashboard import words
from kontobahn.dashboard.menu import Menu
from kontobahn.dashboard.pages import every_page
from kontobahn.guide import library
from kontobahn.guide.library import ROOT, render
from kontobahn.guide.routes import TEXTS
from tests.test_guide import fetch, page
from tests.tidy_rules import ROOT as PROJECT

GERMAN = {name: source for name, source in library.sources().items() if source.language == "de"}

# --- The language


@pytest.mark.parametrize(
    ("headers", "language"),
    [
        ({}, "en"),
        ({"Accept-Language": "de-DE,de;q=0.9,en;q=0.8"}, "de"),
        ({"Accept-Language": "en,de;q=0.8"}, "en"),
        ({"Accept-Language": "fr"}, "en"),
        ({"Accept-Language": "en", "Cookie": "kontobahn_language=de"}, "de"),
        ({"Accept-Language": "de", "Cookie": "__Host-kontobahn_language=en"}, "en"),
        ({"Accept-Language": "de", "Cookie": "kontobahn_language=nonsense"}, "de"),
    ],
)
def test_the_start_follows_the_visitors_language(headers: dict[str, str], language: Language) -> None:
    answer = fetch(ROOT, **headers)
    assert {"Accept-Language", "Cookie"} <= set(answer.headers["vary"].split(", "))
    if language == "de":
        assert (answer.status_code, answer.headers["location"]) == (307, f"{ROOT}/de")
    else:
        assert '<html lang="en">' in answer.text


def test_an_address_has_the_language_of_its_page_whoever_asks() -> None:
    for name in ("en", "banks", "reference/settings"):
        assert '<html lang="en">' in fetch(f"{ROOT}/{name}", **{"Accept-Language": "de"}).text
    for name in GERMAN:
        shown = fetch(f"{ROOT}/{name}", **{"Accept-Language": "en"}).text
        assert '<html lang="de">' in shown
        assert f">{TEXTS['de'].search}</button>" in shown
        assert TEXTS["en"].footer.partition("{")[2].partition("}")[2] not in shown


def switch(address: str) -> list[str]:
    return re.findall(r'<p class="language"><a href="([^"]+)"', fetch(address).text)


def test_a_page_that_is_there_in_both_languages_leads_to_the_other() -> None:
    pairs = [name for name in GERMAN if name.removeprefix("de").lstrip("/") in library.sources()]
    assert len(pairs) >= 7
    for name in pairs:
        english = library.address(name.removeprefix("de").lstrip("/"))
        assert switch(library.address(name)) == [english]
        assert switch(english) == [library.address(name)]
    assert switch(f"{ROOT}/reference/settings") == []
    assert switch(f"{ROOT}/de/team") == []
    assert [unescape(found) for found in switch(f"{ROOT}/search?q=Skonto+%26+mehr")] == [
        f"{ROOT}/de/search?q=Skonto+%26+mehr"
    ]


def test_what_is_missing_is_said_in_german_below_the_german_guide() -> None:
    answer = fetch(f"{ROOT}/de/nichts")
    assert answer.status_code == 404
    assert TEXTS["de"].missing in answer.text
    assert TEXTS["de"].ask in fetch(f"{ROOT}/de/search?q=").text
    assert TEXTS["de"].nothing in fetch(f"{ROOT}/de/search?q=xyzzyplugh").text


# --- The search

QUESTIONS = {
    "Kontoauszug": ("de/banks", "de/tutorial", "de/open-items"),
    "Kontoauszug einlesen": ("de/tutorial", "de/banks"),
    "Mahnung": ("de/open-items",),
    "wie schreibe ich eine Mahnung?": ("de/open-items",),
    "Umsatzsteuer": ("de/reports",),
    "Umsatzsteuer-Voranmeldung": ("de/reports",),
    "Skonto": ("de/open-items",),
    "Offene Posten": ("de/open-items",),
    "überfällige Rechnungen": ("de/open-items",),
    "Kontenblatt": ("de/reports",),
    "Summen- und Saldenliste drucken": ("de/reports",),
    "BWA": ("de/reports",),
    "Bank verbinden": ("de/banks",),
    "FinTS PIN": ("de/banks",),
    "Einwilligung erneuern": ("de/banks",),
    "Überweisung": ("de/payments",),
    "Auftragsdatei hochladen": ("de/payments",),
    "Zahlung einer Rechnung zuordnen": ("de/reconciliation", "de/tutorial"),
    "Teilzahlung": ("de/reconciliation",),
    "Übergabe an die Steuerkanzlei": ("de/reconciliation",),
    "Regel für die Miete": ("de/reconciliation",),
    "Kassenbuch stornieren": ("de/books",),
    "Buchungsstapel zurücknehmen": ("de/books",),
    "wie lade ich meine Steuerkanzlei ein?": ("de/team",),
    "Rollen und Rechte": ("de/team",),
    "Mandant anlegen": ("de/team",),
    "zweiter Faktor": ("de/dashboard",),
    "Passwort vergessen": ("de/dashboard", "de/team"),
    "Hinweise per E-Mail abbestellen": ("de/dashboard",),
    "Datensicherung": ("de/go-live",),
    "Mailserver einrichten": ("de/go-live", "de/dashboard"),
    "was bedeutet Generalumkehr?": ("de/glossary", "de/books", "de/reports"),
    "API-Schlüssel erstellen": ("de/developers",),
    "Logo auf Rechnungen": ("de/invoices",),
    "idempotency": ("curl", "choices", "spec/README"),
}


def test_a_german_question_finds_the_page_that_answers_it_first() -> None:
    wrong = {}
    for query, pages in QUESTIONS.items():
        listed = fetch(f"{ROOT}/de/search?q={query}").text.partition('class="results"')[2]
        first = re.search(r'<a href="([^"#]+)', listed)
        if first is None or first[1] not in {library.address(name) for name in pages}:
            wrong[query] = first and first[1]
    assert wrong == {}


# --- The words of the screen


def on_the_screen() -> set[str]:
    """Every German text of the dashboard, and of the pages on which people sign in at their bank."""
    found = set()
    for path in (words.FOLDER / "de").glob("*.po"):
        if not path.stem.startswith("refusals"):
            for message in words.read_catalogue(path.read_text("utf-8")):
                found |= {text.replace("\xad", "").replace("%%", "%") for text in message.translations}
    for room in ("banking", "bank_providers"):
        for module in (PROJECT / "src" / "kontobahn" / room).rglob("*.py"):
            found |= set(re.findall(r'Words\(\s*"([^"]+)"', module.read_text("utf-8")))
    return found


def test_what_is_bold_stands_on_the_screen_letter_by_letter() -> None:
    known = on_the_screen()
    named = [
        (name, " ".join(bold.split()))
        for name, source in GERMAN.items()
        for bold in re.findall(r"\*\*(.+?)\*\*", source.text, re.DOTALL)
    ]
    assert len(named) > 150
    assert [(name, bold) for name, bold in named if bold not in known] == []


# --- Help for every page

# They show no page: files, pictures, answers to scripts, and ways back from the bank.
FILES = re.compile(r"\.(csv|pdf)$|/(file|xml|pdf|view|logo|export|check-iban|return|callback)$|/receipts/")
SHOWN = [found for found in every_page() if found.method == "GET" and not FILES.search(found.path)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_page_of_the_dashboard_has_a_section_that_explains_it(language: Language) -> None:
    topics = library.topics(language)
    assert [found.path for found in SHOWN if found.help not in topics] == []
    assert set(topics) == {found.help for found in SHOWN}, "a section that no page leads to"
    for topic, address in topics.items():
        below = ROOT if language == "en" else f"{ROOT}/de"
        answer = fetch(f"{below}/help/{topic}")
        assert (answer.status_code, unquote(answer.headers["location"])) == (307, address)
        place, _, anchor = address.partition("#")
        assert anchor in page(place).values("id"), topic
    assert fetch(f"{ROOT}/de/help/nichts").status_code == 404


def test_a_form_that_was_sent_has_the_help_of_the_page_it_stands_on() -> None:
    menu = Menu(every_page())
    assert menu.help_of("/dashboard/keys/17/rotate") == "keys"
    assert menu.help_of("/dashboard/open-items/10010/document") == "open-items"
    assert menu.help_of("/dashboard/open-items/10010") == "partner-statement"
    assert menu.help_of("/dashboard/nothing/at/all") == "overview"


def test_a_mark_of_help_is_not_shown() -> None:
    source = library.sources()["de/dashboard"]
    assert "<!-- help: overview -->" in source.text
    assert "help:" not in str(render(source).html)
