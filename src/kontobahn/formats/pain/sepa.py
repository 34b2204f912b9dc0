"""What SEPA lets through: characters, lengths, amounts and IBANs. Nothing is ever cut; what does not fit is refused by name.

Pure. The route that takes a payment and the writer of pain.001 ask the same functions.
"""

from __future__ import annotations

import re
import unicodedata

from kontobahn.errors import BadRequest

LONGEST_NAME = 70
LONGEST_REMITTANCE = 140
LONGEST_ID = 35
SMALLEST_MINOR = 1
LARGEST_MINOR = 99_999_999_999

_ALLOWED = re.compile(r"[A-Za-z0-9/\-?:().,'+ ]*")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9/\-?:().,'+ ]")
_PURPOSE_CODE = re.compile(r"[A-Z0-9]{1,4}")
_BIC = re.compile(r"[A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?")
_COUNTRY = re.compile(r"[A-Z]{2}")
# Letters that do not come apart into one of ours and an accent, and signs that lose nothing by their substitute. A # or a %
# would, so it is refused.
_SUBSTITUTES = str.maketrans({
    "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss", "ẞ": "SS",
    "Æ": "AE", "æ": "ae", "Œ": "OE", "œ": "oe", "Ø": "O", "ø": "o", "Ł": "L", "ł": "l", "Đ": "D", "đ": "d", "ı": "i",
    "Þ": "Th", "þ": "th", "Ð": "D", "ð": "d", "&": "+", "€": "EUR",
    "‘": "'", "’": "'", "‚": ",", "`": "'", "´": "'", "“": "'", "”": "'", "„": "'", '"': "'", "«": "'", "»": "'",
    "–": "-", "—": "-", "‑": "-", "_": "-", "…": "...", "\u00a0": " ", "\u202f": " ", "\t": " ", "\n": " ", "\r": " ",
})  # fmt: skip


def to_sepa(text: str) -> str:
    """A text in SEPA's characters: Ä as Ae, ß as ss, é as e, & as +. BadRequest for one that has no substitute.

    The result may be longer than the text, so lengths are to be checked afterwards.
    """
    if _ALLOWED.fullmatch(text):
        return text
    # Composed first, so that an a with a separate diaeresis is an ä as well.
    replaced = unicodedata.normalize("NFC", text).translate(_SUBSTITUTES)
    bare = "".join(char for char in unicodedata.normalize("NFD", replaced) if not unicodedata.combining(char))
    wrong = _NOT_ALLOWED.search(bare)
    if wrong:
        raise BadRequest(f"contains {_named(wrong[0])}, which SEPA does not carry")
    return bare


def _named(char: str) -> str:
    return f"{char!r} (U+{ord(char):04X})"


def check_text(field: str, text: str, longest: int) -> str:
    """The text as it goes into a payment; BadRequest that names the field where it cannot.

    Blanks around it go, everything else stays as long as it is.
    """
    try:
        sent = to_sepa(text).strip()
    except BadRequest as error:
        raise BadRequest(f"{field} {error}.") from None
    if not sent:
        raise BadRequest(f"{field} must not be empty.")
    if len(sent) > longest:
        written = "" if sent == text.strip() else f" as SEPA writes it ({sent!r})"
        raise BadRequest(f"{field} has {len(sent)} characters{written}; at most {longest} are allowed.")
    if sent.startswith("/") or sent.endswith("/") or "//" in sent:
        raise BadRequest(f"{field} must not begin or end with a slash, nor hold two in a row.")
    return sent


def check_id(field: str, text: str) -> str:
    """A reference: sent as it is or not at all, because the bank's answer will be found by it."""
    if check_text(field, text, LONGEST_ID) != text:
        raise BadRequest(f"{field} must consist of a-z, A-Z, 0-9 and / - ? : ( ) . , ' + only.")
    return text


def check_amount(field: str, cents: int) -> int:
    if not SMALLEST_MINOR <= cents <= LARGEST_MINOR:
        raise BadRequest(f"{field} must lie between 0.01 and 999999999.99.")
    return cents


def check_currency(field: str, code: str) -> str:
    if code != "EUR":
        raise BadRequest(f"{field} must be EUR: SEPA carries no other currency.")
    return code


def check_iban(field: str, text: str) -> str:
    """The IBAN without blanks, in capitals, of a country in the SEPA area."""
    from schwifty import IBAN
    from schwifty.exceptions import SchwiftyException

    try:
        iban = IBAN(re.sub(r"\s", "", text).upper())
    except SchwiftyException as error:
        raise BadRequest(f"{field} is no valid IBAN: {error}.") from None
    if not iban.in_sepa_zone:
        raise BadRequest(f"{field} belongs to a country outside the SEPA area ({iban.country_code}).")
    return str(iban)


def check_bic(field: str, text: str) -> str:
    bic = re.sub(r"\s", "", text).upper()
    if not _BIC.fullmatch(bic):
        raise BadRequest(f"{field} is no valid BIC.")
    return bic


def check_country(field: str, text: str) -> str:
    if not _COUNTRY.fullmatch(text):
        raise BadRequest(f"{field} must be a country code of two capital letters.")
    return text


def check_purpose_code(field: str, text: str) -> str:
    if not _PURPOSE_CODE.fullmatch(text):
        raise BadRequest(f"{field} must be a code of one to four capital letters and digits.")
    return text
