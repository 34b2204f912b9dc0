"""What a browser calls itself, in words that people recognise. Pure."""

from __future__ import annotations

# The first that occurs counts: most browsers also claim to be others.
_BROWSERS = (
    ("Firefox/", "Firefox"), ("FxiOS/", "Firefox"), ("Edg/", "Edge"), ("EdgA/", "Edge"), ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"), ("CriOS/", "Chrome"), ("Chrome/", "Chrome"), ("Safari/", "Safari"),
)  # fmt: skip
_SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


def words_of(user_agent: str) -> str:
    """“Firefox, Windows”; of what nobody knows, its first words."""
    known = [next((name for mark, name in marks if mark in user_agent), "") for marks in (_BROWSERS, _SYSTEMS)]
    return ", ".join(filter(None, known)) or user_agent[:40]
