"""Checks of payees: beside the status and never instead of it, whatever shape the bank's report has."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.banking.test_several_orders import make, statuses
from tests.bank_builder import events
from tests.file_bank import PAYMENTS, FileBank
from tests.harness import Organization, Service
from tests.statement_builder import archive

CODES = {"RCVC": "match", "RVMC": "close_match", "RVNM": "no_match", "RVNA": "not_possible", "PDNG": "pending"}


@pytest.fixture
def bank(service: Service) -> FileBank:
    return FileBank(service)


def line(
    code: str = "", end_to_end_id: str = "NOTPROVIDED", *, reason: str = "", names: tuple[str, ...] = (), more: str = ""
) -> str:
    told = "".join(f"<AddtlInf>{name}</AddtlInf>" for name in names)
    why = f"<StsRsnInf>{reason}{told}</StsRsnInf>" if reason or told else ""
    return (
        f"<TxInfAndSts><StsId>1</StsId><OrgnlEndToEndId>{end_to_end_id}</OrgnlEndToEndId><TxSts>{code}</TxSts>{why}"
        f"<OrgnlTxRef>{more}</OrgnlTxRef></TxInfAndSts>"
    )


def counts(**numbers: int) -> str:
    return "".join(
        f"<NbOfTxsPerSts><DtldNbOfTxs>{number}</DtldNbOfTxs><DtldSts>{code}</DtldSts></NbOfTxsPerSts>"
        for code, number in numbers.items()
    )


def report(
    message_id: str, *lines: str, group: str = "RVCM", instruction: str = "", counted: str = "", name: str = "V-1"
) -> bytes:
    status = f"<GrpSts>{group}</GrpSts>" if group else ""
    return (
        '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"><CstmrPmtStsRpt>'
        f"<GrpHdr><MsgId>{name}</MsgId><CreDtTm>2026-03-02T12:00:00</CreDtTm></GrpHdr>"
        f"<OrgnlGrpInfAndSts><OrgnlMsgId>{message_id}</OrgnlMsgId><OrgnlMsgNmId>pain.001.001.09</OrgnlMsgNmId>{status}{counted}"
        f"</OrgnlGrpInfAndSts><OrgnlPmtInfAndSts><OrgnlPmtInfId>{message_id}-1</OrgnlPmtInfId>"
        f"{f'<PmtInfSts>{instruction}</PmtInfSts>' if instruction else ''}{''.join(lines)}</OrgnlPmtInfAndSts>"
        "</CstmrPmtStsRpt></Document>"
    ).encode()


def results(bank: FileBank) -> list[str]:
    listed = bank.service.get(PAYMENTS, bank.key, params={"sort": "id"}).json()["data"]
    return [row["payee_check"]["result"] for row in listed]


def told(service: Service, owner: Organization) -> list[dict[str, Any]]:
    return [event for event in events(service, owner) if event["event"] == "payment.payee_check"]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("level", ["group", "instruction", "transaction"])
@pytest.mark.either_engine
def test_every_code_at_every_level_leaves_the_status(bank: FileBank, code: str, level: str) -> None:
    first, second = bank.pay(), bank.pay()
    message = make(bank)["message_id"]
    if level == "group":
        # That the bank is still at it is only said of a check if something else in the report is one.
        content = report(message, *([line("RCVC", second["end_to_end_id"])] if code == "PDNG" else []), group=code)
    elif level == "instruction":
        content = report(message, instruction=code)
    else:
        content = report(message, line(code, first["end_to_end_id"]))
    bank.take(content, "vpz.xml")
    assert results(bank)[0] == CODES[code]
    assert statuses(bank) == ["initiated"] * 2
    shown = bank.payment(first)
    assert (shown["raw_provider_status"], shown["payee_check"]["source"]) == (None, "pain.002 V-1")
    assert bank.service.post(f"{PAYMENTS}/{first['id']}/cancel", bank.key).status_code == 200


def test_different_results_are_nobodys_result(bank: FileBank) -> None:
    bank.pay(), bank.pay()
    result = bank.take(report(make(bank)["message_id"]), "vpz.xml")
    assert results(bank) == ["not_asked"] * 2
    assert "lists 0 of 2 payments" in result.warnings[0].found


def test_payees_that_are_only_counted_match(bank: FileBank) -> None:
    close, *_ = [bank.pay() for _ in range(3)]
    message = make(bank)["message_id"]
    content = report(message, line("RVMC", close["end_to_end_id"]), group="", counted=counts(RCVC=2, RVMC=1))
    assert bank.take(content, "vpz.xml").warnings == ()
    assert results(bank) == ["close_match", "match", "match"]


@pytest.mark.parametrize("counted", [{"RCVC": 1, "RVMC": 1}, {"RCVC": 3, "RVMC": 1}, {"RVMC": 3}])
@pytest.mark.either_engine
def test_counts_that_do_not_agree_say_nothing(bank: FileBank, counted: dict[str, int]) -> None:
    close, *_ = [bank.pay() for _ in range(3)]
    content = report(make(bank)["message_id"], line("RVMC", close["end_to_end_id"]), counted=counts(**counted))
    [warning] = bank.take(content, "vpz.xml").warnings
    assert "lists 1 of 3 payments" in warning.found
    assert results(bank) == ["close_match", "not_asked", "not_asked"]


@pytest.mark.parametrize(
    ("names", "returned"),
    [
        (("Müller GmbH",), "Müller GmbH"),
        (("RVMC Müller GmbH",), "Müller GmbH"),
        (("M" * 105,), "M" * 105),
        (("M" * 105, "üller GmbH"), "M" * 105 + "üller GmbH"),
        ((), None),
    ],
)
@pytest.mark.either_engine
def test_the_returned_name_is_whole_and_bare(bank: FileBank, names: tuple[str, ...], returned: str | None) -> None:
    payment = bank.pay()
    submitted = "<Cdtr><Pty><Nm>Mueller</Nm></Pty></Cdtr>"
    bank.take(report(payment["end_to_end_id"], line("RVMC", payment["end_to_end_id"], names=names, more=submitted)))
    check = bank.payment(payment)["payee_check"]
    assert (check["result"], check["submitted_name"], check["returned_name"]) == ("close_match", "Mueller", returned)


@pytest.mark.either_engine
def test_a_check_beside_an_acceptance_is_no_acceptance_but_a_refusal_is_one(bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    reason = "<Rsn><Prtry>RVMC</Prtry></Rsn>"
    accepted = line("ACCP", first["end_to_end_id"], reason=reason, names=("Anders",))
    refused = line("RJCT", second["end_to_end_id"], reason="<Rsn><Prtry>RVNM</Prtry></Rsn>")
    bank.take(report(make(bank)["message_id"], accepted, refused, group=""))
    assert results(bank) == ["close_match", "no_match"]
    assert statuses(bank) == ["initiated", "rejected"]


def test_a_report_that_comes_again_or_late_changes_nothing(service: Service, bank: FileBank) -> None:
    payment = bank.pay()
    content = report(payment["end_to_end_id"], line("RVMC", payment["end_to_end_id"], names=("Müller GmbH",)))
    bank.take(content)
    once = bank.payment(payment)
    bank.take(content)
    assert bank.payment(payment) == once
    bank.take(report(payment["end_to_end_id"], line("ACSC", payment["end_to_end_id"]), group=""))
    executed = bank.payment(payment)
    bank.take(report(payment["end_to_end_id"], line("RVNM", payment["end_to_end_id"]), name="V-2"))
    assert bank.payment(payment) == executed
    assert executed["status"] == "executed"
    assert [event["data"]["payee_check"]["result"] for event in told(service, bank.owner)] == ["close_match"]


# --- Lines without an id


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ('<Amt><InstdAmt Ccy="EUR">12.34</InstdAmt></Amt>', ["no_match", "not_asked", "not_asked"]),
        ("<CdtrAcct><Id><IBAN>DE02120300000000202051</IBAN></Id></CdtrAcct>", ["not_asked", "no_match", "not_asked"]),
        ('<Amt><InstdAmt Ccy="EUR">5.00</InstdAmt></Amt>', None),
        ('<Amt><InstdAmt Ccy="EUR">6.00</InstdAmt></Amt>', None),
        ("", None),
    ],
)
@pytest.mark.either_engine
def test_a_line_without_an_id_is_found_by_facts_or_named_and_never_guessed(
    bank: FileBank, more: str, found: list[str] | None
) -> None:
    bank.pay(amount="12.34"), bank.pay(amount="5.00", creditor_iban="DE02120300000000202051"), bank.pay(amount="5.00")
    content = report(make(bank)["message_id"], line("RVNM", more=more))
    warnings = bank.take(content).warnings
    assert any("NOTPROVIDED" in warning.found for warning in warnings) == (found is None)
    assert results(bank) == (found or ["not_asked"] * 3)


@pytest.mark.either_engine
def test_a_line_without_an_id_is_found_by_its_instruction_id(bank: FileBank) -> None:
    bank.pay(reference="RE-1"), bank.pay(reference="RE-2")
    instruction = "<OrgnlInstrId>RE-2</OrgnlInstrId><OrgnlEndToEndId>"
    content = report(make(bank)["message_id"], line("RVNA").replace("<OrgnlEndToEndId>", instruction))
    bank.take(content)
    assert results(bank) == ["not_asked", "not_possible"]


def test_several_reports_in_an_archive_are_imported_together(bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    parts = {
        f"r{number}.xml": report(one["end_to_end_id"], line(code, one["end_to_end_id"]), name=f"V-{number}")
        for number, (one, code) in enumerate(((first, "RCVC"), (second, "RVNM")))
    }
    assert bank.take(archive(**parts), "vpz.zip").payments == 2
    assert results(bank) == ["match", "no_match"]


# --- The list, the event


def test_the_list_is_filtered_by_the_result(service: Service, bank: FileBank) -> None:
    first, second = bank.pay(), bank.pay()
    bank.take(report(first["end_to_end_id"], line("RVNM", first["end_to_end_id"])))

    def listed(result: str) -> list[str]:
        answer = service.get(PAYMENTS, bank.key, params={"payee_check": result})
        return [row["id"] for row in answer.json()["data"]]

    assert (listed("no_match"), listed("not_asked"), listed("match")) == ([first["id"]], [second["id"]], [])
    assert service.get(PAYMENTS, bank.key, params={"payee_check": "good"}).status_code == 400


@pytest.mark.either_engine
def test_the_event_goes_to_endpoints_that_chose_it_and_to_no_other(service: Service, bank: FileBank) -> None:
    made = {}
    for name, chosen in (("all", None), ("other", ["payment_update"]), ("this", ["payment.payee_check"])):
        body = {"url": f"https://receiver.example/{name}", **({"events": chosen} if chosen else {})}
        answer = service.post("/v2/banking/webhook-endpoints", bank.key, json=body)
        assert answer.status_code == 201, answer.text
        made[answer.json()["data"]["id"]] = name
    service.request("PUT", "/v2/banking/webhook-url", bank.key, json={"webhook_url": "https://receiver.example/url"})
    payment = bank.pay(custom_fields={"order": 7})
    bank.take(report(payment["end_to_end_id"], line("RVNM", payment["end_to_end_id"])))
    [event] = told(service, bank.owner)
    assert event["data"]["payment_id"] == payment["id"]
    assert event["data"]["custom_fields"] == {"order": 7}
    rows = service.db.read_now(
        lambda tx: tx.all(
            "SELECT d.receiver_id FROM webhook_deliveries d JOIN webhook_events e ON e.organization_id = d.organization_id"
            " AND e.sequence = d.sequence WHERE e.event = 'payment.payee_check'"
        )
    )
    assert [made[receiver] for (receiver,) in rows] == ["this"]
