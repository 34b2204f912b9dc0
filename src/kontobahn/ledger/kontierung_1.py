"""The first rule of splitting, frozen: bookings from before splits were stored were made by it, and are still read by it."""

from __future__ import annotations

from functools import lru_cache

from kontobahn.ledger.kontenrahmen import Kontenrahmen
from kontobahn.ledger.kontierung import PLAIN, SKONTO
from kontobahn.ledger.konto import is_personenkonto
from kontobahn.ledger.steuerschluessel import AUFHEBUNG_DER_AUTOMATIK, UMSATZSTEUER, VORSTEUER

_KEYS = {
    "2": f"{UMSATZSTEUER}7",
    "3": f"{UMSATZSTEUER}19",
    "8": f"{VORSTEUER}7",
    "9": f"{VORSTEUER}19",
}
_AUTOMATIC = {
    "SKR03": {"840": _KEYS["3"], "830": _KEYS["2"], "340": _KEYS["9"], "330": _KEYS["8"]},
    "SKR04": {"440": _KEYS["3"], "430": _KEYS["2"], "540": _KEYS["9"], "530": _KEYS["8"]},
}


@lru_cache(maxsize=65_536)
def first_split(rahmen_name: str, geld: tuple[str, str], konto: str, gegenkonto: str, schluessel: str) -> str:
    """How a booking without a discount was divided."""
    own, other = (_automatic(rahmen_name, name) for name in (konto, gegenkonto))
    key = schluessel
    if len(schluessel) == 2 and schluessel[0] == "2":
        key = schluessel[1].strip("0")
    if key == AUFHEBUNG_DER_AUTOMATIK:
        return PLAIN
    if not key:
        return f"{own}k" if own else f"{other}g" if other else PLAIN
    if key not in _KEYS:
        return PLAIN
    in_konto = not _carries_no_tax(geld, konto) and _carries_no_tax(geld, gegenkonto)
    return _KEYS[key] + ("k" if in_konto else "g")


def split_by_first_rule(rahmen: Kontenrahmen, konto: str, gegenkonto: str, schluessel: str, skonto: int) -> str:
    found = first_split(rahmen.name, rahmen.geld, konto, gegenkonto, schluessel)
    if not skonto:
        return found
    if found != PLAIN:
        return SKONTO + found[1:-1]
    return f"{SKONTO}0" if schluessel else f"{SKONTO}19"


def _automatic(rahmen_name: str, konto: str) -> str:
    if is_personenkonto(konto) or not konto.endswith("0000"):
        return ""
    return _AUTOMATIC[rahmen_name].get(konto[:3], "")


def _carries_no_tax(geld: tuple[str, str], konto: str) -> bool:
    return is_personenkonto(konto) or geld[0] <= konto[:4] <= geld[1]
