"""Pages about keys, people and the person: what they make, whom they show, and what they do not take."""

from __future__ import annotations

import base64
import html
import re
from types import SimpleNamespace
from typing import Any

import pytest

from kontobahn.access import invitations, users
from kontobahn.access.principal import Principal
from kontobahn.banking.connections.routes import list_bank_connections
from kontobahn.banking.payments.routes import create_payment
from kontobahn.dashboard import notices, sign_in
from kontobahn.dashboard.dispatch import SECOND_FACTOR
from kontobahn.dashboard.visit import Visit
from kontobahn.errors import Forbidden
from kontobahn.events.webhook_endpoints import delete_webhook_endpoint
from kontobahn.mobility.customers import create_customer
from tests.bank_builder import Bank
from tests.dashboard.browsing import COOKIE, Browser
from tests.dashboard.test_second_factor import Person
from tests.harness import ACTOR, PASSWORD, Organization, Service
from tests.mobility_builder import CUSTOMER

KEYS, TEAM, NEW = "/dashboard/keys", "/dashboard/team", "a new password of mine"


@pytest.fixture
def muster(service: Service) -> Organization:
    return service.organization()


@pytest.fixture
def erika(service: Service, muster: Organization) -> Browser:
    return signed_in(service, muster, "erika@muster.example")


def signed_in(service: Service, organization: Organization, email: str, role: Any = "owner") -> Browser:
    service.user(organization, email, role)
    browser = Browser(service)
    assert browser.sign_in(email).status_code == 303
    return browser


def secret_in(page: str) -> str:
    found = re.search(r'name="secret" value="([^"]+)"', page)
    assert found is not None, page
    return html.unescape(found[1])


# --- Keys


@pytest.mark.either_engine
def test_a_key_has_what_its_form_said_and_is_tried_at_once(service: Service, erika: Browser) -> None:
    limits = {"payment_limit": "1.000,50", "daily_limit": ""}
    made = erika.post(f"{KEYS}/new", {"name": "Lager", "role": "bookkeeping", "scopes": ["banking:read"], **limits})
    secret = secret_in(made.text)
    assert service.get("/v2/banking/connections", secret).status_code == 200
    assert service.get("/v2/mobility/customers", secret).status_code == 403
    ids = re.findall(rf'href="{KEYS}/([0-9a-f-]{{36}})"', erika.get(KEYS).text)
    shown = next(text for text in (erika.get(f"{KEYS}/{id}").text for id in ids) if "Lager" in text)
    assert "1,000.50" in shown
    assert "At most per day" not in shown
    assert "<code>banking:read</code>" in shown
    tried = erika.post(f"{KEYS}/try", {"secret": secret}).text
    assert "200\n" in tried
    assert secret_in(tried) == secret


@pytest.mark.either_engine
def test_all_keys_are_listed_the_newest_first_and_one_without_scopes_is_restricted_to_none(erika: Browser) -> None:
    for name in ("Erster", "Zweiter", "Dritter"):
        assert erika.post(f"{KEYS}/new", {"name": name}).status_code == 200
    rows = re.findall(rf'<a href="{KEYS}/([0-9a-f-]+)">(\w+)</a>', erika.get(KEYS).text)
    assert [name for _, name in rows][:3] == ["Dritter", "Zweiter", "Erster"]
    assert "Restricted to" not in erika.get(f"{KEYS}/{rows[0][0]}").text
    rotated = erika.post(f"{KEYS}/{rows[0][0]}/rotate", {"overlap": "0"})
    assert secret_in(rotated.text)
    assert erika.post(f"{KEYS}/{rows[0][0]}/rotate", {"overlap": "5"}).status_code == 422
    refused = erika.post(f"{KEYS}/new", {"name": ""})
    assert refused.status_code == 422
    assert "Please fill this in." in refused.text


@pytest.mark.either_engine
def test_only_a_key_of_ones_own_is_tried_and_told_what_it_may_not(
    service: Service, muster: Organization, erika: Browser
) -> None:
    foreign = service.organization("Fremde GmbH")
    for sent in ({}, {"secret": foreign.key}, {"secret": "kb_nobody"}):
        assert erika.post(f"{KEYS}/try", sent).headers["location"] == KEYS
    elsewhere = secret_in(erika.post(f"{KEYS}/new", {"name": "Tickets", "scopes": ["mobility:read"]}).text)
    assert "would answer 403" in erika.post(f"{KEYS}/try", {"secret": elsewhere}).text
    own = erika.post(f"{KEYS}/try", {"secret": muster.key})
    assert (own.status_code, "would answer 403" in own.text) == (200, False)


# --- The person


@pytest.mark.either_engine
def test_a_new_password_lets_in_and_the_old_one_no_longer(service: Service, erika: Browser) -> None:
    sent = {"old_password": "not the old one", "new_password": NEW}
    assert erika.post("/dashboard/profile/password", sent).status_code == 422
    assert erika.post("/dashboard/profile/password", {**sent, "old_password": PASSWORD}).status_code == 303
    assert Browser(service).sign_in("erika@muster.example", PASSWORD).status_code == 422
    assert Browser(service).sign_in("erika@muster.example", NEW).status_code == 303


