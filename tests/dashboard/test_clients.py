"""Books and clients in a browser: created, named, closed and opened again, by whoever may, and nobody else's."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.api.ledger.files import BAD, INVOICE, file
from tests.dashboard.browsing import Browser
from tests.harness import PASSWORD, Organization, Service

EMAIL, COLLEAGUE = "kanzlei@beispiel.example", "kollege@beispiel.example"
BOOKS = {
    "name": "Muster GmbH", "kontenrahmen": "SKR04", "year_start": "2026-04-01", "konto_laenge": "5", "versteuerung": "ist",
    "client_id": "",
}  # fmt: skip


@pytest.fixture
def owner(service: Service) -> Organization:
    organization = service.organization("Kanzlei Muster")
    service.user(organization, EMAIL, "owner")
    return organization


@pytest.fixture
def browser(service: Service, owner: Organization) -> Browser:
    return signed_in(service, EMAIL)


def signed_in(service: Service, email: str) -> Browser:
    found = Browser(service)
    assert found.sign_in(email).status_code == 303
    return found


def send_file(browser: Browser, content: bytes) -> httpx.Response:
    return browser.send(
        "POST", "/dashboard/books/from-file", data={"rahmen": "SKR03"}, files={"file": ("stapel.csv", content)},
        headers={"origin": browser.service.base_url},
    )  # fmt: skip


def connections(service: Service, owner: Organization) -> list[dict[str, str]]:
    found: list[dict[str, str]] = service.get("/v2/ledger-rewe-read/connections", owner.key).json()["connections"]
    return found


def test_books_are_created_named_closed_and_opened_again(
    service: Service, owner: Organization, browser: Browser
) -> None:
    assert "/dashboard/books/new" in browser.get("/dashboard/open-items").text
    made = browser.post("/dashboard/books/new", BOOKS)
    assert (made.status_code, made.headers["location"]) == (303, "/dashboard/set-up")
    page = browser.get("/dashboard/books").text
    assert all(text in page for text in ("SKR04", "1001-1", "on payments received"))
    [connection] = connections(service, owner)
    path = f"/dashboard/ledger/connections/{connection['id']}"
    assert browser.post(f"{path}/name", {"name": "Muster AG"}).status_code == 303
    assert connections(service, owner)[0]["bezeichnung"] == "Muster AG"
    assert "Muster AG" in browser.get("/dashboard/books").text
    assert browser.post(f"{path}/close").status_code == 303
    assert connections(service, owner)[0]["status"] == "revoked"
    assert "must be renewed" not in browser.get("/dashboard/accounts").text, "it was closed on purpose"
    assert "closed" in browser.get(path).text
    assert browser.post(f"{path}/reconnect").status_code == 303
    assert connections(service, owner)[0]["status"] == "connected"
    assert "Open again" not in browser.get(path).text
    logged = browser.get("/dashboard/audit").text
    assert all(text in logged for text in ("Books created", "Books renamed", "Books closed"))


@pytest.mark.either_engine
def test_what_is_wrong_with_new_books_is_said_beside_its_field(
    service: Service, owner: Organization, browser: Browser
) -> None:
    for field, value in (("kontenrahmen", "SKR99"), ("year_start", "1800-01-01"), ("konto_laenge", "9"),
                         ("versteuerung", "x"), ("client_id", "12"), ("name", " ")):  # fmt: skip
        refused = browser.post("/dashboard/books/new", {**BOOKS, field: value})
        assert (refused.status_code, f'id="e-{field}"' in refused.text) == (422, True), field
    assert connections(service, owner) == []


def test_an_advisers_file_says_whose_books_it_begins(service: Service, owner: Organization, browser: Browser) -> None:
    unreadable = send_file(browser, b"nothing")
    assert (unreadable.status_code, connections(service, owner)) == (422, [])
    refused = send_file(browser, file(INVOICE, BAD))
    assert (refused.status_code, len(connections(service, owner))) == (422, 1)
    assert "The books were created" in refused.text
    # The same books, the better file.
    assert send_file(browser, file(INVOICE)).status_code == 303
    [connection] = connections(service, owner)
    assert "29098-55003" in browser.get("/dashboard/books").text
    found = service.get("/v2/ledger-rewe-read/opos", owner.key, params={"connectionId": connection["id"]}).json()
    assert [posten["beleg"] for konto in found["data"]["konten"] for posten in konto["posten"]] == ["RE-1"]
    assert connection["bezeichnung"] == "Kanzlei Muster"


def test_an_adviser_adds_a_client_and_works_there(service: Service, owner: Organization, browser: Browser) -> None:
    added = browser.post("/dashboard/clients", {"name": "Bäckerei Sonnenkorn"})
    assert (added.status_code, added.headers["location"]) == (303, "/dashboard/set-up")
    assert browser.post("/dashboard/books/new", BOOKS).status_code == 303
    assert connections(service, owner) == [], "they are the client's"
    [client_id] = set(re.findall(r"/dashboard/clients/([0-9a-f-]{36})", browser.get("/dashboard/clients").text))
    path = f"/dashboard/clients/{client_id}"
    assert browser.post(path, {"name": "Bäckerei Korn"}).status_code == 303
    assert "Bäckerei Korn" in browser.get("/dashboard").text
    colleague = service.user(owner, COLLEAGUE, "member")
    given = {"user": colleague.id, "client": client_id, "role": "bookkeeping"}
    assert browser.post("/dashboard/team/access", given).status_code == 303
    assert COLLEAGUE in browser.get(path).text
    at_work = signed_in(service, COLLEAGUE)
    assert "Bäckerei Korn" in at_work.get("/dashboard/board").text
    assert at_work.get("/dashboard/clients").status_code == 403
    assert browser.post(f"{path}/close").status_code == 303
    assert "is closed" in browser.get("/dashboard/clients").text
    for person in (browser, at_work):
        assert "Bäckerei Korn" not in person.get("/dashboard").text
        person.cookies.set("kontobahn_organization", client_id)
        assert "Bäckerei Korn" not in person.get("/dashboard/company").text
    assert browser.post(f"{path}/open").status_code == 303
    assert "Bäckerei Korn" in at_work.get("/dashboard/board").text
    logged = browser.get("/dashboard/audit").text
    assert all(text in logged for text in ("Client closed", "Client opened again"))


def test_a_client_that_acts_for_itself_is_not_closed_by_others(
    service: Service, owner: Organization, browser: Browser
) -> None:
    client = service.organization("Klient GmbH")
    adviser = service.user(owner, "zweite@beispiel.example", "admin")
    service.give_access(adviser, client, "admin")
    browser = signed_in(service, "zweite@beispiel.example")
    path = f"/dashboard/clients/{client.id}"
    assert "API keys still act" in browser.post(f"{path}/close").text
    service.user(client, "inhaber@klient.example", "owner")
    assert "people of its own" in browser.post(f"{path}/close").text
    assert service.get("/v2/auth/users", client.key).status_code == 200
    for role in ("member", "read_only"):
        stranger = service.user(service.organization(), f"{role}@fremd.example", "owner")
        service.give_access(stranger, client, role)
        other = signed_in(service, stranger.email)
        assert {other.get(path).status_code, other.post(path, {"name": "x"}).status_code} == {404}
        assert {other.post(f"{path}/{what}").status_code for what in ("close", "open")} == {404}


def test_a_client_gets_its_own_people_and_an_invitation_ends_with_the_access(
    service: Service, owner: Organization, browser: Browser
) -> None:
    browser.post("/dashboard/clients", {"name": "Bäckerei Sonnenkorn"})
    listed = browser.get("/dashboard/clients").text
    [client_id] = set(re.findall(r"/dashboard/clients/([0-9a-f-]{36})", listed))
    # Adding it has led there: it is not offered to go where one is.
    assert "You are working here." in listed
    assert "Work there" not in listed
    path = f"/dashboard/clients/{client_id}/invitations"
    invited = browser.post(path, {"email": "inhaberin@korn.example", "role": "owner"})
    [link] = re.findall(r"/dashboard/invitation/[^\"<]+", invited.text)
    accepted = Browser(service).post(link, {"name": "Korina Korn", "password": PASSWORD})
    assert accepted.status_code == 303
    hers = signed_in(service, "inhaberin@korn.example")
    assert "Bäckerei Sonnenkorn" in hers.get("/dashboard/company").text
    refused = browser.post(path, {"email": "zweite@korn.example", "role": "owner"})
    assert "Only an owner may invite an owner" in refused.text
    waiting = browser.post(path, {"email": "zweite@korn.example", "role": "admin"})
    [link] = re.findall(r"/dashboard/invitation/[^\"<]+", waiting.text)
    [user_id] = re.findall(r'name="user" value="([^"]+)"', hers.get("/dashboard/team").text)[:1]
    assert hers.post("/dashboard/team/access/withdraw", {"user": user_id, "client": client_id}).status_code == 303
    assert Browser(service).post(link, {"name": "Eva", "password": PASSWORD}).status_code != 303
    assert browser.post(path, {"email": "dritte@korn.example", "role": "admin"}).status_code == 404
