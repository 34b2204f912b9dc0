"""Tax keys (BU-Schlüssel): what each says, at which rate on which day, and where its tax is booked. Pure.

Only keys on whose meaning two independent descriptions agree. Any other is not a mistake of the sender: it is booked gross.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

# Kinds of tax. The letters are stored with bookings (`kontierung.Split`): a letter never changes its meaning.
UMSATZSTEUER = "U"
VORSTEUER = "V"
# Supplies to the Union that are taxed here, because the buyer has no VAT id: output tax on an account of its own.
EU_LIEFERUNG = "I"
# Purchases whose tax the buyer owes: output and input tax at once, on top of the amount; together they are zero.
EU_ERWERB = "E"
LEISTUNGSEMPFAENGER = "R"
# The same for a buyer who may not deduct it: output tax, and as much more cost on the account that carries it.
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
    """Where a tax is booked, by four-digit numbers; empty if it has no such side."""

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


# From this day on. A key keeps its meaning (“the full rate”) while the rate changes.
_RATES: tuple[tuple[str, Rates | None], ...] = (
    ("", None),
    ("2007-01-01", Rates(19, 7, 16, None)),
    ("2020-07-01", Rates(16, 5, 19, 7)),
    ("2021-01-01", Rates(19, 7, 16, 5)),
)
_LOWERED = 2


@lru_cache(maxsize=4096)
def era_of(tag: str) -> int:
    """The number of the span of equal rates that a day lies in."""
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
# The first of two digits says that the booking is a Generalumkehr, and of which keys.
_REVERSALS = {"2": "", "3": "9", "6": "1", "7": "5", "8": "4"}


def is_reversal(schluessel: str) -> bool:
    key = schluessel.lstrip("0")
    return len(key) == 2 and key[0] in _REVERSALS


def without_reversal(schluessel: str) -> str:
    """The key that a booking reverses: 29 takes back 9, 69 takes back 19, 34 takes back 94, 20 a booking without a key."""
    key = schluessel.lstrip("0")
    if is_reversal(key):
        return (_REVERSALS[key[0]] + key[1]).lstrip("0")
    return key


def tax_of_key(key: str, era: int, skr: str) -> Tax | None:
    """What a key (without reversal) says, if that is known and the chart has accounts for it."""
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


def key_for(prozent: int, era: int, *, is_income: bool) -> str | None:
    """The key of domestic tax at this rate: output tax of income, input tax of an expense."""
    art = UMSATZSTEUER if is_income else VORSTEUER
    rates = rates_in(era)
    for key in ("3", "2", "5", "4", "9", "8", "7", "6"):
        if rates is not None and _KEYS[key][0] == art and getattr(rates, _KEYS[key][1]) == prozent:
            return key
    return None
