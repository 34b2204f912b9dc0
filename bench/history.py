"""Does a call cost more because more happened before? Every call that reads a table which grows, asked of one organisation with a
thousand of everything (bookings of earlier years, cash entries, bank transactions, payments, statements), with ten times and with a
hundred times as much. What is asked for, and what is answered, is the same each time.
"""

from __future__ import annotations

import argparse
import base64
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from bench import books_data, measure, report
from bench.dashboard_lists import LIMITS, _payments, _person_and_account, _statements, _transactions
from bench.measure import Row
from bench.report import Table
from kontobahn.clock import SystemClock
from kontobahn.db import open_database
from kontobahn.formats import extf
from kontobahn.settings import load
from kontobahn.vault import open_vault

TIMES = (1, 10, 100)
# A lookup in a table of a hundred times the rows takes a step or two more, and fewer of its pages are in the cache.
MAX_TIMES = 2
YEAR = date(2026, 1, 1)
DEBTORS, OF_THIS_YEAR = 200, 500
# A page of the cash book reads the day that it begins in, so its entries are spread over a year as a shop's are.
CASH_DAYS = 300
KASSE, ENTER = "Kasse", "/v2/ledger-duo/kassenbuch-advanced"


class Asked(NamedTuple):
    """A call, the same for every size but for what must be new each time."""

    name: str
    method: str
    path: str
    query: dict[str, str]
    json: Any = None
    content: bytes | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four hundred of everything, and few rounds")
    options = parser.parse_args()
    least, rounds = (400, 9) if options.quick else (1_000, 25)
    with tempfile.TemporaryDirectory(prefix="kontobahn-bench-") as place, ExitStack() as stack:
        print(measure.describe_machine(Path(place)), flush=True)
        served = [Served(stack, Path(place) / str(times), least * times) for times in TIMES]
        rows, lines = _ask(served, rounds)
    head = ["call", f"{least:,} of everything", *(f"{times} times" for times in TIMES[1:])]
    return report.finish(rows, tables=[Table("ratios", head, lines)])


class Served:
    """An installation with so much of everything, and a server for it."""

    def __init__(self, stack: ExitStack, place: Path, count: int) -> None:
        started = time.perf_counter()
        place.mkdir()
        made = books_data.create_installation(place)
        settings = load({}, data=str(place))
        db = open_database(settings, SystemClock())
        _, self.account_id = db.write_now(_person_and_account, open_vault(settings))
        db.write_now(_transactions, self.account_id, count)
        db.write_now(_payments, self.account_id, count)
        db.write_now(_statements, count)
        db.close()
        child = stack.enter_context(measure.Child("-m", "bench.peers.kontobahn_server", str(place), environ=LIMITS))
        self.http = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{child.port}", headers={"x-api-key": made.key}, trust_env=False, timeout=600
            )
        )
        self.client = {"connectionId": made.connection_id}
        self.count, self._asked = count, 0
        self._book(place / "before.csv", books_data.START, count)
        self._book(place / "now.csv", YEAR, OF_THIS_YEAR)
        for day in range(min(count, CASH_DAYS)):
            lines = count // CASH_DAYS + (day < count % CASH_DAYS)
            self.call("POST", ENTER, self.client, json=_entry(date(2025, 1, 2) + timedelta(days=day), lines))
        print(f"made {count:,} of everything in {time.perf_counter() - started:,.0f} s", flush=True)

    def _book(self, path: Path, year: date, count: int) -> None:
        _write(path, year, count)
        answer = self.call("POST", "/v2/ledger-rewe/imports", self.client, content=path.read_bytes())
        while answer.get("data", {}).get("status") == "running":
            time.sleep(0.2)
            answer = self.call("GET", f"/v2/ledger-rewe/imports/{answer['data']['id']}", self.client)

    def call(self, method: str, path: str, query: dict[str, str], **body: Any) -> Any:
        answer = self.http.request(method, path, params=query, **body)
        if answer.is_error:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    def asked(self) -> list[Asked]:
        """The calls of one round."""
        self._asked += 1
        number, last = self._asked, self.count
        account = {"account_id": str(self.account_id)}
        year = {**self.client, "geschaeftsjahrStartDatum": YEAR.isoformat()}
        read, write = "/v2/ledger-rewe-read", "/v2/ledger-rewe"
        ids = [row["id"] for row in self.call("GET", "/v2/banking/transactions", {**account, "limit": "1"})["data"]]
        transactions, payments = "/v2/banking/transactions", "/v2/banking/payments"
        image = base64.b64encode(f"%PDF-1.4 {number} {last}".encode()).decode()
        return [
            Asked("a page of transactions", "GET", transactions, {**account, "limit": "50"}),
            Asked("a page of transactions by id", "GET", transactions, {**account, "sort": "id", "from_id": ids[0], "limit": "50"}),
            Asked("one transaction", "GET", f"{transactions}/{ids[0]}", account),
            Asked("changes since", "GET", f"{transactions}/changes", {**account, "limit": "50"}),
            Asked("a page of payments", "GET", payments, {"limit": "50"}),
            Asked("a page of payments by id", "GET", payments, {"sort": "id", "from_id": "10", "limit": "50"}),
            Asked("one payment", "GET", f"{payments}/{last}", {}),
            Asked("history of a payment", "GET", f"{payments}/{last}/history", {}),
            Asked("a page of imported statements", "GET", "/v2/banking/imports", {"limit": "50"}),
            Asked("bank accounts", "GET", "/v2/banking/accounts", {}),
            Asked("one bank account", "GET", f"/v2/banking/accounts/{self.account_id}", {}),
            Asked("bank connections", "GET", "/v2/banking/connections", {}),
            Asked("a page of bookings", "GET", f"{read}/buchungen", {**year, "limit": "50"}),
            Asked("trial balance", "GET", f"{read}/susa", year),
            Asked("trial balance of an account", "GET", f"{read}/susa", {**year, "kontonummer": "1200"}),
            Asked("accounts of the ledger", "GET", f"{read}/konten", year),
            Asked("open items", "GET", f"{read}/opos", self.client),
            Asked("open items of an account", "GET", f"{read}/opos", {**self.client, "kontonummer": "10001"}),
            Asked("due dates", "GET", f"{read}/faelligkeiten", self.client),
            Asked("VAT figures", "GET", f"{read}/umsatzsteuer", year),
            Asked("profit and loss", "GET", f"{read}/bwa", year),
            Asked("a page of imports", "GET", f"{write}/imports", {**self.client, "limit": "50"}),
            Asked("a page of the cash book", "GET", "/v2/ledger-duo/kassenbuch",
                  {**self.client, "kassenname": KASSE, "from_id": str(last - 50), "limit": "50"}),
            Asked("cash books", "GET", "/v2/ledger-duo/kassenbuecher", self.client),
            Asked("events", "GET", "/v2/banking/events", {"limit": "50"}),
            Asked("a booking", "POST", f"{write}/buchungen", self.client, json={"buchungen": [{
                "umsatz": number, "sollHabenKennzeichen": "SOLL", "konto": "10001", "gegenkonto": "8400",
                "belegdatum": "2026-05-04", "belegfeld1": f"NEU-{number}"}]}),
            Asked("a cash entry with a receipt", "POST", ENTER, self.client, json=_entry(date(2026, 3, 2), 1, image, number)),
            Asked("a file of ten bookings", "POST", f"{write}/imports", self.client, content=_file(number)),
            Asked("a statement of one booking", "POST", "/v2/banking/statements", {}, content=_statement(number)),
        ]  # fmt: skip


