"""Assistants elsewhere sign in through the person: what a person has agreed to, to the letter, at one address, until it is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from pydantic import AnyUrl

from kontobahn.access import audit, factors, identities, users
from kontobahn.access.principal import Principal, Role
from kontobahn.api.request_log import Wanted, logged
from kontobahn.assistants import access, grants
from kontobahn.assistants.authorization import read_document
from kontobahn.db import Tx
from kontobahn.errors import BadRequest, NotFound
from kontobahn.ledger.connections import open_books
from tests.assistants.assistant import cash_entry, to_prepare
from tests.assistants.assistant import let_in as switch_on
from tests.assistants.hosted import (
    AUTHORIZE,
    HOST,
    LOOPBACK,
    REDIRECT,
    REVOKE,
    Maker,
    answer_in,
    code_in,
    decide,
    let_in,
    making,
    page_for,
)
from tests.bank_builder import Bank, account_id
from tests.dashboard.browsing import Browser
from tests.dashboard.test_releases import Releaser
from tests.harness import ACTOR, PASSWORD, Organization, Service, ServiceFactory
from tests.interleaving import on_postgres, overlap
from tests.ledger_builder import Books
from tests.receiver import Answer
from tests.reconciliation_desk import Clerk, paid

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
EMAIL = "erika@muster.example"


@pytest.fixture
def service(start_service: ServiceFactory) -> Service:
    return start_service(mcp=True)


@pytest.fixture
def owner(service: Service) -> Organization:
    owner = service.organization()
    switch_on(service, owner)
    return owner


@pytest.fixture
def maker(service: Service, tmp_path: Path) -> Iterator[Maker]:
    with making(service, tmp_path) as maker:
        yield maker


def signed_in(service: Service, owner: Organization, email: str = EMAIL, role: Role = "owner") -> Browser:
    service.user(owner, email, role)
    browser = Browser(service)
    browser.sign_in(email)
    return browser


def ask(service: Service, token: str, message: dict[str, Any] | None = None) -> httpx.Response:
    headers = {
        "authorization": f"Bearer {token}", "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
    }  # fmt: skip
    return service.http.post("/mcp", json=message or LIST, headers=headers)


def tools(service: Service, token: str) -> set[str]:
    answer = ask(service, token)
    assert answer.status_code == 200, answer.text
    return {tool["name"] for tool in answer.json()["result"]["tools"]}


def audited(service: Service, owner: Organization) -> list[tuple[str, str]]:
    entries = service.db.read_now(audit.entries, owner.id)
    return [(entry.action, entry.details) for entry in entries if entry.action.startswith("assistants.")]


class Kept:
    """The memory of the SDK's client."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def test_the_protocols_own_client_signs_in_through_a_person_and_everything_it_does_bears_both_names(
    service: Service, owner: Organization, maker: Maker
) -> None:
    browser, kept = signed_in(service, owner), Kept()
    led_to: list[str] = []

    async def open_page(address: str) -> None:
        path = address.removeprefix(service.base_url)
        request = answer_in(path)
        assert (request["scope"], request["resource"]) == ("bookkeeping", f"{service.base_url}/mcp")
        led_to.append(let_in(browser, request, preset="bookkeeping"))

    async def come_back() -> AuthorizationCodeResult:
        answer = answer_in(led_to[-1])
        return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])

    url = f"{service.base_url}/mcp?tools=bookkeeping"
    described = OAuthClientMetadata(redirect_uris=[AnyUrl(REDIRECT)], client_name="Fragefix")
    provider = OAuthClientProvider(url, described, kept, open_page, come_back, client_metadata_url=maker.client_id)

    async def seen() -> tuple[list[str], str]:
        async with (
            httpx2.AsyncClient(auth=provider) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            names = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("access", {})
            return names, answer.content[0].text  # type: ignore[union-attr]

    names, text = asyncio.run(seen())
    assert "decide_match" in names
    assert "prepare_payment" not in names
    assert "Role: bookkeeping" in text
    assert kept.tokens.scope == "bookkeeping"
    assert len(led_to) == 1

    service.run(service.application.answered.flush())
    rows = service.db.read_now(lambda tx: logged(tx, owner.id, Wanted(quelle="MCP"), before=2**62, limit=50))
    [grant] = service.db.read_now(grants.listing, owner.id)
    assert {row.api_key_id for row in rows} == {grant.grant.id}
    assert grant.grant.used_at == service.clock.now()
    assert "Erika Muster · Fragefix" in browser.get("/dashboard/requests").text
    assert "Assistant connected" in browser.get("/dashboard/audit").text
    listed = browser.get("/dashboard/assistants").text
    assert "Fragefix" in listed
    assert maker.client_id in listed
    stored = service.db.read_now(lambda tx: tx.all("SELECT * FROM assistants_tokens"))
    assert kept.tokens.access_token not in str(stored)
    assert kept.tokens.refresh_token not in str(stored)


@pytest.mark.either_engine
def test_the_descriptions_lead_from_a_refusal_to_the_page_that_asks_the_person(service: Service) -> None:
    refused = service.http.post("/mcp", json=LIST)
    assert refused.status_code == 401
    challenge = refused.headers["www-authenticate"]
    assert 'scope="read"' in challenge
    resource = service.http.get(challenge.partition('resource_metadata="')[2].partition('"')[0]).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{service.base_url}/mcp", [service.base_url])
    server = service.http.get("/.well-known/oauth-authorization-server").json()
    assert server["issuer"] == service.base_url
    assert server["authorization_endpoint"] == f"{service.base_url}{AUTHORIZE}"
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["client_id_metadata_document_supported"] is True
    assert server["authorization_response_iss_parameter_supported"] is True
    assert service.http.get("/oauth/token").status_code == 405
    assert service.http.post("/oauth/token", content=b"x" * 20_000).status_code == 413
    assert service.http.post("/oauth/token", content=b"\xff=1").json()["error"] == "invalid_request"
    assert (
        service.http.post("/oauth/token", data={"grant_type": "password"}).json()["error"] == "unsupported_grant_type"
    )


def test_a_token_is_for_one_address_has_no_more_than_was_agreed_and_is_over_after_an_hour(
    service: Service, owner: Organization, maker: Maker
) -> None:
    browser = signed_in(service, owner)
    address = let_in(browser, maker.request())
    assert address.startswith(f"{REDIRECT}?")
    assert {name: answer_in(address)[name] for name in ("state", "iss")} == {"state": "xyz", "iss": service.base_url}
    made = maker.fetch_tokens(code_in(address)).json()
    token = made["access_token"]
    assert (made["token_type"], made["expires_in"], made["scope"]) == ("Bearer", 3600, "read")
    seen = tools(service, token)
    assert "balances" in seen
    assert not {"decide_match", "prepare_payment"} & seen
    forged = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "prepare_payment", "arguments": {}}}
    refused = ask(service, token, forged)
    assert refused.status_code == 403
    assert 'error="insufficient_scope"' in refused.headers["www-authenticate"]
    assert 'scope="payments"' in refused.headers["www-authenticate"]

    assert service.get("/v2/banking/accounts", token).status_code == 401
    for path in ("/v2/banking/accounts", "/v2/assistants/settings", "/v2/auth/sessions"):
        assert service.http.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 401
    thief = Browser(service)
    thief.token = token
    assert thief.get("/dashboard").status_code == 303
    assert ask(service, made["refresh_token"]).status_code == 401
    service.db.write_now(lambda tx: tx.run("UPDATE assistants_grants SET resource = 'https://elsewhere.example/mcp'"))
    assert ask(service, token).status_code == 401, "a token for another resource"
    service.db.write_now(lambda tx: tx.run("UPDATE assistants_grants SET resource = ?", f"{service.base_url}/mcp"))
    assert ask(service, token).status_code == 200
    service.clock.advance(seconds=3600)
    assert ask(service, token).status_code == 401
    assert tools(service, maker.renew(made["refresh_token"]).json()["access_token"]) == seen


