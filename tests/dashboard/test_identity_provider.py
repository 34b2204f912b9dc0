"""Signing in at an identity provider: whom it lets in, whom it does not, and what a lying or broken one can bring about."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from kontobahn.access import identities, identity_provider
from kontobahn.access.identity_provider import IdentityProvider
from simulators.identity_provider import Lie, Method, Provider, Trouble
from tests.dashboard.browsing import Browser
from tests.dashboard.provider_guest import (
    EMAIL,
    NAME,
    Guest,
    audited,
    connect,
    led_to,
    way_back,
)
from tests.harness import Organization, Service

CALLBACK = identity_provider.CALLBACK
NOT_BELIEVED = "could not be accepted"


@pytest.fixture
def muster(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def erika(service: Service, muster: Organization, provider: Provider) -> Guest:
    """Somebody with a password who has linked the account at the provider, and is not signed in."""
    connect(service, provider)
    service.user(muster, EMAIL, "member")
    made = Guest(service)
    assert made.sign_in(EMAIL).status_code == 303
    assert made.link().headers["location"] == "/dashboard/profile"
    assert made.notice() == f"“{EMAIL}” is linked to you. You can sign in with it."
    return Guest(service)


# --- The way there and back


def test_a_linked_account_signs_in_and_out(service: Service, muster: Organization, erika: Guest) -> None:
    assert f"Sign in with {NAME}" in erika.get("/dashboard/sign-in").text
    answer = erika.sign_in_there(next="/dashboard/team?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/team?x=1")
    assert erika.is_in()
    signed_in = audited(service, muster, "session.create")
    assert "identity provider" in signed_in[-1].details
    assert [entry.details for entry in audited(service, muster, "identity.link")] == [
        f'{{"account":"{EMAIL}","by":"person"}}'
    ]
    left = led_to(erika.post("/dashboard/sign-out"))
    assert not erika.is_in()
    assert way_back(left) == f"{service.base_url}/dashboard/sign-in"


def test_whoever_signed_in_with_a_password_signs_out_here_alone(service: Service, erika: Guest) -> None:
    erika.sign_in(EMAIL)
    assert erika.post("/dashboard/sign-out").headers["location"] == "/dashboard/sign-in"


def test_a_provider_without_sign_out_is_left_alone(service: Service, provider: Provider, erika: Guest) -> None:
    provider.has_sign_out = False
    connect(service, provider)
    erika.sign_in_there()
    assert erika.post("/dashboard/sign-out").headers["location"] == "/dashboard/sign-in"


@pytest.mark.either_engine
def test_the_question_asks_for_nothing_that_could_be_replayed(provider: Provider, erika: Guest) -> None:
    first, second = (parse_qs(urlsplit(erika.set_out()).query) for _ in range(2))
    for name in ("state", "nonce", "code_challenge"):
        assert first[name] != second[name]
    assert first["response_type"] == ["code"]
    assert "prompt" not in first


def test_a_state_lets_in_once(provider: Provider, erika: Guest) -> None:
    back = way_back(erika.set_out()).removeprefix(erika.service.base_url)
    assert erika.get(back).headers["location"] == "/dashboard"
    erika.post("/dashboard/sign-out")
    assert erika.get(back).headers["location"] == "/dashboard/sign-in"
    assert not erika.is_in()
    assert provider.requests["/token"] == 2, "the code was not even tried a second time"


@pytest.mark.parametrize("other", ["without a cookie", "on a way of its own"])
def test_an_answer_signs_in_only_the_browser_that_set_out(service: Service, erika: Guest, other: str) -> None:
    """Otherwise somebody could be signed in to the account of an attacker without noticing it."""
    victim = Guest(service)
    if other == "on a way of its own":
        victim.set_out()
    answer = victim.come_back(erika.set_out())
    assert answer.headers["location"] == "/dashboard/sign-in"
    assert not victim.is_in()
    assert "began in another browser" in victim.notice()


@pytest.mark.parametrize("late", [False, True])
def test_a_way_may_take_fifteen_minutes(service: Service, erika: Guest, late: bool) -> None:
    address = erika.set_out()
    service.clock.advance(seconds=15 * 60 if late else 15 * 60 - 1)
    erika.come_back(address)
    assert erika.is_in() != late


@pytest.mark.either_engine
@pytest.mark.parametrize("query", ["", "?state=kb_chl_x&code=1", "?code=1", "?error=access_denied", "?state=&code="])
def test_whoever_comes_back_from_nowhere_is_sent_to_sign_in(erika: Guest, query: str) -> None:
    answer = erika.get(CALLBACK + query)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")


@pytest.mark.either_engine
def test_a_challenge_of_another_kind_is_no_state(provider: Provider, erika: Guest) -> None:
    ticket = erika.post("/dashboard/sign-in/passkey/options").json()["ticket"]
    erika.set_out()
    erika.get(f"{CALLBACK}?state={ticket}&code=1")
    assert not erika.is_in()
    assert "began in another browser" in erika.notice()


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "wish", ["https://evil.example/", "//evil.example", "/dashboard//evil.example", "/\\evil.example", ""]
)
def test_nobody_is_led_elsewhere(erika: Guest, wish: str) -> None:
    assert erika.sign_in_there(next=wish).headers["location"] == "/dashboard"


@pytest.mark.either_engine
def test_another_site_cannot_begin(erika: Guest) -> None:
    answer = erika.send("POST", "/dashboard/sign-in/provider", headers={"origin": "https://evil.example"})
    assert answer.status_code == 403


@pytest.mark.either_engine
def test_without_a_provider_there_is_no_button_and_no_page(
    service: Service, guest: Guest, muster: Organization
) -> None:
    service.user(muster, EMAIL)
    assert "/sign-in/provider" not in guest.get("/dashboard/sign-in").text
    assert guest.post("/dashboard/sign-in/provider").status_code == 404
    assert guest.get(f"{CALLBACK}?state=x&code=y").status_code == 404


# --- What the provider says


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "lie",
    [
        "nonce", "no nonce", "issuer", "audience", "several audiences", "another azp", "expired", "future", "no times", "none",
        "HS256", "HS256 with the key as JSON", "unknown key", "wrong signature", "no subject", "old", "not yet", "no claims",
        "no token", "encrypted", "short key", "other type of key",
    ],
)  # fmt: skip
def test_a_token_that_is_not_for_us_and_now_lets_nobody_in(
    service: Service, provider: Provider, erika: Guest, lie: Lie
) -> None:
    connect(service, provider)
    provider.lie = lie
    assert erika.sign_in_there().headers["location"] == "/dashboard/sign-in"
    assert not erika.is_in()
    assert NOT_BELIEVED in erika.notice()


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["kontobahn"]}, {"aud": ["kontobahn", "another"], "azp": "kontobahn"}, {"azp": "kontobahn"},
        {"exp": -59}, {"iat": 60}, {"nbf": 60}, {"iat": -3599},
    ],
)  # fmt: skip
def test_a_token_at_the_edge_of_the_rules_is_taken(
    service: Service, provider: Provider, erika: Guest, claims: dict[str, object]
) -> None:
    now = provider.now()
    provider.accounts["erika-1"] |= {
        name: now + value if isinstance(value, int) else value for name, value in claims.items()
    }
    erika.sign_in_there()
    assert erika.is_in()


@pytest.mark.either_engine
@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_keys_are_found_with_and_without_ids(
    service: Service, provider: Provider, erika: Guest, algorithm: str
) -> None:
    provider.algorithm = algorithm  # type: ignore[assignment]
    for with_ids in (True, False):
        provider.with_ids = with_ids
        connect(service, provider)
        guest = Guest(service)
        guest.sign_in_there()
        assert guest.is_in()
    provider.keys = ["first", "second"]
    connect(service, provider)
    erika.sign_in_there()
    assert not erika.is_in(), "it is not tried which of two keys fits"


@pytest.mark.either_engine
def test_new_keys_are_fetched_once_a_minute_at_most(service: Service, provider: Provider, erika: Guest) -> None:
    connect(service, provider)
    erika.sign_in_there()
    before = provider.requests["/keys"]
    provider.keys.append("second")
    guest = Guest(service)
    for _ in range(3):
        guest.sign_in_there()
        assert not guest.is_in()
    assert provider.requests["/keys"] == before
    service.clock.advance(seconds=60)
    guest.sign_in_there()
    assert guest.is_in()
    assert provider.requests["/keys"] == before + 1
    provider.lie = "unknown key"
    Guest(service).sign_in_there()
    assert provider.requests["/keys"] == before + 1
    assert provider.requests["/.well-known/openid-configuration"] == 2, "one for each connection"


@pytest.mark.either_engine
@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_the_client_shows_who_it_is_as_the_provider_wants(
    service: Service, provider: Provider, erika: Guest, method: Method
) -> None:
    provider.method, provider.client_id, provider.secret = method, "konto bahn:1", "p%ss wörd+&=:"
    connect(service, provider)
    erika.sign_in_there()
    assert erika.is_in()


@pytest.mark.either_engine
@pytest.mark.parametrize("trouble", ["", "wrong iss"])
def test_a_provider_that_names_itself_must_name_the_right_one(
    service: Service, provider: Provider, erika: Guest, trouble: Trouble
) -> None:
    provider.names_issuer, provider.trouble = not trouble, trouble
    connect(service, provider)
    erika.sign_in_there()
    assert erika.is_in() == (not trouble)
    if not trouble:
        back = httpx.URL(way_back(Guest(service).set_out())).copy_remove_param("iss")
        assert "iss" not in back.params
        other = Guest(service)
        address = httpx.URL(way_back(other.set_out())).copy_remove_param("iss")
        other.get(str(address).removeprefix(service.base_url))
        assert not other.is_in(), "a provider that always names itself is missed if it does not"


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("trouble", "where"),
    [
        ("huge", "configuration"), ("half", "configuration"), ("nonsense", "configuration"), ("500", "configuration"),
        ("redirect", "configuration"), ("wrong issuer in discovery", ""), ("private address", ""),
    ],
)  # fmt: skip
def test_a_broken_provider_is_said_before_anybody_leaves(
    service: Service, provider: Provider, erika: Guest, trouble: Trouble, where: str
) -> None:
    connect(service, provider)
    provider.trouble, provider.trouble_at = trouble, where
    answer = erika.post("/dashboard/sign-in/provider", {"next": "/dashboard/team"})
    assert answer.headers["location"] == "/dashboard/sign-in?next=%2Fdashboard%2Fteam"
    assert "cannot be reached" in erika.notice()
    provider.trouble = ""
    service.clock.advance(seconds=5)
    erika.sign_in_there()
    assert erika.is_in(), "it is asked again"


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("trouble", "where"),
    [
        ("huge", "token"), ("half", "token"), ("nonsense", "token"), ("500", "token"), ("redirect", "token"),
        ("huge", "keys"), ("nonsense", "keys"), ("500", "keys"), ("no keys", ""), ("echo", "token"), ("denied", ""),
    ],
)  # fmt: skip
def test_a_broken_provider_lets_nobody_in(
    service: Service, provider: Provider, erika: Guest, trouble: Trouble, where: str
) -> None:
    connect(service, provider)
    address = erika.set_out()
    provider.trouble, provider.trouble_at = trouble, where
    answer = erika.come_back(address)
    assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard/sign-in")
    assert not erika.is_in()
    said = erika.notice()
    assert any(part in said for part in ("cannot be reached", NOT_BELIEVED, "was ended at the identity provider"))
    assert "script" not in said


@pytest.mark.either_engine
def test_nobody_waits_for_a_slow_provider_for_ever(
    service: Service, provider: Provider, erika: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = erika.set_out()
    provider.trouble, provider.trouble_at = "late", "token"
    monkeypatch.setattr(identity_provider, "SECONDS", 0.05)
    erika.come_back(address)
    assert not erika.is_in()
    assert "cannot be reached" in erika.notice()


@pytest.mark.either_engine
def test_the_secret_is_in_no_answer_and_no_line_of_the_log(
    service: Service, provider: Provider, erika: Guest, capfd: pytest.CaptureFixture[str]
) -> None:
    heard = ""
    for trouble in ("", "echo", "nonsense"):
        provider.trouble, provider.trouble_at = trouble, "token"
        back = erika.sign_in_there()
        again = erika.get(f"{CALLBACK}?{back.request.url.query.decode()}")
        heard += back.text + str(back.headers) + again.text + erika.get("/dashboard/sign-in").text
    logged = capfd.readouterr()
    assert "identity_provider_not_believed" in logged.out + logged.err
    for secret in (provider.secret, provider.secret.replace(" ", "+"), *provider.grants):
        assert secret not in heard + logged.out + logged.err
    assert provider.secret not in repr(service.application.context.part(IdentityProvider).configuration)


# --- Linking and unlinking


def test_linking_needs_the_session_that_set_out(service: Service, muster: Organization, provider: Provider) -> None:
    connect(service, provider)
    service.user(muster, EMAIL)
    erika = Guest(service)
    erika.sign_in(EMAIL)
    address = led_to(erika.post("/dashboard/profile/account/link"))
    erika.post("/dashboard/sign-out")
    service.user(muster, "max@muster.example")
    erika.sign_in("max@muster.example")
    erika.come_back(address)
    assert service.db.read_now(identities.by_subject, provider.issuer, "erika-1") is None


def test_an_account_belongs_to_one_person_and_a_person_has_one(
    service: Service, muster: Organization, provider: Provider, erika: Guest
) -> None:
    service.user(muster, "max@muster.example")
    other = Guest(service)
    other.sign_in("max@muster.example")
    other.link()
    assert other.notice() == "This account is linked to somebody already."
    provider.add(provider.present + "0", email="another@muster.example")
    provider.present += "0"
    erika.sign_in(EMAIL)
    erika.link()
    assert erika.notice() == "An account is linked to you already. Unlink it first."


def unlink_path(guest: Guest) -> str:
    page = guest.get("/dashboard/profile").text
    return page[page.index("/dashboard/profile/account/") :].partition('"')[0]


def test_unlinking_ends_what_was_opened_with_the_account(service: Service, muster: Organization, erika: Guest) -> None:
    elsewhere, by_password = Guest(service), Guest(service)
    elsewhere.sign_in_there()
    erika.sign_in_there()
    by_password.sign_in(EMAIL)
    assert erika.post(unlink_path(erika)).status_code == 303
    assert (erika.is_in(), elsewhere.is_in(), by_password.is_in()) == (True, False, True)
    assert len(audited(service, muster, "identity.unlink")) == 1
    guest = Guest(service)
    guest.sign_in_there()
    assert "Nobody here has this account yet" in guest.notice()


def test_the_only_way_in_is_not_unlinked(service: Service, erika: Guest) -> None:
    erika.sign_in_there()
    service.db.write_now(lambda tx: tx.run("UPDATE users SET password_hash = '' WHERE email = ?", EMAIL))
    answer = erika.post(unlink_path(erika))
    assert answer.status_code == 409
    assert "Set a password or a passkey first" in answer.text
    assert "You have no password" in erika.get("/dashboard/profile").text


def test_nobody_unlinks_the_account_of_another(service: Service, muster: Organization, erika: Guest) -> None:
    erika.sign_in_there()
    path = unlink_path(erika)
    service.user(muster, "max@muster.example")
    other = Browser(service)
    other.sign_in("max@muster.example")
    assert other.post(path).status_code == 404
