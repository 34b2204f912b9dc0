"""`kontobahn import statements` as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.journeys.process import answer, kontobahn
from tests.statement_builder import IBAN, Booking, Sheet, camt, follow_up, mt940

FIRST = Sheet([Booking(-12_34, "Miete"), Booking(50_00)])
SECOND = follow_up(FIRST, Booking(-1_00, "Gebühr"))
THIRD = follow_up(SECOND, Booking(2_00))


def test_files_in_any_order_twice_and_one_that_is_wrong(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kontobahn("migrate", data=data)
    answer("organizations", "create", "--name", "Muster GmbH", data=data)
    files = []
    for name, content in {"c.xml": camt(THIRD), "a.sta": mt940(FIRST), "b.xml": camt(SECOND, version="02")}.items():
        files.append(str(tmp_path / name))
        Path(files[-1]).write_bytes(content)
    imported = answer("import", "statements", *files, data=data)
    assert [outcome["added"] for outcome in imported] == [1, 2, 1]
    again = answer("import", "statements", *files, data=data)
    assert [(outcome["added"], outcome["repeated"]) for outcome in again] == [(0, 1)] * 3
    wrong = tmp_path / "wrong.xml"
    wrong.write_bytes(camt(follow_up(THIRD, Booking(1))._replace(closing=7)))
    refused = kontobahn("import", "statements", str(wrong), "--json", data=data, expect=1)
    [outcome] = json.loads(refused.stdout)
    assert outcome["file"] == str(wrong)
    assert "do not add up" in outcome["error"]
    shown = kontobahn("import", "statements", str(wrong), data=data, expect=1)
    assert "refused" in shown.stdout
    assert shown.stdout.count("wrong.xml") == 1
    accepted = kontobahn("import", "statements", str(wrong), "--unbalanced", data=data)
    assert "1 transactions added" in accepted.stdout
    assert "The balances do not add up" in accepted.stdout


def test_an_account_that_the_file_does_not_name_by_iban(tmp_path: Path) -> None:
    data = tmp_path / "data"
    kontobahn("migrate", data=data)
    answer("organizations", "create", "--name", "Muster GmbH", data=data)
    file = tmp_path / "auszug.sta"
    file.write_bytes(mt940(FIRST, account="Konto 7"))
    refused = kontobahn("import", "statements", str(file), data=data, expect=1)
    assert "IBAN" in refused.stdout
    [result] = answer("import", "statements", str(file), "--iban", f"Konto 7={IBAN}", data=data)
    assert result["added"] == 2
