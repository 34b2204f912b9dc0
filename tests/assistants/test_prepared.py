"""Payments and cash entries that were prepared: nothing happens until a person approves exactly these, with a second factor, once."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kontobahn.access import keys
from kontobahn.access.principal import Limits, Principal, Scope
from kontobahn.assistants import prepared
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Forbidden
from tests.assistants.assistant import cash_entry, let_in, to_prepare
from tests.bank_builder import Bank, account_id
from tests.dashboard.browsing import Browser
from tests.dashboard.test_releases import Releaser, audited, limit_to
from tests.harness import ACTOR, PASSWORD, Organization, Service
from tests.interleaving import on_postgres, overlap
from tests.ledger_builder import Books

PAYMENTS, BASE = "/v2/banking/payments", "/v2/assistants"
WEEK = 7 * 86_400


@pytest.fixture
def bank(service: Service) -> Bank:
    return Bank(service)


@pytest.fixture
def owner(service: Service, bank: Bank) -> Organization:
    owner = service.organization()
    bank.connected(owner)
    let_in(service, owner)
    return owner


def prepare(service: Service, owner: Organization, **more: Any) -> httpx.Response:
    return service.post(f"{BASE}/payments", owner.key, json=to_prepare(account_id(service, owner), **more))


def one(service: Service, owner: Organization, **more: Any) -> dict[str, Any]:
    answer = prepare(service, owner, **more)
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"])


def digest_of(service: Service, item: dict[str, Any]) -> str:
    [row] = service.db.read_now(lambda tx: prepared.PREPARED.all(tx, "id = ?", item["id"]))
    return row.digest


def approve(person: Releaser, item: dict[str, Any], digest: str = "") -> httpx.Response:
    return person.act(
        f"/dashboard/assistants/{item['id']}/approve", {"digest": digest or digest_of(person.service, item)}
    )


def rewrite(service: Service, content: str, digest: str) -> None:
    """As somebody who has got into the database would."""
    service.db.write_now(lambda tx: tx.run("UPDATE assistants_prepared SET content = ?, digest = ?", content, digest))


def shown(service: Service, owner: Organization, item: dict[str, Any]) -> dict[str, Any]:
    return dict(service.get(f"{BASE}/prepared/{item['id']}", owner.key).json()["data"])


def test_a_prepared_payment_is_made_by_the_person_who_approves_it_and_only_once(
    service: Service, bank: Bank, owner: Organization
) -> None:
    item = one(service, owner, amount="77.00")
    assert (item["state"], item["payment"]["amount"], item["payment_id"]) == ("waiting", 77.0, None)
    assert item["approval_url"] == f"{service.base_url}/dashboard/assistants/{item['id']}"
    assert service.get(PAYMENTS, owner.key).json()["data"] == []
    assert bank.provider.asked == []
    assert service.balance(owner).reserved == 0

    karl = Releaser(service, owner, "karl@muster.example")
    assert "waits for your approval" in karl.browser.get("/dashboard").text
    page = f"/dashboard/assistants/{item['id']}"
    assert "77.00" in karl.browser.get(page).text
    asked = karl.browser.post(f"{page}/approve", {"digest": digest_of(service, item)})
    assert 'name="_password"' not in asked.text, "a password is not enough"
    assert shown(service, owner, item)["state"] == "waiting"
    assert approve(karl, item, "0" * 64).status_code != 303, "what was not shown is not approved"
    assert shown(service, owner, item)["state"] == "waiting"
    [(content,)] = service.db.read_now(lambda tx: tx.all("SELECT content FROM assistants_prepared"))
    digest = digest_of(service, item)
    for was, became in (("77.00", "78.00"), ("DE75512108001245126199", "DE12500105170648489890"), ("Papier", "Andere")):
        assert was in content
        other = content.replace(was, became)
        for kept in (digest, prepared._digest("payment", other.encode())):
            rewrite(service, other, kept)
            assert approve(karl, item, digest).status_code != 303, f"{was} is not {became}"
            assert shown(service, owner, item)["state"] == "waiting"
    rewrite(service, content, digest)
    assert bank.provider.asked == []

    done = approve(karl, item)
    assert done.status_code == 303, done.text
    [payment] = service.get(PAYMENTS, owner.key).json()["data"]
    assert done.headers["location"].endswith(f"/payments/{payment['id']}")
    after = shown(service, owner, item)
    assert (after["state"], after["payment_id"]) == ("approved", payment["id"])
    approve(karl, item)
    assert len(service.get(PAYMENTS, owner.key).json()["data"]) == 1
    assert [call[0] for call in bank.provider.asked].count("create_payment") == 1
    assert audited(service, "assistants.approve") == 1


@pytest.mark.either_engine
def test_an_approval_that_was_never_answered_is_taken_up_again_and_pays_once(
    service: Service, bank: Bank, owner: Organization
) -> None:
    item, karl = one(service, owner), Releaser(service, owner, "karl@muster.example")
    assert approve(karl, item).status_code == 303
    # As if the process had ended before it noted the payment.
    service.db.write_now(lambda tx: tx.run("UPDATE assistants_prepared SET payment_id = NULL, done_at = NULL"))
    assert "Approve" in karl.browser.get(f"/dashboard/assistants/{item['id']}").text
    assert approve(karl, item).status_code == 303
    [payment] = service.get(PAYMENTS, owner.key).json()["data"]
    assert shown(service, owner, item)["payment_id"] == payment["id"]


@pytest.mark.either_engine
def test_an_approval_that_is_refused_changes_nothing_and_it_goes_on_waiting(
    service: Service, bank: Bank, owner: Organization
) -> None:
    item, karl = one(service, owner), Releaser(service, owner, "karl@muster.example")
    service.db.write_now(lambda tx: tx.run("UPDATE credit_accounts SET spent = spent + available, available = 0"))
    assert approve(karl, item).status_code != 303
    assert shown(service, owner, item)["state"] == "waiting"
    assert service.get(PAYMENTS, owner.key).json()["data"] == []


@pytest.mark.either_engine
def test_above_the_limit_an_approved_payment_still_waits_for_a_second_person(
    service: Service, bank: Bank, owner: Organization
) -> None:
    limit_to(service, owner, "100.00")
    item, karl = one(service, owner, amount="500.00"), Releaser(service, owner, "karl@muster.example")
    assert approve(karl, item).status_code == 303
    [payment] = service.get(PAYMENTS, owner.key).json()["data"]
    assert payment["release"]["state"] == "waiting"
    assert bank.provider.asked == []


@pytest.mark.either_engine
def test_what_was_approved_counts_on_its_day_and_what_was_decided_about_is_prepared_anew(
    service: Service, bank: Bank, owner: Organization
) -> None:
    karl = Releaser(service, owner, "karl@muster.example")
    key = service.db.write_now(
        keys.create, service.vault, owner.id, "limited", ACTOR, role="admin", limits=Limits(None, 100_00)
    ).secret
    account = account_id(service, owner)

    def prepare_with_limit(amount: str) -> httpx.Response:
        return service.post(f"{BASE}/payments", key, json=to_prepare(account, amount=amount))

    first = prepare_with_limit("60.00").json()["data"]
    assert approve(karl, first).status_code == 303
    refused = prepare_with_limit("40.01")
    assert (refused.status_code, refused.json()["field"]) == (403, "amount")
    assert "40.00 EUR are left today" in refused.json()["error"]
    item = one(service, owner, amount="5.00")
    assert karl.act(f"/dashboard/assistants/{item['id']}/refuse").status_code == 303
    assert one(service, owner, amount="5.00")["id"] != item["id"]


@pytest.mark.either_engine
def test_the_same_within_the_hour_is_the_same_and_a_changed_one_is_another(
    service: Service, owner: Organization
) -> None:
    first = one(service, owner)
    again = prepare(service, owner)
    assert (again.status_code, again.json()["data"]["id"]) == (200, first["id"])
    for change in ({"amount": "12.35"}, {"creditor_iban": "DE12500105170648489890"}, {"creditor_name": "Andere GmbH"}):
        assert one(service, owner, **change)["id"] != first["id"]
    service.clock.advance(seconds=3601)
    assert one(service, owner)["id"] != first["id"]


@pytest.mark.either_engine
def test_whoever_may_not_pay_may_not_approve_and_a_key_never_does(
    service: Service, bank: Bank, owner: Organization
) -> None:
    item = one(service, owner)
    clerk = Releaser(service, owner, "clerk@muster.example", "bookkeeping")
    assert approve(clerk, item).status_code != 303
    assert shown(service, owner, item)["state"] == "waiting"
    assert "Approve" not in clerk.browser.get(f"/dashboard/assistants/{item['id']}").text
    assert bank.provider.asked == []


@pytest.mark.either_engine
def test_whoever_has_no_second_factor_approves_nothing(service: Service, bank: Bank, owner: Organization) -> None:
    item = one(service, owner)
    user = service.user(owner, "ohne@muster.example")
    browser = Browser(service)
    browser.sign_in(user.email)
    sent = {"digest": digest_of(service, item), "_password": PASSWORD}
    browser.post(f"/dashboard/assistants/{item['id']}/approve", sent)
    with pytest.raises(Forbidden, match="second factor"):
        service.db.write_now(
            prepared.begin_approval,
            Principal(owner.id, "owner", (owner.id,), user_id=user.id, session_id="s"), item["id"],
            digest_of(service, item), ACTOR,
        )  # fmt: skip
    assert shown(service, owner, item)["state"] == "waiting"
    assert bank.provider.asked == []


@pytest.mark.either_engine
def test_what_is_refused_withdrawn_or_too_old_is_never_approved(
    service: Service, bank: Bank, owner: Organization
) -> None:
    karl = Releaser(service, owner, "karl@muster.example")
    refused, withdrawn, old = (one(service, owner, amount=amount) for amount in ("1.00", "2.00", "3.00"))
    assert karl.act(f"/dashboard/assistants/{refused['id']}/refuse").status_code == 303
    assert service.post(f"{BASE}/prepared/{withdrawn['id']}/withdraw", owner.key, json={}).status_code == 200
    assert service.post(f"{BASE}/prepared/{withdrawn['id']}/withdraw", owner.key, json={}).status_code == 409
    service.clock.advance(seconds=WEEK + 1)
    late = Releaser(service, owner, "late@muster.example")
    for item in (refused, withdrawn, old):
        assert approve(late, item).status_code != 303
    states = [shown(service, owner, item)["state"] for item in (refused, withdrawn, old)]
    assert states == ["refused", "withdrawn", "expired"]
    one(service, owner, amount="4.00")
    listed = service.get(f"{BASE}/prepared", owner.key, params={"state": "waiting"}).json()["data"]
    assert [item["payment"]["amount"] for item in listed] == [4.0]
    assert bank.provider.asked == []


def test_a_prepared_cash_entry_is_booked_when_a_person_approves_it(service: Service) -> None:
    owner = service.organization()
    books = Books(service, owner)
    let_in(service, owner)
    answer = service.post(f"{BASE}/cash-entries", owner.key, json=cash_entry(books.connection_id))
    assert answer.status_code == 201, answer.text
    item = answer.json()["data"]
    where = {"connectionId": books.connection_id, "kassenname": "Hauptkasse"}
    assert service.get("/v2/ledger-duo/kassenbuch", owner.key, params=where).json()["data"] == []
    karl = Releaser(service, owner, "karl@muster.example", "bookkeeping")
    assert "Refuse" in karl.browser.get(f"/dashboard/assistants/{item['id']}").text
    assert approve(karl, item).status_code == 303
    [row] = service.get("/v2/ledger-duo/kassenbuch", owner.key, params=where).json()["data"]
    assert (row["betrag"], row["datum"], row["belegtext"]) == (119, "2026-02-13", "Barverkauf")


@pytest.mark.either_engine
def test_nothing_is_prepared_where_assistants_are_kept_out_or_the_payment_is_wrong(
    service: Service, owner: Organization
) -> None:
    assert prepare(service, owner, creditor_iban="DE00").json()["field"] == "creditor_iban"
    assert prepare(service, owner, amount="0.00").status_code == 400
    off = service.request("PUT", f"{BASE}/settings", owner.key, json={"enabled": False})
    assert off.json()["data"]["enabled"] is False
    assert "switched off" in prepare(service, owner).json()["error"]
    assert service.request("PUT", f"{BASE}/settings", owner.key, json={"enabled": True}).status_code == 403
    boss = Releaser(service, owner, "boss@muster.example", "admin")
    assert boss.act("/dashboard/assistants/enable").status_code == 303
    assert prepare(service, owner).status_code == 201
    assert boss.act("/dashboard/assistants/disable").status_code == 303
    assert "switched off" in prepare(service, owner).json()["error"]


@pytest.mark.either_engine
def test_a_key_sees_only_what_its_scopes_are_about(service: Service, owner: Organization) -> None:
    item = one(service, owner)
    expected: list[tuple[Scope, int]] = [("ledger:read", 404), ("banking:read", 200)]
    for scope, status in expected:
        key = service.db.write_now(
            keys.create, service.vault, owner.id, scope, ACTOR, role="admin", scopes=(scope,)
        ).secret
        assert service.get(f"{BASE}/prepared/{item['id']}", key).status_code == status
        assert len(service.get(f"{BASE}/prepared", key).json()["data"]) == (status == 200)


@pytest.mark.either_engine
def test_a_cash_entry_that_cannot_be_booked_is_refused_by_the_names_of_this_call(service: Service) -> None:
    owner = service.organization()
    books = Books(service, owner)
    let_in(service, owner)
    for change, field in (({"amount": 0}, "amount"), ({"amount": 10**12}, "amount")):
        refused = service.post(f"{BASE}/cash-entries", owner.key, json=cash_entry(books.connection_id, **change))
        assert (refused.status_code, refused.json()["field"]) == (400, field), refused.text
        assert f"`{field}`" in refused.json()["error"]
    assert service.get(f"{BASE}/prepared", owner.key).json()["data"] == []


@on_postgres
def test_of_two_who_decide_at_once_one_does(service: Service, owner: Organization) -> None:
    karl = Releaser(service, owner, "karl@muster.example")
    person = Principal(owner.id, "owner", (owner.id,), user_id=karl.user.id, session_id="s")
    refused, approved = one(service, owner, amount="1.00"), one(service, owner, amount="2.00")
    digest = digest_of(service, approved)

    def refuse(tx: Tx, item: dict[str, Any]) -> Any:
        return prepared.refuse(tx, person, item["id"], ACTOR)

    def approve(tx: Tx) -> Any:
        return prepared.begin_approval(tx, person, approved["id"], digest, ACTOR)

    first = overlap(service.db, lambda tx: refuse(tx, refused), lambda tx: refuse(tx, refused))
    second = overlap(service.db, lambda tx: refuse(tx, approved), approve)
    for outcome in (first, second):
        assert outcome.lock == "assistants"
        assert outcome.first.state == "refused"
        assert isinstance(outcome.second, Conflict)
