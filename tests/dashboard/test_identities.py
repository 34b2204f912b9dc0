"""People who come from the identity provider: who is admitted, with which role, with which factor, and what counts as a confirmation."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from kontobahn.access import factors, identities, invitations, sessions, users
from kontobahn.access.principal import Principal, Role
from kontobahn.clock import SECOND
from kontobahn.dashboard.dispatch import SECOND_FACTOR
from kontobahn.errors import Conflict
from simulators.identity_provider import Provider
from tests.dashboard.provider_guest import EMAIL, NAME, Guest, audited, connect, led_to
from tests.harness import ACTOR, Organization, Service

ROLES = {"accounting": "bookkeeping", "it": "admin", "board": "read_only"}
WITHOUT_ROLE = "This account has no role here, or no longer."
UNKNOWN = "Nobody here has this account yet."


@pytest.fixture
def muster(service: Service) -> Organization:
    return service.organization()


def link(service: Service, organization: Organization, provider: Provider, role: Role = "member") -> users.User:
    """Somebody with a password and an account at the provider."""
    user = service.user(organization, EMAIL, role)
    shown = identities.Shown(provider.issuer, "erika-1", "", "", EMAIL, (), None, False)
    service.db.write_now(identities.link, user, shown, ACTOR)
    return user


def user_of(service: Service, email: str = EMAIL) -> users.User | None:
    found = service.db.read_now(users.by_email, email)
    return found[0] if found else None


def role_of(service: Service) -> str:
    found = user_of(service)
    assert found is not None
    return found.role


# --- New people


def test_nobody_is_added_unless_the_operator_wants_it(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id)
    service.user(muster, "max@muster.example")
    guest.sign_in_there()
    assert guest.notice().startswith(UNKNOWN)
    assert user_of(service) is None


def test_a_new_person_has_a_name_no_password_and_the_lowest_role(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_new_people=True)
    guest.sign_in_there()
    assert guest.is_in()
    user = user_of(service)
    assert user is not None
    assert (user.organization_id, user.name, user.role) == (muster.id, "Erika Muster", "read_only")
    assert not service.db.read_now(users.has_password, user)
    done = guest.post("/dashboard/sign-out")
    assert done.status_code == 200
    assert "You have been signed out here." in done.text
    # Whoever is signed out has no menu.
    assert "Erika Muster" not in done.text
    assert 'class="contents"' not in done.text
    assert Guest(service).sign_in(EMAIL, "").status_code == 422
    assert audited(service, muster, "user.create")[-1].actor == identities.PROVIDER


@pytest.mark.either_engine
@pytest.mark.parametrize(
    "claims",
    [
        {"email_verified": False}, {"email_verified": "true"}, {"email_verified": None}, {"email": "two words@x"},
        {"email": None}, {"email": ["a@b.example"]},
    ],
)  # fmt: skip
def test_an_address_that_nobody_has_verified_is_none(
    service: Service, muster: Organization, provider: Provider, guest: Guest, claims: dict[str, Any]
) -> None:
    settings = {"oidc_organization": muster.id, "oidc_new_people": True, "oidc_link_by_email": True}
    connect(service, provider, **settings)
    provider.accounts["erika-1"] |= claims
    service.user(muster, EMAIL, "owner")
    guest.sign_in_there()
    assert not guest.is_in()
    assert "does not say that your e-mail address is verified" in guest.notice()


@pytest.mark.either_engine
def test_the_address_of_somebody_here_makes_no_second_person(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_new_people=True)
    service.user(muster, EMAIL, "owner")
    guest.sign_in_there()
    assert not guest.is_in()
    assert guest.notice().startswith(UNKNOWN)


@pytest.mark.either_engine
def test_an_organisation_that_does_not_exist_gets_nobody(
    service: Service, provider: Provider, guest: Guest, muster: Organization
) -> None:
    connect(service, provider, oidc_organization="another", oidc_new_people=True)
    service.user(muster, "max@muster.example")
    guest.sign_in_there()
    assert guest.notice().startswith(UNKNOWN)


# --- Linking by the e-mail address


def test_an_account_is_linked_by_its_verified_address_where_the_operator_wants_it(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_link_by_email=True)
    service.user(muster, EMAIL, "owner")
    guest.sign_in_there()
    assert guest.is_in()
    assert "verified e-mail address" in audited(service, muster, "identity.link")[-1].details
    # The address is somebody else's at the provider now.
    provider.add("erika-2", email=EMAIL, email_verified=True)
    provider.present = "erika-2"
    other = Guest(service)
    other.sign_in_there()
    assert not other.is_in()
    assert other.notice().startswith(UNKNOWN)


def test_nobody_of_another_organisation_is_found_by_the_address(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_link_by_email=True)
    service.user(service.organization("Andere GmbH"), EMAIL)
    guest.sign_in_there()
    assert not guest.is_in()


# --- Invitations


def test_an_invitation_is_accepted_with_the_account(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider)
    inviting = Principal(organization_id=muster.id, role="owner", scope=(muster.id,))
    new = service.db.write_now(
        invitations.create, service.vault, inviting, email="neu@muster.example", role="bookkeeping", days=7, actor=ACTOR
    )
    path = f"/dashboard/invitation/{new.secret}"
    assert f"Accept with {NAME}" in guest.get(path).text
    guest.come_back(led_to(guest.post(f"{path}/provider")))
    assert guest.is_in()
    user = user_of(service, "neu@muster.example")
    assert user is not None
    assert (user.role, user.name) == ("bookkeeping", "Erika Muster")
    assert guest.post(f"{path}/provider").status_code == 409, "it is accepted"
    second = service.db.write_now(
        invitations.create, service.vault, inviting, email="zwei@muster.example", role="admin", days=7, actor=ACTOR
    )
    other = Guest(service)
    other.come_back(led_to(other.post(f"/dashboard/invitation/{second.secret}/provider")))
    assert not other.is_in()
    assert "belongs to somebody here already" in other.notice()
    assert user_of(service, "zwei@muster.example") is None


# --- Roles


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["accounting"], "bookkeeping"), (["board", "it", "accounting"], "admin"), ("it", "admin"), (["x", "board"], "read_only"),
    ],
)  # fmt: skip
def test_the_role_follows_from_the_claim_and_the_highest_counts(
    service: Service, muster: Organization, provider: Provider, guest: Guest, groups: Any, role: str
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_role_claim="groups", oidc_roles=ROLES)
    link(service, muster, provider)
    provider.accounts["erika-1"]["groups"] = groups
    elsewhere = Guest(service)
    elsewhere.sign_in(EMAIL)
    guest.sign_in_there()
    assert guest.is_in()
    assert role_of(service) == role
    assert not elsewhere.is_in(), "whoever may do more or less signs in again"
    assert audited(service, muster, "user.change_role")[-1].actor == identities.PROVIDER
    guest.sign_in_there()
    assert len(audited(service, muster, "user.change_role")) == 1, "it is the same as before"


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        ("realm_access.roles", {"realm_access": {"roles": ["it"]}}),
        ("https://muster.example/roles", {"https://muster.example/roles": ["it"]}),
        ("a.b", {"a.b": "it", "a": {"b": "board"}}),
    ],
)
def test_a_claim_is_found_by_its_name_or_the_way_to_it(
    service: Service, muster: Organization, provider: Provider, guest: Guest, claim: str, claims: dict[str, Any]
) -> None:
    settings = {"oidc_organization": muster.id, "oidc_role_claim": claim, "oidc_roles": ROLES}
    connect(service, provider, oidc_new_people=True, **settings)
    provider.accounts["erika-1"] |= claims
    guest.sign_in_there()
    assert role_of(service) == "admin"


@pytest.mark.parametrize("groups", [None, [], ["unknown"], {"it": True}, [["it"]]])
def test_a_withdrawn_role_ends_every_session_and_lets_nobody_in(
    service: Service, muster: Organization, provider: Provider, guest: Guest, groups: Any
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_role_claim="groups", oidc_roles=ROLES)
    user = link(service, muster, provider, "admin")
    elsewhere = Guest(service)
    elsewhere.sign_in(EMAIL)
    provider.accounts["erika-1"]["groups"] = groups
    guest.sign_in_there()
    assert guest.notice().startswith(WITHOUT_ROLE)
    assert role_of(service) == "read_only", "a password that is still there opens no more"
    assert service.db.read_now(sessions.of_user, muster.id, user.id) == []
    assert "no role" in audited(service, muster, "session.refuse")[-1].details
    provider.accounts["erika-1"]["groups"] = ["it"]
    guest.sign_in_there()
    assert (guest.is_in(), role_of(service)) == (True, "admin")


@pytest.mark.either_engine
@pytest.mark.parametrize("groups", [None, ["board"], ["it"]])
def test_an_owner_stays_one_and_gets_in(
    service: Service, muster: Organization, provider: Provider, guest: Guest, groups: Any
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_role_claim="groups", oidc_roles=ROLES)
    link(service, muster, provider, "owner")
    provider.accounts["erika-1"]["groups"] = groups
    guest.sign_in_there()
    assert (guest.is_in(), role_of(service)) == (True, "owner")


@pytest.mark.either_engine
def test_roles_of_another_organisation_are_its_own(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider, oidc_organization=muster.id, oidc_role_claim="groups", oidc_roles=ROLES)
    link(service, service.organization("Andere GmbH"), provider, "member")
    provider.accounts["erika-1"]["groups"] = ["it"]
    guest.sign_in_there()
    assert (guest.is_in(), role_of(service)) == (True, "member")


@pytest.mark.either_engine
def test_whoever_has_no_role_is_not_added(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    settings = {"oidc_organization": muster.id, "oidc_role_claim": "groups", "oidc_roles": ROLES}
    connect(service, provider, oidc_new_people=True, **settings)
    service.user(muster, "max@muster.example")
    guest.sign_in_there()
    assert guest.notice().startswith(WITHOUT_ROLE)
    assert user_of(service) is None


# --- Second factors


def add_app(service: Service, user: users.User) -> bytes:
    principal = Principal(
        organization_id=user.organization_id, role=user.role, scope=(user.organization_id,), user_id=user.id
    )
    secret = factors.new_secret()
    code = factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)
    service.db.write_now(factors.add_totp, service.vault, principal, secret, code, "App", ACTOR)
    return secret


@pytest.mark.parametrize(
    ("claims", "is_asked"), [({}, True), ({"amr": ["pwd"]}, True), ({"amr": ["pwd", "mfa"]}, False), ({"acr": "gold"}, False)]
)  # fmt: skip
def test_the_own_factor_is_asked_for_unless_the_provider_has_seen_one(
    service: Service, muster: Organization, provider: Provider, guest: Guest, claims: dict[str, Any], is_asked: bool
) -> None:
    connect(service, provider, oidc_factor_amr="mfa, hwk", oidc_factor_acr="gold")
    secret = add_app(service, link(service, muster, provider))
    provider.accounts["erika-1"] |= claims
    address = guest.set_out(next="/dashboard/team")
    assert parse_qs(urlsplit(address).query)["acr_values"] == ["gold"]
    answer = guest.come_back(address)
    assert guest.is_in() != is_asked
    if is_asked:
        ticket = hidden(answer, "ticket")
        service.clock.advance(seconds=2 * factors.STEP_SECONDS)
        code = factors.totp(secret, service.clock.now() // SECOND // factors.STEP_SECONDS)
        sent = {"ticket": ticket, "code": code, "next": hidden(answer, "next")}
        assert guest.post("/dashboard/sign-in/code", sent).headers["location"] == "/dashboard/team"
        assert guest.is_in()
    assert led_to(guest.post("/dashboard/sign-out")).startswith(provider.issuer)


@pytest.mark.parametrize("shown", [False, True])
def test_a_required_factor_may_be_the_providers(
    service: Service, muster: Organization, provider: Provider, guest: Guest, shown: bool
) -> None:
    connect(service, provider, oidc_factor_amr="mfa")
    link(service, muster, provider)
    service.db.write_now(
        lambda tx: tx.run("UPDATE organizations SET second_factor_required = 1 WHERE id = ?", muster.id)
    )
    provider.accounts["erika-1"]["amr"] = ["pwd", "mfa"] if shown else ["pwd"]
    guest.sign_in_there()
    answer = guest.get("/dashboard/profile")
    assert answer.status_code == (200 if shown else 303)
    assert shown or answer.headers["location"] == SECOND_FACTOR


def test_the_last_passkey_stays_if_nothing_else_lets_in(service: Service, muster: Organization) -> None:
    user = service.user(muster, EMAIL)
    who = Principal(organization_id=muster.id, role=user.role, scope=(muster.id,), user_id=user.id)
    key = service.db.write_now(
        factors.add_passkey, who, "Key", ACTOR, credential_id="c", public_key=b"k", counter=0
    )  # fmt: skip
    shown = identities.Shown("https://login.example", "s", "", "", "s", (), None, False)
    service.db.write_now(identities.link, user, shown, ACTOR)
    service.db.write_now(lambda tx: tx.run("UPDATE users SET password_hash = '' WHERE id = ?", user.id))
    with pytest.raises(Conflict, match="without this passkey"):
        service.db.write_now(factors.remove, who, key.id, ACTOR, issuer="https://another.example")
    service.db.write_now(factors.remove, who, key.id, ACTOR, issuer="https://login.example")


# --- Confirming


def hidden(answer: httpx.Response, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', answer.text)
    assert found is not None, answer.text
    return html.unescape(found[1])


@pytest.fixture
def owner(service: Service, muster: Organization, provider: Provider, guest: Guest) -> Guest:
    """Somebody who signed in at the provider eleven minutes before this sign-in, and is asked to confirm what matters."""
    connect(service, provider)
    link(service, muster, provider, "owner")
    provider.signed_in_for = 11 * 60
    guest.sign_in_there()
    assert guest.is_in()
    return guest


def codes(guest: Guest) -> httpx.Response:
    """Asks for new recovery codes, which needs a confirmation."""
    return guest.post(f"{SECOND_FACTOR}/recovery-codes", {"kept": "a <b>"})


def test_a_sign_in_of_long_ago_is_no_confirmation_and_the_provider_gives_one(owner: Guest, service: Service) -> None:
    asked = codes(owner)
    assert "Please confirm that it is you" in asked.text
    assert f"Confirm with {NAME}" in asked.text
    address = led_to(owner.post(f"{SECOND_FACTOR}/recovery-codes", {"kept": "a <b>", "_provider": "1"}))
    query = parse_qs(urlsplit(address).query)
    assert (query["prompt"], query["max_age"]) == (["login"], ["0"])
    before = owner.token
    confirmed = owner.come_back(address)
    assert confirmed.status_code == 200
    assert owner.token != before, "more may be done with it now"
    assert hidden(confirmed, "kept") == "a <b>"
    assert f'action="{SECOND_FACTOR}/recovery-codes"' in confirmed.text
    assert "Recovery codes" in codes(owner).text
    service.clock.advance(seconds=10 * 60 + 1)
    assert "Please confirm that it is you" in codes(owner).text


def test_a_fresh_sign_in_at_the_provider_is_a_confirmation(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider)
    link(service, muster, provider)
    provider.signed_in_for = 600
    guest.sign_in_there()
    assert "Recovery codes" in codes(guest).text


@pytest.mark.either_engine
def test_whoever_has_no_account_at_the_provider_is_not_sent_there_to_confirm(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider)
    guest.sign_in(service.user(muster, EMAIL).email)
    service.clock.advance(seconds=10 * 60 + 1)
    asked = codes(guest).text
    assert 'name="_password"' in asked
    assert f"Confirm with {NAME}" not in asked


@pytest.mark.either_engine
@pytest.mark.parametrize("fault", ["not anew", "no time", "another account", "denied"])
def test_what_is_no_confirmation_is_asked_for_again(provider: Provider, owner: Guest, fault: str) -> None:
    provider.obeys_prompt = fault != "not anew"
    provider.tells_auth_time = fault != "no time"
    provider.trouble = "denied" if fault == "denied" else ""
    if fault == "another account":
        provider.present = "somebody else"
    answer = owner.come_back(led_to(owner.post(f"{SECOND_FACTOR}/recovery-codes", {"kept": "1", "_provider": "1"})))
    assert answer.status_code == 422
    assert hidden(answer, "kept") == "1"
    assert f'action="{SECOND_FACTOR}/recovery-codes"' in answer.text
    assert "Please confirm that it is you" in codes(owner).text


@pytest.mark.either_engine
def test_without_a_time_a_sign_in_confirms_nothing(
    service: Service, muster: Organization, provider: Provider, guest: Guest
) -> None:
    connect(service, provider)
    link(service, muster, provider)
    provider.tells_auth_time = False
    guest.sign_in_there()
    assert "Please confirm that it is you" in codes(guest).text
