"""Finding our own document numbers in texts: a dictionary of the client's documents, so that the cost follows the text.

A number weighs bits: 3.3 a digit and 4.7 a letter, at places that vary among the client's numbers of the same shape.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import datetime
from math import log2
from typing import NamedTuple

from kontobahn.ledger.konto import is_debitor
from kontobahn.ledger.partner_names import spelled_out
from kontobahn.reconciliation.core.model import Key, OpenItem

# Texts cut into tokens, and the stretches in which a number is no document's: IBANs, dates, amounts, telephone numbers
# …
#
# Linear in the length of a text, and bounded: of a longer text only the beginning is read.


MAX_TEXT = 10_000
MAX_TOKENS = 1_000
# A capital after a small letter begins a word: `RechnungRE-1` is what a lost line break leaves.
_TOKEN = re.compile(r"[0-9]+|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]", re.ASCII)
_SEPA = "AT|BE|BG|CH|CY|CZ|DE|DK|EE|ES|FI|FR|GB|GR|HR|HU|IE|IS|IT|LI|LT|LU|LV|MC|MT|NL|NO|PL|PT|RO|SE|SI|SK|SM"
_INVOICE_WORDS = r"(?:RE|RG|RNR|REN|RECHN?|RECHNUNG\w*|RECHNUNGS?|RG-?NR|RE-?NR|INV|INVOICE|BELEG\w*|FAKTURA|BILL)"
# In order; what matches is no document's number. Each is anchored by its first characters, so none looks twice.
_BLOCKED = re.compile(
    rf"(?P<iban>(?<![A-Z0-9])(?:{_SEPA})\d\d(?: ?[A-Z0-9]){{11,30}}(?![A-Z0-9]))"
    rf"|(?P<bic>(?<![A-Z0-9])[A-Z]{{4}}(?:{_SEPA})[A-Z0-9]{{2}}(?:[A-Z0-9]{{3}})?(?![A-Z0-9]))"
    r"|(?P<date>(?<![\d.])(?:0?[1-9]|[12]\d|3[01])[./](?:0?[1-9]|1[0-2])[./](?:(?:19|20)?\d\d)?(?!\d)"
    r"|(?<![\d-])(?:19|20)\d\d-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])(?![\d-])"
    r"|(?<![\d/.-])(?:0?[1-9]|1[0-2])/(?:19|20)?\d\d(?![\d/-]))"
    r"|(?P<clock>(?<![\d.:])(?:[01]?\d|2[0-3])[.:]?[0-5]\d ?(?:UHR|H)(?![A-Z])|(?<![A-Z])UM (?:[01]?\d|2[0-3])[.:][0-5]\d(?![\d.:]))"
    r"|(?P<amount>(?<![\d.,])\d{1,3}(?:\.\d{3})+,\d\d(?!\d)|(?<![\d.,])\d{1,9},\d\d(?!\d)"
    r"|(?<![\d.,])\d{1,9}\.\d\d ?(?:EUR|€)|(?<![A-Z])(?:EUR|€) ?\d{1,9}(?:[.,]\d\d)?(?!\d))"
    r"|(?P<other>(?<![A-Z])(?:KTO|KONTO(?:NR|NUMMER)?|BLZ|TEL(?:EFON)?|FAX|MOBIL|PLZ|STEUER-?NR|ST-?NR|UST-?ID(?:NR)?"
    r"|VERTRAG\w{0,10}|MANDAT\w{0,10}|MIETER\w{0,10}|WHG|WOHNUNG|ZAEHLER\w{0,10}|TAN|TERMINAL|KARTE\w{0,10})"
    r"[.: ]{0,3}(?:NR[.: ]{0,2})?[\d][\d /-]{0,24}\d?(?!\d))"
    r"|(?P<customer>(?<![A-Z])(?:KD|KDNR|KD-?NR|KUNDE|KUNDEN-?(?:NR|NUMMER)|CUSTOMER|DEBITOR(?:EN)?-?(?:NR|NUMMER)?)"
    r"[.:# ]{0,3}(?:NR[.: ]{0,2})?(?P<customer_number>[A-Z]{0,3}-?\d{1,12})(?![A-Z0-9]))"
    rf"|(?P<postcode>(?<![A-Z0-9-])(?<!RG )(?<!NR )(?<!NR\. )(?<!NG )(?<!RE )\d{{5}}(?= [A-Z]{{4,20}}(?![A-Z0-9])(?! [A-Z]*\d)))",
)  # fmt: skip
_KEYWORD = re.compile(rf"(?<![A-Z]){_INVOICE_WORDS}[-.:# ]{{0,3}}(?:NR|NUMMER|NO)?[-.:# ]{{0,3}}(?:VOM )?$")
_KEYWORD_REACH = 30
# Words that say what a number is, and it is no invoice: whole words, beginnings of words, and whatever ends in `-Nr.`.
_NO_INVOICE = (
    r"(?:[A-Z]?TAN\d?|WE|WHG|AZ|LS|KD|ART|FALL|TOUR|ID|CODE|PIN|REG|ABT|STK|POS|KST|ETAGE|RAUM|ZIMMER|BOX|PLATZ|TISCH|BUS|LINIE"
    r"|(?:AUFTR|BESTELL|BEST|ORDER|OBJ|HAUS|WOHN|EINHEIT|VERTR|SCHAD|SCHAEDEN|POLICE|VERSICH|AKTE|KASSENZ|MITGL|PROJ|ANGEBOT|LIEFER"
    r"|ZAEHL|KUNDE|DEBITOR|PERSONAL|STEUER|TICKET|VORGANG|KOMM|ARTIKEL|CHARGE|KARTE|TERMINAL|FILIAL|KOSTENST|GERAET|MASCHINE|FAHRZEUG"
    r"|STELLPL|GARAGE|PARZELLE|GRAB|MANDANT|MANDAT|PATIENT|FLURST|BAUSTELL|SERIEN|LAGER|PARTIE|BUCHUNG|RESERVIER|TEILNEHM|SEMINAR"
    r"|KURS|EVENT|GUTSCHEIN|RETOUR|SENDUNG|PAKET|TELEFON|MOBIL|MIETER|ANTRAG|BESCHEID|LEISTUNGSN|REZEPT|KENNZEICH)[A-Z]{0,20}"
    r"|[A-Z]{3,24}-?(?:NR|NUMMER|ZEICHEN))"
)
_NEUTRAL = re.compile(r"(?:REFERENZ|REF|DOKUMENT|DOK|ZAHLUNGS|LAUFENDE|LFD)[A-Z]{0,10}-?(?:NR|NUMMER|ZEICHEN)?")
_LABEL = re.compile(
    rf"(?<![A-Z])(?P<label>{_NO_INVOICE})(?:[-.:# ]{{0,3}}(?:NR|NUMMER|NO))?[-.:# ]{{0,3}}"
    r"(?:[A-Z]{0,3}[\d/-]{1,16}(?:, ?| UND | U\. | \+ ?| & ?)){0,3}$"
)
_INVOICE_LABEL = re.compile(rf"{_INVOICE_WORDS}(?:-?NR|-?NUMMER)?")
_LABEL_REACH = 70


class Token(NamedTuple):
    """A run of letters or of digits; `start` and `end` are places in the text as it was given."""

    text: str
    start: int
    end: int
    is_digits: bool


class Block(NamedTuple):
    """`value` is a customer's number, and empty for all else."""

    kind: str
    start: int
    end: int
    value: str


