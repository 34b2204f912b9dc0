"""Kontierung: from a booking as entered (gross, with a tax key) to its legs, the debits and credits of each account. Pure.

In two steps. `split` decides how a booking is divided, by today's knowledge of keys and accounts; the decision is a short text
that is stored with the booking. `legs` carries a decision out, to the cent, and does so the same way for ever.
SOLL is positive, HABEN negative; the legs of a booking always add up to zero.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, TypeAlias

from kontobahn.ledger.konto import SACHKONTO_DIGITS, Kontenrahmen, is_debitor, is_personenkonto
from kontobahn.ledger.steuer import (
    AUFHEBUNG_DER_AUTOMATIK,
    ELSEWHERE,
    EU_LIEFERUNG,
    NO_TAX,
    ON_TOP,
    STEUERFREI,
    TAX_ACCOUNTS,
    UMSATZSTEUER,
    VORSTEUER,
    Tax,
    automatic_taxes,
    is_reversal,
    rates_in,
    suspect_accounts,
    tax_of_key,
    with_reversal,
    without_reversal,
)
from kontobahn.sentences import said

# The split of a booking, as it is stored: PLAIN, GROSS, or a kind of tax, its rate and whose amount it is in (`U19g`: 19 %
# output tax in Gegenkonto). A discount has the kind S: `S19` is one of 19 %, in the person account.
PLAIN = "-"
# Choice 42: booked as written although it may include tax, with a warning.
GROSS = "!"
SKONTO = "S"
_KONTO, _GEGENKONTO = "k", "g"


# Account and amount; a plain tuple, because a million bookings have two or three each.
Leg: TypeAlias = tuple[str, int]


class Hint(NamedTuple):
    """Something to look at: the column, the finding and what was done about it, and both as a message of the contract."""

    field: str
    found: str
    done: str
    meldung: str


_BOOKED_GROSS = "The amount was booked gross, without tax."


class Split(NamedTuple):
    text: str
    hint: Hint | None = None

    @property
    def prozent(self) -> int:
        return parts_of(self.text).prozent


class Parts(NamedTuple):
    """A stored decision, parsed."""

    art: str
    prozent: int
    in_konto: bool


class KontierungError(ValueError):
    """A booking that cannot be booked at all."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}")
        self.field = field
        self.reason = reason


@lru_cache(maxsize=256)
def parts_of(text: str) -> Parts:
    if text in (PLAIN, GROSS):
        return Parts(text, 0, in_konto=False)
    return Parts(text[0], int(text[1:].rstrip("kg!")), in_konto=text.endswith(_KONTO))


def is_discount(text: str) -> bool:
    """Returns whether a discount was booked with it. One beside two person accounts, or none, is not."""
    return text.startswith(SKONTO)


# --- Deciding


def split(
    rahmen: Kontenrahmen, *, konto: str, gegenkonto: str, schluessel: str, era: int, skonto: int = 0, invoice: str = ""
) -> Split:
    """Returns how a booking is divided by today's rule. Account numbers are technical.

    `era` is the span of equal rates that its day lies in. `invoice` is the tax of the document that a discount belongs to,
    if it is known.
    """
    if konto == gegenkonto:
        raise KontierungError("Gegenkonto", "must be another account than Konto")
    if not skonto:
        return _without_discount(rahmen, konto, gegenkonto, schluessel, era)
    if is_personenkonto(konto) != is_personenkonto(gegenkonto):
        return _discount(rahmen, konto if is_personenkonto(konto) else gegenkonto, schluessel, era, invoice)
    found = _without_discount(rahmen, konto, gegenkonto, schluessel, era)
    hint = Hint(
        "Skonto",
        "A discount needs exactly one person account in the booking.",
        "The amount was booked without the discount.",
        "Das Skonto steht nicht bei genau einem Personenkonto; gebucht wurde ohne Skonto.",
    )
    return found._replace(hint=hint)


def _without_discount(rahmen: Kontenrahmen, konto: str, gegenkonto: str, schluessel: str, era: int) -> Split:
    key = without_reversal(schluessel)
    if key == AUFHEBUNG_DER_AUTOMATIK:
        return Split(PLAIN)
    own = [_automatic(rahmen, name, era) for name in (konto, gegenkonto)]
    if key:
        return _by_key(rahmen, konto, gegenkonto, schluessel, key, era, own)
    carrying = [number for number, tax in enumerate(own) if tax is not None]
    if not carrying:
        suspect = next((name for name in (konto, gegenkonto) if _may_be_automatic(rahmen, name, era)), None)
        return Split(PLAIN) if suspect is None else Split(GROSS, _unknown_automatic(suspect))
    taxed = [number for number in carrying if own[number] != NO_TAX]
    if len(taxed) > 1:
        return Split(GROSS, _two_automatic(konto, gegenkonto))
    return Split(_text(own[(taxed or carrying)[0]], in_konto=(taxed or carrying)[0] == 0))


