"""The banks of the sandbox: their names, what they offer, how they write purpose texts, and their logos. Constants only."""

from __future__ import annotations

from html import escape
from typing import Literal, NamedTuple

from kontobahn.banking.provider import Api, Template
from kontobahn.clock import DAY, MINUTE, SECOND

# How a bank writes the purpose text: `EREF+…SVWZ+…` in one piece, text first and then `EREF: …`, or the first one wrapped into
# lines of 27 characters.
TextStyle = Literal["plus", "colon", "wrapped"]
Kind = Literal["bank", "card", "wallet", "broker"]


class Bank(NamedTuple):
    code: str
    name: str
    api: Api
    country_code: str
    # The part of an IBAN that identifies the bank; empty if its accounts have no IBAN.
    bank_number: str
    bic: str
    templates: tuple[Template, ...]
    kind: Kind
    style: TextStyle
    # Background of the logo, dark enough for white letters.
    tint: str
    # How long after a refresh the next one is possible.
    refresh_after: int = MINUTE
    consent_life: int = 180 * DAY

    @property
    def logo_path(self) -> str:
        return f"/sandbox/logos/{self.code}.svg"


_BOTH: tuple[Template, ...] = ("SEPA", "SEPA_INSTANT")
BANKS = {
    bank.code: bank
    for bank in (
        Bank("musterbank", "Musterbank", "partner", "DE", "99910010", "MUSBDEZZXXX", _BOTH, "bank", "plus", "#0b5a54"),
        Bank("sparkasse_beispielstadt", "Sparkasse Beispielstadt", "partner", "DE", "99950020", "SPBEDEZZXXX",
             _BOTH, "bank", "wrapped", "#9b1c1c"),
        Bank("volksbank_muster", "Volksbank Muster", "partner", "DE", "99960030", "VOMUDEZZXXX", ("SEPA",), "bank", "colon",
             "#1d4f91"),
        Bank("direktbank", "Direktbank Nordlicht", "partner", "DE", "99930040", "DINODEZZXXX", (), "bank", "plus", "#7a4300",
             15 * MINUTE),
        Bank("alpenbank", "Alpenbank Beispiel", "partner", "AT", "99050", "ALBEATZZXXX", ("SEPA",), "bank", "plus", "#3d5a1e"),
        Bank("kartenhaus", "Kartenhaus Kreditkarten", "openbanking", "DE", "", "", (), "card", "plus", "#4a2f7a"),
        Bank("taschengeld", "Taschengeld Wallet", "openbanking", "DE", "", "", (), "wallet", "plus", "#0a5c87"),
        Bank("depotwerk", "Depotwerk Broker", "openbanking", "DE", "", "", (), "broker", "plus", "#54433a"),
    )
}  # fmt: skip
# How long a slow bank takes to answer.
SLOW = 20 * SECOND


def offered(api: Api) -> list[Bank]:
    return [bank for bank in BANKS.values() if bank.api == api]


def iban(bank: Bank, account_number: int) -> str | None:
    """Returns an IBAN with valid check digits, of a bank that does not exist."""
    if not bank.bank_number:
        return None
    body = f"{bank.bank_number}{account_number:0{18 - len(bank.bank_number) if bank.country_code == 'DE' else 11}d}"
    letters = "".join(str(ord(letter) - 55) for letter in bank.country_code)
    check = 98 - int(f"{body}{letters}00") % 97
    return f"{bank.country_code}{check:02d}{body}"


def logo(bank: Bank) -> str:
    words = bank.name.split()
    initials = escape("".join(word[0] for word in words[:2]).upper())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64" role="img" aria-label="{escape(bank.name)}">'
        f'<rect width="64" height="64" rx="14" fill="{bank.tint}"/>'
        '<text x="32" y="33" fill="#fff" font-family="system-ui, sans-serif" font-size="26" font-weight="700"'
        f' text-anchor="middle" dominant-baseline="central">{initials}</text></svg>\n'
    )
