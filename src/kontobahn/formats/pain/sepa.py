"""The limits of SEPA: characters, lengths, amounts and IBANs. Nothing is ever truncated; errors name the field.

Pure. The route that creates a payment and the writer of pain.001 use the same functions.
"""

from __future__ import annotations

import re
import unicodedata

from kontobahn.errors import BadRequest
from kontobahn.sentences import said

MAX_NAME = 70
MAX_REMITTANCE = 140
MAX_ID = 35
MIN_AMOUNT_MINOR = 1
MAX_AMOUNT_MINOR = 99_999_999_999

_ALLOWED = re.compile(r"[A-Za-z0-9/\-?:().,'+ ]*")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9/\-?:().,'+ ]")
_PURPOSE_CODE = re.compile(r"[A-Z0-9]{1,4}")
_BIC = re.compile(r"[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")
_COUNTRY = re.compile(r"[A-Z]{2}")
# Letters that cannot be decomposed into a basic letter and an accent, and signs whose substitute means the same. # and %
# have no such substitute, so they are refused.
_SUBSTITUTES = str.maketrans({
    "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ẞ": "SS",
    "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l", "Đ": "D", "đ": "d", "ı": "i",
    "Þ": "Th", "þ": "th", "Ð": "D", "ð": "d", "&": "+", "€": "EUR",
    "‘": "'", "’": "'", "‚": ",", "`": "'", "´": "'", "“": "'", "”": "'", "„": "'", '"': "'", "«": "'", "»": "'",
    "–": "-", "—": "-", "‑": "-", "_": "-", "…": "...", "\u00a0": " ", "\u202f": " ", "\t": " ", "\n": " ", "\r": " ",
})  # fmt: skip


class NotSepa(BadRequest):
    """A field that a payment cannot carry, and the reason, which says what the field is or must be, without a full stop."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(said("{field} {reason}.", field=field, reason=reason))
        self.field = field
        self.reason = reason


def to_sepa(text: str) -> str:
    """Returns a text in SEPA's characters: Ä as Ae, ß as ss, é as e, & as +. Raises BadRequest if a character has no substitute.

    The result may be longer than the text, so check lengths afterwards.
    """
    if _ALLOWED.fullmatch(text):
        return text
    bare = _without_accents(text)
    wrong = _NOT_ALLOWED.search(bare)
    if wrong:
        raise BadRequest(said("contains {what}, which SEPA does not carry", what=_named(wrong[0])))
    return bare


def _without_accents(text: str) -> str:
    # Composed first, so that an a with a separate diaeresis counts as ä.
    replaced = unicodedata.normalize("NFC", text).translate(_SUBSTITUTES)
    return "".join(char for char in unicodedata.normalize("NFD", replaced) if not unicodedata.combining(char))


def _named(char: str) -> str:
    return f"{char!r} (U+{ord(char):04X})"


def check_text(field: str, text: str, max_length: int) -> str:
    """Returns the text as it goes into a payment, without surrounding blanks. Raises BadRequest, naming the field, if it cannot."""
    try:
        sent = to_sepa(text).strip()
    except BadRequest as error:
        raise NotSepa(field, str(error)) from None
    if not sent:
        raise NotSepa(field, "must not be empty")
    if len(sent) > max_length:
        count = len(sent)
        if sent == text.strip():
            reason = said("has {count} characters; at most {most} are allowed", count=count, most=max_length)
        else:
            reason = said(
                "has {count} characters as SEPA writes it ({written}); at most {most} are allowed",
                count=count,
                written=repr(sent),
                most=max_length,
            )
        raise NotSepa(field, reason)
    if sent.startswith("/") or sent.endswith("/") or "//" in sent:
        raise NotSepa(field, "must not begin or end with a slash, nor contain two in a row")
    return sent


def payer_name(text: str) -> str:
    """Returns the payer's own name as far as SEPA can carry it. It only informs: the bank puts the account holder's in its place."""
    return as_far_as_carried(text.replace("/", " "), MAX_NAME) or "NOTPROVIDED"


def as_far_as_carried(text: str, max_length: int) -> str:
    """Returns what SEPA can carry of a text that others wrote: the rest is left out, so it may be empty."""
    bare = re.sub(r"\s+", " ", _NOT_ALLOWED.sub(" ", _without_accents(text)))
    return re.sub(r"/{2,}", "/", bare).strip(" /")[:max_length].strip(" /")


def check_id(field: str, text: str) -> str:
    """Returns a reference unchanged, or raises BadRequest: the bank's report will be matched by it."""
    if check_text(field, text, MAX_ID) != text:
        raise NotSepa(field, "must consist of a-z, A-Z, 0-9 and / - ? : ( ) . , ' + only")
    return text


def check_amount(field: str, cents: int) -> int:
    if not MIN_AMOUNT_MINOR <= cents <= MAX_AMOUNT_MINOR:
        raise NotSepa(field, said("must lie between {low} and {high}", low="0.01", high="999999999.99"))
    return cents


def check_currency(field: str, code: str) -> str:
    if code != "EUR":
        raise NotSepa(field, "must be EUR: SEPA carries no other currency")
    return code


def check_iban(field: str, text: str) -> str:
    """Returns the IBAN without blanks, in capitals. Raises BadRequest if it is invalid or outside the SEPA area."""
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        iban = IBAN(re.sub(r"\s", "", text).upper())
    except SchwiftyException as error:
        raise NotSepa(field, said("is not a valid IBAN: {why}", why=error)) from None
    if not iban.in_sepa_zone:
        raise NotSepa(field, said("belongs to a country outside the SEPA area ({country})", country=iban.country_code))
    return str(iban)


def in_groups(iban: str) -> str:
    """Returns an IBAN as people read it: ``DE02120300000000202051`` as ``DE02 1203 0000 0000 2020 51``."""
    return " ".join(iban[start : start + 4] for start in range(0, len(iban), 4))


def check_bic(field: str, text: str) -> str:
    bic = re.sub(r"\s", "", text).upper()
    if not _BIC.fullmatch(bic):
        raise NotSepa(field, "is not a valid BIC")
    return bic


def check_country(field: str, text: str) -> str:
    if not _COUNTRY.fullmatch(text):
        raise NotSepa(field, "must be a country code of two capital letters")
    return text


def check_purpose_code(field: str, text: str) -> str:
    if not _PURPOSE_CODE.fullmatch(text):
        raise NotSepa(field, "must be a code of one to four capital letters and digits")
    return text