def test_a_code_is_redeemed_once_by_the_client_that_asked_with_the_verifier_that_belongs_to_it(
    service: Service, owner: Organization, maker: Maker
) -> None:
    browser = signed_in(service, owner)

    def code() -> str:
        return code_in(let_in(browser, maker.request()))

    for wrong in (
        {"code_verifier": "w" * 64},
        {"redirect_uri": "https://assistant.example/other"},
        {"client_id": f"https://{HOST}/another.json"},
        {"resource": "https://elsewhere.example/mcp"},
    ):
        mine = code()
        refused = maker.fetch_tokens(mine, **wrong)
        assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant"), wrong
        assert maker.fetch_tokens(mine).status_code == 400, "whoever guesses has spent it"
    assert maker.fetch_tokens(code(), code_verifier="").json()["error"] == "invalid_request"
    assert maker.fetch_tokens("kb_code_nonsense").json()["error"] == "invalid_grant"
    late = code()
    service.clock.advance(seconds=301)
    assert maker.fetch_tokens(late).status_code == 400

    twice = code()
    first = maker.fetch_tokens(twice).json()
    assert ask(service, first["access_token"]).status_code == 200
    assert maker.fetch_tokens(twice).json()["error"] == "invalid_grant"
    assert ask(service, first["access_token"]).status_code == 401, "a code that comes twice was stolen"
    assert maker.renew(first["refresh_token"]).status_code == 400


