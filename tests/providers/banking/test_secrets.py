"""After a full journey through a bank's provider, with everything that can go wrong on the way, its secrets are nowhere to be read.

Each provider of real banks takes part by its class in `journeys.py`.
"""

from __future__ import annotations

import base64
import tarfile
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.journeys.process import kontobahn, place_demo
from tests.providers.banking.journeys import JOURNEYS, Journey
from torture.others import Target, target


def spellings(secret: str | bytes) -> set[bytes]:
    """Every form in which a secret may hide: as it is, in an address, in hexadecimal, and in Base64 at any place of a longer text."""
    raw = secret.encode() if isinstance(secret, str) else secret
    found = {raw, quote(secret, safe="").encode(), raw.hex().encode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw)
        # Letters that its neighbours have a part in are left out.
        found.add(encoded[-(-before * 8 // 6) : len(encoded) // 4 * 4 - 4])
    return {spelling for spelling in found if len(spelling) > 5}


def backup(running: Target, folder: Path) -> bytes:
    """All files of a backup, unpacked."""
    file = folder / "backup.tar.gz"
    kontobahn("backup", str(file), data=running.data)
    with tarfile.open(file) as archive:
        contents = [archive.extractfile(member) for member in archive.getmembers()]
        return b"".join(content.read() for content in contents if content is not None)


def process_list(running: Target) -> bytes:
    process = Path(f"/proc/{running.process.pid}")
    names = [task.read_bytes() for task in process.glob("task/*/comm")]
    return (process / "cmdline").read_bytes() + b"".join(names)


def commands(running: Target, journey: Journey) -> bytes:
    """Returns what the command line says about an installation, and when a try of its bank is refused with what it was sent."""
    said = ""
    for arguments in (["banks", "try", *journey.spoil_a_try()], ["doctor"]):
        done = kontobahn(*arguments, data=running.data, expect=None, **journey.settings)
        said += done.stdout + done.stderr
    return said.encode()


@pytest.mark.parametrize("provider", sorted(JOURNEYS))
def test_no_secret_is_left_in_the_log_the_database_an_answer_a_backup_a_command_or_the_list_of_processes(
    provider: str, tmp_path: Path
) -> None:
    journey = JOURNEYS[provider](tmp_path)
    try:
        with target(place_demo, log_level="debug", **journey.settings) as running:
            journey.go(running)
            files = {path.name: path.read_bytes() for path in running.data.rglob("*") if path.is_file()}
            places = {
                "answers": "\n".join(journey.heard).encode(), "backup": backup(running, tmp_path),
                "processes": process_list(running), "commands": commands(running, journey), **files,
            }  # fmt: skip
        faults = journey.faults()
    finally:
        journey.close()
    assert faults == []
    # The places are the right ones: what is no secret is found there.
    assert b"kontobahn" in places["processes"]
    assert len(places["commands"]) > 100
    assert journey.logged.encode() in places["serve.log"]
    assert any(journey.bank_name.encode() in content for name, content in files.items() if "sqlite3" in name)
    assert journey.bank_name.encode() in places["answers"]
    secrets = set(journey.secrets())
    assert min(map(len, secrets)) > 5
    found = [
        (name, secret)
        for name, content in places.items()
        for secret in secrets
        if any(spelling in content for spelling in spellings(secret))
    ]
    assert found == []
