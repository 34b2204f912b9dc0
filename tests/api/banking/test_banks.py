"""The list of banks: all providers together, what filters find, and that a connect flow goes to the provider that has the bank."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.app import connect_providers
from kontobahn.banking.provider import Banking, ListedBank, ProviderDown
from kontobahn.errors import SetupError
from kontobahn.settings import load
from tests.bank_builder import Bank
from tests.harness import Organization, Service

BANKS = "/v2/banking/providers"


@pytest.fixture
def engine() -> str:
    """No SQL is involved in the list."""
    return "sqlite"


def use(service: Service, *providers: str) -> None:
    context = service.application.context
    context.parts[Banking] = context.part(Banking)._replace(connect_providers=providers)  # type: ignore[index]


@pytest.fixture
def bank(service: Service) -> Bank:
    """A second provider beside the sandbox."""
    made = Bank(service)
    made.provider.listed = [
        ListedBank("scripted_1", "Sparkasse Köln", "DE", "partner", ("COKSDE33",), ("37050198",), "", ("SEPA",), 90),
        ListedBank("scripted_2", "Ålandsbanken", "FI", "partner"),
    ]
    use(service, "sandbox", "scripted")
    return made


@pytest.fixture
def owner(service: Service) -> Organization:
    return service.organization()


def codes(service: Service, owner: Organization, **query: Any) -> list[str]:
    answer = service.get(BANKS, owner.key, params=query)
    assert answer.status_code == 200, answer.text
    return [one["code"] for one in answer.json()["data"]]


def test_the_banks_of_all_providers_are_one_list_by_name(service: Service, bank: Bank, owner: Organization) -> None:
    names = [one["name"] for one in service.get(BANKS, owner.key).json()["data"]]
    assert names == sorted(names, key=str.casefold)
    assert {"Musterbank", "Sparkasse Köln", "Ålandsbanken"} < set(names)
    [found] = service.get(BANKS, owner.key, params={"blz": "37050198"}).json()["data"]
    assert found == {
        "code": "scripted_1", "name": "Sparkasse Köln", "country_code": "DE", "provider": "scripted", "api": "partner",
        "bics": ["COKSDE33"], "bank_codes": ["37050198"], "logo_url": "", "supports": ["accounts", "payments"],
        "consent_days": 90,
    }  # fmt: skip
    assert service.balance(owner).available == 100


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"name": "koeln SPARKASSE"}, ["scripted_1"]),
        ({"bic": "coksde33xxx"}, ["scripted_1"]),
        ({"bic": "COKSDE34"}, []),
        ({"country": "FI"}, ["scripted_2"]),
        ({"supports": "instant_payments"}, ["musterbank", "sparkasse_beispielstadt"]),
        ({"name": "sparkasse", "supports": "payments"}, ["sparkasse_beispielstadt", "scripted_1"]),
        ({"api": "openbanking", "name": "karten"}, ["kartenhaus"]),
        ({"blz": "3705019"}, []),
    ],
)
def test_a_filter_finds_what_it_says(
    service: Service, bank: Bank, owner: Organization, query: dict[str, str], found: list[str]
) -> None:
    assert codes(service, owner, **query) == found


def test_a_long_list_is_walked_by_the_last_code(service: Service, bank: Bank, owner: Organization) -> None:
    everything, walked = codes(service, owner), list[str]()
    while page := codes(service, owner, limit=3, **({"from_code": walked[-1]} if walked else {})):
        assert len(page) <= 3
        walked += page
    assert walked == everything
    refused = service.get(BANKS, owner.key, params={"from_code": "nirgendwo"})
    assert (refused.status_code, refused.json()["field"]) == (400, "from_code")


def test_a_flow_goes_to_the_provider_that_has_the_bank(service: Service, bank: Bank, owner: Organization) -> None:
    def start(**body: Any) -> Any:
        return service.post("/v2/banking/connect", owner.key, json=body)

    assert start(provider_code="scripted_1").json()["connect_url"].startswith("https://bank.example/")
    assert "/sandbox/connect/" in start(provider_code="musterbank").json()["connect_url"]
    refused = start(provider_code="nirgendwo")
    assert (refused.status_code, refused.json()["field"]) == (400, "provider_code")


def test_a_provider_that_does_not_answer_hides_only_its_own_banks(
    service: Service, bank: Bank, owner: Organization
) -> None:
    bank.provider.listed = ProviderDown("no answer")
    assert "musterbank" in codes(service, owner)
    assert "scripted_1" not in codes(service, owner)
    # Whether there is such a bank is not known now.
    assert service.post("/v2/banking/connect", owner.key, json={"provider_code": "scripted_1"}).status_code == 503
    assert service.post("/v2/banking/connect", owner.key, json={"provider_code": "musterbank"}).status_code == 201
    use(service, "scripted")
    assert service.get(BANKS, owner.key).status_code == 503


def test_the_setting_names_several_providers_and_refuses_one_that_is_not_there(service: Service) -> None:
    banks = service.application.context.part(Banking).providers
    assert connect_providers(load({}, connect_provider=" sandbox ,files,sandbox"), banks) == ("sandbox",)
    assert connect_providers(load({}, connect_provider="files"), banks) == ()
    with pytest.raises(SetupError, match=r"sandbx.*files, sandbox"):
        connect_providers(load({}, connect_provider="sandbx"), banks)