@on_postgres
def test_of_two_who_renew_with_one_token_at_once_one_does_and_the_grant_ends(
    service: Service, owner: Organization, maker: Maker
) -> None:
    token = maker.tokens(signed_in(service, owner))["refresh_token"]
    vault = service.application.context.vault

    def renew(tx: Tx) -> Any:
        return grants.renew(tx, vault, token=token, client_id=maker.client_id, resource=f"{service.base_url}/mcp")

    outcome = overlap(service.db, renew, renew)
    assert outcome.lock == "assistants_grant"
    assert isinstance(outcome.second, grants.Refused)
    assert ask(service, outcome.first.access).status_code == 401, "the token was stolen from one of them"


def test_tokens_are_renewed_in_turn_and_one_that_comes_twice_ends_the_grant(
    service: Service, owner: Organization, maker: Maker
) -> None:
    browser = signed_in(service, owner)
    first = maker.tokens(browser)
    second = maker.renew(first["refresh_token"], scope="read").json()
    assert ask(service, second["access_token"]).status_code == 200
    assert ask(service, first["access_token"]).status_code == 401
    assert maker.renew(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert ask(service, second["access_token"]).status_code == 401
    assert maker.renew(second["refresh_token"]).status_code == 400
    assert '"reason":"reuse"' in audited(service, owner)[-1][1]

    mixed_up = maker.tokens(browser)
    assert maker.renew(mixed_up["refresh_token"], client_id=f"https://{HOST}/another.json").status_code == 400
    assert maker.renew(mixed_up["refresh_token"]).status_code == 400
    assert '"reason":"mismatch"' in audited(service, owner)[-1][1]

    given_back = maker.tokens(browser)
    form = {"token": given_back["refresh_token"], "client_id": f"https://{HOST}/another.json"}
    assert service.http.post(REVOKE, data=form).status_code == 200
    assert ask(service, given_back["access_token"]).status_code == 200, "it was not another client's to end"
    assert service.http.post(REVOKE, data=form | {"client_id": maker.client_id}).status_code == 200
    assert ask(service, given_back["access_token"]).status_code == 401

    unused = maker.tokens(browser)
    service.clock.advance(seconds=30 * 86_400)
    assert maker.renew(unused["refresh_token"]).status_code == 400
    service.db.write_now(grants.purge)
    assert service.db.read_now(lambda tx: grants.TOKENS.all(tx, "grant_id <> ''")) == []


def test_a_grant_ends_with_the_person_the_role_the_list_and_the_switch(
    service: Service, owner: Organization, maker: Maker
) -> None:
    boss = signed_in(service, owner)
    karl, lea = (
        maker.tokens(browser, preset="payments")
        for browser in (
            signed_in(service, owner, "karl@muster.example", "member"),
            signed_in(service, owner, "lea@muster.example", "bookkeeping"),
        )
    )
    assert "prepare_payment" in tools(service, karl["access_token"])
    assert len(service.db.read_now(grants.listing, owner.id)) == 2
    people = {person.email: person for person in service.db.read_now(users.listing, owner.id)}

    def change(tx: Any) -> None:
        users.set_role(tx, people["lea@muster.example"], "read_only", ACTOR)

    service.db.write_now(change)
    assert ask(service, lea["access_token"]).status_code == 401
    assert maker.renew(lea["refresh_token"]).status_code == 400
    assert '"reason":"role"' in audited(service, owner)[-1][1]

    service.request("DELETE", f"/v2/auth/users/{people['karl@muster.example'].id}", owner.key)
    assert ask(service, karl["access_token"]).status_code == 401
    assert '"reason":"user"' in audited(service, owner)[-1][1]

    nina, mine = signed_in(service, owner, "nina@muster.example", "member"), maker.tokens(boss)
    [grant] = [one.grant for one in service.db.read_now(grants.listing, owner.id)]
    assert nina.post(f"/dashboard/assistants/grants/{grant.id}/disconnect").status_code == 403
    assert ask(service, mine["access_token"]).status_code == 200
    assert boss.post(f"/dashboard/assistants/grants/{grant.id}/disconnect").status_code == 303
    assert ask(service, mine["access_token"]).status_code == 401
    assert boss.post("/dashboard/assistants/grants/nonsense/disconnect").status_code == 404

    last = maker.tokens(boss)
    service.db.write_now(access.switch, owner.id, False, ACTOR)
    assert ask(service, last["access_token"]).status_code == 401
    service.db.write_now(access.switch, owner.id, True, ACTOR)
    assert ask(service, last["access_token"]).status_code == 401
    assert maker.renew(last["refresh_token"]).status_code == 400


def tell(service: Service, token: str, tool: str, **arguments: Any) -> str:
    """Returns what a tool says, whether it succeeds or not."""
    called = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    answer = ask(service, token, called)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["result"]["content"][0]["text"])


