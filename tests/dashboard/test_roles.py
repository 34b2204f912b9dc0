"""Roles on pages: nobody does more than their role allows, at home or in a client, and nobody is shown what would be refused."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from kontobahn.access.principal import ROLES, ClientRole, Role
from kontobahn.dashboard.declare import Page
from kontobahn.dashboard.pages import every_page
from tests.dashboard.browsing import Browser
from tests.file_bank import FileBank
from tests.harness import Organization, Service

UNKNOWN = "0193b2a0-0000-7000-8000-00000000abcd"
# Pages on which people look after themselves.
FOR_ONESELF = (
    *("/dashboard/profile", "/dashboard/sign-out", "/dashboard/invitation/"),
    # An assistant may do no more than the person who connects it.
    *("/dashboard/assistants/authorize", "/dashboard/assistants/grants/"),
)


def signed_in(service: Service, owner: Organization, role: Role) -> Browser:
    email = f"{role}@{owner.id[-8:]}.example".replace("_", "-")
    service.user(owner, email, role)
    browser = Browser(service)
    assert browser.sign_in(email).status_code == 303
    return browser


def ask(browser: Browser, page: Page) -> httpx.Response:
    path = re.sub(r"\{\w+\}", UNKNOWN, page.path)
    return browser.get(path) if page.method == "GET" else browser.post(path)


@pytest.mark.either_engine
@pytest.mark.parametrize("role", ROLES)
def test_a_page_is_refused_exactly_to_roles_below_its_own(service: Service, role: Role) -> None:
    owner = service.organization()
    browser = signed_in(service, owner, role)
    for page in every_page():
        if page.caller == "anybody" or page.path == "/dashboard/sign-out":
            continue
        refused = "This page is for the role" in ask(browser, page).text
        assert refused == (ROLES.index(role) < ROLES.index(page.role)), page.name


def test_every_change_needs_a_role_and_every_payment_one_that_pays() -> None:
    for page in every_page():
        if page.caller == "anybody" or page.path.startswith(FOR_ONESELF):
            continue
        if page.method == "POST":
            assert page.role != "read_only", page.name
            if page.path.startswith("/dashboard/payments") and not page.path.endswith("/ask"):
                assert ROLES.index(page.role) >= ROLES.index("member"), page.name


FORM = re.compile(r'<form [^>]*method="post"[^>]*action="([^"]+)"(?:(?!</form>).)*<button', re.DOTALL)
BUTTON = re.compile(r'<a class="button[^"]*" href="([^"]+)"')


@pytest.mark.either_engine
@pytest.mark.parametrize("role", ["read_only", "bookkeeping", "member"])
def test_nobody_is_shown_a_form_or_a_button_that_would_be_refused(service: Service, role: Role) -> None:
    owner = service.organization(credits_granted=1_000)
    bank = FileBank(service, owner)
    payment = bank.pay()
    browser = signed_in(service, owner, role)
    plain = [
        page.path for page in every_page() if page.method == "GET" and page.caller == "user" and "{" not in page.path
    ]
    for path in [*plain, f"/dashboard/payments/{payment['id']}"]:
        text = browser.get(path).text
        for address in {html.unescape(found) for found in BUTTON.findall(text)}:
            if address.startswith("/dashboard"):
                assert "This page is for the role" not in browser.get(address).text, (path, address)
        for address in {html.unescape(found) for found in FORM.findall(text)} - {"/dashboard/sign-out"}:
            known = next(page for page in every_page() if page.method == "POST" and is_at(page, address))
            assert known.caller == "anybody" or ROLES.index(role) >= ROLES.index(known.role), (path, address)
    shown = browser.get("/dashboard/payments").text
    assert ("/dashboard/payments/new" in shown) == (role == "member")


def is_at(page: Page, address: str) -> bool:
    pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(page.path))
    return re.fullmatch(pattern, address.partition("?")[0]) is not None


def test_a_key_of_an_agency_opens_no_client_to_its_people(service: Service) -> None:
    client = service.organization("Klient GmbH", credits_granted=1_000)
    FileBank(service, client).pay()
    agency = service.agency(client)
    browser = signed_in(service, agency, "owner")
    browser.cookies.set("kontobahn_organization", client.id)
    assert "Klient GmbH" not in browser.get("/dashboard").text
    assert "Konto 0532013000" not in browser.get("/dashboard/accounts").text


@pytest.mark.parametrize(("role", "pays"), [("read_only", False), ("bookkeeping", False), ("member", True)])
def test_the_role_in_a_client_counts_there_and_the_own_role_at_home(
    service: Service, role: ClientRole, pays: bool
) -> None:
    client = service.organization("Klient GmbH", credits_granted=1_000)
    bank = FileBank(service, client)
    payment = bank.pay()
    agency = service.agency(client)
    person = service.user(agency, "kanzlei@beispiel.example", "owner")
    service.give_access(person, client, role)
    browser = Browser(service)
    browser.sign_in(person.email)
    cancel = f"/dashboard/payments/{payment['id']}/cancel"
    # At home nothing of the client is in reach, whatever the role at home.
    assert browser.post(cancel).status_code == 404
    looked = browser.post("/dashboard/look", {"organization": client.id, "next": "/dashboard/payments/new"})
    assert looked.headers["location"] == ("/dashboard/payments/new" if pays else "/dashboard")
    assert browser.get(f"/dashboard/payments/{payment['id']}").status_code == 200
    assert browser.get("/dashboard/keys/new").status_code == 200
    assert browser.get("/dashboard/payments/new").status_code == (200 if pays else 403)
    assert browser.post(cancel).status_code == (303 if pays else 403)
    status = service.get(f"/v2/banking/payments/{payment['id']}", client.key).json()["data"]["status"]
    assert (status == "failed") == pays
    if role == "read_only":
        made = {"name": "Kunde", "street": "Weg 1", "postal_code": "10115", "city": "Berlin", "country_code": "DE"}
        assert browser.post("/dashboard/customers/new", made).status_code == 403


def test_a_client_that_requires_a_second_factor_requires_it_of_its_adviser(service: Service) -> None:
    client, agency = service.organization("Klient GmbH"), service.organization("Kanzlei")
    person = service.user(agency, "kanzlei@beispiel.example")
    service.give_access(person, client)
    service.db.write_now(
        lambda tx: tx.run("UPDATE organizations SET second_factor_required = 1 WHERE id = ?", client.id)
    )
    browser = Browser(service)
    browser.sign_in(person.email)
    assert browser.get("/dashboard/accounts").status_code == 200
    browser.post("/dashboard/look", {"organization": client.id})
    assert browser.get("/dashboard/accounts").headers["location"] == "/dashboard/profile/second-factor"


def test_an_adviser_accepts_with_the_account_they_have_and_colleagues_get_access_from_there(service: Service) -> None:
    client, agency = service.organization("Klient GmbH"), service.organization("Kanzlei")
    theirs = signed_in(service, client, "owner")
    adviser = service.user(agency, "kanzlei@beispiel.example", "admin")
    colleague = service.user(agency, "kollegin@beispiel.example", "member")
    made = theirs.post("/dashboard/team/invitations", {"email": adviser.email, "role": "admin"}).text
    found = re.search(r"/dashboard/invitation/[\w-]+", made)
    assert found is not None
    browser = Browser(service)
    assert "Sign in to accept" in browser.get(found[0]).text
    browser.sign_in(adviser.email)
    assert browser.post(f"{found[0]}/join").status_code == 303
    assert "Klient GmbH" in browser.get("/dashboard/board").text
    given = {"user": colleague.id, "client": client.id, "role": "bookkeeping"}
    assert browser.post("/dashboard/team/access", given).status_code == 303
    assert colleague.email in browser.get("/dashboard/team").text
    # The client sees both, and ends one.
    assert colleague.email in theirs.get("/dashboard/team").text
    assert theirs.post("/dashboard/team/access/withdraw", given).status_code == 303
    assert colleague.email not in theirs.get("/dashboard/team").text
    # Used once, and only by the person it is for.
    assert browser.post(f"{found[0]}/join").status_code == 422
