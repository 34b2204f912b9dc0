"""Order files by EBICS: sent once, never signed by us, and where the line breaks the bank's protocol decides."""

from __future__ import annotations

from typing import Any

import pytest

from kontobahn.access import keys
from kontobahn.banking.payments import order_files
from simulators.ebics_bank import Break
from tests.harness import ACTOR
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import PARTNER, USER


def test_a_file_waits_at_the_bank_until_people_sign_it(office: Office) -> None:
    file = office.file()
    assert "Send to the bank" in office.page(file)
    page = office.send(file)
    [order] = office.at_bank()
    assert (order.kind, order.state, order.signatures, str(order.file.total)) == ("CTV", "waiting", [], "24.68")
    assert order.file.message_id == file["message_id"]
    assert "The bank has the file" in page
    assert order.id in page
    assert "sent to the bank" in office.browser.get("/dashboard/payments/order-files").text
    assert "Download the file" not in page
    # It is at the bank: nothing here may lead to a second one.
    for method, path in (
        ("GET", f"/v2/banking/order-files/{file['id']}/file"),
        ("DELETE", f"/v2/banking/order-files/{file['id']}"),
        ("POST", f"/v2/banking/payments/{file['payment_ids'][0]}/cancel"),
    ):
        assert office.service.request(method, path, office.key).status_code == 409, path
    assert office.call("GET", f"/v2/banking/order-files/{file['id']}")["file_url"] is None
    office.send(file)
    assert len(office.at_bank()) == 1
    # The result of the check of payees comes with the next fetch; then people sign it, and the bank says so.
    assert office.person.refresh().status_code == 202
    checks = [office.call("GET", f"/v2/banking/payments/{one}")["payee_check"]["result"] for one in file["payment_ids"]]
    assert checks == ["not_possible", "not_possible"]
    office.bank.release(PARTNER, order.id)
    assert office.person.refresh().status_code == 202
    assert "The bank has accepted the file" in office.page(file)
    office.bank.close_day(PARTNER)
    assert office.person.refresh().status_code == 202
    states = {office.call("GET", f"/v2/banking/payments/{one}")["status"] for one in file["payment_ids"]}
    assert states == {"settled"}
    assert office.bank.faults == []


@pytest.mark.either_engine
@pytest.mark.parametrize("how", ["unheard", "500", "code", "wrong_signature"])
def test_a_file_that_the_bank_gave_no_number_was_never_there(office: Office, how: Any) -> None:
    file = office.file()
    office.bank.breaks.append(Break(how, phase="Initialisation", order="CTV", code="091112"))
    office.send(file)
    assert office.at_bank() == []
    # It may be sent again, or discarded.
    office.send(file)
    assert len(office.at_bank()) == 1


@pytest.mark.either_engine
def test_a_file_whose_data_the_bank_refuses_is_not_there(office: Office) -> None:
    file = office.file()
    office.bank.breaks.append(Break("code", phase="Transfer", order="CTV", code="091112"))
    assert "091112" in office.send(file)
    assert office.at_bank() == []
    assert "The bank has refused the file" in office.page(file)
    assert office.call("DELETE", f"/v2/banking/order-files/{file['id']}")["status"] == "discarded"


@pytest.mark.either_engine
@pytest.mark.parametrize("how", ["lost", "cut", "nonsense", "foreign_signature"])
def test_a_lost_answer_is_decided_by_the_protocol(office: Office, how: Any) -> None:
    file = office.file()
    office.bank.breaks.append(Break(how, phase="Transfer", order="CTV"))
    assert "not known yet" in office.send(file)
    assert len(office.at_bank()) == 1
    heard = len(office.bank.heard)
    office.send(file)
    assert len(office.bank.heard) == heard
    assert office.person.refresh().status_code == 202
    assert "The bank has the file" in office.page(file)
    assert len(office.at_bank()) == 1


@pytest.mark.either_engine
def test_data_that_never_arrived_are_found_missing_by_the_protocol(office: Office) -> None:
    file = office.file()
    office.bank.breaks.append(Break("unheard", phase="Transfer", order="CTV"))
    assert "not known yet" in office.send(file)
    # A protocol that says nothing proves nothing.
    assert office.person.refresh().status_code == 202
    assert "not known yet" in office.page(file)
    # One that goes on with later orders, and does not know this one, does.
    other = office.file()
    office.send(other)
    assert office.person.refresh().status_code == 202
    assert "The bank does not have the file" in office.page(file)
    assert [order.file.message_id for order in office.at_bank()] == [other["message_id"]]
    office.send(file)
    assert len(office.at_bank()) == 2