def test_an_assistant_sees_the_books_of_the_clients_that_the_person_chose_and_nothing_else(
    service: Service, owner: Organization, maker: Maker
) -> None:
    desk = Clerk(service, paid(11900, "RE-2026-00123"), owner=owner)
    desk.books.another_client("29098-55004", years=["2026-01-01"])
    connection, browser = desk.books.connection_id, signed_in(service, owner)
    mine, other = f"{connection} 29098-55003", f"{connection} 29098-55004"
    made = maker.tokens(browser, preset="bookkeeping", extent="clients", clients=[mine])
    token = made["access_token"]
    assert tools(service, token) == {
        "access", "needs_attention", "open_items", "vat_and_profit", "account_history", "prepare_cash_entry"
    }  # fmt: skip
    for name in ("balances", "movements", "received_invoices", "unmatched_movements", "prepare_payment"):
        forged = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        assert ask(service, token, forged).status_code == 403, name
    told = tell(service, token, "access")
    assert "29098-55003" in told
    assert "29098-55004" not in told
    assert "total: 407.00" in tell(service, token, "open_items")
    period = {"from_date": "2026-02-01", "to_date": "2026-02-28"}
    entry = {"kassenname": "Hauptkasse", "day": "2026-02-13", "amount": "1.00", "text": "Porto", "gegenkonto": "8400"}
    for name, arguments in (
        ("open_items", {}), ("vat_and_profit", period), ("account_history", {"konto": "10010", **period}),
        ("prepare_cash_entry", entry),
    ):  # fmt: skip
        assert "you may not see it" in tell(service, token, name, client_id="29098-55004", **arguments), name
    for client, amount in (("29098-55003", 1), ("29098-55004", 2)):
        body = cash_entry(connection, client_id=client, amount=amount)
        assert service.post("/v2/assistants/cash-entries", owner.key, json=body).status_code == 201
    assert service.post("/v2/assistants/payments", owner.key, json=to_prepare(desk.account)).status_code == 201
    waiting = tell(service, token, "needs_attention").splitlines()
    assert len(waiting) == 1
    assert waiting[0].startswith("Prepared cash_entry")
    digest = service.vault.token_hash(token)
    principal = service.db.read_now(grants.authenticate, digest, f"{service.base_url}/mcp").principal
    for client_id in ("29098-55004", None):
        with pytest.raises(NotFound):
            service.run(open_books(service.application.context, principal, connection, client_id))
    [shown] = [row for row in browser.get("/dashboard/assistants").text.split("<tr") if "Fragefix" in row]
    assert "only the books of Muster GmbH" in shown
    both = maker.tokens(browser, extent="clients", clients=[mine, other])["access_token"]
    assert "29098-55004" in tell(service, both, "access")