def _by_key(
    rahmen: Kontenrahmen, konto: str, gegenkonto: str, schluessel: str, key: str, era: int, own: list[Tax | None]
) -> Split:
    tax = tax_of_key(key, era, rahmen.name)
    automatic = [found for found in own if found not in (None, NO_TAX)]
    if tax is None:
        return Split(GROSS, _unknown_key(schluessel, key))
    if automatic and automatic != [tax]:
        return Split(GROSS, _key_beside_automatic(schluessel))
    if automatic:
        return Split(_text(tax, in_konto=own[0] == tax), _key_repeats_account(schluessel))
    in_konto = _carries_no_tax(rahmen, gegenkonto) and not _carries_no_tax(rahmen, konto)
    carrier = konto if in_konto else gegenkonto
    if tax != NO_TAX and _carries_no_tax(rahmen, carrier):
        return Split(GROSS, _no_carrier(schluessel))
    if tax.art == EU_LIEFERUNG and carrier[0] in rahmen.aufwand:
        # Some programs write these keys for purchases, where they would mean something else.
        return Split(GROSS, _unknown_key(schluessel, key))
    return Split(_text(tax, in_konto=in_konto))


def _discount(rahmen: Kontenrahmen, person: str, schluessel: str, era: int, invoice: str) -> Split:
    """Returns the split by the rate of the invoice if it is known, else of the key, else by the full rate of the day."""
    key = without_reversal(schluessel)
    art = UMSATZSTEUER if is_debitor(person) else VORSTEUER
    by_key = tax_of_key(key, era, rahmen.name) if key else None
    if key == AUFHEBUNG_DER_AUTOMATIK or by_key == NO_TAX or invoice == STEUERFREI + "0":
        return Split(f"{SKONTO}0")
    if invoice[:1] == art:
        return Split(SKONTO + invoice[1:])
    if invoice and invoice[0] in (*ON_TOP, EU_LIEFERUNG):
        return Split(f"{SKONTO}0!", _discount_of_special_invoice())
    if by_key is not None and by_key.art in (UMSATZSTEUER, VORSTEUER):
        return Split(f"{SKONTO}{by_key.prozent}")
    rates = rates_in(era)
    if rates is None:
        return Split(f"{SKONTO}0!", _discount_of_special_invoice())
    return Split(f"{SKONTO}{rates.voll}!", _assumed_discount(rates.voll))


def _text(tax: Tax | None, *, in_konto: bool) -> str:
    assert tax is not None
    return f"{tax.art}{tax.prozent}{_KONTO if in_konto else _GEGENKONTO}"


def _automatic(rahmen: Kontenrahmen, konto: str, era: int) -> Tax | None:
    return automatic_taxes(rahmen.name, era).get(konto[:4]) if _is_of_the_chart(konto) else None


def _may_be_automatic(rahmen: Kontenrahmen, konto: str, era: int) -> bool:
    if is_personenkonto(konto):
        return False
    number = konto[:4]
    if number in suspect_accounts(rahmen.name):
        return True
    known = automatic_taxes(rahmen.name, era)
    # An account of the client's own beside an automatic one, or one whose tax of that time is not known.
    return number in known and (known[number] is None or (known[number] != NO_TAX and not _is_of_the_chart(konto)))


def _is_of_the_chart(konto: str) -> bool:
    return len(konto) == SACHKONTO_DIGITS and konto.endswith("0000")


def _carries_no_tax(rahmen: Kontenrahmen, konto: str) -> bool:
    return is_personenkonto(konto) or rahmen.geld[0] <= konto[:4] <= rahmen.geld[1]


def key_beside_automatic(
    rahmen: Kontenrahmen, konto: str, gegenkonto: str, schluessel: str, era: int, text: str
) -> str:
    """Returns the key that DATEV takes for a booking with this split: beside an account that carries tax by itself, none but 40."""
    key = without_reversal(schluessel)
    taxed = [
        tax for tax in (_automatic(rahmen, name, era) for name in (konto, gegenkonto)) if tax not in (None, NO_TAX)
    ]
    if not taxed or is_discount(text):
        return schluessel
    if text in (PLAIN, GROSS):
        key = AUFHEBUNG_DER_AUTOMATIK
    elif parts_of(text)[:2] in taxed:
        key = ""
    # The way in which a Generalumkehr was marked stays.
    return with_reversal(key) if is_reversal(schluessel) else key


