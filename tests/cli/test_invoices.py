"""`kontobahn invoices check` says what a file is and what is wrong with it, and its exit code says whether anything is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.invoice_corpus import FULL, PLAIN, XRECHNUNG, written

ON = ("--on", "2026-11-17")


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Without a database: none is needed."""
    monkeypatch.delenv("LC_ALL", raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")
    return CommandLine(tmp_path / "data", monkeypatch)


def saved(folder: Path, name: str, content: bytes) -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_a_good_invoice_is_shown_with_its_sums(line: CommandLine, tmp_path: Path) -> None:
    file = saved(tmp_path, "good.xml", written(FULL, "ubl", XRECHNUNG))
    shown = line.ok("invoices", "check", file, *ON).out
    assert "UBL xrechnung 3.0, valid." in shown
    assert "net 141.00, VAT 22.23, total 163.23, to pay 63.20 EUR by 2026-05-02" in shown
    assert "rules: en16931 1.3.16, xrechnung 2.6.0, ustg 2025" in shown
    assert not (tmp_path / "data").exists()


def test_findings_come_in_the_language_of_the_terminal_or_another(
    line: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = saved(tmp_path, "good.xml", written(PLAIN, "cii"))
    bad = saved(tmp_path, "bad.xml", written(PLAIN._replace(number=""), "cii"))
    english = line.run("invoices", "check", good, bad, *ON)
    assert (english.code, "BR-02: The invoice number (BT-1) is missing." in english.out) == (1, True)
    assert "Die Rechnungsnummer" in line.run("invoices", "check", bad, "--language", "de", *ON).out
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    german = line.run("invoices", "check", bad, "--json", *ON)
    (result,) = german.json
    assert (german.code, result["valid"], result["invoice"]["total"]) == (1, False, "42.80")
    (finding,) = result["findings"]
    assert (finding["class"], finding["rule"], finding["severity"]) == ("business_rule", "BR-02", "error")
    assert finding["message"] == "Die Rechnungsnummer (BT-1) fehlt."


def test_a_file_that_is_none_is_said_to_be_none(line: CommandLine, tmp_path: Path) -> None:
    done = line.run("invoices", "check", saved(tmp_path, "a.txt", b"Rechnung"), *ON)
    assert done.code == 1
    assert "This is no invoice: neither XML (CII, UBL) nor PDF." in done.out


def test_rules_of_an_operator_are_used_or_refused(line: CommandLine, tmp_path: Path) -> None:
    good = saved(tmp_path, "good.xml", written(PLAIN, "cii"))
    folder = tmp_path / "rules"
    folder.mkdir()
    saved(folder, "own.toml", b"nothing")
    assert "own.toml is not a set of rules" in line.refused("invoices", "check", good, "--rules", str(folder), code=1)
