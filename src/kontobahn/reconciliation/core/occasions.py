"""The occasion that a payment without a number names: a month, a house, everything that is open; or an invoice less a credit note.

Only for a payer who is certain, and only where one way fits: a month that is paid already or not written yet names nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date

from kontobahn.ledger.partner_names import spelled_out
from kontobahn.reconciliation.core.evidence import Case, amount_reason, number_proposal, only_named, score_of, suffices
from kontobahn.reconciliation.core.items import MAX_ITEMS, exact_sums, lines_for
from kontobahn.reconciliation.core.model import OpenItem, Proposal, Reason
from kontobahn.reconciliation.core.text import tokens_of

BITS_OF_OCCASION = 10.0
# More documents of one account than these are not told apart by words.
_MAX_EVER = 500
_MIN_WORD = 3
_MONTHS = (
    "JANUAR",
    "FEBRUAR",
    "MAERZ",
    "APRIL",
    "MAI",
    "JUNI",
    "JULI",
    "AUGUST",
    "SEPTEMBER",
    "OKTOBER",
    "NOVEMBER",
    "DEZEMBER",
)
_SHORT = {
    "JAN": 1, "FEB": 2, "MRZ": 3, "MAR": 3, "APR": 4, "JUN": 6, "JUL": 7, "AUG": 8, "SEP": 9, "SEPT": 9, "OKT": 10, "NOV": 11, "DEZ": 12,
}  # fmt: skip
_NAMED_MONTH = re.compile(rf"(?<![A-Z])({'|'.join(_MONTHS)})(?![A-Z])(?:[ ./-]{{0,2}}((?:20)?\d\d)(?!\d))?")
_SHORT_MONTH = re.compile(rf"(?<![A-Z])({'|'.join(_SHORT)})(?![A-Z])[ ./-]{{0,2}}((?:20)?\d\d)(?!\d)")
_MONTH_NUMBER = re.compile(r"(?<![\d./-])(0?[1-9]|1[0-2])[/.-]((?:20)?\d\d)(?![\d/.-])")
_EVERYTHING = re.compile(
    r"(?<![A-Z])(?:ALLE RECHNUNGEN|ALLER RECHNUNGEN|ALLE OFFENEN|OFFENE POSTEN|OFFENER POSTEN|OFFENE RECHNUNGEN|KONTOAUSGLEICH"
    r"|SALDENAUSGLEICH|SAMMELZAHLUNG|SAMMELUEBERWEISUNG|GESAMTSALDO|RESTSALDO)(?![A-Z])"
)
_CREDIT_NOTE = re.compile(r"(?<![A-Z])(?:GUTSCHR|GUTSCHRIFT(?:EN)?|GS|ABZ|ABZGL|ABZUEGLICH|MINUS|VERRECHN\w*)(?![A-Z])")
Month = tuple[int, int]


def by_occasion(case: Case) -> Iterator[Proposal]:
    """Proposes what the words say; to be asked if no number of ours is in the text."""
    for konto in dict.fromkeys([*case.payer.known, *case.payer.supported]):
        if not case.hits and case.payer.is_certain(konto) and not _has_other_number(case, konto):
            yield from _of_words(case, konto)
            yield from _everything(case, konto)


def less_credit_note(case: Case) -> Iterator[Proposal]:
    """Proposes an invoice less the one credit note that makes up the difference, if the text speaks of one."""
    if not _CREDIT_NOTE.search(_said(case)) or (named := only_named(case)) is None:
        return
    item, paid = named.item, case.movement.amount_minor
    notes = [
        note
        for note in case.items.of(item.konto, case.movement.day, _MAX_EVER)
        if note.open_minor * item.open_minor < 0
    ]
    fitting = [note for note in notes if item.open_minor + note.open_minor == paid]
    if len(fitting) != 1 or exact_sums([note.open_minor for note in notes[:MAX_ITEMS]], paid - item.open_minor):
        return
    lines = (*lines_for(item, item.open_minor), *lines_for(fitting[0], fitting[0].open_minor))
    reasons = (Reason("credit_note", fitting[0].beleg, bits=BITS_OF_OCCASION), amount_reason("sum", paid))
    acts = suffices(case, [named])
    yield number_proposal(case, "A4" if acts else "B1", [named], lines, *reasons, acts=acts)


def _said(case: Case) -> str:
    return " ".join(text.text.upper() for text in case.texts)


# --- A month, a house


def _of_words(case: Case, konto: str) -> Iterator[Proposal]:
    ever = [item for item in case.items.ever(konto) if item.text and item.day <= case.movement.day]
    if not 1 <= len(ever) <= _MAX_EVER:
        return
    named = _named(case, ever)
    paid = case.movement.amount_minor
    if len(named) != 1 or named[0].open_minor != paid or not named[0].has_account:
        return
    occasion = Reason("occasion", named[0].text, bits=BITS_OF_OCCASION)
    reasons = (occasion, amount_reason("amount", paid), *case.payer.reasons(konto))
    yield Proposal("A2", score_of(reasons), lines_for(named[0], paid), reasons, acts=True)


def _named(case: Case, ever: list[OpenItem]) -> list[OpenItem]:
    """The documents whose month and whose words the text has; with several, those of which it has the most words."""
    said = _said(case)
    months = set(_months(said, case.movement.day))
    pool = [item for item in ever if not months.isdisjoint(_months(_plain(item), item.day))] if months else ever
    usual = _usual_words(ever) | set(_words(case.movement.name or ""))
    spoken = set(_words(said))
    counted = [
        (len(words), item)
        for item in pool
        if (words := set(_words(_plain(item))) - usual - _MONTH_WORDS) and words <= spoken
    ]
    if counted:
        most = max(count for count, _ in counted)
        return [item for count, item in counted if count == most]
    return pool if months else []


def _usual_words(ever: list[OpenItem]) -> set[str]:
    """The words that do not tell the account's documents apart: those of more than a third of them. Of one it is not known."""
    counts = Counter(word for item in ever for word in set(_words(item.text)))
    return {word for word, count in counts.items() if count * 3 > len(ever)} if len(ever) > 2 else set(counts)


