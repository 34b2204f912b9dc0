"""Automatic accounts: ledger accounts whose bookings include tax without a key, by four-digit numbers. Pure.

Known are those on whose tax two independent descriptions agree. Charts use neighbouring numbers for more accounts of the same kind:
what is booked there without a key may have tax in it that we cannot see.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kontobahn.ledger.steuerschluessel import (
    EU_ERWERB,
    LEISTUNGSEMPFAENGER,
    NO_TAX,
    STEUERFREI,
    TAX_ACCOUNTS,
    UMSATZSTEUER,
    VORSTEUER,
    Tax,
    rates_in,
)


class _Span(NamedTuple):
    first: str
    last: str
    art: str
    # Which of the rates in force, or a rate that never changes.
    rate: str | int


def _spans(
    erloese: str, waren: str, leistungen: str, frei: tuple[tuple[str, str], ...], skonti: tuple[str, str, int]
) -> list[_Span]:
    """The charts are built alike; `erloese` and the others are the digits that their numbers begin with."""
    gewaehrt, erhalten, received_16 = skonti
    return [
        _Span(f"{erloese}400", f"{erloese}409", UMSATZSTEUER, "voll"),
        _Span(f"{erloese}300", f"{erloese}309", UMSATZSTEUER, "ermaessigt"),
        _Span(f"{waren}400", f"{waren}409", VORSTEUER, "voll"),
        _Span(f"{waren}300", f"{waren}309", VORSTEUER, "ermaessigt"),
        _Span(f"{waren}420", f"{waren}424", EU_ERWERB, "ermaessigt"),
        _Span(f"{waren}425", f"{waren}429", EU_ERWERB, "voll"),
        _Span(f"{leistungen}20", f"{leistungen}21", LEISTUNGSEMPFAENGER, "voll"),
        _Span(f"{leistungen}23", f"{leistungen}23", LEISTUNGSEMPFAENGER, "voll"),
        _Span(f"{leistungen}25", f"{leistungen}26", LEISTUNGSEMPFAENGER, "voll"),
        *(_Span(f"{gewaehrt}{digit}", f"{gewaehrt}{digit}", UMSATZSTEUER, rate) for digit, rate in _DISCOUNTS),
        *(
            _Span(f"{erhalten}{digit}", f"{erhalten}{digit}", VORSTEUER, rate)
            for digit, rate in ((1, 7), (2, 5), (received_16, 16), (6, 19))
        ),
        *(_Span(first, last, STEUERFREI, 0) for first, last in frei),
    ]


_DISCOUNTS = ((1, 7), (2, 5), (5, 16), (6, 19))
_SPANS = {
    "SKR03": _spans(
        "8", "3", "31",
        (("8100", "8160"), ("8195", "8195"), ("8336", "8339"), ("8700", "8706"), ("8724", "8724"), ("8730", "8730"),
         ("3349", "3349"), ("3550", "3551"), ("3558", "3559"), ("3700", "3700"), ("3730", "3730")),
        ("873", "373", 7),
    ),
    "SKR04": _spans(
        "4", "5", "59",
        (("4100", "4133"), ("4135", "4160"), ("4185", "4185"), ("4336", "4339"), ("4700", "4706"), ("4724", "4724"),
         ("4730", "4730"), ("5349", "5349"), ("5550", "5551"), ("5558", "5559"), ("5700", "5700"), ("5730", "5730")),
        ("473", "573", 7),
    ),
}  # fmt: skip
_SUSPECT = {
    "SKR03": (
        ("3010", "3039"), ("3106", "3159"), ("3300", "3349"), ("3400", "3449"), ("3500", "3599"), ("3701", "3799"),
        ("8190", "8199"), ("8300", "8349"), ("8400", "8449"), ("8700", "8799"), ("8910", "8949"),
    ),
    "SKR04": (
        ("5110", "5139"), ("5906", "5959"), ("5300", "5349"), ("5400", "5449"), ("5500", "5599"), ("5701", "5799"),
        ("4134", "4134"), ("4180", "4189"), ("4300", "4349"), ("4400", "4449"), ("4700", "4799"), ("4610", "4689"),
    ),
}  # fmt: skip


@cache
def automatic_taxes(skr: str, era: int) -> dict[str, Tax | None]:
    """Number → its tax in a span of equal rates; None if the chart has no account for the tax of that time."""
    rates = rates_in(era)
    found: dict[str, Tax | None] = {}
    for span in _SPANS[skr]:
        prozent = span.rate if isinstance(span.rate, int) else getattr(rates, span.rate, None)
        tax = NO_TAX if span.art == STEUERFREI else Tax(span.art, prozent or 0)
        known = tax if tax == NO_TAX or tax in TAX_ACCOUNTS[skr] else None
        found.update(dict.fromkeys(_numbers(span.first, span.last), known))
    return found


@cache
def suspect_accounts(skr: str) -> frozenset[str]:
    """Numbers among which charts have automatic accounts that we do not know."""
    known = automatic_taxes(skr, era=1)
    return frozenset(number for span in _SUSPECT[skr] for number in _numbers(*span) if number not in known)


def _numbers(first: str, last: str) -> list[str]:
    return [f"{number:04}" for number in range(int(first), int(last) + 1)]