@pytest.mark.either_engine
def test_a_choice_of_clients_that_makes_no_sense_connects_nobody(
    service: Service, owner: Organization, maker: Maker
) -> None:
    connection, browser = Books(service, owner).connection_id, signed_in(service, owner)
    mine, request = f"{connection} 29098-55003", maker.request(scope="payments")
    refusals: list[tuple[dict[str, Any], str]] = [
        ({}, "Choose at least one client."),
        ({"clients": [mine, f"{connection} 4711"]}, "Choose at least one client."),
        ({"clients": [mine], "preset": "payments"}, "they need everything"),
    ]
    for wrong, reason in refusals:
        refused = decide(browser, request, **{"preset": "read", "extent": "clients", **wrong})
        assert (refused.status_code, reason in refused.text) == (422, True), wrong
    assert service.db.read_now(lambda tx: grants.GRANTS.all(tx, "id <> ''")) == []


def test_an_assistant_prepares_no_more_a_day_than_the_person_allows(
    service: Service, owner: Organization, maker: Maker
) -> None:
    Bank(service).connected(owner)
    boss = signed_in(service, owner)
    for wrong in ("0", "-5", "much"):
        refused = decide(boss, maker.request(scope="payments"), preset="payments", daily_limit=wrong)
        assert refused.status_code == 422, wrong
    limited = maker.tokens(boss, preset="payments", daily_limit="100.00")["access_token"]
    free = maker.tokens(boss, preset="payments")["access_token"]
    account = account_id(service, owner)

    def prepare(amount: str, token: str = limited) -> str:
        payee = {"creditor_name": "Papier GmbH", "creditor_iban": "DE75512108001245126199", "purpose": "L-4711"}
        return tell(service, token, "prepare_payment", account_id=account, amount=amount, **payee)

    first = prepare("60.00")
    assert "nothing has happened yet" in first
    assert prepare("60.00") == first, "the same once more counts once"
    assert "at most 100.00 EUR a day; 40.00 EUR are left today" in prepare("40.01")
    assert "nothing has happened yet" in prepare("500.00", free), "the limit of one grant is not another's"
    assert "nothing has happened yet" in prepare("40.00")
    assert "0.00 EUR are left" in prepare("0.01")
    prepared = service.get("/v2/assistants/prepared", owner.key, params={"state": "waiting"}).json()["data"]
    sixty = next(one["id"] for one in prepared if one["payment"]["amount"] == 60)
    assert service.post(f"/v2/assistants/prepared/{sixty}/withdraw", owner.key, json={}).status_code == 200
    assert "nothing has happened yet" in prepare("59.99"), "what is taken back counts no more"
    rows = boss.get("/dashboard/assistants").text.split("<tr")
    assert ["€100.00" in row for row in rows if "Fragefix" in row] == [False, True]


