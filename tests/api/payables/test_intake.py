"""An invoice that comes in is kept byte for byte, read once whatever its form, and its sender is found in the books or not at all."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from kontobahn.access.principal import Principal
from kontobahn.errors import SetupError
from kontobahn.formats.invoices import rule_sets
from kontobahn.formats.invoices.model import CREDIT_NOTE, DirectDebit, Totals, VatBreakdown
from kontobahn.payables import intake, rules
from kontobahn.payables.document import MAX_LINES, sections
from kontobahn.payables.intake import Arrival
from kontobahn.payables.rules import EarlierLeg, Proposal
from kontobahn.schedule import scheduled_jobs
from tests.harness import ACTOR, Service
from tests.ledger_builder import PERSONENKONTO
from tests.received_invoices import (
    COFFEE,
    CREDITOR,
    OTHER_IBAN,
    SELLER_IBAN,
    SELLER_VAT_ID,
    Inbox,
    as_xml,
    from_seller,
    paid_to,
)


def test_an_invoice_of_a_known_creditor_waits_for_its_release(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received()
    assert payable["status"] == "to_release"
    assert payable["creditor"] == {
        "name": "Rösterei Hafen GmbH", "vat_id": SELLER_VAT_ID, "iban": SELLER_IBAN, "konto": "700010000",
    }  # fmt: skip
    assert (payable["number"], payable["issue_date"], payable["due_date"]) == ("R-7", "2026-03-02", "2026-03-16")
    assert (payable["total"], payable["payable_amount"], payable["currency_code"]) == (33.02, 33.02, "EUR")
    assert payable["client_id"] == "29098-55003"
    assert inbox.shown(payable) == payable
    assert service.get("/v2/payables", inbox.owner.key).json()["data"] == [payable]


def test_the_file_comes_back_byte_for_byte_eight_years_later(service: Service) -> None:
    inbox = Inbox(service)
    content = b"\xef\xbb\xbf" + as_xml() + b"\n<!-- end -->\n"
    payable = inbox.received(content, name="Rechnung März.xml")
    service.clock.advance(seconds=8 * 366 * 24 * 3600)
    for job in scheduled_jobs(service.application.context):
        if job.name.startswith("purge"):
            service.run(job.run())
    answer = service.get(f"/v2/payables/{payable['id']}/file", inbox.owner.key)
    assert answer.content == content
    assert answer.headers["content-type"] == "application/xml"
    assert "Rechnung%20M%C3%A4rz.xml" in answer.headers["content-disposition"]


@pytest.mark.either_engine
def test_the_same_invoice_in_another_dress_is_one(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received()
    again = inbox.send()
    other = inbox.send(as_xml(buyer_reference="04011000-1-93"), name="zweite.xml")
    assert (again.status_code, other.status_code) == (200, 200)
    assert again.json()["data"]["id"] == other.json()["data"]["id"] == payable["id"]
    assert len(service.get("/v2/payables", inbox.owner.key).json()["data"]) == 1


@pytest.mark.either_engine
def test_the_same_number_with_other_sums_stops(service: Service) -> None:
    inbox = Inbox(service)
    inbox.received()
    sums = Totals(lines_minor=3086, net_minor=3086, vat_minor=217, gross_minor=3303, due_minor=3303)
    other = inbox.received(as_xml(totals=sums))
    assert (other["status"], other["stops"]) == ("needs_person", ["number_known"])
    assert inbox.decide(other, "release").status_code == 409


@pytest.mark.either_engine
def test_a_changed_iban_stops_whatever_the_creditor_was_found_by(service: Service) -> None:
    inbox = Inbox(service)
    changed = inbox.received(as_xml(paid_to(OTHER_IBAN)))
    assert (changed["status"], changed["stops"], changed["creditor"]["konto"]) == (
        "needs_person", ["iban_changed"], "700010000",
    )  # fmt: skip
    refused = inbox.decide(changed, "release")
    assert (refused.status_code, refused.json()["status"]) == (409, "needs_person")
    by_key = inbox.decide(changed, "confirmations", stop="iban_changed")
    assert by_key.status_code == 403, "a key never says that an account is right"
    assert inbox.shown(changed)["status"] == "needs_person"


@pytest.mark.either_engine
def test_somebody_with_another_vat_id_is_somebody_else(service: Service) -> None:
    inbox = Inbox(service)
    other = inbox.received(as_xml(from_seller(vat_id="DE811569869")))
    assert (other["status"], other["creditor"]["konto"]) == ("new", None)
    assert other["warnings"][-1] == "70001 Roesterei Hafen has the same name and another VAT id."


@pytest.mark.either_engine
def test_without_a_vat_id_the_account_and_then_the_name_decide(service: Service) -> None:
    inbox = Inbox(service, ustId=None)
    by_iban = inbox.received(as_xml(from_seller(name="Ganz anders GmbH")))
    by_name = inbox.received(as_xml(paid_to(OTHER_IBAN, number="R-8")))
    stranger = from_seller(name="Rösterei Hafen Nord GmbH")
    nobody = inbox.received(as_xml(stranger, number="R-9", payment=paid_to(OTHER_IBAN).payment))
    assert by_iban["creditor"]["konto"] == by_name["creditor"]["konto"] == "700010000"
    assert by_name["stops"] == ["iban_changed"], "a name alone says nothing of an account"
    assert nobody["creditor"]["konto"] is None
    assert nobody["warnings"][-1] == "70001 Roesterei Hafen has a similar name: look whether it is the same."


@pytest.mark.either_engine
def test_a_customer_is_never_taken_for_a_creditor(service: Service) -> None:
    inbox = Inbox(service, personenkontoNummer="10010")
    assert inbox.received()["creditor"]["konto"] is None


@pytest.mark.either_engine
def test_sums_are_those_of_the_file(service: Service) -> None:
    inbox = Inbox(service)
    payable = inbox.received(as_xml(totals=COFFEE.totals._replace(due_minor=3300, rounding_minor=0)))
    assert (payable["total"], payable["payable_amount"]) == (33.02, 33.0)
    assert payable["findings"], "what does not add up is told"


@pytest.mark.either_engine
def test_skonto_is_exact_and_ends_with_its_day(service: Service) -> None:
    payable = Inbox(service).received()
    assert payable["terms"] == [{"percent": 2, "days": 7, "until": "2026-03-09", "amount": 0.66}]


@pytest.mark.either_engine
def test_what_the_creditor_takes_is_not_to_be_paid(service: Service) -> None:
    inbox = Inbox(service)
    means = COFFEE.payment._replace(
        means_code="59", transfers=(), direct_debit=DirectDebit("M-1", "DE98ZZZ09999999999")
    )
    debit = inbox.received(as_xml(payment=means))
    credit = inbox.received(as_xml(type_code=CREDIT_NOTE, number="G-1"))
    assert (debit["to_be_paid"], debit["status"]) == (False, "to_release")
    assert (credit["to_be_paid"], credit["kind"], credit["payable_amount"]) == (False, "credit_note", -33.02)


def test_a_file_without_an_invoice_is_kept_and_told(service: Service) -> None:
    inbox = Inbox(service)
    refused = inbox.send(b"<html>Mahnung</html>", name="mahnung.xml")
    assert refused.status_code == 422
    told = refused.json()
    assert told["findings"][0]["class"] == "format"
    assert told["findings"][0]["message"]
    assert inbox.send(b"<html>Mahnung</html>").json()["file_id"] == told["file_id"], "kept once"
    assert service.get(f"/v2/payables/files/{told['file_id']}", inbox.owner.key).content == b"<html>Mahnung</html>"
    assert inbox.books.rows("SELECT file_name, content FROM payables_files") == [
        ("mahnung.xml", b"<html>Mahnung</html>")
    ]
    assert service.get("/v2/payables", inbox.owner.key).json()["data"] == []


@pytest.mark.either_engine
def test_a_file_is_bounded(service: Service) -> None:
    assert Inbox(service).send(b"<" + b" " * 20_000_000).status_code == 413


@pytest.mark.either_engine
def test_an_organisation_without_books_receives_all_the_same(service: Service) -> None:
    owner = service.organization()
    answer = service.post(
        "/v2/payables/files", owner.key, content=as_xml(), headers={"Content-Type": "application/xml"}
    )
    assert (answer.status_code, answer.json()["data"]["status"]) == (201, "new")
    assert answer.json()["data"]["connection_id"] is None


@pytest.mark.either_engine
def test_account_and_key_are_proposed_from_the_creditors_bookings(service: Service) -> None:
    inbox = Inbox(service)
    inbox.books.post(
        "2026-01-05 H 70001 3300 50,00 R-1\n2026-02-05 H 70001 3300 60,00 R-2\n2026-02-06 H 70001 4930 7,00 R-3"
    )
    assert inbox.received()["proposals"] == {"konto": "33000000", "steuer": "", "reason": "2/3", "category": ""}


@pytest.mark.either_engine
def test_where_the_buyer_owes_the_tax_the_key_follows_from_the_category(service: Service) -> None:
    inbox = Inbox(service)
    proposed = [
        inbox.received(_of_category(number, category))["proposals"] for number, category in (("1", "AE"), ("2", "K"))
    ]
    only = {"konto": "", "reason": ""}
    assert proposed == [{**only, "steuer": "94", "category": "AE"}, {**only, "steuer": "19", "category": "K"}]
    inbox.books.post("2026-01-05 H 70001 3100 50,00 R-1\n2026-02-05 H 70001 3100 60,00 R-2")
    habit = inbox.received(_of_category("3", "AE"))["proposals"]
    assert habit == {"konto": "31000000", "steuer": "94", "reason": "2/2", "category": "AE"}
    assert inbox.received(_of_category("4", "E"))["proposals"] == {**habit, "steuer": "", "category": ""}


def _of_category(number: str, category: str) -> bytes:
    return as_xml(number=number, vat_breakdown=[VatBreakdown(category, Decimal(0), 3302, 0, "by law")])


def test_a_habit_is_what_more_than_half_of_at_least_two_invoices_were_booked_to() -> None:
    goods, post = EarlierLeg("33000000", "9"), EarlierLeg("49100000", "")
    assert rules.propose([goods]) is None
    assert rules.propose([goods, post]) is None
    for legs, reason in (([goods, goods], "2/2"), ([goods, post, goods], "2/3")):
        assert rules.propose(legs) == Proposal("33000000", "9", reason)


def test_a_creditor_is_found_by_the_tax_number_of_an_earlier_invoice(service: Service) -> None:
    inbox = Inbox(service)
    seller = {"name": "Ganz anders KG", "vat_id": None, "tax_number": "12/345/67890"}
    first = inbox.received(as_xml(from_seller(**seller), number="1", payment=COFFEE.payment._replace(transfers=[])))
    assert (first["status"], first["creditor"]["konto"]) == ("new", None)
    assert inbox.decide(first, "creditor", konto="70001").status_code == 200
    second = inbox.received(as_xml(from_seller(**seller), number="2", payment=paid_to(OTHER_IBAN).payment))
    assert (second["creditor"]["konto"], second["stops"]) == ("700010000", ["iban_changed"])
    other = inbox.received(as_xml(from_seller(**{**seller, "tax_number": "99/345/67890"}), number="3"))
    assert other["creditor"]["konto"] == "700010000", "by its IBAN"
    stranger = inbox.received(
        as_xml(from_seller(**{**seller, "tax_number": "98/345/67890"}), number="4", payment=paid_to(OTHER_IBAN).payment)
    )
    assert stranger["creditor"]["konto"] is None
    # The books of another client know nothing of it: there the number is that of somebody else.
    inbox.books.another_client("29098-55004", years=("2026-01-01",))
    baker = {**CREDITOR, "firmenname": "Bäckerei Ost", "ustId": None, "bankkonten": []}
    assert inbox.books.send(PERSONENKONTO, baker, query={"clientId": "29098-55004"}).status_code == 201
    settings = {"connection_id": inbox.books.connection_id, "client_id": "29098-55004"}
    assert service.request("PUT", "/v2/payables/settings", inbox.owner.key, json=settings).status_code == 200
    elsewhere = inbox.received(as_xml(from_seller(**seller), number="5", payment=paid_to(OTHER_IBAN).payment))
    assert (elsewhere["client_id"], elsewhere["creditor"]["konto"]) == ("29098-55004", None)


@pytest.mark.either_engine
def test_the_report_names_its_rules_and_an_operator_replaces_them(service: Service, tmp_path: Path) -> None:
    inbox = Inbox(service)
    named = {one["name"]: one for one in inbox.received()["rule_sets"]}
    assert (sorted(named), named["en16931"]["is_outdated"]) == (["en16931", "ustg"], False)
    own = (rule_sets.FOLDER / "en16931.toml").read_text("utf-8")
    own = re.sub(r'version = "[^"]+"\nvalid_from = \S+', 'version = "9.9"\nvalid_from = 2026-01-01', own)
    (tmp_path / "en16931.toml").write_text(own.replace("outdated_on = 2027-05-31", "outdated_on = 2026-02-01"), "utf-8")
    context = service.application.context
    settings = msgspec.structs.replace(context.settings, invoice_rules_folder=str(tmp_path))
    arrival = Arrival(inbox.owner.id, "8.xml", "8", as_xml(number="R-8"), ACTOR, "")
    principal = Principal(inbox.owner.id, "admin", (inbox.owner.id,))
    service.run(intake.take(context._replace(settings=settings), principal, arrival))
    [payable] = service.get("/v2/payables", inbox.owner.key, params={"number": "R-8"}).json()["data"]
    assert {"name": "en16931", "version": "9.9", "valid_from": "2026-01-01", "is_outdated": True} in payable[
        "rule_sets"
    ]
    assert [text for text in payable["warnings"] if "9.9" in text]
    (tmp_path / "broken.toml").write_text("name = 1", "utf-8")
    rule_sets.load.cache_clear()
    with pytest.raises(SetupError, match=r"invoice_rules_folder: broken\.toml"):
        intake.rules_of(settings)


@pytest.mark.either_engine
def test_lists_are_narrowed_and_walked(service: Service) -> None:
    inbox = Inbox(service)
    first = inbox.received()
    second = inbox.received(as_xml(number="R-8", payment=COFFEE.payment._replace(due_on=date(2026, 4, 1))))

    def listed(**query: str) -> list[str]:
        answer = service.get("/v2/payables", inbox.owner.key, params=query)
        assert answer.status_code == 200, answer.text
        return [row["id"] for row in answer.json()["data"]]

    assert listed() == [first["id"], second["id"]]
    assert listed(due_before="2026-04-01") == [first["id"]]
    assert listed(number="R-8") == listed(from_id=first["id"]) == [second["id"]]
    assert listed(creditor="700010000", status="to_release") == [first["id"], second["id"]]
    assert listed(status="paid") == []
    page = service.get("/v2/payables", inbox.owner.key, params={"limit": 1})
    assert f"from_id={first['id']}" in page.headers["link"]


@pytest.mark.either_engine
def test_a_page_shows_what_the_seller_wrote_as_text(service: Service) -> None:
    inbox = Inbox(service)
    line = COFFEE.lines[0]._replace(name="<script>alert(1)</script>", quantity=Decimal("1234.5"))
    payable = inbox.received(as_xml(lines=[line], buyer_reference="04011000-1-93"))
    page = service.get(f"/v2/payables/{payable['id']}/document", inbox.owner.key)
    assert "04011000-1-93" in page.text
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "<script" not in page.text
    assert "1.234,5 kg" in page.text
    assert ("33,02\N{NO-BREAK SPACE}€" in page.text, "12,3456\N{NO-BREAK SPACE}€" in page.text) == (True, True)
    english = service.get(f"/v2/payables/{payable['id']}/document", inbox.owner.key, params={"language": "en"})
    assert ("1,234.5 kg" in english.text, "€33.02" in english.text) == (True, True)
    assert ("<h1>Rechnung " in page.text, "<h1>Invoice " in english.text) == (True, True)


@pytest.mark.either_engine
def test_without_number_day_or_currency_it_is_no_invoice_yet(service: Service) -> None:
    """Nobody could say which invoice it is, or what is owed: the file is kept, and a person types what it says."""
    inbox = Inbox(service)
    for missing in ("R-7", "20260302", "EUR"):
        whole = as_xml().decode()
        assert f">{missing}<" in whole
        answer = inbox.send(whole.replace(f">{missing}<", "><", 1).encode())
        assert answer.status_code == 422, missing
        assert answer.json()["file_id"], missing


@pytest.mark.either_engine
def test_books_and_organisation_that_do_not_belong_together_are_refused(service: Service) -> None:
    inbox, other = Inbox(service), Inbox(service, service.organization("Andere GmbH"))
    agency = service.agency(inbox.owner, other.owner)
    given: dict[str, Any] = {"connection_id": inbox.books.connection_id, "key": agency.key}
    refused = inbox.send(organization_id=other.owner.id, **given)
    assert (refused.status_code, refused.json()["field"]) == (409, "connection_id")
    assert inbox.received(organization_id=inbox.owner.id, **given)["creditor"]["konto"] == "700010000"
    assert service.get("/v2/payables", other.owner.key).json()["data"] == []


@pytest.mark.parametrize(("language", "day"), [("de", "02.03.2026"), ("en", "2 Mar 2026")])
def test_the_days_of_an_invoice_are_written_as_people_write_them(language: Literal["de", "en"], day: str) -> None:
    head = sections(COFFEE, language)[0]
    assert day in {text for _name, text in head.rows}


def test_an_invoice_with_more_lines_than_a_page_shows_says_so() -> None:
    def last_line(count: int) -> tuple[str, ...]:
        [lines] = [
            one for one in sections(COFFEE._replace(lines=[COFFEE.lines[0]] * count), "en") if one.heading == "Lines"
        ]
        assert [lines.titles[place] for place in sorted(lines.figures)] == ["Quantity", "Unit price", "VAT", "Net"]
        return lines.rows[-1]

    assert last_line(MAX_LINES)[0] != ""
    assert last_line(MAX_LINES + 1)[0] == ""
