"""Fields that several nouns share on the wire: one line of text, addresses, codes. What a pattern cannot check is checked here too."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from kontobahn.api.wire import CONTROL, form
from kontobahn.errors import BadRequest
from kontobahn.sentences import said

_BLANK = r" \u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
one_line = form("one line of text that does not begin with a blank", rf"^[^{_BLANK}{CONTROL}][^{CONTROL}]*$")
Line70 = Annotated[str, one_line, Meta(max_length=70, examples=["Musterbetrieb GmbH"])]
Line100 = Annotated[str, one_line, Meta(max_length=100, examples=["Deutschlandticket Job"])]
Line200 = Annotated[str, one_line, Meta(max_length=200, examples=["Umsatzsteuerfrei nach § 4 UStG"])]
Reference = Annotated[str, one_line, Meta(max_length=64, examples=["PN-10423"])]
PostalCode = Annotated[str, one_line, Meta(max_length=12, examples=["10115"])]
City = Annotated[str, one_line, Meta(max_length=70, examples=["Berlin"])]
Street = Annotated[str, one_line, Meta(max_length=70, examples=["Musterstraße 1"])]
Country = Annotated[str, form("a country code of two capital letters", r"^[A-Z]{2}$", examples=["DE"])]
Email = Annotated[
    str,
    form(
        "an e-mail address",
        rf"^[^@{_BLANK}{CONTROL}]{{2,64}}@([^@.{_BLANK}{CONTROL}]+\.){{1,60}}[^@.{_BLANK}{CONTROL}]{{2,}}$",
        max_length=120,
        examples=["rechnung@musterbetrieb.example"],
    ),
]
Phone = Annotated[
    str, form("a phone number with at least three digits", r"^[+0-9][ ()/-]*([0-9][ ()/-]*){3,}$", max_length=40,
              examples=["+49 30 1234567"])
]  # fmt: skip
VatId = Annotated[str, form("a VAT id like DE123456789", r"^[A-Z]{2}[A-Z0-9]{2,12}$", examples=["DE123456789"])]

# Prefixes of VAT ids that are not a country code: Greece and Northern Ireland.
_OTHER_PREFIXES = ("EL", "XI")


def check_codes(country_code: str, vat_id: str | None) -> None:
    """Raises BadRequest, naming the field, if there is no such country or no such VAT id."""
    if not _is_country(country_code):
        raise BadRequest(
            said("The field `country_code` is wrong: there is no country {code}.", code=country_code),
            field="country_code",
        )
    if vat_id is None:
        return
    prefix = vat_id[:2]
    if not _is_country(prefix) and prefix not in _OTHER_PREFIXES:
        raise BadRequest(said("The field `vat_id` is wrong: there is no country {code}.", code=prefix), field="vat_id")
    if not _has_form_of_its_country(vat_id):
        raise BadRequest(
            said("The field `vat_id` is wrong: a VAT id of {code} looks different.", code=prefix), field="vat_id"
        )


def _has_form_of_its_country(vat_id: str) -> bool:
    """Returns whether length and characters fit. Only the forms of the EU and Northern Ireland are known; others pass."""
    # Imported late, like the list of countries below: neither is needed when the service starts.
    from stdnum.eu import vat
    from stdnum.exceptions import InvalidChecksum, InvalidComponent, ValidationError

    try:
        vat.validate(vat_id)
    except (InvalidChecksum, InvalidComponent):
        # Check digits are not enforced: whether an id exists is for the tax office to say, and made-up ones are used in trials.
        return True
    except ValidationError:
        return False
    return True


def _is_country(code: str) -> bool:
    import pycountry

    return pycountry.countries.get(alpha_2=code) is not None