class CutText(NamedTuple):
    field: str
    text: str
    tokens: tuple[Token, ...]
    blocks: tuple[Block, ...]


def cut(field: str, text: str) -> CutText:
    """Cuts a text into tokens in capitals. Places refer to `text` with umlauts spelled out."""
    plain = spelled_out(text[:MAX_TEXT])
    tokens: list[Token] = []
    for found in _TOKEN.finditer(plain):
        if len(tokens) == MAX_TOKENS:
            break
        run = found[0]
        tokens.append(Token(run.upper(), found.start(), found.end(), run[0].isdigit()))
    return CutText(field, plain, tuple(tokens), tuple(_blocks(plain)))


def _blocks(plain: str) -> list[Block]:
    blocks = []
    for found in _BLOCKED.finditer(_capitals(plain)):
        blocks.append(Block(found.lastgroup or "", found.start(), found.end(), found["customer_number"] or ""))
    return blocks


def _capitals(plain: str) -> str:
    """In capitals, and of the same length: `upper` would turn some letters into two."""
    upper = plain.upper()
    return upper if len(upper) == len(plain) else "".join(c.upper() if len(c.upper()) == 1 else c for c in plain)


def has_invoice_word(text: CutText, start: int) -> bool:
    """Returns whether a word for invoice stands right before a place."""
    return _KEYWORD.search(_capitals(text.text[max(0, start - _KEYWORD_REACH) : start])) is not None


def is_labelled_otherwise(text: CutText, start: int) -> bool:
    """Returns whether the word before a place says that the number is that of an order, a house, a contract, but of no invoice."""
    found = _LABEL.search(_capitals(text.text[max(0, start - _LABEL_REACH) : start]))
    if found is None:
        return False
    label = found["label"]
    return not _INVOICE_LABEL.fullmatch(label) and not _NEUTRAL.fullmatch(label)