def _plain(item: OpenItem) -> str:
    return spelled_out(item.text).upper()


def _words(text: str) -> list[str]:
    return [run for run, _ in tokens_of(text)]


_YEARS = frozenset(str(year) for year in range(2000, 2100))
_MONTH_WORDS = frozenset((*_MONTHS, *_SHORT)) | _YEARS


def _months(said: str, near: date) -> Iterator[Month]:
    """The months that a text names, as month and year; a year that is not named is the one nearest to a day."""
    for found in _NAMED_MONTH.finditer(said):
        yield _MONTHS.index(found[1]) + 1, _year(_MONTHS.index(found[1]) + 1, found[2], near)
    for found in _SHORT_MONTH.finditer(said):
        yield _SHORT[found[1]], _year(_SHORT[found[1]], found[2], near)
    for found in _MONTH_NUMBER.finditer(said):
        yield int(found[1]), _year(int(found[1]), found[2], near)


def _year(month: int, written: str | None, near: date) -> int:
    if written:
        return int(written) % 100 + 2000
    distance = month - near.month
    return near.year - 1 if distance > 6 else near.year + 1 if distance < -6 else near.year


def _has_other_number(case: Case, konto: str) -> bool:
    """Returns whether the text has a number that nothing explains: then it is for what that number means."""
    explained = {word for item in case.items.ever(konto) for word in _words(item.text)} | case.payers.numbers_of(
        case.payer
    )
    for text in case.texts:
        for token in text.tokens:
            in_block = any(block.start <= token.start and token.end <= block.end for block in text.blocks)
            is_other = token.is_digits and len(token.text) >= _MIN_WORD and not in_block
            if is_other and token.text.lstrip("0") not in explained and token.text not in _YEARS:
                return True
    return False


# --- Everything that is open


def _everything(case: Case, konto: str) -> Iterator[Proposal]:
    if not _EVERYTHING.search(_said(case)):
        return
    paid, items = case.movement.amount_minor, case.items.of(konto, case.movement.day, MAX_ITEMS + 1)
    if not 2 <= len(items) <= MAX_ITEMS or _sum(items) != paid or not all(item.has_account for item in items):
        return
    amounts = [item.open_minor for item in items]
    others = [way for way in exact_sums(amounts, paid) if len(way) < len(items)]
    if others or paid in amounts:
        return
    reasons = (
        Reason("everything", str(len(items)), bits=BITS_OF_OCCASION),
        amount_reason("sum", paid),
        *case.payer.reasons(konto),
    )
    lines = tuple(line for item in items for line in lines_for(item, item.open_minor))
    yield Proposal("A4", score_of(reasons), lines, reasons, acts=True)


def _sum(items: Iterable[OpenItem]) -> int:
    return sum(item.open_minor for item in items)
