"""The cost of the adapter for EBICS, from a bank's signed and encrypted answers to facts, beside our own reader of the same statement.

Segments are checked, stored, decrypted and unpacked on the way, as at every fetch. A bank answers once; its answers are played again,
so that its own work is not measured. A single statement of more than 50 MB is read; memory is measured in a process of its own.

PYTHONPATH=.:src python -m bench.ebics
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

import msgspec

from bench import measure, report
from kontobahn.access import audit, organizations
from kontobahn.bank_providers.ebics import store
from kontobahn.bank_providers.ebics.adapter import EbicsProvider
from kontobahn.bank_providers.ebics.wire import Access, kept_pair, kept_public
from kontobahn.bank_providers.files import FilesProvider
from kontobahn.cli.entry import collect_garbage_again
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.db.migrate import migrate
from kontobahn.formats.bank_files import read
from kontobahn.formats.ebics.keys import KeyVersion, from_certificate, new_key
from kontobahn.formats.statements import Entry
from kontobahn.outbound import Reply
from kontobahn.settings import load
from kontobahn.vault import open_vault
from simulators.ebics_bank import EbicsBank
from simulators.ebics_bank.breaks import spoilt
from simulators.ebics_bank.secrecy import key_of_certificate

PARTNER, USER, IBAN, REF = "FIRMA1", "TECH1", "DE02120300000000202051", "bench"
BOOKINGS, QUICK_BOOKINGS, ROUNDS = 100_000, 5_000, 2
MAX_TIMES, MAX_GROWTH = 2.0, 1.5


class Bank:
    """A bank that answers without a line between, and keeps what it said."""

    def __init__(self, bank: EbicsBank, folder: Path) -> None:
        self._bank, self._folder, self._said = bank, folder, 0

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None, seconds: float, max_bytes: int, whole: bool
    ) -> Reply:  # fmt: skip
        root, is_signed = self._bank.answer(body or b"")
        content = spoilt(root, "", self._bank.authentication if is_signed else None)
        (self._folder / f"{self._said:04d}.xml").write_bytes(content)
        self._said += 1
        return Reply(200, {}, content)

    async def close(self) -> None:
        pass


class Replay(Bank):
    """Says the same again, in the same order."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._said = folder, 0

    async def send(self, method: str, url: str, **_more: object) -> Reply:
        content = (self._folder / f"{self._said:04d}.xml").read_bytes()
        self._said += 1
        return Reply(200, {}, content)


def prepare(folder: Path, bookings: int) -> None:
    """Lets a bank hand out a statement once; what it said is in the folder afterwards, and the statement beside it."""
    bank = EbicsBank()
    user = bank.add_user(PARTNER, USER, "C53")
    account, day = bank.add_account(PARTNER, IBAN), date(2026, 1, 2)
    for number in range(bookings):
        text = f"EREF+E-{number} SVWZ+Rechnung {number} vom {number % 28 + 1}. Januar, Kunde {number % 977} ABWA+Anna"
        account.book(
            day,
            f"-{number % 900 + 1}.25",
            text,
            name=f"Lieferant {number % 977} GmbH",
            iban=IBAN,
            end_to_end_id=f"E-{number}",
        )
    content = account.statement(day)
    (folder / "statement.xml").write_bytes(content)
    bank.deliver(PARTNER, "C53", content, day=day)
    access = _access(bank)
    user.keys = {
        role: key_of_certificate(key.version, key.certificate)
        for role, key in (
            ("Signature", access.signature),
            ("Authentication", access.authentication),
            ("Encryption", access.encryption),
        )
    }
    user.state = "ready"
    (folder / "access").write_bytes(msgspec.msgpack.encode(access))
    assert _fetched(Bank(bank, folder), access, folder)[0] == bookings


