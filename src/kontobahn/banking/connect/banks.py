"""The banks that can be connected, of all providers together: listed, searched, and which provider one belongs to."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from kontobahn import log
from kontobahn.api.answers import Data
from kontobahn.api.call import Call, page
from kontobahn.api.declare import get
from kontobahn.api.wire import Answer, Query, form
from kontobahn.banking.provider import Api, Banking, ListedBank, ProviderDown, ProviderRefused
from kontobahn.errors import BadRequest, Unavailable

Ability = Literal["accounts", "payments", "instant_payments"]
DEFAULT_ROWS, MAX_ROWS = 100, 1000
# Two letters that people write for one in names of banks.
_LETTERS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})


class BanksQuery(Query):
    name: (
        Annotated[str, Meta(min_length=1, max_length=100, description="Words that the name contains, in any order.")]
        | None
    ) = None
    bic: (
        Annotated[
            str,
            form("a BIC", r"^[A-Za-z]{4}[A-Za-z]{2}[A-Za-z0-9]{2}([A-Za-z0-9]{3})?$", description="8 or 11 letters."),
        ]
        | None
    ) = None
    blz: (
        Annotated[str, form("a national bank code of digits", r"^[0-9]{3,12}$", description="Bankleitzahl.")] | None
    ) = None
    country: (
        Annotated[
            str,
            form(
                "a country code of two capital letters",
                r"^[A-Z]{2}$",
                description="ISO 3166-1 alpha-2.",
                examples=["DE"],
            ),
        ]
        | None
    ) = None
    supports: Annotated[Ability, Meta(description="Only banks that can do this.")] | None = None
    api: Annotated[Api, Meta(description="`partner`: regulated banks; `openbanking`: the others.")] | None = None
    from_code: (
        Annotated[
            str, Meta(min_length=1, max_length=100, description="Only what follows this bank: the last code seen.")
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=MAX_ROWS)] = DEFAULT_ROWS


class Bank(Answer):
    code: Annotated[str, Meta(description="For `provider_code` of a connect flow.", examples=["musterbank"])]
    name: str
    country_code: str
    provider: Annotated[str, Meta(description="What reaches the bank.", examples=["sandbox"])]
    api: Api
    bics: list[str]
    bank_codes: list[str]
    logo_url: str
    supports: list[Ability]
    consent_days: int | None


class Found(NamedTuple):
    provider: str
    bank: ListedBank


class Offer(NamedTuple):
    """The banks that all providers list now."""

    found: list[Found]
    # A provider did not say what it has, so a bank that is not among these may exist all the same.
    is_partial: bool

    def one(self, code: str) -> Found | None:
        """Returns the bank with this code. Raises Unavailable if it is unknown only because a provider did not answer."""
        match = next((found for found in self.found if found.bank.code == code), None)
        if match is None and self.is_partial:
            raise ProviderDown("A provider of bank connections does not say at the moment which banks it has.")
        return match


# The list is what a form offers to choose from, so it costs nothing.
@get("/v2/banking/providers", scope="banking:read", pages_by="from_code", errors=(503,))
async def list_banks(call: Call, query: BanksQuery) -> Data[list[Bank]]:
    """List the banks that can be connected, by name.

    The `code` of one is the `provider_code` of a connect flow. Without a filter these are all banks of all providers that are set
    up; `from_code` continues a long list. A provider that does not answer is left out.
    """
    offer = await offered(call.context.part(Banking))
    if offer.is_partial and not offer.found:
        raise ProviderDown("No provider of bank connections says at the moment which banks it has.")
    found = page(call, select(offer.found, query), query.limit, lambda item: item.bank.code)
    return Data([_bank(item) for item in found])


async def offered(banking: Banking) -> Offer:
    listed: list[Found] = []
    is_partial = False
    for name in banking.connect_providers:
        try:
            listed += [Found(name, bank) for bank in await banking.provider(name).banks()]
        except (Unavailable, ProviderRefused) as error:
            is_partial = True
            log.warning("banks_not_listed", provider=name, detail=str(error))
    return Offer(sorted(listed, key=lambda found: (_folded(found.bank.name), found.bank.code)), is_partial)


def select(listed: list[Found], query: BanksQuery) -> list[Found]:
    """Returns what a query asks for, of banks in the order of their names, and one more if there are more."""
    if query.from_code is not None:
        codes = [found.bank.code for found in listed]
        if query.from_code not in codes:
            raise BadRequest("The field `from_code` is not the code of a bank.", field="from_code")
        listed = listed[codes.index(query.from_code) + 1 :]
    return [found for found in listed if _matches(found.bank, query)][: query.limit + 1]


def _matches(bank: ListedBank, query: BanksQuery) -> bool:
    if query.name is not None:
        name = _folded(bank.name)
        if not all(word in name for word in _folded(query.name).split()):
            return False
    # The last three letters of a BIC name a branch, and may be left out for the head office.
    if query.bic is not None and not any(bic[:8].upper() == query.bic[:8].upper() for bic in bank.bics):
        return False
    if query.blz is not None and query.blz not in bank.bank_codes:
        return False
    if query.country is not None and query.country != bank.country_code:
        return False
    if query.api is not None and query.api != bank.api:
        return False
    return query.supports is None or query.supports in abilities(bank)


def abilities(bank: ListedBank) -> list[Ability]:
    found: list[Ability] = ["accounts"]
    if "SEPA" in bank.templates:
        found.append("payments")
    if "SEPA_INSTANT" in bank.templates:
        found.append("instant_payments")
    return found


def _folded(text: str) -> str:
    return text.casefold().translate(_LETTERS)


def _bank(found: Found) -> Bank:
    bank = found.bank
    return Bank(
        code=bank.code,
        name=bank.name,
        country_code=bank.country_code,
        provider=found.provider,
        api=bank.api,
        bics=list(bank.bics),
        bank_codes=list(bank.bank_codes),
        logo_url=bank.logo_url,
        supports=abilities(bank),
        consent_days=bank.consent_days,
    )
