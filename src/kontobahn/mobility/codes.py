"""Country codes and VAT ids: whether they can exist. What a schema cannot say, said before it stands on an invoice. Pure."""

from __future__ import annotations

import re

from kontobahn.errors import BadRequest

# Prefixes of VAT ids that are no country code: Greece and Northern Ireland.
_OTHER_PREFIXES = ("EL", "XI")


def check(country_code: str, vat_id: str | None) -> None:
    """BadRequest that names the field."""
    if not _is_country(country_code):
        raise BadRequest(
            f"The field `country_code` is wrong: there is no country {country_code}.", field="country_code"
        )
    if vat_id is None:
        return
    prefix = vat_id[:2]
    if prefix == "DE" and not re.fullmatch(r"DE[0-9]{9}", vat_id):
        raise BadRequest("The field `vat_id` is wrong: a German one is DE and nine digits.", field="vat_id")
    if not _is_country(prefix) and prefix not in _OTHER_PREFIXES:
        raise BadRequest(f"The field `vat_id` is wrong: there is no country {prefix}.", field="vat_id")


def _is_country(code: str) -> bool:
    # Its list is read when it is needed, not when the service starts.
    import pycountry

    return pycountry.countries.get(alpha_2=code) is not None
