"""Large statements are sent to a service that is killed while it writes them in slices, and again: of new accounts, then of known ones.

After each kill a new account has all of its transactions or is not there. A known one has the balance of a statement only with all of its
transactions. In the end each has all of them once, and nothing is left of what was broken off.

    python -m torture.statement_kills --kills 50
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx

from kontobahn.banking.transactions import arrivals, ingest
from tests.statement_builder import DAY, Booking, Sheet, camt, follow_up
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
        self._entries = entries
        # The last statement of each account, and how many it had.
        self._last: list[tuple[Sheet, int]] = []
        # Kills at which entries were there of a statement that was not.
        self.found = 0

    @property
    def accounts(self) -> int:
        return len(self._last)

    def interrupt_new(self) -> None:
        """A statement of a new account is sent, the service killed, and the statement sent until it is there."""
        sheet = Sheet(self._bookings(0), id=f"S-{self.accounts}", iban=iban(self.accounts + 1))
        content = camt(sheet)
        self._kill_while_sent(content, 0)
        assert len(self._listed(sheet.iban)) in (0, self._entries), "a statement is there in part"
        self._last.append((sheet, 1))
        self._send_until_there(content)
        self._check(self.accounts - 1)

    def interrupt_known(self) -> None:
        """The next statement of an account is sent in the same way."""
        number = self.service.chance.randrange(self.accounts)
        before, count = self._last[number]
        sheet = follow_up(before, *self._bookings(count))
        content = camt(sheet)
        self._kill_while_sent(content, count * self._entries)
        has, balance = len(self._listed(sheet.iban)), self._balance(sheet.iban)
        assert count * self._entries <= has <= (count + 1) * self._entries, f"{has} entries"
        is_whole = has == (count + 1) * self._entries
        assert balance in ((before.end, sheet.end) if is_whole else (before.end,)), "a balance without its bookings"
        self._last[number] = sheet, count + 1
        self._send_until_there(content)
        self._check(number)

    def _bookings(self, day: int) -> list[Booking]:
        booked = DAY + timedelta(day)
        return [
            Booking(-100 - number, f"Rechnung {number}", reference=f"R{day}-{number}", booked=booked, valued=booked)
            for number in range(self._entries)
        ]

    def _send_until_there(self, content: bytes) -> None:
        until(lambda: self._send(content).status_code in (200, 201), "a statement is not taken")

    def _kill_while_sent(self, content: bytes, known: int) -> None:
        """Kills the service when so many entries are written more than were there, or when it has answered."""
        wanted = known + self.service.chance.randrange(1, self._entries)
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
                        self.found += 1
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
        account = self._account(own)
        return self._walked(account["id"]) if account else []

    def _account(self, own: str) -> dict[str, Any] | None:
        accounts = self._ask("GET", "accounts").raise_for_status().json()["data"]
        return next((account for account in accounts if account["extra"]["iban"] == own), None)

    def _balance(self, own: str) -> int:
        account = self._account(own)
        assert account is not None
        cents: int = round(account["balance"] * 100)
        return cents

    def _walked(self, account_id: str) -> list[int]:
        found: list[int] = []
        while True:
            query = f"transactions?account_id={account_id}&sort=id&limit={PAGE}&from_id={found[-1] if found else 0}"
            page = self._ask("GET", query).raise_for_status().json()["data"]
            found += [int(row["id"]) for row in page if int(row["id"]) not in found[-1:]]
            if len(page) < PAGE:
                return found

    def _check(self, number: int) -> None:
        sheet, count = self._last[number]
        listed, wanted = self._listed(sheet.iban), count * self._entries
        assert len(listed) == len(set(listed)) == wanted, f"{len(listed)} of {wanted} entries"
        assert listed == sorted(listed)
        assert self._balance(sheet.iban) == sheet.end

    def check(self) -> None:
        self.service.let_claims_end()
        until(lambda: self._count(HIDDEN) == 0, "entries of no account stay")
        until(lambda: self._count("SELECT COUNT(*) FROM banking_arrivals") == 0, "an arrival stays")
        for number in range(self.accounts):
            self._check(number)

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
    """Returns True with a transaction open, if so many entries of an account are there that a statement is being written for."""
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
    left = []
    try:
        for interrupt in (made.interrupt_new, made.interrupt_known):
            made.found = 0
            while made.found < kills:
                assert made.service.kills.total() <= 40 * kills, f"kills come too late: {made.service}"
                interrupt()
            left.append(made.found)
        made.check()
    finally:
        made.service.stop()
    return (
        f"{made.service.kills.total()} kills, {left[0]} of which left entries that nobody saw, and {left[1]} entries of a statement that"
        f" was not there; {made.accounts} accounts: none in part, none twice."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="that come amid the slices of a statement")
    parser.add_argument("--entries", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.kills, chosen.seed, chosen.entries))


if __name__ == "__main__":
    sys.exit(main())