@pytest.mark.either_engine
@pytest.mark.parametrize("has_it", [True, False])
def test_a_person_says_what_the_bank_shows_where_the_protocol_is_silent(office: Office, has_it: bool) -> None:
    file = office.file()
    page = f"/dashboard/payments/order-files/{file['id']}"
    office.bank.breaks.append(Break("lost" if has_it else "unheard", phase="Transfer", order="CTV"))
    assert "not known yet" in office.send(file)
    # Not at once: the protocol may still tell.
    assert "what your bank shows" not in office.page(file)
    assert "the bank&#39;s protocol may still tell" in office.browser.post(f"{page}/at-bank", {"at_bank": "no"}).text
    office.service.clock.advance(seconds=16 * 60)
    assert "what your bank shows" in office.page(file)
    assert "be paid twice" in office.browser.get(f"{page}/at-bank").text
    answer = office.browser.post(f"{page}/at-bank", {"at_bank": "perhaps"})
    assert answer.status_code == 422
    answer = office.browser.post(f"{page}/at-bank", {"at_bank": "yes" if has_it else "no"})
    assert answer.status_code == 303, answer.text
    assert ("The bank has the file" if has_it else "The bank does not have the file") in office.page(file)
    office.send(file)
    assert len(office.at_bank()) == 1
    assert office.bank.faults == []


def test_a_file_that_is_being_sent_is_sent_again_only_after_that_was_given_up(office: Office) -> None:
    file, service = office.file(), office.service
    given_up = service.clock.now() - order_files.CLAIM_TIME
    for begun_at, status, at_bank in ((given_up + 1, 409, 0), (given_up, 200, 1)):
        sql = "UPDATE banking_order_files SET submitted_at = ? WHERE id = ?"
        service.db.write_now(lambda tx, at=begun_at, sql=sql: tx.run(sql, at, int(file["id"])))  # type: ignore[misc]
        answer = service.request("POST", f"/v2/banking/order-files/{file['id']}/submission", office.key)
        assert (answer.status_code, len(office.at_bank())) == (status, at_bank), answer.text


def test_a_call_sends_a_file_by_the_same_rules_as_the_page(office: Office) -> None:
    file = office.file()
    path = f"/v2/banking/order-files/{file['id']}/submission"
    assert office.call("GET", path)["state"] == "not_sent"
    service, owner = office.service, office.person.owner
    reading = service.db.write_now(keys.create, service.vault, owner.id, "reads", ACTOR, scopes=("banking:read",))
    assert service.request("POST", path, reading.secret).status_code == 403
    sent = office.call("POST", path)
    [order] = office.at_bank()
    assert sent == {"order_file_id": file["id"], "state": "waiting", "order_id": order.id, "message": None}
    assert (order.state, order.signatures) == ("waiting", [])
    assert office.service.request("POST", path, office.key).status_code == 409
    office.bank.release(PARTNER, order.id)
    assert office.person.refresh().status_code == 202
    assert office.call("GET", path)["state"] == "accepted"
    assert len(office.at_bank()) == 1


@pytest.mark.either_engine
def test_a_file_that_people_cancelled_at_the_bank_can_be_discarded(office: Office) -> None:
    file = office.file()
    office.send(file)
    [order] = office.at_bank()
    partner = office.bank.partners[PARTNER]
    office.bank.cancel(partner, order, USER)
    assert office.person.refresh().status_code == 202
    assert "The bank has refused the file" in office.page(file)
    assert office.call("DELETE", f"/v2/banking/order-files/{file['id']}")["status"] == "discarded"


@pytest.mark.either_engine
def test_nothing_is_sent_for_a_user_that_could_release_it(office: Office) -> None:
    file = office.file()
    office.bank.partners[PARTNER].users[USER].level = "E"
    page = office.send(file)
    assert "class T" in page
    assert office.at_bank() == []
    office.bank.partners[PARTNER].users[USER].rights = {"C53"}
    assert "SCT:::pain.001 / CCT" in office.send(file)
    assert office.call("DELETE", f"/v2/banking/order-files/{file['id']}")["status"] == "discarded"