def test_a_new_password_a_removed_factor_or_an_unlinked_account_ends_what_the_person_has_connected(
    service: Service, owner: Organization, maker: Maker
) -> None:
    karl = Releaser(service, owner, "karl@muster.example")
    other = maker.tokens(signed_in(service, owner))

    def is_over(made: dict[str, Any]) -> bool:
        assert ask(service, other["access_token"]).status_code == 200, "nobody else's ends"
        listed = [one.person for one in service.db.read_now(grants.listing, owner.id)]
        is_listed = len(listed) == 2
        is_known = ask(service, made["access_token"]).status_code == 200
        assert is_listed == is_known
        return not is_known and maker.renew(made["refresh_token"]).status_code == 400

    made = maker.tokens(karl.browser)
    assert not is_over(made)
    form = {"old_password": PASSWORD, "new_password": "another-Long-password-1"}
    changed = karl.browser.post("/dashboard/profile/password", form)
    assert changed.status_code == 303, changed.text
    assert "your connected assistants have ended" in karl.browser.get("/dashboard/profile").text
    assert is_over(made)
    assert '"reason":"ways"' in audited(service, owner)[-1][1]

    made = maker.tokens(karl.browser)
    assert not is_over(made)
    [factor] = service.db.read_now(factors.of_user, owner.id, karl.user.id)
    principal = Principal(owner.id, "member", (owner.id,), user_id=karl.user.id)
    service.db.write_now(factors.remove, principal, factor.id, ACTOR)
    assert is_over(made)

    made = maker.tokens(karl.browser)
    person = service.db.read_now(users.by_id, owner.id, karl.user.id)
    at_provider = identities.Shown("https://login.example", "1", "", "Karl", "Karl", (), None, False)
    service.db.write_now(identities.link, person, at_provider, ACTOR)
    assert not is_over(made)
    [account] = service.db.read_now(identities.of_user, owner.id, karl.user.id)
    service.db.write_now(identities.unlink, principal, account.id, account.issuer, ACTOR)
    assert is_over(made)

    made = maker.tokens(karl.browser)
    link = service.db.write_now(lambda tx: users.create_reset(tx, service.vault, person, hours=1, actor=ACTOR))
    body = {"token": link.secret, "password": "yet-Another-password-2"}
    assert service.http.post("/v2/auth/password/reset", json=body).status_code == 200
    assert is_over(made)


STRANGE: tuple[dict[str, str], ...] = (
    {"redirect_uri": "https://evil.example/callback"},
    {"redirect_uri": f"{REDIRECT}/further"},
    {"redirect_uri": f"{REDIRECT}?more=1"},
    {"redirect_uri": "http://127.0.0.1.evil.example/callback"},
    {"redirect_uri": "http://127.0.0.1:80@evil.example/callback"},
    {"redirect_uri": ""},
    {"client_id": ""},
    {"client_id": "https://169.254.169.254/latest/meta-data"},
    {"client_id": "http://localhost:22/x"},
    {"client_id": f"https://{HOST}/"},
)
WRONG: tuple[tuple[dict[str, str], str], ...] = (
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge": "short"}, "invalid_request"),
    ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
    ({"scope": "admin"}, "invalid_scope"),
    ({"state": "x" * 1001}, "invalid_request"),
)


def test_nobody_is_sent_anywhere_by_a_request_that_is_not_what_it_says(
    service: Service, owner: Organization, maker: Maker
) -> None:
    stranger = Browser(service)
    shown = page_for(stranger, maker.request())
    assert shown.status_code == 303
    assert shown.headers["location"].startswith("/dashboard/sign-in?next=%2Fdashboard%2Fassistants%2Fauthorize")
    browser = signed_in(service, owner)
    for changed in STRANGE:
        answer = page_for(browser, maker.request(**changed))
        assert answer.status_code == 400, changed
        assert 'href="http' not in answer.text
        assert not {"refresh", "location"} & answer.headers.keys()
    for changed, error in WRONG:
        answer = page_for(browser, maker.request(**changed))
        assert answer.status_code == 400, changed
        assert f"error={error}" in answer.text, "a person who wants to goes back with it"
        assert not {"refresh", "location"} & answer.headers.keys()
        refused = browser.post(AUTHORIZE, maker.request(**changed) | {"preset": "read", "decision": "agree"})
        assert refused.status_code == 400
    assert service.db.read_now(lambda tx: grants.GRANTS.all(tx, "id <> ''")) == []


