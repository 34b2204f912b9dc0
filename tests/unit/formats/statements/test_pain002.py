"""Status reports: on which level a bank says what."""

from __future__ import annotations

import pytest

from kontobahn.formats.statements import Amount, Reason, ReportedStatus, StatementWarning, StatusReport
from tests.statement_builder import pain002
from tests.unit.formats.statements.reading import read_all


def report(data: bytes) -> StatusReport:
    (found,) = read_all(data, name="status.xml")
    assert isinstance(found, StatusReport)
    return found


@pytest.mark.parametrize("version", ["03", "10", "15"])
def test_each_level_speaks_for_itself(version: str) -> None:
    found = report(pain002(("E-1", "ACSC", ""), ("E-2", "RJCT", "AC04"), version=version, group="PART", payment="PART"))
    assert found[:5] == ("status.xml", f"pain.002.001.{version}", "B-1", "KB-1", "2026-03-02T12:00:00")
    assert [(item.level, item.status, item.end_to_end_id) for item in found.items] == [
        ("group", "PART", None),
        ("payment", "PART", None),
        ("transaction", "ACSC", "E-1"),
        ("transaction", "RJCT", "E-2"),
    ]
    last = found.items[-1]
    assert last == ReportedStatus(
        "transaction", "RJCT", "KB-1", "P-1", "E-2", None, None, (Reason("AC04", "Konto erloschen"),), None,
        Amount(1_234, "EUR"), 2,
    )  # fmt: skip


def test_a_file_refused_as_a_whole() -> None:
    found = report(pain002(group="RJCT"))
    assert [(item.level, item.status) for item in found.items] == [("group", "RJCT")]


def test_a_transaction_without_a_status_has_its_instructions() -> None:
    data = pain002(("E-1", "ACSC", ""), payment="ACCP").replace(b"<TxSts>ACSC</TxSts>", b"")
    assert [(item.level, item.status) for item in report(data).items] == [("payment", "ACCP"), ("transaction", "ACCP")]


def test_a_report_without_a_namespace_is_known_by_its_message() -> None:
    data = pain002(("E-1", "ACSC", ""))
    bare = data.replace(b' xmlns="urn:iso:std:iso:20022:tech:xsd:pain.002.001.10"', b"")
    assert bare != data
    assert report(bare).items == report(data).items


def test_a_report_in_latin_1_that_does_not_say_so_is_read_and_told() -> None:
    data = pain002(("E-1", "RJCT", "AC04")).replace(b"erloschen", "gelöscht".encode("latin-1"))
    found, warning = read_all(data, name="status.xml")
    assert isinstance(found, StatusReport)
    assert found.items[0].reasons == (Reason("AC04", "Konto gelöscht"),)
    assert isinstance(warning, StatementWarning)
    assert "not in the encoding" in warning.found


def test_a_report_in_an_envelope_is_read() -> None:
    data = pain002(("E-1", "ACSC", ""))
    header = (
        b'<Env xmlns="urn:a"><AppHdr xmlns="urn:iso:std:iso:20022:tech:xsd:head.001.001.02"><BizSvc>x</BizSvc></AppHdr>'
    )
    declaration, _, document = data.partition(b"?>")
    assert report(declaration + b"?>" + header + document + b"</Env>").items == report(data).items


def test_an_amount_with_three_decimals_does_not_refuse_the_report() -> None:
    data = pain002(("E-1", "RJCT", "AC04")).replace(b'"EUR">12.34<', b'"KWD">12.345<')
    assert [(item.status, item.amount) for item in report(data).items] == [("RJCT", None)]
