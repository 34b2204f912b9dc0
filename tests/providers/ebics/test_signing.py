"""Signing by EBICS: only by a person with a second factor, only if the company has switched it on, and only what was sent from here."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

from kontobahn.access import audit
from kontobahn.bank_providers.ebics import store
from simulators.ebics_bank import Break
from tests.dashboard.test_second_factor import STEP
from tests.dashboard.test_second_factor import Person as Signer
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import PARTNER, USER
from tests.providers.ebics.person import Person as Customer

SIGNER = "chef@muster.example"


class Desk:
    """An owner with an app for codes, at the pages about the line to the bank."""

    def __init__(self, office: Office) -> None:
        self.office, self.service = office, office.service
        self.signer = Signer(office.service, office.person.owner, SIGNER)
        self.signer.add_app()
        self.line = f"/dashboard/connections/{office.person.connection()['id']}/line"

    def sign_in(self) -> None:
        """Hours have passed: with password and code."""
        self.service.clock.advance(seconds=STEP * 2)
        ticket = self.signer.password_step()
        answer = self.signer.browser.post("/dashboard/sign-in/code", {"ticket": ticket, "code": self.signer.code()})
        assert answer.status_code == 303

    def look(self, path: str = "") -> str:
        answer = self.signer.browser.get(self.line + path)
        if answer.status_code == 303:
            answer = self.signer.browser.get(answer.headers["location"])
        return html.unescape(answer.text)

    def post(self, path: str, fields: dict[str, str] | None = None, *, has_code: bool = True) -> str:
        """Sends a form with the code of the app, and returns the page that it leads to."""
        self.service.clock.advance(seconds=STEP * 2)
        code = {"_code": self.signer.code()} if has_code else {}
        answer: httpx.Response = self.signer.browser.post(self.line + path, {**(fields or {}), **code})
        if answer.status_code != 303:
            return html.unescape(answer.text)
        return html.unescape(self.signer.browser.get(answer.headers["location"]).text)

    def digest(self, order_id: str, what: str = "sign") -> dict[str, str]:
        found = re.search(r'name="digest" value="([0-9a-f]{64})"', self.look(f"/orders/{order_id}/{what}"))
        assert found is not None
        return {"digest": found[1]}

    def actions(self) -> list[str]:
        entries = self.service.db.read_now(lambda tx: audit.entries(tx, self.office.person.owner.id))
        return [entry.action for entry in entries if entry.action.startswith("bank_line.")]


@pytest.fixture
def desk(office: Office) -> Desk:
    return desk_of(office)


def desk_of(office: Office) -> Desk:
    """Of a user who may sign, as far as the bank is concerned."""
    user = office.bank.partners[PARTNER].users[USER]
    user.level = "E"
    user.rights |= {"HVE", "HVS"}
    return Desk(office)


def order_at_bank(office: Office) -> Any:
    [order] = office.at_bank()
    return order


def test_a_person_signs_what_was_sent_from_here(desk: Desk) -> None:
    office, bank = desk.office, desk.office.bank
    file = office.file()
    # This user could release orders: nothing is sent before the company has allowed that people sign here.
    assert "switch signing on" in office.send(file)
    assert office.at_bank() == []
    assert "switched off" in desk.look()
    assert "code from your app" in desk.post("/signing", {"allowed": "1"}, has_code=False)
    assert "switched off" in desk.look()
    assert "Orders can be signed here now" in desk.post("/signing", {"allowed": "1"})
    # It goes to the bank unsigned all the same.
    office.send(file)
    order = order_at_bank(office)
    assert (order.state, order.signatures) == ("waiting", [])
    listed = desk.look("/orders")
    assert "€24.68" in listed
    assert f"Order file {file['id']}" in listed
    assert "transfers with a check of the payees" in listed
    seen = desk.digest(order.id)
    assert "2 payments, €24.68" in desk.look(f"/orders/{order.id}/sign")
    assert "(transfers with a check of the payees)" in desk.look(f"/orders/{order.id}/sign")
    # Without the second factor, or for other data than were seen, nothing is signed.
    assert "code from your app" in desk.post(f"/orders/{order.id}/sign", seen, has_code=False)
    assert "other data" in desk.post(f"/orders/{order.id}/sign", {"digest": "0" * 64})
    assert (order.state, order.signatures) == ("waiting", [])
    assert "The bank has your signature" in desk.post(f"/orders/{order.id}/sign", seen)
    assert (order.state, order.signatures) == ("executed", [(USER, "E")])
    assert "The bank has accepted the file" in office.page(file)
    assert "Nothing waits at the bank" in desk.look("/orders")
    assert desk.actions() == ["bank_line.signing", "bank_line.sign", "bank_line.sign_refused", "bank_line.sign"]
    assert bank.faults == []


@pytest.mark.either_engine
def test_a_lost_answer_to_a_signature_pays_nothing_twice(desk: Desk) -> None:
    office, bank = desk.office, desk.office.bank
    desk.post("/signing", {"allowed": "1"})
    office.send(office.file())
    order = order_at_bank(office)
    seen = desk.digest(order.id)
    for how in ("unheard", "lost"):
        bank.breaks.append(Break(how, order="HVE"))
        assert "answer is missing" in desk.post(f"/orders/{order.id}/sign", seen)
    assert "no longer waits" in desk.post(f"/orders/{order.id}/sign", seen)
    assert order.signatures == [(USER, "E")]
    assert len(bank.partners[PARTNER].accounts[0].bookings) == 2


@pytest.mark.either_engine
def test_orders_of_others_and_a_user_that_only_brings_are_not_signed(desk: Desk) -> None:
    office, bank = desk.office, desk.office.bank
    desk.post("/signing", {"allowed": "1"})
    office.send(office.file())
    own = order_at_bank(office)
    # The bank has other data under our number.
    own.digest = bytes(32)
    assert "was not sent from here" in desk.look("/orders")
    assert "was not sent from here" in desk.post(f"/orders/{own.id}/sign", {"digest": "0" * 64})
    assert own.signatures == []
    # Cancelled it can be, by whoever sees it.
    assert "has cancelled the order" in desk.post(f"/orders/{own.id}/cancel", desk.digest(own.id, "cancel"))
    assert own.state == "cancelled"
    other = office.file()
    office.send(other)
    bank.partners[PARTNER].users[USER].level = "T"
    second = office.at_bank()[1]
    desk.post("/ask")
    assert "class T" in desk.look("/orders")
    assert "class T" in desk.post(f"/orders/{second.id}/sign", {"digest": second.digest.hex()})
    # Switched off again, nothing is signed or cancelled.
    bank.partners[PARTNER].users[USER].level = "E"
    desk.post("/signing", {"allowed": "0"})
    for what in ("sign", "cancel"):
        assert "switched off" in desk.post(f"/orders/{second.id}/{what}", {"digest": second.digest.hex()})
    assert ("HVE", "Initialisation") not in bank.heard
    assert (second.state, second.signatures) == ("waiting", [])


@pytest.mark.either_engine
def test_another_organisation_and_lower_roles_are_kept_out(desk: Desk) -> None:
    office = desk.office
    stranger = office.service.organization("Fremd GmbH")
    browser = Signer(office.service, stranger, "fremd@fremd.example").browser
    for path in ("", "/orders", "/keys", "/suspend", "/orders/N001/sign"):
        assert browser.get(desk.line + path).status_code == 404, path
    db = office.service.db
    [ref] = db.read_now(lambda tx: [ref for (ref,) in tx.all("SELECT ref FROM ebics_accesses")])
    for organization, is_allowed in ((stranger, False), (office.person.owner, True)):
        db.write_now(lambda tx, of=organization: store.allow_signing(tx, of.id, ref, allowed=True))  # type: ignore[misc]
        assert db.read_now(store.signs, ref) is is_allowed
    assert desk.signer.browser.get(f"{desk.line}/orders/none/sign").status_code == 404
    assert desk.signer.browser.get("/dashboard/connections/none/line").status_code == 404


def test_new_keys_count_from_the_bank_s_confirmation_on(desk: Desk) -> None:
    person, bank = desk.office.person, desk.office.bank
    user = bank.partners[PARTNER].users[USER]

    def at_bank() -> set[bytes]:
        return {key.digest("H005") for key in user.keys.values()}

    first = at_bank()
    # The bank never got them: the old ones hold, and the same new ones go out again.
    bank.breaks.append(Break("unheard", phase="Transfer", order="HCS"))
    assert "has not confirmed the new keys" in desk.post("/keys")
    assert at_bank() == first
    assert "New keys were sent" in desk.look()
    person.book("100.00", "Vor den neuen Schlüsseln")
    assert person.refresh().status_code == 202
    desk.sign_in()
    # It has them, and its answer was lost: it is asked, and says so.
    bank.breaks.append(Break("lost", phase="Transfer", order="HCS"))
    assert "The bank has the new keys" in desk.post("/keys")
    second = at_bank()
    assert not first & second
    assert "New keys were sent" not in desk.look()
    # Nobody could ask either: the next fetch does.
    bank.breaks += [Break("lost", phase="Transfer", order="HCS"), Break("500", order="HTD")]
    assert "has not confirmed the new keys" in desk.post("/keys")
    assert not second & at_bank()
    person.book("200.00", "Nach den neuen Schlüsseln")
    assert person.refresh().status_code == 202
    assert sorted(amount for amount, _, _ in person.bookings()) == [100.0, 200.0]
    assert person.connection()["status"] == "active"
    desk.sign_in()
    # Refused for certain: as if nothing had been.
    held = at_bank()
    bank.breaks.append(Break("code", phase="Initialisation", order="HCS", code="090003"))
    assert "not given this user the right" in desk.post("/keys")
    assert at_bank() == held
    assert desk.actions() == ["bank_line.keys"] * 4 + ["bank_line.keys_refused"]
    assert bank.faults == []


@pytest.mark.either_engine
def test_a_person_locks_the_access_for_good(desk: Desk) -> None:
    person, bank = desk.office.person, desk.office.bank
    assert "code from your app" in desk.post("/suspend", has_code=False)
    assert ("SPR", "Initialisation") not in bank.heard
    bank.breaks.append(Break("lost", order="SPR"))
    assert "whether it has locked the access is not known" in desk.post("/suspend")
    assert "The bank has locked the access" in desk.post("/suspend")
    assert bank.partners[PARTNER].users[USER].state == "suspended"
    assert "was locked at the bank" in desk.look()
    assert person.connection()["status"] != "active"
    heard = len(bank.heard)
    person.refresh()
    desk.look("/orders")
    assert len(bank.heard) == heard


@pytest.mark.either_engine
def test_version_two_sends_signs_and_changes_keys_alike(person: Customer) -> None:
    bank = person.bank
    bank.versions = {"H004": "02.50"}
    user = bank.partners[PARTNER].users[USER]
    user.level = "E"
    user.rights |= {"HVE", "HVS"}
    person.begin()
    person.send_sheet()
    bank.activate(PARTNER, USER)
    person.send()
    told = bank.letter("H004")
    assert "Das Konto ist verbunden" in person.compare(x002=told["Authentication"], e002=told["Encryption"])
    desk = Desk(Office(person))
    desk.post("/signing", {"allowed": "1"})
    desk.office.send(desk.office.file())
    order = order_at_bank(desk.office)
    assert (order.kind, order.state, order.signatures) == ("CTV", "waiting", [])
    assert "€24.68" in desk.look("/orders")
    assert "The bank has the new keys" in desk.post("/keys")
    assert "The bank has your signature" in desk.post(f"/orders/{order.id}/sign", desk.digest(order.id))
    assert (order.state, order.signatures) == ("executed", [(USER, "E")])
    assert bank.faults == []


@pytest.mark.either_engine
def test_rights_are_told_in_words(desk: Desk) -> None:
    bank = desk.office.bank
    user = bank.partners[PARTNER].users[USER]
    page = desk.look()
    assert "Ask your bank for: EOP:DE::mt940 / STA" in page
    assert "signs alone" not in page
    desk.office.person.book("1.00", "Etwas zum Abholen")
    desk.post("/ask", has_code=False)
    page = desk.look()
    assert "signs alone" in page
    assert "EOP:DE::camt.053.08 (ZIP)" in page.split("There was something to fetch")[1]
    user.rights.discard("C53")
    desk.post("/ask", has_code=False)
    assert "Ask your bank for: EOP:DE::camt.053 (ZIP) / C53" in desk.look()
    # A bank that tells the rights of all users only.
    user.rights.add("C53")
    bank.breaks.append(Break("code", order="HTD", code="091006"))
    assert "has told what you may do" in desk.post("/ask", has_code=False)
    assert "Ask your bank for: EOP:DE::camt.053 (ZIP) / C53" not in desk.look()
