"""Large statements are sent to a service that is killed while it writes them in slices, and sent again.

After each kill an account has all of its transactions or is not there, and nothing of it is ever seen in part; in the end each has all of
them once, and nothing is left of what was broken off.

    python -m torture.statement_kills --kills 50
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import httpx

from kontobahn.banking.transactions import arrivals, ingest
from tests.statement_builder import Booking, Sheet, camt
from torture import killed
from torture.killed import Killed, until
from torture.kills.load import iban

KIND = "a statement"
# The lease of a process that died has ended, and the job that sweeps is due.
TIME_PASSES = ("UPDATE banking_arrivals SET lease_until = 0", "UPDATE job_leases SET lease_until = 0, next_at = 0")
HIDDEN = "SELECT COUNT(*) FROM banking_transactions t WHERE NOT EXISTS (SELECT 1 FROM banking_accounts a WHERE a.id = t.account_id)"
# Of these, those of an account that is being written: found at once, however many others there are.
ARRIVING = "SELECT COUNT(*) FROM banking_transactions WHERE account_id IN (SELECT account_id FROM banking_arrivals)"
PAGE = 1_000


def write_short_slices() -> None:
    """From now on, some hundred entries are a large statement, and are written in many slices."""
    arrivals.LARGE, arrivals.MAX_CHUNKS, ingest.CHUNK = 100, 2, 50


class Kills:
    def __init__(self, data: Path, seed: int, entries: int) -> None:
        self.service = Killed(data, seed, {}, TIME_PASSES, "torture.statement_kills:write_short_slices")
        self._entries, self._accounts = entries, 0
        # Kills at which entries were there that no account had yet.
        self.found_hidden = 0

    def interrupt(self) -> None:
        """A statement of a new account is sent, the service killed, and the statement sent until it is there."""
        self._accounts += 1
        own = iban(self._accounts)
        bookings = [
            Booking(-100 - number, f"Rechnung {number}", reference=f"R{number}") for number in range(self._entries)
        ]
        content = camt(Sheet(bookings, id=f"S-{self._accounts}", iban=own))
        self._kill_while_sent(content)
        assert len(self._listed(own)) in (0, self._entries), "a statement is there in part"
        until(lambda: self._send(content).status_code in (200, 201), "a statement is not taken")
        self._check(own)

    def _kill_while_sent(self, content: bytes) -> None:
        """Kills the service when so many entries are written that nobody sees, or when it has answered."""
        wanted = self.service.chance.randrange(1, self._entries)
        reached, is_killed, is_over = threading.Event(), threading.Event(), threading.Event()

        def send() -> None:
            try:
                self._send(content)
            finally:
                reached.set()

        def watch() -> None:
            database = sqlite3.connect(self._file, timeout=0, isolation_level=None)
            try:
                while not is_over.is_set():
                    if _is_between_slices(database, wanted):
                        # Nobody writes on while this transaction is open, so the kill cannot come too late.
                        reached.set()
                        is_killed.wait()
                        self.found_hidden += 1
                        return
            finally:
                database.close()

        watcher = threading.Thread(target=watch)
        watcher.start()
        self.service.when_reached(KIND, send, reached, is_killed)
        is_over.set()
        watcher.join()

    def _send(self, content: bytes) -> httpx.Response:
        return self._ask("POST", "statements", content=content)

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        running = self.service.running
        return httpx.request(
            method, f"http://127.0.0.1:{running.port}/v2/banking/{path}", timeout=300, trust_env=False,
            headers={"x-api-key": running.key, "content-type": "application/xml"}, **more,
        )  # fmt: skip

    def _listed(self, own: str) -> list[int]:
        """The ids that a reader finds in the account; none if there is no such account."""
        accounts = self._ask("GET", "accounts").raise_for_status().json()["data"]
        for account in accounts:
            if account["extra"]["iban"] == own:
                return self._walked(account["id"])
        return []

    def _walked(self, account_id: str) -> list[int]:
        found: list[int] = []
        while True:
            query = f"transactions?account_id={account_id}&sort=id&limit={PAGE}&from_id={found[-1] if found else 0}"
            page = self._ask("GET", query).raise_for_status().json()["data"]
            found += [int(row["id"]) for row in page if int(row["id"]) not in found[-1:]]
            if len(page) < PAGE:
                return found

    def _check(self, own: str) -> None:
        listed = self._listed(own)
        assert len(listed) == len(set(listed)) == self._entries, f"{len(listed)} of {self._entries} entries"
        assert listed == sorted(listed)

    def check(self) -> None:
        self.service.let_claims_end()
        until(lambda: self._count(HIDDEN) == 0, "entries of no account stay")
        until(lambda: self._count("SELECT COUNT(*) FROM banking_arrivals") == 0, "an arrival stays")
        for number in range(self._accounts):
            self._check(iban(number + 1))

    @property
    def _file(self) -> Path:
        return self.service.data / "kontobahn.sqlite3"

    def _count(self, sql: str) -> int:
        database = sqlite3.connect(self._file, timeout=60)
        try:
            return int(database.execute(sql).fetchone()[0])
        finally:
            database.close()


def _is_between_slices(database: sqlite3.Connection, wanted: int) -> bool:
    """Returns True with a transaction open, if so many entries of an account are there that nobody sees."""
    try:
        database.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    if database.execute(ARRIVING).fetchone()[0] >= wanted:
        return True
    database.execute("ROLLBACK")
    return False


def run(data: Path, kills: int, seed: int, entries: int) -> str:
    made = Kills(data, seed, entries)
    try:
        while made.found_hidden < kills:
            assert made.service.kills.total() <= 20 * kills, f"kills come too late: {made.service}"
            made.interrupt()
        made.check()
    finally:
        made.service.stop()
    hidden, accounts = made.found_hidden, made._accounts
    return f"{accounts} kills, {hidden} of which left entries that nobody saw; {accounts} accounts: none in part, none twice."


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="that come amid the slices of a statement")
    parser.add_argument("--entries", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.kills, chosen.seed, chosen.entries))


if __name__ == "__main__":
    sys.exit(main())
