"""The banks that Enable Banking reaches: asked for rarely, kept, and named by codes made from their name and country."""

from __future__ import annotations

import asyncio
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

from kontobahn.banking.provider import Holder, ListedBank, ProviderDown, Template
from kontobahn.banking.providers.enable_banking import wire
from kontobahn.banking.providers.enable_banking.calls import asked
from kontobahn.banking.providers.enable_banking.client import Client
from kontobahn.banking.providers.enable_banking.wire import Bank, PaymentKind
from kontobahn.clock import DAY, HOUR, MINUTE, SECOND, Clock

KEEP = 6 * HOUR
# After a failure the old list serves for this long before it is asked for again.
TRY_AGAIN = 5 * MINUTE
PREFIX = "enable_banking_"
PAYMENT_TYPES: dict[Template, str] = {"SEPA": "SEPA", "SEPA_INSTANT": "INST_SEPA"}
_DASHES = re.compile(r"[^a-z0-9]+")


class Offer(NamedTuple):
    banks: dict[str, Bank]
    # Whether the application may make payments.
    can_pay: bool


def code_of(name: str, country: str) -> str:
    """A bank's code: readable, and the same for as long as Enable Banking calls the bank so."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    digest = hashlib.sha256(f"{country}/{name}".encode()).hexdigest()[:6]
    return f"{PREFIX}{country.lower()}_{_DASHES.sub('_', plain).strip('_')[:60]}_{digest}"


def kind_of(bank: Bank, template: Template, psu_type: str) -> PaymentKind | None:
    """What the bank takes of a kind of payment, for this kind of holder."""
    wanted = PAYMENT_TYPES[template]
    found = [kind for kind in bank.payments or () if kind.payment_type == wanted and kind.psu_type == psu_type]
    return found[0] if found else None


def templates(bank: Bank, psu_types: Iterable[str]) -> tuple[Template, ...]:
    return tuple(name for name in PAYMENT_TYPES if any(kind_of(bank, name, psu_type) for psu_type in psu_types))


def psu_type_for(bank: Bank, holder: Holder) -> str:
    """The kind of holder, or the only kind that the bank has."""
    return holder if not bank.psu_types or holder in bank.psu_types else bank.psu_types[0]


class BankList:
    def __init__(self, client: Client, clock: Clock, countries: tuple[str, ...]) -> None:
        self._client, self._clock, self._countries = client, clock, countries
        self._offer: Offer | None = None
        self._until = 0
        self._asking = asyncio.Lock()

    async def offer(self) -> Offer:
        """Raises ProviderDown if there has never been an answer."""
        if self._offer is not None and self._clock.monotonic() < self._until:
            return self._offer
        async with self._asking:
            if self._offer is None or self._clock.monotonic() >= self._until:
                await self._renew()
        assert self._offer is not None
        return self._offer

    async def _renew(self) -> None:

        try:
            application = await asked(self._client.get("/application", wire.Application))
            lists = [
                await asked(self._client.get("/aspsps", wire.Banks, service="AIS", country=country))
                for country in self._countries or (None,)
            ]
        except ProviderDown:
            if self._offer is None:
                raise
            self._until = self._clock.monotonic() + TRY_AGAIN
            return
        banks = {code_of(bank.name, bank.country): bank for found in lists for bank in found.aspsps}
        self._offer = Offer(banks, "PIS" in application.services)
        self._until = self._clock.monotonic() + KEEP

    async def listed(self) -> list[ListedBank]:
        offer = await self.offer()
        return [_listed(code, bank, can_pay=offer.can_pay) for code, bank in offer.banks.items()]


def _listed(code: str, bank: Bank, *, can_pay: bool) -> ListedBank:
    validity = bank.maximum_consent_validity
    return ListedBank(
        code=code,
        name=bank.name,
        country_code=bank.country,
        api="partner",
        bics=(bank.bic,) if bank.bic else (),
        logo_url=bank.logo,
        templates=templates(bank, bank.psu_types) if can_pay else (),
        consent_days=None if validity is None else validity * SECOND // DAY,
    )
