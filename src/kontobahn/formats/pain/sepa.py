"""The limits of SEPA: characters, lengths, amounts and IBANs. Nothing is ever truncated; errors name the field.

Pure. The route that creates a payment and the writer of pain.001 use the same functions.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

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


# The places of a payer's reference and a payee's address in a pain.001 file, so that nothing is lost and every bank
# takes it. Pure.
#
# The schemes carry either an unstructured purpose or one structured creditor reference, never both. An address must
# name town and country in fields of their own since November 2026; the rest may stand in two lines.


MAX_LINE = 70
MAX_LINES = 2


_CREDITOR_REFERENCE = re.compile(r"RF[0-9]{2}[A-Z0-9]{1,21}")


class Remittance(NamedTuple):
    """The text for the payee, in one of two forms, and the text that only the payer and the payer's bank read."""

    unstructured: str | None
    creditor_reference: str | None = None
    instruction_id: str | None = None


def place_reference(description: str, reference: str | None) -> Remittance:
    """Places a reference. Raises BadRequest if it does not fit.

    A creditor reference (ISO 11649, `RF…`) is the payee's: it goes alone in its own field if the description says nothing
    else, else in front of the description. Any other is the payer's: it is the instruction's id, which statements and status
    reports repeat to the payer.
    """
    text = check_text("description", description, MAX_REMITTANCE)
    if reference is None:
        return Remittance(text)
    bare, description = _bare(reference), _bare(text)
    if not is_creditor_reference(bare):
        return Remittance(text, None, check_text("reference", reference, MAX_ID))
    if description == bare:
        return Remittance(None, bare)
    if bare in description:
        return Remittance(text)
    both = f"{bare} {text}"
    if len(both) > MAX_REMITTANCE:
        raise NotSepa(
            "reference",
            said(
                "goes in front of the description, and both have {count} characters; at most {most} are allowed",
                count=len(both),
                most=MAX_REMITTANCE,
            ),
        )
    return Remittance(both)


def check_reference(field: str, reference: str) -> str:
    """Returns a reference without blanks, in capitals. Raises BadRequest if it is a creditor reference with wrong check digits."""
    bare = _bare(reference)
    if _CREDITOR_REFERENCE.fullmatch(bare) and not is_creditor_reference(bare):
        raise NotSepa(
            field,
            "begins like a creditor reference (RF, ISO 11649), but its check digits are wrong: compare it with the invoice",
        )
    return bare


def is_creditor_reference(text: str) -> bool:
    """Returns whether a text without blanks is a creditor reference whose check digits are right."""
    if not _CREDITOR_REFERENCE.fullmatch(text):
        return False
    return int("".join(str(int(char, 36)) for char in text[4:] + text[:4])) % 97 == 1


def _bare(text: str) -> str:
    return re.sub(r"\s", "", text).upper()


class Address(NamedTuple):
    """A payee's address. Banks require town and country; the rest is left out if missing. `lines` are for what has no field."""

    country: str
    town: str
    street: str | None = None
    building: str | None = None
    postcode: str | None = None
    lines: tuple[str, ...] = ()


# A postcode as SEPA's countries write it, before the town; the British one comes after it.
_POSTCODE_TOWN = re.compile(
    r"(?:([A-Z]{1,3})[- ])?([0-9]{4} ?[A-Z]{2}|[0-9]{2}-[0-9]{3}|[0-9]{3} [0-9]{2}|[0-9]{4}-[0-9]{3}|[0-9]{4,5})\s++(\D{2,})"
)
_TOWN_POSTCODE = re.compile(r"(\D{2,100}?)\s+([A-Z]{1,2}[0-9][A-Z0-9]? [0-9][A-Z]{2})")
_COUNTRIES = {
    "deutschland": "DE", "germany": "DE", "österreich": "AT", "austria": "AT", "schweiz": "CH", "switzerland": "CH",
    "suisse": "CH", "svizzera": "CH", "frankreich": "FR", "france": "FR", "niederlande": "NL", "nederland": "NL",
    "netherlands": "NL", "belgien": "BE", "belgië": "BE", "belgique": "BE", "belgium": "BE", "luxemburg": "LU",
    "luxembourg": "LU", "liechtenstein": "LI", "italien": "IT", "italia": "IT", "italy": "IT", "spanien": "ES", "españa": "ES",
    "spain": "ES", "polen": "PL", "polska": "PL", "poland": "PL", "dänemark": "DK", "danmark": "DK", "denmark": "DK",
    "tschechien": "CZ", "česko": "CZ", "czechia": "CZ", "schweden": "SE", "sverige": "SE", "sweden": "SE", "irland": "IE",
    "ireland": "IE", "portugal": "PT", "finnland": "FI", "suomi": "FI", "finland": "FI", "großbritannien": "GB",
    "united kingdom": "GB",
}  # fmt: skip


# Before a postcode, the sign of cars is as usual as the country's code.
_CAR_SIGNS = {
    "A": "AT",
    "B": "BE",
    "D": "DE",
    "E": "ES",
    "F": "FR",
    "FIN": "FI",
    "I": "IT",
    "L": "LU",
    "P": "PT",
    "S": "SE",
}


def country_in(text: str) -> str | None:
    """Returns the country that an address of one text names: at its end, or before its postcode."""
    parts, named = _parts(text)
    match = _POSTCODE_TOWN.fullmatch(parts[-1]) if parts and named is None else None
    sign = match[1] if match else None
    return named if sign is None else _CAR_SIGNS.get(sign, sign if len(sign) == 2 else None)


def _parts(text: str) -> tuple[list[str], str | None]:
    """Returns the parts of an address without the country at its end, and that country."""
    parts = [part.strip() for part in re.split(r"[,;\n]", text) if part.strip()]
    named = _COUNTRIES.get(parts[-1].lower()) if parts else None
    if named is None and parts and re.fullmatch(r"[A-Z]{2}", parts[-1]):
        named = parts[-1]
    return (parts if named is None else parts[:-1]), named


def read_address(text: str, country: str) -> Address:
    """Reads ``Ring 7, 50667 Köln``, with or without the country. Raises BadRequest if the town cannot be told from the rest.

    `country` is assumed if the text names none.
    """
    parts, _ = _parts(text)
    last = parts[-1] if parts else ""
    if match := _POSTCODE_TOWN.fullmatch(last):
        postcode, town = match.group(2, 3)
    elif match := _TOWN_POSTCODE.fullmatch(last):
        postcode, town = match.group(2, 1)
    else:
        raise NotSepa(
            "creditor_address",
            "must end with postcode and town (“Ring 7, 50667 Köln”), or be an object with town_name: banks take no other address",
        )
    town = town.strip()
    # Banks refuse a line that repeats what has a field of its own.
    rest = [part for part in parts[:-1] if part.casefold() != town.casefold()]
    return Address(country_in(text) or country, town, postcode=postcode, lines=_lines(rest))


def _lines(parts: list[str]) -> tuple[str, ...]:
    """The rest of an address in as few lines as hold it."""
    lines: list[str] = []
    for part in parts:
        sent = check_text("creditor_address", part, MAX_LINE)
        if lines and len(lines[-1]) + 2 + len(sent) <= MAX_LINE:
            lines[-1] += f", {sent}"
        else:
            lines.append(sent)
    if len(lines) > MAX_LINES:
        raise NotSepa(
            "creditor_address",
            said("has more than {count} lines of {most} characters beside its town", count=MAX_LINES, most=MAX_LINE),
        )
    return tuple(lines)