@pytest.mark.either_engine
def test_what_a_person_wants_to_be_told_is_kept(service: Service, erika: Browser) -> None:
    assert erika.post("/dashboard/profile/notices", {"kind": ["files", "summary"]}).status_code == 303
    found = service.db.read_now(users.by_email, "erika@muster.example")
    assert found is not None

    def wanted() -> set[str]:
        assert found is not None
        return {kind for kind, is_wanted in service.db.read_now(notices.chosen, found[0]).items() if is_wanted}

    assert wanted() == {"files", "summary"}
    link = f"{notices.PATH}/{notices.token(service.vault, found[0].id)}"
    assert Browser(service).post(link, {"kind": "files"}).headers["location"] == link
    assert wanted() == {"files"}, "by the link of a mail, without signing in"


@pytest.mark.either_engine
@pytest.mark.parametrize(("name", "status"), [("", 422), ("A", 200), ("A" * 60, 200), ("A" * 61, 422)])
def test_a_factor_has_a_name_of_up_to_sixty_characters(
    service: Service, muster: Organization, name: str, status: int
) -> None:
    person = Person(service, muster)
    page = person.browser.get(f"{SECOND_FACTOR}/app").text
    shown = re.search(r"<code>([A-Z2-7 ]+)</code>", page)
    assert shown is not None
    person.secret = _from_base32(shown[1])
    sent = {"name": name, "code": person.code(), "secret": secret_in(page)}
    assert person.browser.post(f"{SECOND_FACTOR}/app", sent).status_code == status


def _from_base32(text: str) -> bytes:
    compact = text.replace(" ", "")
    return base64.b32decode(compact + "=" * (-len(compact) % 8))


@pytest.mark.either_engine
@pytest.mark.parametrize("secret", ["", "x", "AAAA"])
def test_a_secret_that_was_not_sealed_here_makes_no_app(erika: Browser, secret: str) -> None:
    refused = erika.post(f"{SECOND_FACTOR}/app", {"name": "App", "code": "000000", "secret": secret})
    assert (refused.status_code, "The form cannot be read." in refused.text) == (400, True)


@pytest.mark.either_engine
def test_signing_out_leaves_nothing_of_the_person_in_the_browser(service: Service, erika: Browser) -> None:
    client = service.organization("Klient GmbH")
    found = service.db.read_now(users.by_email, "erika@muster.example")
    assert found is not None
    service.give_access(found[0], client)
    erika.post("/dashboard/look", {"organization": client.id})
    assert {COOKIE, "kontobahn_organization"} <= set(erika.cookies)
    erika.post("/dashboard/sign-out")
    assert not {COOKIE, "kontobahn_organization"} & set(erika.cookies)


@pytest.mark.either_engine
def test_anybody_chooses_a_language_that_there_is(service: Service, erika: Browser) -> None:
    for browser in (erika, Browser(service)):
        for wish, chosen in (("de", "de"), ("xx", "de"), ("", "de"), ("en", "en")):
            assert browser.post("/dashboard/look", {"language": wish}).status_code == 303
            assert browser.cookies["kontobahn_language"] == chosen


@pytest.mark.either_engine
def test_only_somebody_with_a_link_gets_a_password_hashed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    async def hash_password(visit: Visit, password: str) -> str:
        hashed.append(password)
        return ""

    monkeypatch.setattr(sign_in, "hash_password", hash_password)
    for path in ("password", "invitation/nobody"):
        refused = Browser(service).post(f"/dashboard/{path}", {"token": "nobody", "name": "Max", "password": NEW})
        assert refused.status_code in (404, 422)
    assert hashed == []


@pytest.mark.either_engine
def test_an_invitation_that_cannot_be_accepted_says_so_before_anybody_fills_in_a_form(
    service: Service, muster: Organization
) -> None:
    principal = Principal(muster.id, "owner", (muster.id,))
    made = service.db.write_now(
        invitations.create, service.vault, principal, email="max@muster.example", role="member", days=7, actor=ACTOR
    )
    path = f"/dashboard/invitation/{made.secret}"
    assert 'name="password"' in Browser(service).get(path).text
    assert Browser(service).post(path, {"name": "Max", "password": PASSWORD}).status_code == 303
    for address, status, said in (
        (path, 409, "was accepted already"),
        ("/dashboard/invitation/x", 404, "is not known"),
    ):
        answer = Browser(service).get(address)
        assert (answer.status_code, said in answer.text, 'name="password"' in answer.text) == (status, True, False), (
            answer.text
        )


# --- People