@pytest.mark.either_engine
def test_nobody_is_let_in_by_a_form_of_another_site_by_too_low_a_role_or_while_assistants_are_kept_out(
    service: Service, owner: Organization, maker: Maker
) -> None:
    browser = signed_in(service, owner)
    agreed = maker.request(scope="payments") | {"preset": "payments", "decision": "agree"}
    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert browser.send("POST", AUTHORIZE, data=agreed, headers=headers).status_code == 403
    assert browser.post(AUTHORIZE, agreed | {"preset": "everything"}).status_code == 400
    reader = signed_in(service, owner, "rita@muster.example", "read_only")
    assert reader.post(AUTHORIZE, agreed).status_code == 422
    assert 'value="bookkeeping"' not in page_for(browser, maker.request()).text, "wider than what was asked for"
    wider = browser.post(AUTHORIZE, maker.request() | {"preset": "bookkeeping", "decision": "agree"})
    assert wider.status_code == 422
    assert "has not asked for it" in wider.text
    service.db.write_now(access.switch, owner.id, False, ACTOR)
    assert "No assistant may ask." in page_for(browser, maker.request()).text
    assert browser.post(AUTHORIZE, agreed).status_code == 422
    away = browser.post(AUTHORIZE, agreed | {"decision": "refuse"}).headers["refresh"].partition("url=")[2]
    assert answer_in(away)["error"] == "access_denied"
    assert service.db.read_now(lambda tx: grants.GRANTS.all(tx, "id <> ''")) == []


@pytest.mark.either_engine
def test_the_page_shows_who_asks_and_offers_what_the_person_may_pass_on(
    service: Service, owner: Organization, maker: Maker
) -> None:
    maker.document["client_name"] = "<b>Bank\u202e</b>\n" + "x" * 500
    browser = signed_in(service, owner, role="read_only")
    port = f"{LOOPBACK.replace('127.0.0.1', '127.0.0.1:49152')}"
    shown = page_for(browser, maker.request(scope="payments", redirect_uri=port))
    assert shown.status_code == 200
    for text in (HOST, "a program on your own machine", "Muster GmbH", "read the books: accounts", "It never pays."):
        assert text in shown.text
    assert "<b>Bank" not in shown.text
    assert "\u202e" not in shown.text
    assert 'value="payments"' not in shown.text.partition("<fieldset>")[2]
    assert code_in(let_in(browser, maker.request(redirect_uri=port)))
    assert len(maker.receiver.deliveries) == 1, "its document is kept for some minutes"
    # A person who signed in long ago shows once more who they are.
    service.clock.advance(seconds=601)
    asked = browser.post(AUTHORIZE, maker.request() | {"preset": "read", "decision": "agree"})
    assert 'name="_password"' in asked.text
    assert "refresh" not in asked.headers


@pytest.mark.either_engine
def test_a_document_that_cannot_be_used_connects_nobody(service: Service, owner: Organization, maker: Maker) -> None:
    browser, good = signed_in(service, owner), dict(maker.document)
    for answer, document in (
        (Answer(404), good),
        (Answer(302, {"location": maker.client_id}), good),
        (Answer(200, {}, b"x" * 20_000), good),
        (Answer(200, {}, b"[]"), good),
        (Answer(200, {}, b"\xff\xfe"), good),
        (None, good | {"client_id": f"https://{HOST}/other.json"}),
        (None, good | {"redirect_uris": ["javascript:alert(1)", "http://evil.example/", "data:text/html,x"]}),
        (None, good | {"redirect_uris": []}),
        (None, good | {"token_endpoint_auth_method": "client_secret_basic"}),
    ):
        maker.answer, maker.document = answer, document
        shown = page_for(browser, maker.request())
        assert shown.status_code == 400, document
        assert "The assistant cannot be connected." in shown.text
    with pytest.raises(BadRequest):
        read_document("https://a.example/x", b"{}")
