"""Findings about an invoice, in the three classes by which the tax administration judges faults, and warnings beside them.

format: not fully readable, or in a form that is no electronic invoice in Germany. business_rule: breaks EN 16931 or a national
rule. content: lacks a particular of section 14 of the German VAT Act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Class = Literal["format", "business_rule", "content"]
Severity = Literal["error", "warning", "information"]
Language = Literal["de", "en"]


class Text(NamedTuple):
    """One sentence in both languages."""

    de: str
    en: str

    def filled(self, values: Mapping[str, str]) -> Text:
        """Returns both sentences with their holes filled; amounts and days as the language writes them."""
        if not values:
            return self
        german = {name: _german(value) if name in _FIGURES else value for name, value in values.items()}
        return Text(self.de.format_map(german), self.en.format_map(values))


# Values that each language writes in its own way.
_FIGURES = ("stated", "expected", "day")


def _german(value: str) -> str:
    if value.count("-") == 2:
        return ".".join(reversed(value.split("-")))
    whole, _, cents = value.partition(".")
    return f"{int(whole):,}".replace(",", ".") + f",{cents}" if whole != "-0" else f"-0,{cents}"


class Finding(NamedTuple):
    kind: Class
    rule: str  # BR-CO-10, BR-DE-15, …, or a name of ours
    rule_set: str
    path: str  # in the XML, with the prefixes that are usual for its syntax
    severity: Severity
    text: Text

    def message(self, language: Language) -> str:
        return self.text.de if language == "de" else self.text.en


class Remark(NamedTuple):
    """A warning: the file is taken as it is, and a person should know this."""

    code: str
    path: str
    text: Text

    def message(self, language: Language) -> str:
        return self.text.de if language == "de" else self.text.en


class Fault(NamedTuple):
    """A broken rule before its sentence is known. `values` fill the holes of the sentence."""

    rule: str
    path: str
    values: Mapping[str, str] = {}


class InvoiceError(Exception):
    """Nothing can be read. `finding` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text.en)
        self.finding = finding


class Refused(Exception):
    """Raised by readers; `invoice_files` makes an InvoiceError of it."""

    def __init__(self, rule: str, path: str = "", **values: object) -> None:
        super().__init__(rule)
        self.fault = Fault(rule, path, {name: str(value) for name, value in values.items()})
