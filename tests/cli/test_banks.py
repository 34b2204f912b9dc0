"""`kontobahn banks try`: one harmless question, and in a sentence what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kontobahn.bank_providers.fints.adapter import read_list
from kontobahn.errors import SetupError
from simulators.ebics_bank import Break, EbicsBank, Line
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_wire import key_pair, private_pem, public_pem
from simulators.fints_bank import FakeBank
from simulators.salt_edge import SaltEdge, key
from tests.command_line import CommandLine
from tests.providers.salt_edge import person as salt_edge_person


@pytest.fixture
def bank() -> Iterator[FakeBank]:
    made = FakeBank()
    yield made
    made.stop()


def test_a_bank_is_asked_who_it_is(cli: CommandLine, bank: FakeBank, monkeypatch: pytest.MonkeyPatch) -> None:
    address = bank.serve()
    there = ("banks", "try", "fints", "--blz", "99990000", "--url")
    assert "fints_product_id" in cli.refused(*there, address, code=1)
    monkeypatch.setenv("KONTOBAHN_FINTS_PRODUCT_ID", "PRODUCT")
    # Private addresses are reached only if the operator named them.
    assert "cannot be reached" in cli.refused(*there, address, code=1)
    monkeypatch.setenv("KONTOBAHN_BANK_ALLOW", urlsplit(address).netloc)
    assert "Fakebank answers" in cli.ok(*there, address).out
    bank.errors["start"] = [("9078", "Produkt nicht registriert")]
    assert "Produkt nicht registriert (9078)" in cli.ok(*there, address).out
    bank.breaks = ["nonsense"]
    assert "does not speak FinTS" in cli.refused(*there, address, code=1)
    bank.breaks = ["500"]
    assert "HTTP status 500" in cli.refused(*there, address, code=1)
    assert "--blz" in cli.refused("banks", "try", "fints", code=1)
    assert bank.faults == []


def test_an_ebics_bank_is_asked_what_it_speaks(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    bank = EbicsBank()
    line = Line(bank)
    there = ("banks", "try", "ebics", "--url", line.url, "--host")
    assert "cannot be reached" in cli.refused(*there, bank.host, code=1)
    monkeypatch.setenv("KONTOBAHN_BANK_ALLOW", urlsplit(line.url).netloc)
    assert "version 3.0 is used" in cli.ok(*there, bank.host).out
    assert "091011" in cli.refused(*there, "NOBANK", code=1)
    assert "host id has up to 35" in cli.refused(*there, "no host", code=1)
    bank.breaks = [Break("nonsense"), Break("503")]
    assert "does not answer as EBICS has it" in cli.refused(*there, bank.host, code=1)
    assert "HTTP status 503" in cli.refused(*there, bank.host, code=1)
    assert "--host" in cli.refused("banks", "try", "ebics", code=1)
    line.hang_up()


def test_an_application_at_enable_banking_is_asked_how_it_stands(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("banks", "try", "enable-banking")
    simulator = EnableBanking()
    address = simulator.serve()
    assert "enable_banking_app_id" in cli.refused(*there, code=1)
    monkeypatch.setenv("KONTOBAHN_ENABLE_BANKING_APP_ID", simulator.application_id)
    assert "enable_banking_key" in cli.refused(*there, code=1)
    key = tmp_path / "key.pem"
    monkeypatch.setenv("KONTOBAHN_ENABLE_BANKING_KEY", str(key))
    assert "cannot be read" in cli.refused(*there, code=1)
    key.write_bytes(public_pem(simulator.key))
    assert "not a PEM private key without a password" in cli.refused(*there, code=1)
    key.write_bytes(private_pem(simulator.key))
    monkeypatch.setenv("KONTOBAHN_ENABLE_BANKING_URL", address)
    assert "cannot be reached" in cli.refused(*there, code=1)
    monkeypatch.setenv("KONTOBAHN_BANK_ALLOW", urlsplit(address).netloc)
    assert "Set base_url" in cli.ok(*there).out
    monkeypatch.setenv("KONTOBAHN_BASE_URL", "https://konto.example")
    back = "https://konto.example/banking/return/enable_banking"
    assert f"add the redirect URL {back}" in cli.ok(*there).out
    simulator.redirect_urls = [back]
    assert "it may use accounts and payments" in cli.ok(*there).out
    monkeypatch.setenv("KONTOBAHN_ENABLE_BANKING_COUNTRIES", "de,SE")
    assert "but not for SE" in cli.ok(*there).out
    simulator.active = False
    assert "not active yet" in cli.ok(*there).out
    simulator.breaks = [("/application", "502")]
    assert "HTTP status 502" in cli.refused(*there, code=1)
    simulator.key = key_pair("another")
    assert "does not know this application by this key" in cli.refused(*there, code=1)
    simulator.stop()


def test_what_reaches_nothing_has_nothing_to_try(cli: CommandLine) -> None:
    assert "nothing to try" in cli.ok("banks", "try", "sandbox").out
    assert "there are files, sandbox, ebics, fints, salt-edge, enable-banking" in cli.refused(
        "banks", "try", "fintz", code=1
    )


def test_salt_edge_is_asked_for_a_bank(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = SaltEdge()
    settings = salt_edge_person.settings_for(remote, remote.serve(), tmp_path)
    there = ("banks", "try", "salt-edge")
    assert "salt_edge_app_id" in cli.refused(*there, code=1)
    for name in ("app_id", "secret", "url"):
        monkeypatch.setenv(f"KONTOBAHN_SALT_EDGE_{name.upper()}", settings[f"salt_edge_{name}"])
    # Private addresses are reached only if the operator named them.
    assert "cannot be reached" in cli.refused(*there, code=1)
    monkeypatch.setenv("KONTOBAHN_BANK_ALLOW", settings["bank_allow"])
    assert "set salt_edge_private_key" in cli.refused(*there, code=1)
    remote.must_sign = False
    assert "Not set yet: salt_edge_private_key, salt_edge_callback_key" in cli.ok(*there).out
    remote.must_sign = True
    for name in ("private_key", "callback_key"):
        monkeypatch.setenv(f"KONTOBAHN_SALT_EDGE_{name.upper()}", settings[f"salt_edge_{name}"])
    assert "accepts this app and its signature" in cli.ok(*there).out
    remote.app_key = key("another")
    assert "is not the key whose public half is registered" in cli.refused(*there, code=1)
    remote.now = lambda: 4_000_000_000.0
    assert "clock is wrong" in cli.refused(*there, code=1)
    remote.secret = "changed"
    said = cli.refused(*there, code=1)
    assert "salt_edge_app_id or salt_edge_secret is wrong" in said
    assert settings["salt_edge_secret"] not in said
    remote.stop()


_TABLE = (
    "Nr.;BLZ;BIC;Institut;Ort;RZ;PIN/TAN-Zugang URL;Version\r\n"
    "1;99912030;MUSTDEFFXXX;Musterbank;Berlin;x;https://fints.example/fints;FinTS V3.0\r\n"
    "2;10000000;NOTEDEFFXXX;Notenbank;Berlin;;;\r\n"
    ";;;;;;;\r\n"
    "3;99970150;SPKMDEFFXXX;Stadtsparkasse M\xfcnchen;M\xfcnchen;y;https://banking.example/pintan;FinTS V3.0\r\n"
)
_LINES = (
    "# a comment\n99912030=Musterbank|Berlin|MUSTDEFFXXX|00|hbci.example|https://fints.example/fints|300\n"
    "10000000=Notenbank|Berlin|NOTEDEFFXXX|09||||\n"
)


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (_TABLE.encode("cp1252"), ["Musterbank Berlin", "Stadtsparkasse München München"]),
        (_TABLE.encode("utf-8-sig"), ["Musterbank Berlin", "Stadtsparkasse München München"]),
        (_LINES.encode(), ["Musterbank Berlin"]),
    ],
)
def test_a_list_of_banks_is_read_in_both_forms(tmp_path: Path, content: bytes, names: list[str]) -> None:
    path = tmp_path / "banks"
    path.write_bytes(content)
    found = read_list(path)
    assert [bank.name for bank in found.values()] == names
    assert found["99912030"][:1] + found["99912030"][2:] == ("99912030", "MUSTDEFFXXX", "https://fints.example/fints")


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"BLZ;Name\r\n123;x\r\n"])
def test_a_file_without_banks_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "banks.csv"
    path.write_bytes(content)
    with pytest.raises(SetupError, match=r"banks\.csv"):
        read_list(path)
    with pytest.raises(SetupError, match=r"nowhere"):
        read_list(tmp_path / "nowhere")
