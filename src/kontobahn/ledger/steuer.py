"""Tax keys (BU-Schlüssel) and automatic accounts: the tax each stands for, its rate on a day, and where it is booked. Pure.

Only keys and accounts on whose meaning two independent descriptions agree. Any other key is not a mistake of the sender: it is
booked gross.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import NamedTuple

# Kinds of tax. The letters are stored with bookings (`kontierung.Split`): a letter never changes its meaning.
UMSATZSTEUER = "U"
VORSTEUER = "V"
# Supplies to the Union that are taxed here, because the buyer has no VAT id: output tax on an account of its own.
EU_LIEFERUNG = "I"
# Purchases whose tax the buyer owes: output and input tax at once, on top of the amount; together they are zero.
EU_ERWERB = "E"
LEISTUNGSEMPFAENGER = "R"
# Such purchases of a buyer who may not deduct the tax: output tax, and as much more cost on the account that carries it.
OHNE_ABZUG = "N"
STEUERFREI = "F"
ON_TOP = frozenset({EU_ERWERB, LEISTUNGSEMPFAENGER, OHNE_ABZUG})

AUFHEBUNG_DER_AUTOMATIK = "40"


class Tax(NamedTuple):
    """A kind of tax at a rate."""

    art: str
    prozent: int


NO_TAX = Tax(STEUERFREI, 0)


class TaxAccounts(NamedTuple):
    """The accounts of a tax, by four-digit numbers; empty if it has no such side."""

    umsatzsteuer: str = ""
    vorsteuer: str = ""


def _accounts(
    output: tuple[str, str, str, str], given: tuple[str, str, str, str], eu: tuple[str, str], erwerb: tuple[str, ...],
    empfaenger: tuple[str, ...],
) -> dict[Tax, TaxAccounts]:  # fmt: skip
    rates = (19, 7, 16, 5)
    return {
        **{Tax(UMSATZSTEUER, rate): TaxAccounts(umsatzsteuer=konto) for rate, konto in zip(rates, output, strict=True)},
        **{Tax(VORSTEUER, rate): TaxAccounts(vorsteuer=konto) for rate, konto in zip(rates, given, strict=True)},
        **{Tax(EU_LIEFERUNG, rate): TaxAccounts(umsatzsteuer=konto) for rate, konto in zip(rates, eu, strict=False)},
        Tax(EU_ERWERB, 19): TaxAccounts(erwerb[0], erwerb[1]),
        Tax(EU_ERWERB, 7): TaxAccounts(erwerb[2], erwerb[3]),
        Tax(LEISTUNGSEMPFAENGER, 19): TaxAccounts(empfaenger[0], empfaenger[1]),
        Tax(LEISTUNGSEMPFAENGER, 7): TaxAccounts(empfaenger[2], empfaenger[3]),
        Tax(OHNE_ABZUG, 19): TaxAccounts(umsatzsteuer=empfaenger[0]),
        Tax(OHNE_ABZUG, 7): TaxAccounts(umsatzsteuer=empfaenger[2]),
    }


# Accounts are added, never changed: stored bookings are split by this table.
TAX_ACCOUNTS: dict[str, dict[Tax, TaxAccounts]] = {
    "SKR03": _accounts(
        ("1776", "1771", "1775", "1773"),
        ("1576", "1571", "1575", "1568"),
        ("1778", "1777"),
        ("1774", "1574", "1772", "1572"),
        ("1787", "1577", "1785", "1578"),
    ),
    "SKR04": _accounts(
        ("3806", "3801", "3805", "3803"),
        ("1406", "1401", "1405", "1403"),
        ("3808", "3807"),
        ("3804", "1404", "3802", "1402"),
        ("3837", "1407", "3835", "1408"),
    ),
}


class Rates(NamedTuple):
    """The rates in force, and those that were in force before and are still needed for corrections."""

    voll: int
    ermaessigt: int
    anderer_voll: int
    anderer_ermaessigt: int | None


# Each from this day on. A key keeps its meaning (“the full rate”) while the rate changes.
_RATES: tuple[tuple[str, Rates | None], ...] = (
    ("", None),
    ("2007-01-01", Rates(19, 7, 16, None)),
    ("2020-07-01", Rates(16, 5, 19, 7)),
    ("2021-01-01", Rates(19, 7, 16, 5)),
)
_LOWERED = 2


@lru_cache(maxsize=4096)
def era_of(tag: str) -> int:
    """Returns the number of the span of equal rates that a day lies in."""
    return max(number for number, (since, _) in enumerate(_RATES) if since <= tag)


def rates_in(era: int) -> Rates | None:
    return _RATES[era][1]


# Key → kind, and which of the rates. Keys of three and four digits are described for the usual rates only.
_KEYS = {
    "2": (UMSATZSTEUER, "ermaessigt"),
    "3": (UMSATZSTEUER, "voll"),
    "4": (UMSATZSTEUER, "anderer_ermaessigt"),
    "5": (UMSATZSTEUER, "anderer_voll"),
    "6": (VORSTEUER, "anderer_ermaessigt"),
    "7": (VORSTEUER, "anderer_voll"),
    "8": (VORSTEUER, "ermaessigt"),
    "9": (VORSTEUER, "voll"),
    "12": (EU_LIEFERUNG, "ermaessigt"),
    "13": (EU_LIEFERUNG, "voll"),
    "16": (EU_ERWERB, "anderer_ermaessigt"),
    "17": (EU_ERWERB, "anderer_voll"),
    "18": (EU_ERWERB, "ermaessigt"),
    "19": (EU_ERWERB, "voll"),
    "91": (LEISTUNGSEMPFAENGER, "ermaessigt"),
    "92": (OHNE_ABZUG, "ermaessigt"),
    "94": (LEISTUNGSEMPFAENGER, "voll"),
    "95": (OHNE_ABZUG, "voll"),
    "101": (UMSATZSTEUER, "voll"),
    "102": (UMSATZSTEUER, "ermaessigt"),
    "401": (VORSTEUER, "voll"),
    "402": (VORSTEUER, "ermaessigt"),
    "506": (LEISTUNGSEMPFAENGER, "voll"),
    "507": (LEISTUNGSEMPFAENGER, "ermaessigt"),
    "511": (LEISTUNGSEMPFAENGER, "voll"),
    "512": (LEISTUNGSEMPFAENGER, "ermaessigt"),
    "521": (LEISTUNGSEMPFAENGER, "voll"),
    "522": (LEISTUNGSEMPFAENGER, "ermaessigt"),
    "526": (LEISTUNGSEMPFAENGER, "voll"),
    "527": (LEISTUNGSEMPFAENGER, "ermaessigt"),
    "701": (EU_ERWERB, "voll"),
    "702": (EU_ERWERB, "ermaessigt"),
    "6501": (OHNE_ABZUG, "voll"),
    "6506": (OHNE_ABZUG, "voll"),
    "6507": (OHNE_ABZUG, "ermaessigt"),
    "6511": (OHNE_ABZUG, "voll"),
    "6512": (OHNE_ABZUG, "ermaessigt"),
    "6521": (OHNE_ABZUG, "voll"),
    "6522": (OHNE_ABZUG, "ermaessigt"),
    "6526": (OHNE_ABZUG, "voll"),
    "6527": (OHNE_ABZUG, "ermaessigt"),
}
# Among them 490: the tax of the document is deliberately not deducted.
_TAX_FREE = frozenset({"1", "11", "171", "231", "490"})
# Sales taxed in another country of the Union, at that country's rate.
ELSEWHERE = frozenset({"10", "240", "241", "250"})
# The first of two digits marks a Generalumkehr, and which keys it reverses.
_REVERSALS = {"2": "", "3": "9", "6": "1", "7": "5", "8": "4"}


def is_reversal(schluessel: str) -> bool:
    key = schluessel.lstrip("0")
    return len(key) == 2 and key[0] in _REVERSALS


def without_reversal(schluessel: str) -> str:
    """Returns the key that a booking reverses: 29 takes back 9, 69 takes back 19, 34 takes back 94, 20 a booking without a key."""
    key = schluessel.lstrip("0")
    if is_reversal(key):
        return (_REVERSALS[key[0]] + key[1]).lstrip("0")
    return key


def with_reversal(key: str) -> str:
    """Returns the key of two digits that takes this one back: 29 for 9, 80 for 40, 20 for none."""
    first = next(digit for digit, tens in _REVERSALS.items() if tens == key[:-1])
    return first + (key[-1:] or "0")


def tax_of_key(key: str, era: int, skr: str) -> Tax | None:
    """Returns the tax of a key (without reversal), if it is known and the chart has accounts for it."""
    if key in _TAX_FREE:
        return NO_TAX
    rates = rates_in(era)
    if key not in _KEYS or rates is None or (len(key) > 2 and era == _LOWERED):
        return None
    art, which = _KEYS[key]
    prozent: int | None = getattr(rates, which)
    if prozent is None or Tax(art, prozent) not in TAX_ACCOUNTS[skr]:
        return None
    return Tax(art, prozent)


def kind_of_key(key: str) -> str:
    """Returns the kind of tax that a key stands for; empty if none is known."""
    return _KEYS[key][0] if key in _KEYS else ""


def key_for(prozent: int, era: int, *, is_income: bool) -> str | None:
    """Returns the key of domestic tax at this rate: output tax of income, input tax of an expense."""
    art = UMSATZSTEUER if is_income else VORSTEUER
    rates = rates_in(era)
    for key in ("3", "2", "5", "4", "9", "8", "7", "6"):
        if rates is not None and _KEYS[key][0] == art and getattr(rates, _KEYS[key][1]) == prozent:
            return key
    return None


# --- Automatic accounts: ledger accounts whose bookings include tax without a key


class _Span(NamedTuple):
    first: str
    last: str
    art: str
    # The name of one of the rates in force, or a rate that never changes.
    rate: str | int


def _spans(
    erloese: str, waren: str, leistungen: str, frei: tuple[tuple[str, str], ...], skonti: tuple[str, str, int]
) -> list[_Span]:
    """Returns the spans of a chart. Charts are built alike; `erloese` and the others are the first digits of their numbers."""
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
    """Returns number → its tax in a span of equal rates; None if the chart has no account for the tax of that time."""
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
    """Returns numbers among which charts have automatic accounts that we do not know."""
    known = automatic_taxes(skr, era=1)
    return frozenset(number for span in _SUSPECT[skr] for number in _numbers(*span) if number not in known)


def _numbers(first: str, last: str) -> list[str]:
    return [f"{number:04}" for number in range(int(first), int(last) + 1)]
