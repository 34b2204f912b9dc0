"""The sandbox bank's connect flow, gone through on its pages: each step, each user name, and what the service has then."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from kontobahn.bank_providers.sandbox.rules import BANKS, PEOPLE, offered
from kontobahn.banking.connections import flows
from kontobahn.banking.hosted.pages import content_policy
from tests.harness import Organization, Service
from tests.sandbox_visitor import RETURN_TO, Visitor, events, query_of, words

CONNECTIONS = "/v2/banking/connections"
# For what only the pages decide.
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


def test_the_whole_flow_from_the_choice_of_a_bank_to_the_way_back(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    started = visitor.start(owner, return_to=RETURN_TO)
    url = started["connect_url"]
    page = visitor.browser.get(url)
    assert page.status_code == 200
    assert all(bank.name in words(page) for bank in offered("partner"))
    assert not any(bank.name in words(page) for bank in offered("openbanking"))

    chosen = visitor.post(url, "bank", bank="musterbank")
    assert (chosen.status_code, chosen.headers["location"]) == (303, url.removeprefix(service.base_url))
    assert "Benutzername" in words(visitor.browser.get(url))
    visitor.sign_in(url)
    assert "TAN eingeben" in words(visitor.browser.get(url))
    visitor.post(url, "tan", tan="123456")
    assert all(name in words(visitor.browser.get(url)) for name in ("Geschäftskonto", "Tagesgeld", "Firmenkarte"))
    assert visitor.shown(owner, started["pending_token"])["status"] == "pending_connect"

    back = visitor.consent(url, (0, 1))
    assert back.headers["location"].startswith(RETURN_TO + "&pending_token=")
    connection = visitor.shown(owner, started["pending_token"])
    assert query_of(back) == {
        "von": "bank", "pending_token": started["pending_token"], "connection_id": connection["id"],
    }  # fmt: skip
    assert connection["status"] == "active"
    assert (connection["provider_name"], connection["provider_code"]) == ("Musterbank", "musterbank")
    assert service.http.get(connection["logo_url"]).headers["content-type"] == "image/svg+xml"
    assert [row["id"] for row in service.get(CONNECTIONS, owner.key).json()["data"]] == [connection["id"]]
    assert [account["name"] for account in visitor.accounts(owner)] == ["Geschäftskonto", "Tagesgeld"]
    [(name, data)] = events(service, owner)
    assert (name, data["connection_id"], len(data["accounts"])) == ("refresh_complete", connection["id"], 2)


@one_engine
def test_bookings_look_like_a_banks_and_their_balances_add_up(visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner)
    for account in visitor.accounts(owner):
        rows = visitor.transactions(owner, connection["id"], account_id=account["id"], sort="id")
        snapshots = [row["extra"]["account_balance_snapshot"] for row in rows]
        assert Decimal(str(snapshots[-1])) == Decimal(str(account["balance"]))
        for before, after, row in zip(snapshots, snapshots[1:], rows[1:], strict=False):
            assert Decimal(str(after)) - Decimal(str(before)) == Decimal(str(row["amount"]))
    rows = visitor.transactions(owner, connection["id"])
    assert len(rows) > 150
    assert {row["mode"] for row in rows} == {"normal", "fee", "transfer"}
    rent = next(row for row in rows if row["category"] == "office_rent")
    assert rent["description"].startswith("EREF+301-")
    assert rent["extra"]["payee"] == "Immobilien Haus und Hof KG"
    assert rent["extra"]["end_to_end_id"].startswith("301-")
    assert rent["amount"] == -2380


@one_engine
@pytest.mark.parametrize(
    ("bank", "pattern"),
    [("musterbank", r"^EREF\+\S+ .*SVWZ\+"), ("volksbank_muster", r"^RE-\S+ Kd-Nr \d+ EREF: \S+ IBAN: DE"),
     ("sparkasse_beispielstadt", r"^.{27} .{27} ")],
)  # fmt: skip
def test_each_bank_has_its_own_way_with_purpose_texts(
    visitor: Visitor, owner: Organization, bank: str, pattern: str
) -> None:
    connection = visitor.connect(owner, bank=bank)
    texts = [row["description"] for row in visitor.transactions(owner, connection["id"]) if row["category"] == "sales"]
    assert texts
    assert all(re.match(pattern, text) for text in texts)


@one_engine
def test_every_bank_can_be_connected(service: Service, visitor: Visitor) -> None:
    for code in ("sparkasse_beispielstadt", "direktbank", "alpenbank", "kartenhaus", "taschengeld", "depotwerk"):
        bank, owner = BANKS[code], service.organization(code)
        connection = visitor.connect(owner, bank=code, api=bank.api)
        assert (connection["status"], connection["country_code"]) == ("active", bank.country_code)
        assert connection["automatic_refresh"] is (bank.api == "partner")
        accounts = visitor.accounts(owner)
        assert accounts
        paying = visitor.service.get("/v2/banking/accounts?payments_supported=true", owner.key).json()["data"]
        assert bool(paying) is bool(bank.templates)
        assert visitor.transactions(owner, connection["id"])


@one_engine
@pytest.mark.parametrize(("api", "code"), [("partner", "nirgendwo"), ("partner", "kartenhaus"), ("openbanking", "musterbank")])  # fmt: skip
def test_a_bank_that_is_not_there_is_refused_by_name(
    service: Service, owner: Organization, api: str, code: str
) -> None:
    answer = service.post(f"/v2/banking/connect?api={api}", owner.key, json={"provider_code": code})
    assert answer.status_code == 400
    assert "provider_code" in answer.json()["error"]
    assert service.get(CONNECTIONS, owner.key).json()["data"] == []


@one_engine
@pytest.mark.parametrize(
    ("user", "error_class"), [("wrong", "InvalidCredentials"), ("niemand", "InvalidCredentials"), ("technical", "ProviderError")]
)  # fmt: skip
def test_a_login_that_fails_is_reported_and_can_be_retried(
    service: Service, visitor: Visitor, owner: Organization, user: str, error_class: str
) -> None:
    started = visitor.start(owner, provider_code="musterbank", return_to=RETURN_TO)
    url = started["connect_url"]
    visitor.sign_in(url, user)
    page = visitor.browser.get(url)
    assert error_class in words(page)
    assert f"error_class={error_class}" in page.text
    placeholder = visitor.shown(owner, started["pending_token"])
    assert (placeholder["status"], placeholder["error_class"]) == ("pending_connect", error_class)

    visitor.post(url, "again")
    visitor.finish(url)
    assert visitor.shown(owner, started["pending_token"])["status"] == "active"


@one_engine
def test_wrong_entries_are_answered_on_the_spot(visitor: Visitor, owner: Organization) -> None:
    started = visitor.start(owner)
    url = started["connect_url"]
    for action, fields, complaint in (
        ("bank", {"bank": "kartenhaus"}, "wählen Sie eine Bank"),
        ("bank", {"bank": "musterbank"}, None),
        ("login", {"user_name": "demo", "password": ""}, "Benutzername und Passwort"),
        ("login", {"user_name": " Demo ", "password": "x"}, None),
        ("tan", {"tan": "12345"}, "sechs Ziffern"),
        ("tan", {"tan": "000000"}, "nicht richtig"),
        ("tan", {"tan": "654321"}, None),
        ("consent", {"account": ["7"]}, "mindestens ein Konto"),
    ):
        answer = visitor.post(url, action, **fields)
        assert answer.status_code == (303 if complaint is None else 422), (action, fields)
        if complaint is not None:
            assert complaint in words(answer)
    assert visitor.shown(owner, started["pending_token"])["status"] == "pending_connect"


@one_engine
def test_three_wrong_tans_end_the_flow(visitor: Visitor, owner: Organization) -> None:
    started = visitor.start(owner, provider_code="musterbank")
    visitor.sign_in(started["connect_url"])
    for _ in range(3):
        visitor.post(started["connect_url"], "tan", tan="000000")
    assert "Die TAN war dreimal falsch" in words(visitor.browser.get(started["connect_url"]))
    assert visitor.shown(owner, started["pending_token"])["error_class"] == "InvalidInteractiveCredentials"


@one_engine
def test_who_cancels_goes_back_and_nothing_is_connected(visitor: Visitor, owner: Organization) -> None:
    started = visitor.start(owner, return_to=RETURN_TO)
    # As a browser sends it: the form's own action, then the button's.
    back = visitor.browser.post(started["connect_url"], data={"action": ["bank", "cancel"], "bank": "musterbank"})
    assert query_of(back)["error_class"] == "Cancelled"
    assert visitor.shown(owner, started["pending_token"])["status"] == "pending_connect"


@one_engine
def test_without_an_address_to_return_to_the_page_says_that_it_can_be_closed(
    visitor: Visitor, owner: Organization
) -> None:
    started = visitor.start(owner, provider_code="musterbank")
    done = visitor.finish(started["connect_url"])
    assert "schließen" in words(visitor.browser.get(done.headers["location"]))


@one_engine
def test_a_second_click_and_the_back_button_change_nothing(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    started = visitor.start(owner, provider_code="musterbank", return_to=RETURN_TO)
    visitor.finish(started["connect_url"])
    for again in (visitor.consent(started["connect_url"]), visitor.sign_in(started["connect_url"], "wrong")):
        assert query_of(again)["connection_id"]
    assert [row["status"] for row in service.get(CONNECTIONS, owner.key).json()["data"]] == ["active"]


@one_engine
def test_a_flow_whose_time_is_over_or_that_nobody_started_is_not_there(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    started = visitor.start(owner, provider_code="musterbank")
    assert visitor.browser.get("/sandbox/connect/" + "a" * 43).status_code == 404
    assert visitor.post("/sandbox/pay/" + "a" * 43, "login").status_code == 404
    service.clock.advance(seconds=3600)
    assert visitor.browser.get(started["connect_url"]).status_code == 404
    assert visitor.sign_in(started["connect_url"]).status_code == 404


@one_engine
def test_pages_are_strict_with_browsers(visitor: Visitor, owner: Organization) -> None:
    page = visitor.browser.get(visitor.start(owner, return_to=RETURN_TO)["connect_url"])
    rules = page.headers["content-security-policy"]
    assert "default-src 'none'" in rules
    assert rules.endswith("form-action 'self' https://app.muster.example")
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text
    assert "style=" not in page.text
    assert not re.search(r'(src|href)="(?!/sandbox/|/banking/static/)', page.text)
    assert visitor.browser.get("/banking/static/hosted.css").status_code == 200
    assert visitor.browser.get("/sandbox/logos/nirgendwo.svg").status_code == 404
    assert visitor.browser.post(page.url, content=b"a" * 20_000).status_code == 413


@pytest.mark.parametrize(
    "url", ["https://a;script-src/x", "https://a'b.de/", "https://ä.de/", "https://a.de\t/x", "javascript:1"]
)
def test_no_address_to_return_to_gets_more_into_the_policy_than_its_origin(url: str) -> None:
    assert content_policy(url) == content_policy(None)


@one_engine
def test_what_is_typed_in_comes_back_as_text_and_never_as_markup(visitor: Visitor, owner: Organization) -> None:
    started = visitor.start(owner, provider_code="musterbank")
    page = visitor.post(started["connect_url"], "login", user_name='"><script>alert(1)</script>', password="")
    assert page.status_code == 422
    assert "<script>" not in page.text
    assert "&lt;script&gt;" in page.text


@one_engine
def test_scopes_limit_what_the_bank_tells(visitor: Visitor, owner: Organization) -> None:
    connection = visitor.connect(owner, scopes=["accounts"])
    assert {account["extra"]["holder_name"] for account in visitor.accounts(owner)} == {None}
    assert visitor.transactions(owner, connection["id"]) == []


def test_a_late_answer_after_the_clean_up_still_makes_the_connection(
    service: Service, visitor: Visitor, owner: Organization
) -> None:
    started = visitor.start(owner, provider_code="musterbank")
    service.clock.advance(seconds=16 * 60)
    assert service.db.write_now(flows.remove_unfinished) == 1
    assert service.get(f"{CONNECTIONS}/{started['pending_token']}", owner.key).status_code == 404
    visitor.finish(started["connect_url"])
    assert visitor.shown(owner, started["pending_token"])["status"] == "active"


@one_engine
def test_the_page_of_the_login_names_every_user(visitor: Visitor, owner: Organization) -> None:
    page = visitor.browser.get(visitor.start(owner, provider_code="musterbank")["connect_url"])
    assert all(f"<code>{name}</code>" in page.text for name in PEOPLE)
