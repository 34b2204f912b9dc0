"""The words around the guide's pages, in each language."""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.api.languages import Language


class Texts(NamedTuple):
    skip: str
    contents: str
    show_contents: str
    search: str
    search_guide: str
    reference: str
    dashboard: str
    footer: str
    # The other language, as its readers call it, and a sentence for those who do not see the page.
    other: str
    other_title: str
    missing: str
    missing_text: str
    to_start: str
    too_long: str
    ask: str
    nothing: str
    best: str
    one: str
    many: str
    quoted: str


TEXTS: dict[Language, Texts] = {
    "en": Texts(
        skip="Skip to the content",
        contents="Contents",
        show_contents="Show the contents",
        search="Search",
        search_guide="Search the guide",
        reference="API reference",
        dashboard="Dashboard",
        footer="Kontobahn {version} serves this page itself. It loads nothing from elsewhere.",
        other="Deutsch",
        other_title="Diese Seite auf Deutsch",
        missing="No such page",
        missing_text="The guide has no page at this address. Try the search, or",
        to_start="start at the beginning",
        too_long="Please search for {most} characters at most.",
        ask="Type some words or a question, in English or German.",
        nothing="Nothing found. Try other words. Fields and parameters of calls are in the",
        best="The best {count} sections.",
        one="1 section.",
        many="{count} sections.",
        quoted="“{query}”",
    ),
    "de": Texts(
        skip="Zum Inhalt springen",
        contents="Inhalt",
        show_contents="Inhaltsverzeichnis anzeigen",
        search="Suchen",
        search_guide="Anleitung durchsuchen",
        reference="API-Referenz (englisch)",
        dashboard="Zur Anwendung",
        footer="Diese Seite kommt von Kontobahn {version} selbst. Von anderen Servern wird nichts geladen.",
        other="English",
        other_title="This page in English",
        missing="Diese Seite gibt es nicht",
        missing_text="Unter dieser Adresse hat die Anleitung keine Seite. Versuchen Sie es mit der Suche, oder",
        to_start="beginnen Sie auf der Startseite",
        too_long="Bitte suchen Sie nach höchstens {most} Zeichen.",
        ask="Geben Sie Stichwörter oder eine Frage ein.",
        nothing="Nichts gefunden. Versuchen Sie es mit anderen Wörtern. Felder und Parameter von Aufrufen stehen in der",
        best="Die {count} besten Abschnitte.",
        one="1 Abschnitt.",
        many="{count} Abschnitte.",
        quoted="„{query}“",
    ),
}
