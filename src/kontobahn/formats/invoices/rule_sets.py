"""Sets of rules by which invoices are checked: data with a name, a version and the days between which they hold.

They are files in `rules/` here. An operator may put newer ones into a folder: of a set, the newest that is in force on the day of the
check is used. A file says which rules are reported, how severe they are and in which words; conditions that are about more than one
term are in `checks.py`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kontobahn.formats.invoices.checks import Broken, Presence, Term, code_list
from kontobahn.formats.invoices.model import Class, Fault, Finding, Invoice, Severity, Text

FOLDER = Path(__file__).with_name("rules")
_TERMS = "terms.toml"
_KINDS: tuple[Class, ...] = ("format", "business_rule", "content")
_SEVERITIES: tuple[Severity, ...] = ("error", "warning", "information")


class RuleSetError(Exception):
    """A file of rules is not one; the text says what is wrong with it."""


class Rule(NamedTuple):
    id: str
    severity: Severity
    text: Text


class Used(NamedTuple):
    """A set as a report names it."""

    name: str
    version: str
    valid_from: date
    is_outdated: bool


class RuleSet:
    """One version of one set."""

    def __init__(self, content: Mapping[str, Any], words: Mapping[str, Any]) -> None:
        self.name: str = content["name"]
        self.version: str = str(content["version"])
        self.valid_from: date = content["valid_from"]
        self.outdated_on: date | None = content.get("outdated_on")
        self.kind: Class = content["kind"]
        if self.kind not in _KINDS or not isinstance(self.valid_from, date):
            raise ValueError("kind or valid_from")
        self._severities: Mapping[str, Severity] = content.get("severities", {})
        if not set(self._severities.values()) <= set(_SEVERITIES):
            raise ValueError("severities")
        self._words = words
        self.rules: dict[str, Rule] = {}
        self._required = [(id_, self._term("missing", id_, term)) for id_, term in content.get("required", {}).items()]
        self._presence = Presence(term for _, term in self._required)
        self._codes = [
            (id_, self._term("code", id_, term), code_list(codes))
            for id_, (terms, codes) in content.get("codes", {}).items()
            for term in terms.split()
        ]
        for id_, term in content.get("decimals", {}).items():
            self._add(id_, self._worded("decimals", term))
        for prefix, *names in content.get("categories", {}).values():
            for suffix, texts in content["category_rules"].items():
                # Other values are filled in when the rule is broken.
                filled = (text.replace("{category}", name) for text, name in zip(texts, names, strict=True))
                self._add(f"{prefix}-{suffix}", Text(*filled))
        for id_, (de, en) in content.get("rules", {}).items():
            self._add(id_, Text(de, en))

    def _add(self, id_: str, text: Text) -> None:
        self.rules[id_] = Rule(id_, self._severities.get(id_, "error"), text)

    def _term(self, form: str, id_: str, term: str) -> Term:
        self._add(id_, self._worded(form, term))
        return Term(term)

    def _worded(self, form: str, term: str) -> Text:
        texts, names = self._words[form], self._words["names"][term]
        de, en = (texts[key].replace("{name}", name) for key, name in zip(("de", "en"), names, strict=True))
        return Text(de.replace("{term}", term.rstrip("smg")), en.replace("{term}", term.rstrip("smg")))

    def broken(self, invoice: Invoice) -> Iterator[Broken]:
        """Yields the rules about one term that the invoice breaks."""
        if not self._presence.is_plain(invoice):
            for id_, term in self._required:
                for numbers in term.missing(invoice):
                    yield Broken(id_, term.name, numbers)
        for id_, term, codes in self._codes:
            for numbers, value in term.others(invoice, codes):
                yield Broken(id_, term.name, numbers, {"value": str(value)[:60]})

    def finding(self, fault: Fault) -> Finding | None:
        """Returns what is reported of a fault, or None if this set does not have its rule."""
        rule = self.rules.get(fault.rule)
        if rule is None:
            return None
        return Finding(self.kind, rule.id, self.name, fault.path, rule.severity, rule.text.filled(fault.values))

    def used(self, on: date) -> Used:
        return Used(self.name, self.version, self.valid_from, self.outdated_on is not None and on >= self.outdated_on)


class RuleSets:
    """Every version of every set that was found."""

    def __init__(self, sets: Iterable[RuleSet]) -> None:
        self._sets: dict[str, list[RuleSet]] = {}
        for one in sorted(sets, key=lambda item: (item.valid_from, item.version)):
            self._sets.setdefault(one.name, []).append(one)

    def of(self, name: str, on: date) -> RuleSet:
        """Returns the version that is in force on a day, or the first one if the day is before it."""
        versions = self._sets[name]
        for one in reversed(versions):
            if one.valid_from <= on:
                return one
        return versions[0]


@cache
def load(folder: Path | None = None) -> RuleSets:
    """Returns the sets of this package, and those of an operator's folder beside them. Raises RuleSetError with the file's name."""
    words = tomllib.loads((FOLDER / _TERMS).read_text("utf-8"))
    sets = []
    for path in (*sorted(FOLDER.glob("*.toml")), *(sorted(folder.glob("*.toml")) if folder else ())):
        if path.name == _TERMS:
            continue
        try:
            sets.append(RuleSet(tomllib.loads(path.read_text("utf-8")), words))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RuleSetError(f"{path.name} is not a set of rules: {error!r}.") from None
    return RuleSets(sets)
