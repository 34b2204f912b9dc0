"""Received invoices on the command line: imported once, and told if none can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulators import imap_server
from tests.command_line import CommandLine
from tests.received_invoices import as_xml
from tests.receiver import Authority


def test_files_are_imported_once_and_listed(cli: CommandLine, tmp_path: Path) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    first, again, letter = (tmp_path / name for name in ("rechnung.xml", "kopie.xml", "brief.xml"))
    first.write_bytes(as_xml())
    again.write_bytes(as_xml(buyer_reference="7"))
    letter.write_bytes(b"<html>Mahnung</html>")
    done = cli.run("payables", "import", str(first), str(again), str(letter), "--json")
    assert done.code == 1
    outcomes = [(one["new"], one["id"] is not None, one["error"] is None) for one in done.json]
    assert outcomes == [(True, True, True), (False, True, True), (False, False, False)]
    [listed] = cli.facts("payables", "list", "--status", "new")
    assert (listed["creditor"], listed["number"], listed["amount"]) == ("Rösterei Hafen GmbH", "R-7", "33.02 EUR")
    assert cli.facts("payables", "list", "--status", "paid") == []
    [due] = cli.facts("payables", "due")
    assert (due["number"], due["amount"], due["skonto"]) == ("R-7", "33.02 EUR", "0.00"), "its Skonto is over"
    assert "R-7 of Rösterei Hafen GmbH, new. It is already known." in cli.ok("payables", "import", str(again)).out


def test_the_doctor_says_that_the_watched_folder_is_missing(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = tmp_path / "eingang"
    monkeypatch.setenv("KONTOBAHN_PAYABLES_FOLDER", str(watched))
    assert f"payables_folder: {watched} does not exist" in cli.run("doctor").out
    watched.mkdir()
    assert "payables_folder" not in cli.run("doctor").out


def test_the_mailbox_is_set_shown_tried_and_removed_without_its_password(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.ok("organizations", "create", "--name", "Muster GmbH")
    assert "No mailbox is set up." in cli.refused("payables", "mailbox", "show", code=1)
    with imap_server.running(imap_server.Mailbox(), Authority(tmp_path).server("127.0.0.1")) as server:
        monkeypatch.setenv("KONTOBAHN_MAILBOX_ALLOW", f"127.0.0.1:{server.port}")
        asked = ("payables", "mailbox", "set", "127.0.0.1", server.user, "--port", str(server.port), "--password-stdin")
        done = [cli.run(*asked, typed=f"{server.password}\n"), cli.run("payables", "mailbox", "show", "--json")]
        assert [one.code for one in done] == [0, 0], done
        assert (done[1].json["username"], done[1].json["trouble"]) == (server.user, None)
        tried = cli.run("payables", "mailbox", "fetch", "--trial", "--json")
        assert (tried.code, tried.json["trouble"]) == (1, "tls"), "nobody vouches for its certificate"
    assert not [one for one in (*done, tried) if server.password in one.out + one.err]
    assert cli.facts("payables", "mailbox", "remove") == {"removed": True}
    assert cli.facts("payables", "mailbox", "remove") == {"removed": False}
