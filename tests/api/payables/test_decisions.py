"""The people who may release an invoice, how many people it takes, and what ends a release."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import factors, keys
from kontobahn.access.audit import entries
from kontobahn.access.principal import Principal
from kontobahn.clock import SECOND
from kontobahn.payables import routes
from kontobahn.payables.routes import Decision
from tests.harness import ACTOR, Service
from tests.interleaving import on_postgres, overlap
from tests.received_invoices import OTHER_IBAN, Inbox, as_xml, from_seller, paid_to

SETTINGS = "/v2/payables/settings"


class People(Inbox):
    """An inbox with keys of two people."""

    def key_of(self, email: str, role: Any = "member") -> str:
        user = self.service.user(self.owner, email, role)
        made = self.service.db.write_now(
            keys.create, self.service.vault, self.owner.id, f"key of {email}", ACTOR, role=role, created_by=user.id
        )
        return made.secret

    def two_people_above(self, amount: float | None) -> None:
        answer = self.service.request("PUT", SETTINGS, self.owner.key, json={"two_people_above": amount})
        assert answer.status_code == 200, answer.text


def test_a_release_is_recorded_with_who_and_why(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received()
    released = inbox.decide(payable, "release", comment="Ware ist da")
    assert (released.status_code, released.json()["data"]["status"]) == (200, "released")
    history = service.get(f"/v2/payables/{payable['id']}/history", inbox.owner.key).json()["data"]
    assert [(step["action"], step["comment"]) for step in history] == [("receive", ""), ("release", "Ware ist da")]
    assert inbox.decide(payable, "release").status_code == 409
    recorded = service.db.read_now(entries, inbox.owner.id)
    assert "payable.release" in [entry.action for entry in recorded]


@pytest.mark.either_engine
def test_above_the_sum_two_people_release(service: Service) -> None:
    inbox = People(service)
    inbox.two_people_above(33.01)
    payable = inbox.received()
    anna, bert = inbox.key_of("anna@muster.example"), inbox.key_of("bert@muster.example")
    assert inbox.decide(payable, "release").status_code == 403, "a key that belongs to nobody is no person"
    assert inbox.decide(payable, "release", anna).json()["data"]["status"] == "to_release"
    assert inbox.decide(payable, "release", anna).status_code == 409
    assert inbox.shown(payable)["status"] == "to_release"
    assert inbox.decide(payable, "release", bert).json()["data"]["status"] == "released"


@pytest.mark.either_engine
def test_up_to_the_sum_one_person_is_enough(service: Service) -> None:
    inbox = People(service)
    inbox.two_people_above(33.02)
    assert inbox.decide(inbox.received(), "release").json()["data"]["status"] == "released"


@pytest.mark.either_engine
def test_whatever_is_done_in_between_takes_the_first_release_back(service: Service) -> None:
    inbox = People(service)
    inbox.two_people_above(0)
    payable = inbox.received()
    anna, bert = inbox.key_of("anna@muster.example"), inbox.key_of("bert@muster.example")
    inbox.decide(payable, "release", anna)
    assert inbox.decide(payable, "hold", bert, until="2026-04-01").json()["data"]["hold_until"] == "2026-04-01"
    assert inbox.decide(payable, "release", bert).json()["data"]["status"] == "to_release"
    assert inbox.decide(payable, "release", anna).json()["data"]["status"] == "released"


@pytest.mark.either_engine
def test_holding_takes_a_release_back_and_rejecting_is_for_good(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received()
    inbox.decide(payable, "release")
    assert inbox.decide(payable, "hold", comment="Ware fehlt").json()["data"]["status"] == "to_release"
    assert inbox.decide(payable, "reject", reason="").status_code == 400
    assert inbox.decide(payable, "reject", reason="nicht bestellt").json()["data"]["status"] == "rejected"
    for action, body in (("release", {}), ("hold", {}), ("creditor", {"konto": "70001"})):
        refused = inbox.decide(payable, action, **body)
        assert (refused.status_code, refused.json()["status"]) == (409, "rejected")


@pytest.mark.either_engine
def test_a_person_assigns_the_creditor(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received(as_xml(from_seller(vat_id="DE811569869")))
    for konto, why in (
        ("10010", "must be the person account of a creditor"),
        ("70002", "no such creditor"),
        ("12345678", ""),
    ):
        refused = inbox.decide(payable, "creditor", konto=konto)
        assert (refused.status_code, refused.json()["field"]) == (400, "konto")
        assert why in refused.json()["error"]
    # Books without a fiscal year have numbers of the usual length, and nobody yet.
    inbox.books.another_client("29098-55004")
    empty = {"connection_id": inbox.books.connection_id, "client_id": "29098-55004"}
    assert "no such creditor" in inbox.decide(payable, "creditor", konto="70001", **empty).json()["error"]
    assigned = inbox.decide(payable, "creditor", konto="70001").json()["data"]
    assert (assigned["status"], assigned["creditor"]["konto"]) == ("to_release", "700010000")


@pytest.mark.either_engine
def test_an_assigned_creditor_known_by_another_account_stops_it(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received(as_xml(from_seller(vat_id="DE811569869")._replace(payment=paid_to(OTHER_IBAN).payment)))
    assigned = inbox.decide(payable, "creditor", konto="70001").json()["data"]
    assert (assigned["status"], assigned["stops"]) == ("needs_person", ["iban_changed"])


def test_only_a_person_with_a_second_factor_says_that_a_new_iban_is_right(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received(as_xml(paid_to(OTHER_IBAN)))
    user = service.user(inbox.owner, "anna@muster.example", "owner")
    session = service.session("anna@muster.example")
    refused = inbox.decide(payable, "confirmations", session, stop="iban_changed")
    assert refused.status_code == 403
    assert "second factor" in refused.json()["error"]
    principal = Principal(inbox.owner.id, "owner", (inbox.owner.id,), user_id=user.id)
    step = service.clock.now() // SECOND // factors.STEP_SECONDS
    secret = b"secret of an app"
    service.db.write_now(factors.add_totp, service.vault, principal, secret, factors.totp(secret, step), "App", ACTOR)
    confirmed = inbox.decide(payable, "confirmations", session, stop="iban_changed", comment="angerufen")
    assert (confirmed.status_code, confirmed.json()["data"]["status"]) == (200, "to_release")
    [entry] = [one for one in service.db.read_now(entries, inbox.owner.id) if one.action == "payable.confirm_iban"]
    assert (entry.actor, entry.subject) == (f"user:{user.id}", payable["id"])
    again = inbox.decide(payable, "confirmations", session, stop="iban_changed")
    assert again.status_code == 409


@pytest.mark.either_engine
def test_nobody_confirms_for_another_organisation(service: Service) -> None:
    inbox, other = Inbox(service), service.organization("Andere GmbH")
    payable = inbox.received(as_xml(paid_to(OTHER_IBAN)))
    service.user(other, "eve@andere.example", "owner")
    refused = inbox.decide(payable, "confirmations", service.session("eve@andere.example"), stop="iban_changed")
    assert refused.status_code in (403, 404)
    assert inbox.shown(payable)["stops"] == ["iban_changed"]


@pytest.mark.either_engine
def test_the_books_of_another_organisation_are_not_there(service: Service) -> None:
    inbox, other = Inbox(service), Inbox(service, service.organization("Andere GmbH"))
    payable, theirs = inbox.received(as_xml(from_seller(vat_id="DE811569869"))), other.books.connection_id
    assert inbox.decide(payable, "creditor", konto="70001", connection_id=theirs).status_code == 404
    assert inbox.send(as_xml(number="R-8"), connection_id=theirs).status_code == 404
    refused = service.request("PUT", SETTINGS, inbox.owner.key, json={"connection_id": theirs})
    assert refused.status_code == 404


@on_postgres
def test_two_who_release_at_once_are_counted_one_after_the_other(service: Service) -> None:
    inbox = People(service)
    inbox.two_people_above(0)
    payable = inbox.received()
    people = [service.user(inbox.owner, f"{name}@muster.example", "member") for name in ("anna", "bert")]
    first, second = (
        Decision(Principal(inbox.owner.id, "member", (inbox.owner.id,), user_id=user.id), payable["id"], ACTOR)
        for user in people
    )
    outcome = overlap(service.db, lambda tx: routes.release(tx, first), lambda tx: routes.release(tx, second))
    assert outcome.lock == "payables"
    assert (outcome.first.status, outcome.second.status) == ("to_release", "released")


@pytest.mark.either_engine
def test_whoever_keeps_the_books_releases_nothing(service: Service) -> None:
    inbox = People(service)
    payable = inbox.received()
    clerk = inbox.key_of("clerk@muster.example", "bookkeeping")
    assert inbox.decide(payable, "release", clerk).status_code == 403
    assert inbox.decide(payable, "hold", clerk).status_code == 200
    reader = inbox.key_of("reader@muster.example", "read_only")
    assert inbox.decide(payable, "reject", reader, reason="nein").status_code == 403
    assert inbox.send(key=reader).status_code == 403


@pytest.mark.either_engine
def test_settings_name_their_invalid_field(service: Service) -> None:
    inbox = Inbox(service)
    for body, field in (
        ({"two_people_above": -1}, "two_people_above"),
        ({"client_id": "29098-55003"}, "connection_id"),
    ):
        refused = service.request("PUT", SETTINGS, inbox.owner.key, json=body)
        assert (refused.status_code, refused.json()["field"]) == (400, field)
    wanted = {"two_people_above": 500, "connection_id": inbox.books.connection_id}
    saved = service.request("PUT", SETTINGS, inbox.owner.key, json=wanted).json()["data"]
    assert saved == {
        "two_people_above": 500,
        "connection_id": inbox.books.connection_id,
        "client_id": "29098-55003",
        "book_on": None,
    }
    assert service.get(SETTINGS, inbox.owner.key).json()["data"] == saved
    changed = service.request("PUT", SETTINGS, inbox.owner.key, json={**wanted, "two_people_above": 70}).json()["data"]
    assert service.get(SETTINGS, inbox.owner.key).json()["data"] == changed == {**saved, "two_people_above": 70}


@pytest.mark.either_engine
def test_receivers_that_chose_so_are_told(service: Service) -> None:
    inbox = Inbox(service)
    released = inbox.received()
    inbox.decide(released, "release")
    inbox.decide(inbox.received(as_xml(number="R-8")), "reject", reason="doppelt")
    inbox.send()
    told = inbox.books.rows("SELECT event, subject FROM webhook_events ORDER BY sequence")
    assert [event for event, _ in told] == [
        "payable.received", "payable.released", "payable.received", "payable.rejected",
    ]  # fmt: skip
    assert told[0][1] == f"payable:{released['id']}"