# --- Warnings


def _unknown_key(schluessel: str, key: str) -> Hint:
    found = said("The key {key} is not known.", key=schluessel)
    if key in ELSEWHERE:
        found = said(
            "The key {key} is tax of another country of the Union, at a rate that the key does not say.", key=schluessel
        )
    return Hint(
        "BU-Schlüssel",
        found,
        _BOOKED_GROSS,
        f"Der BU-Schlüssel {schluessel} ist nicht bekannt; gebucht wurde brutto, ohne Steuer.",
    )


def _key_beside_automatic(schluessel: str) -> Hint:
    return Hint(
        "BU-Schlüssel",
        said("The key {key} contradicts an account that carries tax by itself.", key=schluessel),
        _BOOKED_GROSS,
        f"Der BU-Schlüssel {schluessel} widerspricht dem Automatikkonto; gebucht wurde brutto, ohne Steuer.",
    )


def _key_repeats_account(schluessel: str) -> Hint:
    return Hint(
        "BU-Schlüssel",
        said("The key {key} repeats what the account does by itself.", key=schluessel),
        "The tax was booked once.",
        f"Der BU-Schlüssel {schluessel} steht bei einem Automatikkonto mit derselben Steuer; sie wurde einmal gebucht.",
    )


def _no_carrier(schluessel: str) -> Hint:
    return Hint(
        "BU-Schlüssel",
        said("The key {key} is used with no account that could carry tax.", key=schluessel),
        _BOOKED_GROSS,
        f"Der BU-Schlüssel {schluessel} steht bei keinem Konto, das Steuer tragen kann; gebucht wurde brutto.",
    )


def _two_automatic(konto: str, gegenkonto: str) -> Hint:
    numbers = konto[:4], gegenkonto[:4]
    return Hint(
        "Gegenkonto",
        said("{first} and {second} both carry tax by themselves.", first=numbers[0], second=numbers[1]),
        _BOOKED_GROSS,
        f"Die Konten {numbers[0]} und {numbers[1]} sind beide Automatikkonten; gebucht wurde brutto, ohne Steuer.",
    )


def _unknown_automatic(konto: str) -> Hint:
    number = konto[:4] + konto[4:].rstrip("0")
    return Hint(
        "Konto",
        said("{number} may carry tax by itself; which one is not known.", number=number),
        _BOOKED_GROSS,
        f"Das Konto {number} trägt vielleicht selbst Steuer; gebucht wurde brutto, ohne Steuer.",
    )


def _assumed_discount(prozent: int) -> Hint:
    return Hint(
        "Skonto",
        "Neither an invoice with this document number nor a key says the rate of the discount.",
        said("It was split at {percent} % until the invoice is booked.", percent=prozent),
        f"Das Skonto wurde mit {prozent} % aufgeteilt, bis die Rechnung gebucht ist; auch kein Schlüssel nennt den Satz.",
    )


def _discount_of_special_invoice() -> Hint:
    return Hint(
        "Skonto",
        "How the discount changes the tax of its invoice is not known.",
        "It was booked without tax.",
        "Das Skonto wurde ohne Steuer gebucht; wie es die Steuer der Rechnung mindert, ist nicht bekannt.",
    )


# --- Carrying it out


def legs(
    rahmen: Kontenrahmen, text: str, *, konto: str, gegenkonto: str, soll: bool, betrag: int, skonto: int = 0
) -> list[Leg]:
    """Returns the legs of a booking of `betrag` cents with this split. `soll` is the side of `konto`."""
    amount = betrag if soll else -betrag
    if text in (PLAIN, GROSS) or text[0] == STEUERFREI:
        return [(konto, amount), (gegenkonto, -amount)]
    if text[0] == SKONTO:
        return _discount_legs(rahmen, parts_of(text).prozent, konto, gegenkonto, amount, skonto)
    plan = _plan(rahmen.name, text)
    taxed = amount if plan.in_konto else -amount
    if plan.counter:
        tax = tax_on(taxed, plan.prozent)
        carrier = konto if plan.in_konto else gegenkonto
        both = [(plan.konto or carrier, tax), (plan.counter, -tax)] if tax else []
        return [(konto, amount), (gegenkonto, -amount), *both]
    tax = tax_in(taxed, plan.prozent)
    if not tax:
        return [(konto, amount), (gegenkonto, -amount)]
    if plan.in_konto:
        return [(konto, amount - tax), (gegenkonto, -amount), (plan.konto, tax)]
    return [(konto, amount), (gegenkonto, -amount - tax), (plan.konto, tax)]


