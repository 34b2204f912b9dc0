"""Lists of codes: those that a rule names one by one, and those of the standards for countries and currencies."""

from __future__ import annotations

from functools import cache

# Codes that are used in invoices and that the standard's list of countries does not have.
_MORE_COUNTRIES = ("1A", "XI", "EL")


@cache
def code_list(named: str) -> frozenset[str]:
    """Returns `countries`, `currencies`, or the codes of a text with blanks between them."""
    if named not in ("countries", "currencies"):
        return frozenset(named.split())
    import pycountry

    if named == "currencies":
        return frozenset(currency.alpha_3 for currency in pycountry.currencies)
    return frozenset((*(country.alpha_2 for country in pycountry.countries), *_MORE_COUNTRIES))
