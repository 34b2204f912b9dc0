"""Texts cut into tokens, and the stretches in which a number is no document's: IBANs, dates, amounts, telephone numbers …

Linear in the length of a text, and bounded: of a longer text only the beginning is read.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kontobahn.ledger.partner_names import spelled_out

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