def contra_accounts(rahmen: Kontenrahmen, text: str, *, konto: str, gegenkonto: str) -> tuple[str, ...]:
    """Returns the account on the other side of each leg, in the order of `legs`."""
    if text in (PLAIN, GROSS) or text[0] == STEUERFREI:
        return gegenkonto, konto
    if text[0] == SKONTO:
        person = konto if is_personenkonto(konto) else gegenkonto
        return gegenkonto, konto, person, person
    plan = _plan(rahmen.name, text)
    if plan.counter:
        return gegenkonto, konto, plan.counter, plan.konto or (konto if plan.in_konto else gegenkonto)
    return gegenkonto, konto, gegenkonto if plan.in_konto else konto


def splits_onto(rahmen: Kontenrahmen, konto: str) -> tuple[str, ...]:
    """Returns the splits with a leg on this account besides the two that a booking names."""
    found = []
    for tax, accounts in TAX_ACCOUNTS[rahmen.name].items():
        if konto in map(full, filter(None, accounts)):
            found += [_text(tax, in_konto=True), _text(tax, in_konto=False)]
    for given, discounts in ((True, rahmen.gewaehrte_skonti), (False, rahmen.erhaltene_skonti)):
        for prozent, account in discounts.items():
            tax_account = discount_tax_account(rahmen, prozent, is_debitor=given) if prozent else account
            if konto in (full(account), full(tax_account)):
                found += [f"{SKONTO}{prozent}", f"{SKONTO}{prozent}!"]
    return tuple(dict.fromkeys(found))


class _Plan(NamedTuple):
    """A split with the accounts of its tax.

    `counter` is the account of the output tax that an input tax comes with; without `konto` that tax is cost of the account itself.
    """

    prozent: int
    in_konto: bool
    konto: str
    counter: str


@lru_cache(maxsize=256)
def _plan(skr: str, text: str) -> _Plan:
    parts = parts_of(text)
    accounts = TAX_ACCOUNTS[skr][Tax(parts.art, parts.prozent)]
    if parts.art in ON_TOP:
        given = full(accounts.vorsteuer) if accounts.vorsteuer else ""
        return _Plan(parts.prozent, parts.in_konto, given, full(accounts.umsatzsteuer))
    return _Plan(parts.prozent, parts.in_konto, full(accounts.umsatzsteuer or accounts.vorsteuer), "")


def _discount_legs(
    rahmen: Kontenrahmen, prozent: int, konto: str, gegenkonto: str, amount: int, skonto: int
) -> list[Leg]:
    """Returns the legs of a payment less discount, which clears the whole document: discount and tax go against the person account."""
    person = konto if is_personenkonto(konto) else gegenkonto
    sides = {konto: amount, gegenkonto: -amount}
    gross = -skonto if sides[person] > 0 else skonto
    sides[person] -= gross
    tax = tax_in(gross, prozent)
    debitor = is_debitor(person)
    accounts = rahmen.gewaehrte_skonti if debitor else rahmen.erhaltene_skonti
    found = [*((name, value) for name, value in sides.items()), (full(accounts[prozent]), gross - tax)]
    if tax:
        found.append((full(discount_tax_account(rahmen, prozent, is_debitor=debitor)), tax))
    return found


def discount_tax_account(rahmen: Kontenrahmen, prozent: int, *, is_debitor: bool) -> str:
    accounts = TAX_ACCOUNTS[rahmen.name][Tax(UMSATZSTEUER if is_debitor else VORSTEUER, prozent)]
    return accounts.umsatzsteuer or accounts.vorsteuer


def tax_in(gross: int, prozent: int) -> int:
    """Returns the tax in a gross amount: net is rounded half away from zero, tax is the rest."""
    # net = gross / (1 + p/100), in whole cents
    divisor = 100 + prozent
    net = (2 * abs(gross) * 100 + divisor) // (2 * divisor)
    return gross - (net if gross >= 0 else -net)


def tax_on(net: int, prozent: int) -> int:
    """Returns the tax on a net amount, rounded half away from zero."""
    tax = (abs(net) * prozent + 50) // 100
    return tax if net >= 0 else -tax


def full(nummer: str) -> str:
    """Returns the technical number for a four-digit number of our charts."""
    return nummer.ljust(SACHKONTO_DIGITS, "0")