def is_blocked(text: CutText, start: int, end: int) -> str | None:
    """Returns the kind of the stretch that a span lies in or reaches into; one that it contains is part of the number."""
    for block in text.blocks:
        if block.start < end and start < block.end and not (start <= block.start and block.end <= end):
            return block.kind
        if (block.start, block.end) == (start, end):
            return block.kind
    return None


def tokens_of(number: str) -> list[tuple[str, bool]]:
    """The runs of letters and digits of a number, in capitals."""
    return [(run.upper(), run[0].isdigit()) for run in re.findall(r"[0-9]+|[A-Za-z]+", spelled_out(number))]


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
MIN_APART = 5
_MIN_EDITED = 6
_MAX_WEAK_TOKENS = 120
_MANY = 3
# With fewer it is not known what is only a prefix: never enough without a payer.
_MAX_OF_FEW = 19.8
# The last places of a running number vary, even where few open ones do not show it.
_COUNTING = 3
# A number that shares this many characters with all of the client's (`RE-2026-`) is as good as one with a word before it.
_COMMON = 4
# With so many numbers what varies in a column is seen, not guessed.
_ENOUGH = 100
# A number that is a date tells one day of some years from another, and no more.
_BITS_OF_DATE = 10.0
_DATE_FORMS = ("%Y%m%d", "%d%m%Y", "%y%m%d", "%d%m%y")
_MONTHS = 12
_STROKES = ("/", "-", ".")
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
        self._turned: dict[str, list[Key]] = defaultdict(list)
        self._alike: dict[str, list[Key]] = defaultdict(list)
        self._edited: dict[str, list[Key]] = defaultdict(list)
        self._bits: dict[Key, float] = {}
        self._shaped: set[Key] = set()
        self._pieces: dict[Key, int] = {}
        self._forms: dict[Key, str] = {}
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
        for form in _turned(tokens, item.day.year):
            self._turned[form].append(item.key)
        self._forms[item.key] = joined
        self._joined[joined].append(item.key)
        self._dotted[_dotted(tokens)].append(item.key)
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
            columns = [_most_bits(set(column), len(members)) for column in zip(*texts, strict=True)]
            is_seen = len(members) >= _ENOUGH
            dated = _dated_places([tokens for _, tokens in members])
            for (key, tokens), text in zip(members, texts, strict=True):
                counter = () if is_seen or dated else _counter(tokens)
                weights = [
                    _bits_of(char) if place in counter else min(_bits_of(char), columns[place])
                    for place, char in enumerate(text)
                ]
                of_date = sum(weights[place] for place in dated)
                self._bits[key] = round(sum(weights) - of_date + min(of_date, _BITS_OF_DATE), 1)
                same = [char for char, weight in zip(text, weights, strict=True) if not weight and char != "0"]
                if len(same) >= _COMMON:
                    self._shaped.add(key)
        else:
            # Too few to tell which places vary: letters, years and leading zeros count nothing.
            for key, tokens in members:
                runs = [run.lstrip("0") for run, digits in tokens if digits and not _YEAR.fullmatch(run)]
                self._bits[key] = min(BITS_OF_DIGIT * sum(map(len, runs)), _MAX_OF_FEW)

    def bits(self, key: Key) -> float:
        return self._bits.get(key, 0.0)

    def near(self, key: Key) -> tuple[Key, ...]:
        """The documents whose numbers differ from this one's in one character."""
        found: dict[Key, None] = {}
        for form in _deletions(self._forms.get(key, "")):
            found.update(dict.fromkeys(_some(self._edited.get(form, ()))))
        return tuple(found)

    def find(self, texts: Iterable[CutText], explained: Container[str] = ()) -> list[Hit]:
        """Returns the numbers found as we write them, each once, the longest where they overlap.

        `explained` are numbers that may stand beside one: those of the payer.
        """
        hits: dict[tuple[Key, ...], Hit] = {}
        for text in texts:
            for hit in self._strong(text, explained):
                before = hits.get(hit.keys)
                if before is None or hit.rank > before.rank:
                    hits[hit.keys] = hit
        return list(hits.values())

    def find_weak(self, texts: Iterable[CutText]) -> list[Hit]:
        """Returns numbers in forms that only suggest one: year or prefix missing, letters for digits, one edit."""
        hits: dict[tuple[tuple[Key, ...], str], Hit] = {}
        for text in texts:
            for first, last, joined, _ in _runs(text.tokens[:_MAX_WEAK_TOKENS]):
                for form, keys in self._weak_forms(text.tokens[first : last + 1], joined):
                    start, end = text.tokens[first].start, text.tokens[last].end
                    if len(keys) > MAX_SAME or is_blocked(text, start, end):
                        continue
                    weak = "labelled" if is_labelled_otherwise(text, start) else form
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

    def _strong(self, text: CutText, explained: Container[str]) -> list[Hit]:
        spans: list[tuple[int, int, tuple[Key, ...]]] = []
        for first, last, joined, dotted in _runs(text.tokens):
            found = self._joined.get(joined) or self._dotted.get(dotted)
            if not found and dotted in self._turned and _is_slashed(text, first, last):
                found = self._turned[dotted]
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
            weak = "torn" if torn else "beside digits" if _touches(text, owned, first, last, explained) else ""
            if is_labelled_otherwise(text, start):
                weak = "labelled"
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
        # Zeros lead a run of digits, even one that continues after a gap: `00 123`.
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