def _ask(served: list[Served], rounds: int) -> tuple[list[Row], list[list[str]]]:
    seconds: dict[str, list[list[float]]] = {}
    for _ in range(rounds + 1):
        for place, one in enumerate(served):
            for asked in one.asked():
                started = time.perf_counter()
                one.call(asked.method, asked.path, asked.query, json=asked.json, content=asked.content)
                taken = seconds.setdefault(asked.name, [[] for _ in served])
                taken[place].append(time.perf_counter() - started)
    rows, lines = [], []
    for name, taken in seconds.items():
        first, *more = ([item * 1000 for item in some[1:]] for some in taken)
        ratios = [statistics.median(some) / statistics.median(first) for some in more]
        beside, ours = measure.spread(first, " ms", 1), measure.spread(more[-1], " ms", 1)
        rows.append(measure.at_most(f"{name}, with {TIMES[-1]} times the history", ours, beside, ratios[-1], MAX_TIMES))
        lines.append([name, beside, *(f"{ratio:.2f}" for ratio in ratios)])
    return rows, lines


# --- What is sent


def _write(path: Path, year: date, count: int, first: int = 0) -> None:
    """Invoices of a few debtors, each paid but for fifty of this year."""
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2026, 6, 30), berater=1234, mandant=1, wj_beginn=year, sachkontenlaenge=4,
        datum_von=year, datum_bis=year.replace(month=12, day=31), skr="03",
    )  # fmt: skip
    rows = []
    for number in range(first, first + count // 2):
        beleg, debtor, cents = (
            f"{year.year}-{number:07d}",
            str(10_000 + number % DEBTORS),
            100 + number * 7919 % 500_000,
        )
        day = year.replace(month=number % 12 + 1, day=number % 28 + 1).isoformat()
        rows.append((debtor, "8400", cents, day, beleg))
        is_open = year == YEAR and number < first + 50
        rows.append(("1200", "1360" if is_open else debtor, cents, day, "" if is_open else beleg))
    extf.write_buchungsstapel(path, header, (
        extf.Buchungssatz(0, cents, True, "EUR", "", None, konto, gegenkonto, "", day, beleg, "", 0, f"Beleg {beleg}", "", "", False, "")
        for konto, gegenkonto, cents, day, beleg in rows
    ))  # fmt: skip


def _file(number: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.csv"
        _write(path, YEAR, 10, first=1_000_000 + number * 10)
        return path.read_bytes()


def _entry(day: date, lines: int, image: str | None = None, number: int = 0) -> dict[str, Any]:
    images = [{"content": image, "dateiname": f"{number}.pdf"}] if image else []
    return {
        "waehrung": "EUR", "kassenname": KASSE, "betrag": lines, "transaktionsdatum": f"{day}T12:00:00Z",
        "belegzeilen": [{"belegtext": "Barverkauf", "gegenkonto": "8400", "betrag": 1}] * lines, "belegbilder": images,
    }  # fmt: skip


def _statement(number: int) -> bytes:
    """MT940 of an account of its own: what grows is beside it, in the organisation."""
    opening, closing = number * 100, number * 100 + 100
    return (
        f":20:BENCH{number}\r\n:25:37040044/0532013001\r\n:28C:{number}/1\r\n"
        f":60F:C260501EUR{opening // 100},{opening % 100:02d}\r\n"
        f":61:2605040504C1,00NTRFNONREF\r\n:86:166?00GUTSCHRIFT?20Rechnung {number}?32Muster GmbH\r\n"
        f":62F:C260504EUR{closing // 100},{closing % 100:02d}\r\n-\r\n"
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
