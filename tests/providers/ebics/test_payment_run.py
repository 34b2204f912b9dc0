"""A payment run over an account that is connected by EBICS: from released invoices to the booking that closes them."""

from __future__ import annotations

from tests.api.payables.test_settlement import Bookkeeper
from tests.paid_invoices import credit_note, of_tea, without_skonto
from tests.providers.ebics.office import Office
from tests.providers.ebics.person import PARTNER

BOOKS = """
2026-03-02 H 70001 3300 33,02 R-7
2026-03-02 S 70001 3300 3,00 G-1
2026-03-02 H 70002 3300 10,00 T-1
"""


def test_a_run_is_sent_to_the_bank_and_its_bookings_close_the_invoices(office: Office) -> None:
    person = office.person
    [account] = person.accounts()
    keeper = Bookkeeper(person.service, BOOKS, person.owner, account["id"])
    coffee, credit, tea = (
        keeper.released(content) for content in (without_skonto("R-7", 3302), credit_note("G-1", 300), of_tea("T-1"))
    )
    run = keeper.run(coffee, credit, tea)
    [file_id] = run["order_file_ids"]
    assert keeper.statuses(coffee, credit, tea) == ["in_payment"] * 3
    file = office.call("GET", f"/v2/banking/order-files/{file_id}")
    assert "The bank has the file" in office.send(file)
    [order] = office.at_bank()
    payments = {one["amount"]: one for one in keeper.payments()}
    assert sorted((str(one.amount), one.end_to_end_id) for one in order.file.transfers) == [
        ("10.00", payments[10]["end_to_end_id"]), ("30.02", payments[30.02]["end_to_end_id"]),
    ]  # fmt: skip
    # Nothing leads to a second one while it is there, and nothing is closed before the bank has booked.
    assert keeper.ask(coffee).status_code == 409
    office.bank.release(PARTNER, order.id)
    assert person.refresh().status_code == 202
    assert "The bank has accepted the file" in office.page(file)
    keeper.follow()
    assert keeper.statuses(coffee, credit, tea) == ["in_payment"] * 3
    office.bank.close_day(PARTNER)
    assert person.refresh().status_code == 202
    assert {one["status"] for one in keeper.payments()} == {"settled"}
    matches = keeper.match()
    assert [(one["evidence_class"], one["created_by"]) for one in matches] == [("A1", "engine")] * 2
    keeper.follow()
    assert keeper.statuses(coffee, credit, tea) == ["paid"] * 3
    assert {line["beleg"] for one in matches for line in one["lines"]} == {"R-7", "G-1", "T-1"}
    assert keeper.events().count("payable.paid") == 3
    assert len(office.at_bank()) == 1
    assert office.bank.faults == []
