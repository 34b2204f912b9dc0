"""Finding our own document numbers in texts: a dictionary of the client's documents, so that the cost follows the text.

A number weighs bits: 3.3 a digit and 4.7 a letter, at places that vary among the client's numbers of the same shape.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kontobahn.ledger.konto import is_debitor
from kontobahn.reconciliation.core.model import Key, OpenItem
from kontobahn.reconciliation.core.text import CutText, Token, has_invoice_word, is_blocked, tokens_of

BITS_OF_DIGIT, BITS_OF_LETTER = 3.3, 4.7
# Tokens and characters of a number, gaps between its tokens; a longer one is looked for by its beginning only.
MAX_RUN = 8
MAX_NUMBER = 36
MAX_GAP = 3
# A number may be torn in this many places beyond those where we write a gap: by a line break, or a blank.
MAX_TORN = 1
# At most this many documents may share a number; beyond that it says nothing.
MAX_SAME = 20
MIN_WEAK = 3
_MIN_EDITED = 6
_MAX_WEAK_TOKENS = 120
_MANY = 3
# With fewer it is not known what is only a prefix: never enough without a payer.
_MAX_OF_FEW = 19.8
# The last places of a running number vary, even where few open ones do not show it.
_COUNTING = 3
# A number that shares this many characters with all of the client's (`RE-2026-`) is as good as one with a word before it.
_COMMON = 4
_YEAR = re.compile(r"(?:19|20)\d\d")
_ALIKE = str.maketrans("OISB", "0158")


class Hit(NamedTuple):
    """A document's number found in a text. `weak` is how it differs from how we write it; empty if it does not."""

    keys: tuple[Key, ...]
    field: str
    start: int
    end: int
    bits: float
    found: str
    weak: str
    has_word: bool

    @property
    def rank(self) -> tuple[bool, bool]:
        """Of two places of a number the one where it stands as we write it counts, then the one with a word before it."""
        return not self.weak, self.has_word


class NumberIndex:
    """The documents of a client by their numbers, in every form in which they are looked for."""

    def __init__(self, items: Iterable[OpenItem]) -> None:
        self._joined: dict[str, list[Key]] = defaultdict(list)
        self._dotted: dict[str, list[Key]] = defaultdict(list)
        self._ends: dict[str, list[Key]] = defaultdict(list)
        self._alike: dict[str, list[Key]] = defaultdict(list)
        self._edited: dict[str, list[Key]] = defaultdict(list)
        self._bits: dict[Key, float] = {}
        self._shaped: set[Key] = set()
        self._pieces: dict[Key, int] = {}
        shapes: dict[tuple[bool, str], list[tuple[Key, list[tuple[str, bool]]]]] = defaultdict(list)
        for item in items:
            tokens = tokens_of(item.beleg)
            if (
                not any(run.strip("0") for run, digits in tokens if digits)
                or sum(len(run) for run, _ in tokens) > MAX_NUMBER
            ):
                continue
            shape = "".join(f"{'9' if digits else 'A'}{len(run)}" for run, digits in tokens)
            # A customer of whom the books know nothing is no supplier either.
            shapes[not item.has_account or is_debitor(item.konto), shape].append((item.key, tokens))
            self._add(item, tokens)
        for members in shapes.values():
            self._weigh(members)

    def _add(self, item: OpenItem, tokens: list[tuple[str, bool]]) -> None:
        joined = _joined(tokens)
        self._pieces[item.key] = len(tokens)
        self._joined[joined].append(item.key)
        self._dotted[_dotted(tokens)].append(item.key)
        if not item.open_minor:
            return
        self._alike["".join(run for run, _ in tokens).translate(_ALIKE)].append(item.key)
        end = tokens[-1][0].lstrip("0")
        if len(tokens) > 1 and len(end) >= MIN_WEAK:
            self._ends[end].append(item.key)
        if len(joined) >= _MIN_EDITED:
            for form in _deletions(joined):
                self._edited[form].append(item.key)

    def _weigh(self, members: list[tuple[Key, list[tuple[str, bool]]]]) -> None:
        texts = ["".join(run for run, _ in tokens) for _, tokens in members]
        if len(set(texts)) >= _MANY:
            varying = [len(set(column)) > 1 for column in zip(*texts, strict=True)]
            for (key, tokens), text in zip(members, texts, strict=True):
                counter = _counter(tokens)
                varies = [column or place in counter for place, column in enumerate(varying)]
                self._bits[key] = sum(_bits_of(char) for char, counts in zip(text, varies, strict=True) if counts)
                same = [char for char, counts in zip(text, varies, strict=True) if not counts and char != "0"]
                if len(same) >= _COMMON:
                    self._shaped.add(key)
        else:
            # Too few to tell which places vary: letters, years and leading zeros count nothing.
            for key, tokens in members:
                runs = [run.lstrip("0") for run, digits in tokens if digits and not _YEAR.fullmatch(run)]
                self._bits[key] = min(BITS_OF_DIGIT * sum(map(len, runs)), _MAX_OF_FEW)

    def bits(self, key: Key) -> float:
        return self._bits.get(key, 0.0)

    def find(self, texts: Iterable[CutText]) -> list[Hit]:
        """Returns the numbers found as we write them, each once, the longest where they overlap."""
        hits: dict[tuple[Key, ...], Hit] = {}
        for text in texts:
            for hit in self._strong(text):
                before = hits.get(hit.keys)
                if before is None or hit.rank > before.rank:
                    hits[hit.keys] = hit
        return list(hits.values())

    def find_weak(self, texts: Iterable[CutText]) -> list[Hit]:
        """Returns numbers in forms that only suggest one: year or prefix missing, letters for digits, one edit."""
        hits: dict[tuple[tuple[Key, ...], str], Hit] = {}
        for text in texts:
            for first, last, joined, _ in _runs(text.tokens[:_MAX_WEAK_TOKENS]):
                for weak, keys in self._weak_forms(text.tokens[first : last + 1], joined):
                    start, end = text.tokens[first].start, text.tokens[last].end
                    if len(keys) > MAX_SAME or is_blocked(text, start, end):
                        continue
                    hits.setdefault((keys, weak), self._hit(keys, text, start, end, weak))
        return list(hits.values())

    def _weak_forms(self, tokens: tuple[Token, ...], joined: str) -> Iterator[tuple[str, tuple[Key, ...]]]:
        if len(tokens) == 1 and tokens[0].is_digits and joined in self._ends:
            yield "end", _some(self._ends[joined])
        raw = "".join(token.text for token in tokens)
        if len(raw) >= _MIN_EDITED:
            if (alike := raw.translate(_ALIKE)) != raw and alike in self._alike:
                yield "alike", _some(self._alike[alike])
            near: dict[Key, None] = {}
            for form in _deletions(joined):
                near.update(dict.fromkeys(_some(self._edited.get(form, ()))))
                if len(near) > MAX_SAME:
                    return
            if near:
                yield "edit", tuple(sorted(near))

    def _strong(self, text: CutText) -> list[Hit]:
        spans: list[tuple[int, int, tuple[Key, ...]]] = []
        for first, last, joined, dotted in _runs(text.tokens):
            found = self._joined.get(joined) or self._dotted.get(dotted)
            if found:
                spans.append((first, last, _some(found)))
        # The longest first; what lies within a longer one is a part of it.
        spans.sort(key=lambda span: span[0] - span[1])
        owned: set[int] = set()
        kept = []
        for span in spans:
            places = range(span[0], span[1] + 1)
            if owned.isdisjoint(places):
                owned.update(places)
                kept.append(span)
        hits = []
        for first, last, keys in sorted(kept):
            start, end = text.tokens[first].start, text.tokens[last].end
            if is_blocked(text, start, end):
                continue
            torn = last - first + 1 > max(self._pieces[key] for key in keys) + MAX_TORN
            weak = "torn" if torn else "beside digits" if _touches(text, owned, first, last) else ""
            hits.append(self._hit(keys, text, start, end, weak))
        return hits

    def _hit(self, keys: tuple[Key, ...], text: CutText, start: int, end: int, weak: str) -> Hit:
        bits = min((self.bits(key) for key in keys), default=0.0)
        has_word = all(key in self._shaped for key in keys) or has_invoice_word(text, start)
        return Hit(keys, text.field, start, end, bits, text.text[start:end], weak, has_word)