@pytest.mark.either_engine
def test_only_an_owner_is_offered_owners_and_only_open_invitations_are_shown(
    service: Service, muster: Organization, erika: Browser
) -> None:
    admin = signed_in(service, muster, "admin@muster.example", "admin")
    assert 'value="owner"' in erika.get(TEAM).text
    assert 'value="owner"' not in admin.get(TEAM).text
    for email in ("offen@muster.example", "zurueck@muster.example"):
        assert erika.post(f"{TEAM}/invitations", {"email": email, "role": "member"}).status_code == 200
    ids = re.findall(rf"{TEAM}/invitations/([0-9a-f-]+)/revoke", erika.get(TEAM).text)
    assert len(ids) == 2
    assert erika.post(f"{TEAM}/invitations/{ids[0]}/revoke").status_code == 303
    assert re.findall(rf"{TEAM}/invitations/([0-9a-f-]+)/revoke", erika.get(TEAM).text) == ids[1:]


@pytest.mark.either_engine
def test_access_is_shown_on_the_side_that_it_is_of(service: Service, muster: Organization, erika: Browser) -> None:
    client = service.organization("Klient GmbH")
    service.give_access(service.user(muster, "max@muster.example", "member"), client, "read_only")
    theirs = signed_in(service, client, "chefin@klient.example")
    ours, outside = "Access of your people to clients", "People of other organisations with access to yours"
    assert [text in erika.get(TEAM).text for text in (ours, outside)] == [True, False]
    assert [text in theirs.get(TEAM).text for text in (ours, outside)] == [False, True]


@pytest.mark.either_engine
def test_before_somebody_is_deleted_the_banks_that_go_too_are_named(
    service: Service, muster: Organization, erika: Browser
) -> None:
    max_, eva = (service.user(muster, f"{name}@muster.example", "member") for name in ("max", "eva"))
    bank = Bank(service).connected(muster, owner_user_id=max_.id)
    assert bank.provider_name in erika.get(f"{TEAM}/{max_.id}/delete").text
    assert bank.provider_name not in erika.get(f"{TEAM}/{eva.id}/delete").text


# --- A visit


def visit_of(role: Any, prices: dict[str, int]) -> Visit:
    visit: Any = object.__new__(Visit)
    visit.page = None
    visit.person = SimpleNamespace(acting_as=lambda own: Principal("o", role, ("o",), user_id="u"))
    visit.exchange = SimpleNamespace(request_id="r", ip="127.0.0.1", header=lambda name: None)
    visit.context = SimpleNamespace(settings=SimpleNamespace(prices=prices))
    return visit  # type: ignore[no-any-return]


def test_a_page_makes_no_call_that_the_role_may_not_make() -> None:
    with pytest.raises(Forbidden):
        visit_of("read_only", {}).call(create_payment)


def test_looking_is_free_and_what_changes_something_costs_what_it_costs_by_call() -> None:
    prices = {list_bank_connections.name: 3}
    assert visit_of("member", prices).call(list_bank_connections).price == 0
    assert visit_of("member", prices).call(create_payment).price == create_payment.cost > 0
    assert visit_of("member", {create_payment.name: 9}).call(create_payment).price == 9


@pytest.mark.either_engine
@pytest.mark.parametrize("price", [0, 5])
def test_a_call_that_only_a_setting_has_a_price_for_costs_it_once_at_a_page(
    service: Service, muster: Organization, erika: Browser, monkeypatch: pytest.MonkeyPatch, price: int
) -> None:
    assert (create_customer.cost, delete_webhook_endpoint.cost) == (0, 0)
    for endpoint in (create_customer, delete_webhook_endpoint):
        monkeypatch.setitem(service.application.context.settings.prices, endpoint.name, price)
    made = service.post("/v2/banking/webhook-endpoints", muster.key, json={"url": "https://93.184.216.34/"})
    assert erika.post("/dashboard/customers/new", CUSTOMER).status_code == 303
    assert service.balance(muster).available == 100 - price
    assert erika.post(f"/dashboard/webhooks/endpoints/{made.json()['data']['id']}/delete").status_code == 303
    assert service.balance(muster).available == 100 - 2 * price


@pytest.mark.parametrize(
    ("media_type", "how"), [("application/pdf", "inline"), ("image/png", "inline"), ("text/html", "attachment")]
)
def test_only_pictures_and_pdfs_are_shown_in_a_frame(media_type: str, how: str) -> None:
    shown = visit_of("member", {}).framed(b"<script>", media_type, "a")
    assert shown.headers["content-disposition"].startswith(f"{how};")
    assert ("sandbox" in shown.headers["content-security-policy"]) == (how == "attachment")


@pytest.mark.either_engine
def test_a_session_is_named_after_its_browser(service: Service, muster: Organization) -> None:
    service.user(muster, "erika@muster.example")
    browser = Browser(service)
    sent = {"email": "erika@muster.example", "password": PASSWORD}
    headers = {"origin": service.base_url, "user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Firefox/140.0"}
    assert browser.send("POST", "/dashboard/sign-in", data=sent, headers=headers).status_code == 303
    assert "Firefox, Linux" in browser.get("/dashboard/profile").text
