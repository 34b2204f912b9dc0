"""From a booking as entered (gross, with a tax key) to its legs: what each account is debited and credited. Pure.

SOLL is positive, HABEN negative; the legs of a booking always add up to zero.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kontobahn.ledger.kontenrahmen import KONTENRAHMEN, Kontenrahmen, Steuer
from kontobahn.ledger.konto import SACHKONTO_DIGITS, is_debitor, is_personenkonto

AUFHEBUNG_DER_AUTOMATIK = "40"
DEFAULT_SKONTO_PROZENT = 19
_REDUCED_RATES = ("2020-07-01", "2020-12-31")


class Leg(NamedTuple):
    konto: str
    betrag: int


class KontierungError(ValueError):
    """A booking that cannot be split without guessing."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


def legs(
    rahmen: Kontenrahmen,
    *,
    konto: str,
    gegenkonto: str,
    soll: bool,
    betrag: int,
    bu_schluessel: str,
    skonto: int = 0,
    belegdatum: str = "",
) -> list[Leg]:
    """Returns the legs of a booking of `betrag` cents. `soll` is the side of `konto`; account numbers are technical."""
    if konto == gegenkonto:
        raise KontierungError("Gegenkonto", "must be another account than Konto")
    sign = 1 if soll else -1
    automatik = _automatik(rahmen.name)
    if not bu_schluessel and not skonto and konto not in automatik and gegenkonto not in automatik:
        return [Leg(konto, sign * betrag), Leg(gegenkonto, -sign * betrag)]
    steuer, konto_is_taxed = _steuer(rahmen, konto, gegenkonto, bu_schluessel)
    sides = {konto: sign * betrag, gegenkonto: -sign * betrag}
    result: list[Leg] = []
    if skonto:
        prozent = steuer.prozent if steuer is not None else 0 if bu_schluessel else DEFAULT_SKONTO_PROZENT
        _refuse_other_rates(belegdatum, prozent)
        person, skonto_legs = _skonto(rahmen, konto, gegenkonto, sides, skonto, prozent)
        sides[person] += skonto if sides[person] > 0 else -skonto
        result += skonto_legs
        steuer = None
    if steuer is not None:
        taxed = konto if konto_is_taxed else gegenkonto
        if _takes_no_tax(rahmen, taxed):
            raise KontierungError("BU-Schlüssel", f"{bu_schluessel} is used with no account that could carry tax")
        _refuse_other_rates(belegdatum, steuer.prozent)
        tax = tax_of(sides[taxed], steuer.prozent)
        sides[taxed] -= tax
        if tax:
            result.append(Leg(full(steuer.konto), tax))
    return [*(Leg(name, amount) for name, amount in sides.items()), *result]


def booked_prozent(rahmen: Kontenrahmen, *, konto: str, gegenkonto: str, bu_schluessel: str) -> int:
    """Returns the rate by which a booking is split; 0 if it carries no tax."""
    steuer, _ = _steuer(rahmen, konto, gegenkonto, bu_schluessel)
    return steuer.prozent if steuer else 0


def _refuse_other_rates(belegdatum: str, prozent: int) -> None:
    """Raises KontierungError for the half-year in which other rates applied, on other accounts."""
    if prozent and _REDUCED_RATES[0] <= belegdatum <= _REDUCED_RATES[1]:
        raise KontierungError(
            "Belegdatum", f"{belegdatum} lies in the months of reduced tax rates, which are not known here"
        )


def tax_of(gross: int, prozent: int) -> int:
    """Returns the tax in a gross amount: net is rounded half away from zero, tax is the rest."""
    # net = gross / (1 + p/100), in whole cents
    divisor = 100 + prozent
    net = (2 * abs(gross) * 100 + divisor) // (2 * divisor)
    return gross - (net if gross >= 0 else -net)


def full(nummer: str) -> str:
    """Returns the technical number for a four-digit number of our charts."""
    return nummer.ljust(SACHKONTO_DIGITS, "0")


@cache
def _automatik(name: str) -> dict[str, Steuer]:
    return {full(nummer): steuer for nummer, steuer in KONTENRAHMEN[name].automatik.items()}


def automatic_tax(rahmen: Kontenrahmen, konto: str) -> Steuer | None:
    return _automatik(rahmen.name).get(konto)


def _steuer(rahmen: Kontenrahmen, konto: str, gegenkonto: str, schluessel: str) -> tuple[Steuer | None, bool]:
    """Returns the tax of a booking, and whether it is in `konto` (otherwise in `gegenkonto`)."""
    automatic = automatic_tax(rahmen, gegenkonto)
    konto_automatic = automatic_tax(rahmen, konto)
    if automatic is not None and konto_automatic is not None and schluessel != AUFHEBUNG_DER_AUTOMATIK:
        raise KontierungError("Gegenkonto", "and Konto both carry tax automatically; the booking needs tax key 40")
    if schluessel == AUFHEBUNG_DER_AUTOMATIK:
        return None, False
    key = schluessel
    if len(schluessel) == 2 and schluessel[0] == "2":
        key = schluessel[1]  # the first digit says that the booking reverses another one
        if key == "0":
            key = ""
    if not key:
        return (konto_automatic, True) if konto_automatic is not None else (automatic, False)
    if key not in rahmen.schluessel:
        raise KontierungError("BU-Schlüssel", f"{schluessel} is not known; it cannot be split into net and tax")
    if automatic is not None or konto_automatic is not None:
        raise KontierungError(
            "BU-Schlüssel", f"{schluessel} cannot be used with an account that carries tax automatically"
        )
    return rahmen.schluessel[key], _key_is_for_konto(rahmen, konto, gegenkonto)


def _key_is_for_konto(rahmen: Kontenrahmen, konto: str, gegenkonto: str) -> bool:
    """A tax key belongs to the account that is neither a person nor money; to `gegenkonto` if both qualify."""
    return not _takes_no_tax(rahmen, konto) and _takes_no_tax(rahmen, gegenkonto)


def _takes_no_tax(rahmen: Kontenrahmen, konto: str) -> bool:
    return is_personenkonto(konto) or rahmen.geld[0] <= konto[:4] <= rahmen.geld[1]


def _skonto(
    rahmen: Kontenrahmen, konto: str, gegenkonto: str, sides: dict[str, int], skonto: int, prozent: int
) -> tuple[str, list[Leg]]:
    """A payment less discount clears the whole document: the discount and its tax go against the person account."""
    persons = [name for name in (konto, gegenkonto) if is_personenkonto(name)]
    if len(persons) != 1:
        raise KontierungError("Skonto", "needs exactly one person account in the booking")
    person = persons[0]
    debitor = is_debitor(person)
    accounts = rahmen.gewaehrte_skonti if debitor else rahmen.erhaltene_skonti
    rates = [
        item for item in rahmen.schluessel.values() if item and item.prozent == prozent and item.is_vorsteuer != debitor
    ]
    gross = -skonto if sides[person] > 0 else skonto
    tax = tax_of(gross, prozent)
    return person, [Leg(full(accounts[prozent]), gross - tax), *([Leg(full(rates[0].konto), tax)] if tax else [])]