def _some(keys: Sequence[Key]) -> tuple[Key, ...]:
    """Returns enough of them to see whether they are too many."""
    return tuple(keys[: MAX_SAME + 1])


def _runs(tokens: tuple[Token, ...]) -> Iterator[tuple[int, int, str, str]]:
    """Yields every sequence of neighbouring tokens that could be a number: first, last, and its two normal forms."""
    count = len(tokens)
    for first in range(count):
        joined = dotted = ""
        has_digits = False
        # Zeros lead a run of digits, also one that goes on over a gap: `00 123`.
        leads = True
        for last in range(first, min(first + MAX_RUN, count)):
            token = tokens[last]
            if last > first:
                if token.start - tokens[last - 1].end > MAX_GAP:
                    break
                dotted += "."
            if len(joined) + len(token.text) > MAX_NUMBER:
                break
            if token.is_digits:
                bare = token.text.lstrip("0")
                joined += bare if leads else token.text
                leads = leads and not bare
                dotted += bare or "0"
                has_digits = True
            else:
                joined += token.text
                dotted += token.text
                leads = True
            if has_digits:
                yield first, last, joined, dotted


def _touches(text: CutText, owned: set[int], first: int, last: int) -> bool:
    """Returns whether digits that nothing explains stand right beside the number: it may be a part of something longer."""
    tokens = text.tokens
    for inner, outer in ((first, first - 1), (last, last + 1)):
        if not (0 <= outer < len(tokens)) or outer in owned:
            continue
        one, other = tokens[inner], tokens[outer]
        if not (one.is_digits and other.is_digits) or max(one.start - other.end, other.start - one.end) > 1:
            continue
        between = text.text[min(one.end, other.end)]
        if between.isspace() and outer == last + 1 and len(other.text) < MIN_WEAK <= len(one.text):
            continue
        if between not in ",;" and not is_blocked(text, other.start, other.end):
            return True
    return False


def _joined(tokens: list[tuple[str, bool]]) -> str:
    joined, leads = "", True
    for run, digits in tokens:
        bare = run.lstrip("0") if digits and leads else run
        joined += bare
        leads = not digits or (leads and not bare)
    return joined


def _dotted(tokens: list[tuple[str, bool]]) -> str:
    return ".".join((run.lstrip("0") or "0") if digits else run for run, digits in tokens)


def _counter(tokens: list[tuple[str, bool]]) -> range:
    """The places of the last digits of the last run of digits, without zeros that lead it."""
    last = max(place for place, (_, digits) in enumerate(tokens) if digits)
    end = sum(len(run) for run, _ in tokens[: last + 1])
    return range(end - min(len(tokens[last][0].lstrip("0")), _COUNTING), end)


def _deletions(text: str) -> set[str]:
    return {text, *(text[:place] + text[place + 1 :] for place in range(len(text)))}


def _bits_of(char: str) -> float:
    return BITS_OF_DIGIT if char.isdigit() else BITS_OF_LETTER