def _touches(text: CutText, owned: set[int], first: int, last: int, explained: Container[str]) -> bool:
    """Returns whether digits that nothing explains stand right beside the number: it may be a part of something longer."""
    tokens = text.tokens
    for inner, outer in ((first, first - 1), (last, last + 1)):
        if not (0 <= outer < len(tokens)) or outer in owned:
            continue
        one, other = tokens[inner], tokens[outer]
        if not (one.is_digits and other.is_digits) or max(one.start - other.end, other.start - one.end) > 1:
            continue
        between = text.text[min(one.end, other.end)]
        if other.text.lstrip("0") in explained:
            continue
        if between.isspace() and len(other.text) >= MIN_APART <= sum(
            len(token.text) for token in tokens[first : last + 1]
        ):
            # Two long numbers with a blank between them: a voucher of the payer's own.
            continue
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


def _turned(tokens: list[tuple[str, bool]], year: int) -> set[str]:
    """The same number with its year in two digits, behind or before: `17/26` and `2026/17` for `17/2026`.

    Not of the first twelve of a year: those are months.
    """
    digits = [run for run, is_digits in tokens if is_digits]
    years = (str(year), str(year)[2:])
    others = [run.lstrip("0") for run in digits if run not in years]
    if len(digits) != 2 or len(others) != 1 or not others[0] or int(others[0]) <= _MONTHS:
        return set()
    running = others[0]
    forms = {form for written in years for form in (f"{running}.{written}", f"{written}.{running}")}
    return forms - {_dotted(tokens)}


def _is_slashed(text: CutText, first: int, last: int) -> bool:
    """Returns whether the two tokens are written as one number: with a stroke or a hyphen between them, and nothing beside it."""
    between = text.text[text.tokens[first].end : text.tokens[last].start]
    before, after = text.text[: text.tokens[first].start][-1:], text.text[text.tokens[last].end :][:1]
    return last == first + 1 and between.strip() in ("/", "-") and before not in _STROKES and after not in _STROKES


def _counter(tokens: list[tuple[str, bool]]) -> range:
    """The places of the last digits of the last run of digits, without zeros that lead it."""
    last = max(place for place, (_, digits) in enumerate(tokens) if digits)
    end = sum(len(run) for run, _ in tokens[: last + 1])
    return range(end - min(len(tokens[last][0].lstrip("0")), _COUNTING), end)


def _most_bits(column: set[str], count: int) -> float:
    """The most that a place can tell: as much as is seen to vary there, if there are enough numbers to see it."""
    return log2(len(column)) if count >= _ENOUGH or len(column) == 1 else BITS_OF_LETTER


def _dated_places(numbers: list[list[tuple[str, bool]]]) -> range:
    """The places of a run of digits that is a date in every one of these numbers, which have the same shape."""
    start = 0
    for place, (run, digits) in enumerate(numbers[0]):
        if digits and len(run) in (6, 8):
            for form in _DATE_FORMS:
                if all(_is_date(tokens[place][0], form) for tokens in numbers):
                    return range(start, start + len(run))
        start += len(run)
    return range(0)


def _is_date(digits: str, form: str) -> bool:
    try:
        return len(digits) == (8 if "%Y" in form else 6) and 1990 <= datetime.strptime(digits, form).year <= 2099
    except ValueError:
        return False


def _deletions(text: str) -> set[str]:
    return {text, *(text[:place] + text[place + 1 :] for place in range(len(text)))}


def _bits_of(char: str) -> float:
    return BITS_OF_DIGIT if char.isdigit() else BITS_OF_LETTER
