"""The protection of every page: where forms come from, sessions, roles, confirmations, headers, and escaping."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace
from starlette.responses import Response

from kontobahn.access import factors, users
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND
from kontobahn.dashboard import people, sign_in
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.pages import every_page
from kontobahn.dashboard.people import Preferences
from kontobahn.dashboard.security import Cookies
from kontobahn.errors import TooManyRequests
from tests.dashboard.browsing import Browser
from tests.harness import ACTOR, PASSWORD, Organization, Service

HOSTILE = "<script>alert('x')</script>\"' onload=x & Ümlaut"


@pytest.fixture
def muster(service: Service) -> Organization:
    organization = service.organization()
    service.user(organization, "erika@muster.example", "owner")
    return organization


@pytest.fixture
def browser(service: Service, muster: Organization) -> Browser:
    found = Browser(service)
    assert found.sign_in("erika@muster.example").status_code == 303
    return found


@pytest.mark.parametrize("engine", ["sqlite"])
def test_the_start_leads_people_to_the_dashboard_and_programs_to_the_reference(service: Service) -> None:
    assert service.get("/", headers={"accept": "text/html,*/*;q=0.8"}).headers["location"] == "/dashboard"
    assert service.get("/", headers={"accept": "*/*"}).headers["location"] == "/docs"


def test_a_person_signs_in_looks_and_signs_out(service: Service, browser: Browser) -> None:
    page = browser.get("/dashboard")
    assert page.status_code == 200
    assert "Muster GmbH" in page.text
    token = browser.token
    assert browser.post("/dashboard/sign-out").headers["location"] == "/dashboard/sign-in"
    browser.token = token
    assert browser.get("/dashboard").headers["location"] == "/dashboard/sign-in"


@pytest.mark.either_engine
def test_a_wrong_password_says_nothing_about_the_address(service: Service, muster: Organization) -> None:
    known = Browser(service).sign_in("erika@muster.example", "wrong password!!")
    unknown = Browser(service).sign_in("nobody@muster.example", "wrong password!!")
    assert known.status_code == unknown.status_code == 422
    assert known.text.replace("erika", "nobody") == unknown.text
    assert "set-cookie" not in known.headers


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_unknown_address_takes_the_work_of_a_known_one(
    service: Service, muster: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: list[str] = []
    hasher = users._hasher()

    class Counting:
        def verify(self, stored: str, password: str) -> bool:
            work.append(stored.rpartition("$")[0].rpartition("$")[0])
            return bool(hasher.verify(stored, password))

        def hash(self, password: str) -> str:
            return str(hasher.hash(password))

    monkeypatch.setattr(users, "_hasher", Counting)
    for email in ("erika@muster.example", "nobody@muster.example"):
        assert Browser(service).sign_in(email, "wrong password!!").status_code == 422
    # Once each, with the same parameters: the time says nothing.
    assert len(work) == 2
    assert len(set(work)) == 1


def test_signing_in_leads_where_one_wanted_to_go_but_never_away(service: Service, muster: Organization) -> None:
    stranger = Browser(service)
    answer = stranger.get("/dashboard/profile?a=1")
    assert answer.headers["location"] == "/dashboard/sign-in?next=%2Fdashboard%2Fprofile%3Fa%3D1"
    form = {"email": "erika@muster.example", "password": PASSWORD}
    led = stranger.post("/dashboard/sign-in", {**form, "next": "/dashboard/profile"})
    assert led.headers["location"] == "/dashboard/profile"
    for elsewhere in (
        "//evil.example",
        "https://evil.example",
        "/dashboard//evil.example",
        "/dashboard\\evil",
        "/docs",
    ):
        led = Browser(service).post("/dashboard/sign-in", {**form, "next": elsewhere})
        assert led.headers["location"] == "/dashboard", elsewhere


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "OURS"}, False),
        ({"origin": "OURS"}, True),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ],
)
@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_form_is_taken_from_our_own_pages_only(
    service: Service, browser: Browser, headers: dict[str, str], allowed: bool
) -> None:
    sent = {name: service.base_url if value == "OURS" else value for name, value in headers.items()}
    for path in ("/dashboard/look", "/dashboard/sign-in"):
        answer = browser.send("POST", path, data={"theme": "dark"}, headers=sent)
        assert (answer.status_code != 403) is allowed, (path, answer.text)


@pytest.mark.parametrize("engine", ["sqlite"])
def test_no_form_at_all_is_taken_from_elsewhere(service: Service, browser: Browser) -> None:
    actions = [page for page in every_page() if page.method == "POST"]
    assert actions
    for page in actions:
        path = page.path.replace("{", "").replace("}", "")
        assert browser.send("POST", path, headers={"origin": "http://evil.example"}).status_code == 403, path


@pytest.mark.parametrize("engine", ["sqlite"])
def test_every_page_needs_a_session_unless_it_says_otherwise(service: Service, muster: Organization) -> None:
    stranger = Browser(service)
    for page in every_page():
        path = page.path.replace("{", "").replace("}", "")
        answer = stranger.get(path) if page.method == "GET" else stranger.post(path)
        if page.caller == "user":
            assert answer.headers["location"].startswith("/dashboard/sign-in"), path


def test_a_session_in_a_browser_ends_when_it_is_not_used(service: Service, browser: Browser) -> None:
    for _ in range(3):
        service.clock.advance(seconds=29 * 60)
        assert browser.get("/dashboard/profile").status_code == 200
    service.clock.advance(seconds=29 * 60)
    assert browser.get("/dashboard/profile", **{"x-poll": "1"}).status_code == 200
    service.clock.advance(seconds=61)
    ended = browser.get("/dashboard/profile")
    assert ended.headers["location"].startswith("/dashboard/sign-in")


def test_only_a_page_that_looks_by_itself_is_told_that_nothing_has_changed(browser: Browser) -> None:
    looked = browser.get("/dashboard/profile", **{"x-poll": "1"})
    again = {"if-none-match": looked.headers["etag"]}
    assert browser.get("/dashboard/profile", **{"x-poll": "1"}, **again).status_code == 304
    person, missing = browser.get("/dashboard/profile", **again), browser.get("/dashboard/nothing", **{"x-poll": "1"})
    assert [(answer.status_code, "etag" in answer.headers) for answer in (person, missing)] == [
        (200, False),
        (404, False),
    ]


def test_what_a_person_prefers_is_their_own(service: Service, muster: Organization) -> None:
    mine, other = (service.user(muster, f"{name}@muster.example") for name in ("max", "eva"))
    of_mine, of_other = (Principal(muster.id, "member", (muster.id,), user_id=user.id) for user in (mine, other))
    service.db.write_now(people.save_preferences, of_other, Preferences("de", "dark", 0))
    service.db.write_now(people.save_preferences, of_mine, Preferences("en", "light", 1))
    service.db.write_now(people.save_preferences, of_other, Preferences("de", None, 0))
    found = [service.db.read_now(people.preferences, one) for one in (of_mine, of_other)]
    assert found == [Preferences("en", "light", 1), Preferences("de", None, 0)]
    assert [service.db.read_now(people.language, user) for user in (mine, other)] == ["en", "de"]


@pytest.mark.either_engine
def test_where_there_is_no_page_nobody_finds_one(service: Service, browser: Browser) -> None:
    for visitor in (browser, Browser(service)):
        assert {visitor.get("/dashboard/nothing").status_code, visitor.post("/dashboard/nothing").status_code} == {404}
        wrong = visitor.post("/dashboard/audit")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")


def test_a_page_that_is_not_there_is_explained_once(service: Service, browser: Browser) -> None:
    in_general, of_itself = "It may have been deleted", "This link is not valid, or no longer valid."
    for path, said in (("/dashboard/nowhere", in_general), ("/dashboard/password?token=x", of_itself)):
        page = browser.get(path)
        assert (page.status_code, [text for text in (in_general, of_itself) if text in page.text]) == (404, [said])


def test_a_session_in_a_browser_ends_after_twelve_hours_however_busy(service: Service, browser: Browser) -> None:
    for _ in range(12 * 3 - 1):
        service.clock.advance(seconds=20 * 60)
        assert browser.get("/dashboard/profile").status_code == 200
    service.clock.advance(seconds=20 * 60)
    assert browser.get("/dashboard/profile").status_code == 303


def test_the_token_is_kept_as_a_hash_and_new_at_each_sign_in(service: Service, browser: Browser) -> None:
    first = browser.token
    stored = service.db.read_now(lambda tx: tx.all("SELECT token_hash FROM sessions"))
    assert first not in str(stored)
    browser.sign_in("erika@muster.example")
    assert browser.token != first
    browser.token = first
    assert browser.get("/dashboard").status_code == 303


def test_a_session_of_the_api_does_not_end_by_itself(service: Service, muster: Organization) -> None:
    token = service.session("erika@muster.example")
    service.clock.advance(seconds=11 * 3600)
    service.forget_callers()
    assert service.get("/v2/auth/users", token).status_code == 200
    # Nor is it one of a browser.
    browser = Browser(service)
    browser.token = token
    assert browser.get("/dashboard").status_code == 303


def test_over_the_api_the_second_factor_is_asked_for_too(service: Service, muster: Organization) -> None:
    user = service.user(muster, "max@muster.example", "member")
    principal = Principal(muster.id, "member", (muster.id,), user_id=user.id)
    secret = factors.new_secret()
    code = factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)
    service.db.write_now(factors.add_totp, service.vault, principal, secret, code, "phone", ACTOR)
    sent = {"email": "max@muster.example", "password": PASSWORD}
    for wrong in ({}, {"code": "000000"}, {"code": code}):
        assert service.post("/v2/auth/sessions", json={**sent, **wrong}).status_code == 401
    service.clock.advance(seconds=60)
    code = factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)
    assert service.post("/v2/auth/sessions", json={**sent, "code": code}).status_code == 201
    assert service.post("/v2/auth/sessions", json={**sent, "code": code}).status_code == 401
    stored = service.db.read_now(lambda tx: tx.one("SELECT secret FROM user_factors"))
    assert stored is not None
    assert secret not in bytes(stored[0])


def test_what_matters_is_confirmed_if_signing_in_was_long_ago(
    service: Service, browser: Browser, muster: Organization
) -> None:
    connection = service.ledger_connection(muster)
    path = f"/dashboard/ledger/connections/{connection}/reconnect"
    service.clock.advance(seconds=10 * 60)
    assert browser.post(path).status_code == 303
    service.clock.advance(seconds=1)
    before = browser.token
    asked = browser.post(path, {"kept": HOSTILE})
    assert asked.status_code == 200
    assert 'name="_password"' in asked.text
    assert "&lt;script&gt;" in asked.text
    wrong = browser.post(path, {"_password": "wrong", "_email": "erika@muster.example"})
    assert wrong.status_code == 422
    assert "The password is wrong." in wrong.text
    assert wrong.text.count('name="_email"') == 1, "only the fields of the form are sent on"
    assert browser.token == before
    assert browser.post(path, {"_password": PASSWORD}).status_code == 303
    assert browser.token != before
    assert browser.post(path).status_code == 303


def test_who_does_not_confirm_goes_back_to_the_page_with_the_form(
    service: Service, browser: Browser, muster: Organization
) -> None:
    path = f"/dashboard/ledger/connections/{service.ledger_connection(muster)}/reconnect"
    service.clock.advance(seconds=10 * 60 + 1)

    def way_back(came_from: str, **sent: str) -> tuple[str, str]:
        """Returns where the page that asks leads back to, and what it sends on for the next time."""
        headers = {"origin": service.base_url, "referer": came_from}
        asked = browser.send("POST", path, data=sent, headers=headers).text
        leads = re.search('class="back"><a href="([^"]*)"', asked)
        kept = re.search('name="_back" value="([^"]*)"', asked)
        assert leads
        assert kept
        return leads[1], kept[1]

    page = "/dashboard/ledger/connections?status=expired"
    assert way_back(service.base_url + page) == (page, page)
    # The second time the browser comes from the page that asked.
    assert way_back(service.base_url + path, _password="wrong", _back=page) == (page, page)
    for elsewhere in ("", "https://evil.example", "https://evil.example/x", "https://evil.example//dashboard", "//["):
        assert way_back(elsewhere) == ("/dashboard", "/dashboard")
    assert way_back("", _back="https://evil.example/dashboard")[0] == "/dashboard"


def test_a_code_or_a_passkey_of_ones_own_confirms_as_a_password_does(
    service: Service, browser: Browser, muster: Organization, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = f"/dashboard/ledger/connections/{service.ledger_connection(muster)}/reconnect"
    other = service.user(muster, "max@muster.example", "owner")
    found = service.db.read_now(users.by_email, "erika@muster.example")
    assert found is not None
    me = found[0]
    secret = factors.new_secret()

    def code() -> str:
        return factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)

    for user in (me, other):
        principal = Principal(muster.id, "owner", (muster.id,), user_id=user.id)
        service.db.write_now(factors.add_totp, service.vault, principal, secret, code(), "App", ACTOR)
    service.clock.advance(seconds=11 * 60)
    asked = browser.post(path)
    assert 'name="_code"' in asked.text
    assert 'name="_password"' in asked.text
    assert "data-passkey-use" not in asked.text
    before = browser.token
    assert browser.post(path, {"_code": "000000", "kept": "x"}).status_code == 422
    sent = code()
    assert browser.post(path, {"_code": sent}).status_code == 303
    assert browser.token != before
    service.clock.advance(seconds=10 * 60 + 1)
    assert browser.post(path, {"_code": sent}).status_code == 422  # A code works once.

    async def by_passkey(visit: Any, ticket: str, answer: str) -> users.User:
        assert (ticket, answer) == ("t", "a")
        return signer

    monkeypatch.setattr(sign_in, "finish_passkey_sign_in", by_passkey)
    signer = other
    assert browser.post(path, {"_ticket": "t", "_answer": "a"}).status_code == 422
    signer = me
    assert browser.post(path, {"_ticket": "t", "_answer": "a"}).status_code == 303
    service.clock.advance(seconds=10 * 60 + 1)
    for _ in range(10):
        assert browser.post(path, {"_code": "000000"}).status_code == 422
    assert "Too many wrong codes" in browser.post(path, {"_code": code()}).text
    assert browser.post(path, {"_password": PASSWORD}).status_code == 303


@pytest.mark.either_engine
def test_whatever_tries_a_secret_is_counted_with_all_other_attempts(
    mailing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    mailing.user(mailing.organization(), "erika@muster.example", "owner")
    visitor, erika = Browser(mailing), Browser(mailing)
    erika.sign_in("erika@muster.example")
    mailing.clock.advance(seconds=11 * 60)

    async def refuse(visit: Any) -> None:
        raise TooManyRequests("Too many attempts.", retry_after_seconds=1)

    monkeypatch.setattr(sign_in, "count_attempt", refuse)
    name, email = {"name": "Max", "password": PASSWORD}, {"email": "max@muster.example"}
    tries: list[tuple[Browser, str, dict[str, str]]] = [
        (visitor, "/sign-in", {**email, "password": PASSWORD}),
        (visitor, "/sign-in/code", {"ticket": "t", "code": "1"}),
        # What a passkey signs has been asked for here.
        (visitor, "/sign-in/passkey/options", {}),
        (visitor, "/sign-in/provider", {}),
        (visitor, "/forgotten-password", email),
        (visitor, "/password", {"token": "t", "password": PASSWORD}),
        (visitor, "/first-run", {**name, **email, "organization": "Max", "code": "1"}),
        (visitor, "/invitation/t", name),
        (erika, "/invitation/t/join", {}),
        (erika, "/profile/password", {"old_password": PASSWORD, "new_password": PASSWORD}),
        *((erika, "/keys/new", {field: "1"}) for field in ("_password", "_code", "_answer", "_provider")),
    ]
    answers = [(path, sent, who.post(f"{ROOT}{path}", sent).text) for who, path, sent in tries]
    assert [(path, sent) for path, sent, text in answers if "Too many attempts." not in text] == []


# Keys, webhook addresses, people, second factors and payments; and what is done to them that gives nothing away.
SENSITIVE = ("/keys", "/webhooks", "/team", "/profile/second-factor", "/payments")
HARMLESS = ("try", "ask", "order", "test", "pause", "resume", "resend", "resend-failed", "invitations/{id}/revoke")


def test_every_form_about_what_matters_asks_for_a_confirmation() -> None:
    actions = [(page.path.removeprefix(ROOT), page) for page in every_page() if page.method == "POST"]
    sensitive = [(path, page) for path, page in actions if path.startswith(SENSITIVE) and not path.endswith(HARMLESS)]
    assert len(sensitive) > 15
    assert [path for path, page in sensitive if not (page.confirm or page.factor)] == []


def test_whoever_gets_another_role_signs_in_again(service: Service, browser: Browser, muster: Organization) -> None:
    user = service.user(muster, "max@muster.example", "member")
    max_browser = Browser(service)
    max_browser.sign_in("max@muster.example")
    for role, status in (("admin", 303), ("admin", 200), ("member", 303)):
        answer = service.request("PUT", f"/v2/auth/users/{user.id}", muster.key, json={"role": role})
        assert answer.status_code == 200
        assert max_browser.get("/dashboard").status_code == status
        max_browser.sign_in("max@muster.example")


def test_a_person_sees_and_ends_their_own_sessions_only(
    service: Service, browser: Browser, muster: Organization
) -> None:
    service.user(muster, "max@muster.example", "member")
    other, second = Browser(service), Browser(service)
    other.sign_in("max@muster.example")
    second.sign_in("erika@muster.example")
    stored = service.db.read_now(lambda tx: tx.all("SELECT id FROM sessions ORDER BY created_at, id"))
    shown = browser.get("/dashboard/profile").text
    mine = [session for (session,) in stored if f"s-{session}" in shown]
    assert len(mine) == 2
    (foreign,) = (session for (session,) in stored if session not in mine)
    assert browser.post(f"/dashboard/profile/sessions/{foreign}/end").status_code == 404
    assert other.get("/dashboard").status_code == 200
    assert browser.post("/dashboard/profile/sessions/end-others").status_code == 303
    assert second.get("/dashboard").status_code == 303
    assert browser.get("/dashboard").status_code == 200
    assert browser.post("/dashboard/profile/sessions/end-others").status_code == 303
    assert "No other session was open." in browser.get("/dashboard/profile").text


@pytest.mark.parametrize("engine", ["sqlite"])
def test_every_page_has_the_headers_that_protect_it(service: Service, browser: Browser) -> None:
    for path in ("/dashboard", "/dashboard/profile", "/dashboard/nowhere", "/dashboard/sign-in"):
        headers = browser.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"


@pytest.mark.parametrize("engine", ["sqlite"])
def test_under_https_the_cookie_is_bound_to_the_host(service: Service, muster: Organization) -> None:

    answer = Response()
    Cookies(replace(service.settings, base_url="https://konto.example"), service.vault).write(answer, "session", "x")
    assert answer.headers["set-cookie"] == "__Host-kontobahn_session=x; HttpOnly; Path=/; SameSite=lax; Secure"


@pytest.mark.either_engine
def test_hostile_names_are_shown_as_text(service: Service) -> None:
    hostile = service.organization(HOSTILE)
    service.user(hostile, "eve@muster.example")
    service.ledger_connection(hostile, HOSTILE)
    visitor = Browser(service)
    visitor.sign_in("eve@muster.example")
    connection = service.ledger_connection(hostile, HOSTILE)
    for path in ("/dashboard", "/dashboard/ledger/connections", f"/dashboard/ledger/connections/{connection}"):
        shown = visitor.get(path).text
        assert "alert(" in shown
        assert "<script>alert" not in shown
        assert "' onload=x" not in shown


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_form_has_a_bound(service: Service, browser: Browser) -> None:
    assert browser.post("/dashboard/look", {"next": "x" * 70_000}).status_code == 413
    many = "&".join(f"a{number}=1" for number in range(600))
    answer = browser.send("POST",
        "/dashboard/look", content=many,
        headers={"origin": service.base_url, "content-type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert answer.status_code == 400
    assert browser.send("POST", "/dashboard/look", json={}, headers={"origin": service.base_url}).status_code == 415
