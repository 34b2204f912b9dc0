"""A bank's data sheet (Bankparameterblatt) as text: what it seems to say, for a person to confirm.

Banks have no form for it in common. A value is proposed only where a label that banks use stands before it, and only if the sheet does
not say something else under the same label elsewhere.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Name = Literal["bank", "url", "host", "partner", "user", "x002", "e002"]
MAX_LENGTH = 200_000
_BETWEEN = r"[\s:=;|\"'>.]*"
# In capitals and digits, as banks print ids: words of the sheet's own sentences are none.
_ID = r"(?P<value>[A-Z0-9][A-Z0-9,=]{1,34})(?![\w/-])"
_LABELS: dict[Name, str] = {
    "host": r"(?:EBICS[ -]?)?Host[ -]?(?:ID|Name)|Bankrechner(?:[ -]?ID|name)?",
    "partner": r"(?:Kunden|Partner|Customer)[ -]?(?:ID|Kennung)",
    "user": r"(?:Teilnehmer|User|Benutzer|Nutzer)[ -]?(?:ID|Kennung)",
}
_NO_IDS = frozenset({"ID", "EBICS", "HOST", "PARTNER", "USER", "URL", "KUNDEN", "TEILNEHMER", "SHA", "SHA256"})
_URL = re.compile(r"https?://[^\s\"'<>;|]+", re.IGNORECASE)
_BANK = re.compile(r"(?:Name der Bank|Kreditinstitut|Institut|Bank name|Bank)\s*[:=]\s*(?P<value>[^\n\r;|\"<]{3,100})")
# 64 hexadecimal digits, in groups or not; the version of the key stands before them.
_HEX = r"[0-9A-Fa-f]"
_HASH = re.compile(
    rf"(?<!{_HEX})(?<!{_HEX}[\s:-])(?P<value>(?:{_HEX}{{2}}[\s:-]{{0,4}}){{31}}{_HEX}{{2}})(?![\s:-]{{0,4}}{_HEX}{{2}}\b)(?!{_HEX})"
)
_MAX_BETWEEN = 200


class Sheet(NamedTuple):
    """By name: what the sheet seems to say. What it does not say clearly is not there."""

    values: dict[Name, str]


def read_sheet(text: str) -> Sheet:
    text = text[:MAX_LENGTH]
    found: dict[Name, str] = {}
    for name, label in _LABELS.items():
        pattern = re.compile(rf"(?i:(?<![\w-])(?:{label}))\W{{0,3}}{_BETWEEN}{_ID}")
        _take(found, name, {match["value"] for match in pattern.finditer(text)} - _NO_IDS)
    urls = {url.rstrip(".,)") for url in _URL.findall(text)}
    _take(found, "url", {url for url in urls if "ebics" in url.lower()} or urls)
    for name, version in (("x002", "X002"), ("e002", "E002")):
        _take(found, name, _hashes(text, version))
    _take(found, "bank", {match["value"].strip() for match in _BANK.finditer(text)})
    return Sheet(found)


def _take(found: dict[Name, str], name: Name, values: set[str]) -> None:
    if len(values) == 1:
        found[name] = values.pop()


def _hashes(text: str, version: str) -> set[str]:
    """Returns the hashes before which this version was the last one named."""
    # Both may look like digits of the hash that follows them.
    text = re.sub(r"\b([AXE])00(\d)\b", r"<\1\2>", re.sub(r"(?i)SHA[ -]?256", "#", text))
    found = set()
    for match in _HASH.finditer(text):
        named = re.findall(r"<(.)(.)>", text[max(0, match.start() - _MAX_BETWEEN) : match.start()])
        if named and named[-1] == (version[0], version[-1]):
            found.add("".join(re.findall(_HEX, match["value"])).upper())
    return found