def _access(bank: EbicsBank) -> Access:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    versions: tuple[KeyVersion, ...] = ("A006", "X002", "E002")
    signature, authentication, encryption = (kept_pair(new_key(version, USER, now)) for version in versions)
    return Access(
        bank_name="Fakebank", url="https://bank.example/ebics", protocol="H005", host_id=bank.host, partner_id=PARTNER, user_id=USER,
        company="Muster GmbH", signature=signature, authentication=authentication, encryption=encryption, stage="compared",
        bank_authentication=kept_public(from_certificate("X002", bank.authentication.public.certificate)),
        bank_encryption=kept_public(from_certificate("E002", bank.encryption.public.certificate)),
    )  # fmt: skip


def _fetched(network: Bank, access: Access, folder: Path) -> tuple[int, float]:
    """Fetches with a new database. Returns how many bookings there were, and the CPU time of it in seconds."""
    with tempfile.TemporaryDirectory(dir=folder) as data:
        settings, clock = load({}, data=data), SystemClock()
        db = open_database(settings, clock)
        try:
            migrate(db)
            vault = open_vault(settings)
            owner = db.write_now(organizations.create, "Muster GmbH", audit.SYSTEM)
            db.write_now(store.create, vault, owner.id, REF, access)
            provider = EbicsProvider(db, vault, clock, network, FilesProvider(settings.order_file_days))
            started = time.process_time()
            return asyncio.run(_fetch(provider)), time.process_time() - started
        finally:
            db.close()


async def _fetch(provider: EbicsProvider) -> int:
    try:
        return len((await provider.fetch(REF)).transactions)
    finally:
        await provider.close()


def adapt(folder: Path) -> tuple[int, float]:
    access = msgspec.msgpack.decode((folder / "access").read_bytes(), type=Access)
    return _fetched(Replay(folder), access, folder)


def read_only(folder: Path) -> tuple[int, float]:
    """Our own reader alone: every entry read and checked, and forgotten."""
    started = time.process_time()
    with open(folder / "statement.xml", "rb") as file:
        found = sum(isinstance(item, Entry) for item in read(file, "statement.xml", unbalanced=True))
    return found, time.process_time() - started


def _seconds(work: Callable[[Path], tuple[int, float]], folder: Path, bookings: int) -> float:
    found, seconds = work(folder)
    assert found == bookings, found
    return seconds


def _memory(folder: Path) -> int:
    """The most memory, in bytes, of a process that fetches."""
    made = subprocess.run(
        [sys.executable, "-m", "bench.ebics", "--memory", str(folder)],
        cwd=measure.ROOT, env=measure.environment(), check=True, capture_output=True,
    )  # fmt: skip
    return int(made.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer bookings and rounds")
    parser.add_argument("--memory", type=Path, metavar="FOLDER", help="only prints the most memory, in bytes")
    options = parser.parse_args()
    if options.memory:
        adapt(options.memory)
        print(measure.peak_memory())
        return 0
    # As the service does, for both.
    collect_garbage_again()
    bookings, rounds = (QUICK_BOOKINGS, 1) if options.quick else (BOOKINGS, ROUNDS)
    with tempfile.TemporaryDirectory() as large, tempfile.TemporaryDirectory() as small:
        prepare(Path(large), bookings)
        prepare(Path(small), bookings // 10)
        megabytes = (Path(large) / "statement.xml").stat().st_size / 1e6
        ours, reader = measure.interleave(
            rounds, *(partial(_seconds, work, Path(large), bookings) for work in (adapt, read_only))
        )
        memory, least = _memory(Path(large)), _memory(Path(small))
    what = f"{bookings:,} bookings by EBICS in one statement of {megabytes:,.0f} MB"
    rows = [
        measure.at_most(
            f"{what}: beside our own reader alone", measure.spread(ours, " s", 1), measure.spread(reader, " s", 1),
            measure.median_ratio(ours, reader), MAX_TIMES,
        ),
        measure.at_most(
            f"{what}: most memory, beside a tenth of it", f"{memory / 1e6:,.0f} MB", f"{least / 1e6:,.0f} MB", memory / least, MAX_GROWTH
        ),
    ]  # fmt: skip
    return report.finish(rows)


if __name__ == "__main__":
    sys.exit(main())
