"""Order files at the sandbox bank: it reports as a bank does, and refuses payees that banks refuse, with the reason code."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kontobahn.bank_providers.sandbox.order_files import Payee, answer_order_file, refusal
from kontobahn.cli.entry import command_line
from kontobahn.clock import to_datetime
from kontobahn.errors import BadRequest
from kontobahn.formats.pain.sepa import Address
from tests.bank_builder import CREDITOR_IBAN
from tests.file_bank import FileBank
from tests.harness import Service
from tests.sandbox_visitor import Visitor
from tests.statement_builder import Sheet, camt

SWISS = "CH9300762011623852957"
TOWN = Address("DE", "Köln")
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
one_engine = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.mark.parametrize(
    ("payee", "code"),
    [
        (Payee(CREDITOR_IBAN, None, None), None),
        (Payee(CREDITOR_IBAN, None, TOWN), None),
        (Payee(CREDITOR_IBAN, None, TOWN._replace(lines=("Ring 7", "Hinterhaus"))), None),
        (Payee(CREDITOR_IBAN, None, TOWN._replace(lines=("Ring 7", "2. Hof", "Hinterhaus"))), "BE04"),
        (Payee(CREDITOR_IBAN, None, TOWN._replace(lines=("50667 KÖLN",))), "BE04"),
        (Payee(CREDITOR_IBAN, None, Address("", "", lines=("Ring 7", "50667 Köln"))), "BE04"),
        (Payee(CREDITOR_IBAN, None, TOWN._replace(country="Deutschland")), "BE11"),
        (Payee("DE00512108001245126199", None, TOWN), "AC03"),
        (Payee(SWISS, "UBSWCHZH", None), "BE04"),
        (Payee(SWISS, None, Address("CH", "Zürich")), "RC04"),
        (Payee(SWISS, "UBSWCHZH", Address("CH", "Zürich")), None),
    ],
)
def test_banks_refuse_payees_by_their_address_and_their_bank(payee: Payee, code: str | None) -> None:
    found = refusal(payee)
    assert (found.code if found else None) == code


@one_engine
def test_a_payment_by_call_is_refused_like_one_in_a_file(service: Service, visitor: Visitor) -> None:
    owner = service.organization()
    visitor.connect(owner)
    refused = visitor.order(owner, creditor_iban=SWISS)
    assert (refused["status"], refused["raw_provider_status"]) == ("rejected", "RJCT")
    told = service.get(f"/v2/banking/payments/{refused['id']}/history", owner.key).json()["data"]
    assert any((one["error_message"] or "").startswith("BE04: ") for one in told)
    taken = visitor.order(
        owner, creditor_iban=SWISS, creditor_agent="UBSWCHZH", creditor_country_code="CH",
        creditor_address={"town_name": "Zürich"},
    )  # fmt: skip
    assert taken["status"] == "initiated"


@one_engine
def test_its_report_is_imported_like_a_banks_own(service: Service, tmp_path: Path) -> None:
    files = FileBank(service)
    payments = [files.pay(creditor_name=name) for name in ("Papier GmbH", "Sandbox rejected", "Sandbox payee umlaut")]
    made = service.post("/v2/banking/order-files", files.key, json={"payment_ids": [one["id"] for one in payments]})
    assert made.status_code == 201, made.text
    content = service.get(f"/v2/banking/order-files/{made.json()['data']['id']}/file", files.key).content
    files.take(answer_order_file(content, to_datetime(service.clock.now()), payees=True).report, "vop.xml")
    found = [files.payment(one) for one in payments]
    assert [one["payee_check"]["result"] for one in found] == ["match", "match", "close_match"]
    assert found[2]["payee_check"]["returned_name"] == "Sändbox payee umlaut"
    assert not any(one["status"] == "rejected" for one in found)
    given = answer_order_file(content, to_datetime(service.clock.now()))
    assert (given.accepted, given.refused) == (2, 1)
    files.take(given.report, "report.xml")
    assert [files.payment(one)["status"] for one in payments] == ["executed", "rejected", "executed"]
    # By command, on a day after that of the file.
    (tmp_path / "orders.xml").write_bytes(content)
    done = CliRunner().invoke(
        command_line("sandbox"),
        ["sandbox", "answer", str(tmp_path / "orders.xml"), "--data", str(service.settings.data_dir), "--json"],
    )
    assert done.exit_code == 0, (done.output, done.exception)
    told = json.loads(done.stdout)
    assert (told["accepted"], told["refused"], told["report"].count("<Cd>DT01</Cd>")) == (0, 3, 3)


def test_what_is_no_order_file_is_refused_and_an_old_one_by_its_code() -> None:
    for content in (
        b"",
        b"<Document/>",
        b"<a>",
        camt(Sheet([])),
        b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
    ):
        with pytest.raises(BadRequest):
            answer_order_file(content, NOW)
    old = (
        b'<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"><CstmrCdtTrfInitn><GrpHdr><MsgId>M-1</MsgId></GrpHdr>'
        b"<PmtInf><PmtInfId>P-1</PmtInfId><CdtTrfTxInf/></PmtInf></CstmrCdtTrfInitn></Document>"
    )
    refused = answer_order_file(old, NOW)
    assert (refused.accepted, refused.refused, b"<Cd>FF01</Cd>" in refused.report) == (0, 1, True)
