"""After a full journey through a bank's provider, with everything that can go wrong on the way, its secrets are nowhere to be read.

Each provider of real banks takes part by its class in `torture/bank_trials.py`.
"""

from __future__ import annotations

import base64
import subprocess
import sys
import tarfile
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from torture.bank_trials import TRIALS, Person, Trial, let_time_pass
from torture.others import Target, target

# Of one attempt that the bank spoils.
STEPS = 3


def spellings(secret: str) -> set[bytes]:
    """How a secret may hide: as it is, in an address, in hexadecimal, and in Base64 at any place of a longer text."""
    raw = secret.encode()
    found = {raw, quote(secret, safe="").encode(), raw.hex().encode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw)
        # Letters that its neighbours have a part in are left out.
        found.add(encoded[-(-before * 8 // 6) : len(encoded) // 4 * 4 - 4])
    return {spelling for spelling in found if len(spelling) > 5}


def go_through_everything(running: Target, trial: Trial, person: Person) -> None:
    for _ in trial.troubles(person.number):
        person.begin(running)
        for _ in range(STEPS):
            person.step(running)
        person.connection(running)
        let_time_pass(running.data, trial)
    person.begin(running)
    person.walk(running)
    let_time_pass(running.data, trial)
    # Without the person: refused, because the bank wants it.
    assert person.refresh(running).status_code == 409
    again = person.ask(running, "POST", f"/v2/banking/connections/{person.connection(running)['id']}/reconnect")
    person.path = httpx.URL(again.json()["connect_url"]).path
    person.walk(running)
    let_time_pass(running.data, trial)
    trial.asks_for_confirmation(False)
    assert person.refresh(running).status_code == 202
    assert person.transactions(running)[1] == trial.booked()


def backup(running: Target, folder: Path) -> bytes:
    """All files of a backup, unpacked."""
    file = folder / "backup.tar.gz"
    command = [sys.executable, "-m", "kontobahn", "backup", str(file), "--data", str(running.data)]
    subprocess.run(command, check=True, capture_output=True)
    with tarfile.open(file) as archive:
        contents = [archive.extractfile(member) for member in archive.getmembers()]
        return b"".join(content.read() for content in contents if content is not None)


def process_list(running: Target) -> bytes:
    process = Path(f"/proc/{running.process.pid}")
    names = [task.read_bytes() for task in process.glob("task/*/comm")]
    return (process / "cmdline").read_bytes() + b"".join(names)


@pytest.mark.parametrize("provider", sorted(TRIALS))
def test_no_secret_is_left_in_the_log_the_database_an_answer_a_backup_or_the_list_of_processes(
    provider: str, tmp_path: Path
) -> None:
    trial = TRIALS[provider]()
    trial.book(5)
    try:
        with target(log_level="debug", **trial.settings) as running:
            person = Person(trial, 7)
            go_through_everything(running, trial, person)
            files = {path.name: path.read_bytes() for path in running.data.rglob("*") if path.is_file()}
            places = {
                "answers": "\n".join(person.heard).encode(), "backup": backup(running, tmp_path),
                "processes": process_list(running), **files,
            }  # fmt: skip
    finally:
        trial.close()
    assert trial.faults == []
    # The places are the right ones: what is no secret is found there.
    assert b"fints" in places["serve.log"] or provider != "fints"
    assert any(trial.bank_name.encode() in content for name, content in files.items() if "sqlite3" in name)
    assert trial.bank_name.encode() in places["answers"]
    found = [
        (name, secret)
        for name, content in places.items()
        for secret in trial.secrets(person.number)
        if any(spelling in content for spelling in spellings(secret))
    ]
    assert found == []
