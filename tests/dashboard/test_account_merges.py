"""Accounts that stand twice, in a browser: named on the page of all accounts, shown beforehand, made one, and two again."""

from __future__ import annotations

import pytest

from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.twin_accounts import RENT, Twins

EMAIL, READER = "erika@muster.example", "rita@muster.example"
ACCOUNTS = "/dashboard/accounts"


@pytest.fixture
def owner(service: Service) -> Organization:
    organization = service.organization(credits_granted=1000)
    service.user(organization, EMAIL, "admin")
    service.user(organization, READER, "bookkeeping")
    return organization


def signed_in(service: Service, email: str) -> Browser:
    found = Browser(service)
    assert found.sign_in(email).status_code == 303
    return found


@pytest.mark.parametrize("language", ["en", "de"])
def test_from_the_notice_to_one_account_and_back(service: Service, owner: Organization, language: str) -> None:
    twins = Twins(service, owner, RENT)
    browser = signed_in(service, EMAIL)
    page = f"{ACCOUNTS}/merge?account_id={twins.fetched}&merged_account_id={twins.filed}"
    assert page.replace("&", "&amp;") in browser.get(ACCOUNTS).text
    shown = browser.get(page, **{"accept-language": language}).text
    assert ("Umsätze, die beide haben" if language == "de" else "Transactions that both have") in shown
    made = browser.post(page)
    assert (made.status_code, made.headers["location"]) == (303, f"{ACCOUNTS}/{twins.fetched}")
    old = browser.get(f"{ACCOUNTS}/{twins.filed}")
    assert old.headers["location"] == f"{ACCOUNTS}/{twins.fetched}"
    assert "/accounts/merge?" not in browser.get(ACCOUNTS).text
    [merge] = twins.listed("/v2/banking/account-merges")
    undo = f"{ACCOUNTS}/merges/{merge['id']}/undo"
    assert undo in browser.get(f"{ACCOUNTS}/merges").text
    asked = browser.get(undo)
    assert asked.status_code == 200
    # Nothing ends by it, so nothing is red.
    assert 'class="button main"' in asked.text
    assert "danger" not in asked.text
    assert browser.post(undo).status_code == 303
    assert len(twins.listed()) == 2
    assert "already" in browser.post(undo).text


def test_it_takes_an_administrator(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    browser = signed_in(service, READER)
    page = f"{ACCOUNTS}/merge?account_id={twins.fetched}&merged_account_id={twins.filed}"
    assert "/accounts/merge?" not in browser.get(ACCOUNTS).text
    assert browser.post(page).status_code == 403
    assert len(twins.listed()) == 2


def test_the_person_is_asked_once_more(service: Service, owner: Organization) -> None:
    twins = Twins(service, owner, RENT)
    browser = signed_in(service, EMAIL)
    service.clock.advance(seconds=700)
    asked = browser.post(f"{ACCOUNTS}/merge?account_id={twins.fetched}&merged_account_id={twins.filed}")
    assert (asked.status_code, "_password" in asked.text) == (200, True)
    assert len(twins.listed()) == 2
