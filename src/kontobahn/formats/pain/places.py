"""The places of a payer's reference and a payee's address in a pain.001 file, so that nothing is lost and every bank takes it. Pure.

The schemes carry either an unstructured purpose or one structured creditor reference, never both. An address must name town
and country in fields of their own since November 2026; the rest may stand in two lines.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from kontobahn.formats.pain import sepa
from kontobahn.sentences import said

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
    text = sepa.check_text("description", description, sepa.MAX_REMITTANCE)
    if reference is None:
        return Remittance(text)
    bare, description = _bare(reference), _bare(text)
    if not is_creditor_reference(bare):
        return Remittance(text, None, sepa.check_text("reference", reference, sepa.MAX_ID))
    if description == bare:
        return Remittance(None, bare)
    if bare in description:
        return Remittance(text)
    both = f"{bare} {text}"
    if len(both) > sepa.MAX_REMITTANCE:
        raise sepa.NotSepa(
            "reference",
            said(
                "goes in front of the description, and both have {count} characters; at most {most} are allowed",
                count=len(both),
                most=sepa.MAX_REMITTANCE,
            ),
        )
    return Remittance(both)


def check_reference(field: str, reference: str) -> str:
    """Returns a reference without blanks, in capitals. Raises BadRequest if it is a creditor reference with wrong check digits."""
    bare = _bare(reference)
    if _CREDITOR_REFERENCE.fullmatch(bare) and not is_creditor_reference(bare):
        raise sepa.NotSepa(
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
        raise sepa.NotSepa(
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
        sent = sepa.check_text("creditor_address", part, MAX_LINE)
        if lines and len(lines[-1]) + 2 + len(sent) <= MAX_LINE:
            lines[-1] += f", {sent}"
        else:
            lines.append(sent)
    if len(lines) > MAX_LINES:
        raise sepa.NotSepa(
            "creditor_address",
            said("has more than {count} lines of {most} characters beside its town", count=MAX_LINES, most=MAX_LINE),
        )
    return tuple(lines)
