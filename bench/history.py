"""Does a call cost more because more happened before? Every call that reads a table which grows, asked of one organisation with a
thousand of everything (bookings of earlier years, cash entries, bank transactions, payments, statements, events, received invoices,
tickets, orders, matches), with ten times and with a hundred times as much. What is asked for, and what is answered, is the same each
time. Told in processor time of the service, which a busy machine stretches less than seconds.
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

from bench import books_data, history_rows, measure, report
from bench.dashboard_lists import LIMITS, _payments, _person_and_account, _statements, _transactions
from bench.measure import Row
from bench.report import Table
from kontobahn.banking.connections.accounts import ACCOUNTS
from kontobahn.clock import SystemClock
from kontobahn.db import Tx, open_database
from kontobahn.formats import cii, extf
from kontobahn.ids import new_id
from kontobahn.payables.store import PAYABLES
from kontobahn.settings import load
from kontobahn.vault import open_vault
from kontobahn.webhooks import outbox
from tests.invoice_corpus import PLAIN

TIMES = (1, 10, 100)
# A lookup in a table of a hundred times the rows takes a step or two more, and fewer of its pages are in the cache.
MAX_TIMES = 2
# It counts all that runs have looked at, whatever its day.
COUNTS_ALL = "report of matching of a month"
YEAR = date(2026, 1, 1)
DEBTORS, OF_THIS_YEAR = 200, 500
# A page of the cash book reads the day that it begins in, so its entries are spread over a year as a shop's are.
CASH_DAYS = 300
TICKETS_AT_ONCE = 5_000
SELLER = {
    "name": "Verbund GmbH", "street": "Bahnhofsplatz 4", "postal_code": "10557", "city": "Berlin", "vat_id": "DE136695976",
    "tax_number": "37/123/45678", "iban": "DE02120300000000202051", "contact_name": "Service",
    "contact_phone": "+49 30 1234567", "contact_email": "service@verbund.example",
}  # fmt: skip
CUSTOMER = {
    "name": "Muster GmbH",
    "street": "Weg 1",
    "postal_code": "10115",
    "city": "Berlin",
    "email": "rechnung@muster.example",
}
KASSE, ENTER = "Kasse", "/v2/ledger-duo/kassenbuch-advanced"


class Asked(NamedTuple):
    """A call, the same for every size but for what must be new each time. Its path is that of its declaration."""

    name: str
    method: str
    path: str
    query: dict[str, str]
    json: Any = None
    content: bytes | None = None
    values: tuple[tuple[str, str], ...] = ()

    @property
    def address(self) -> str:
        return self.path.format(**dict(self.values))


def _id(value: object) -> tuple[tuple[str, str], ...]:
    return (("id", str(value)),)


class Known(NamedTuple):
    """The things that one size of history is asked about."""

    connection_id: str = ""
    account_id: str = ""
    transaction_id: str = ""
    import_id: str = ""
    customer_id: str = ""
    invoice_id: str = ""
    payable_id: str = ""
    size: int = 1
    prepared_id: str = ""
    order_file_id: str = ""
    transmission_id: str = ""
    handover_id: str = ""
    run_id: str = ""
    matched_id: str = ""
    match_id: str = ""
    batch_id: str = ""
    endpoint_id: str = ""


_FEW = "an organisation has few of these, and no history"
_AS_A_SIBLING = "one row by its key, as with a sibling that is asked"
# Calls that read and are not asked here, and why.
NOT_ASKED = {
    **dict.fromkeys(
        (
            "/v2/assistants/access", "/v2/assistants/books", "/v2/assistants/settings", "/v2/auth/client-access",
            "/v2/auth/invitations", "/v2/auth/sessions", "/v2/auth/users", "/v2/banking/account-merges",
            "/v2/banking/account-merges/preview", "/v2/banking/payment-limit", "/v2/banking/providers",
            "/v2/banking/webhook-endpoints", "/v2/banking/webhook-endpoints/{id}", "/v2/banking/webhook-url",
            "/v2/ledger-duo/belegtypen", "/v2/ledger-duo/connections", "/v2/ledger-duo/rechnungsordner",
            "/v2/ledger-rewe-read/connections", "/v2/ledger-rewe-read/permissions",
            "/v2/ledger-rewe-read/zahlungsbedingungen", "/v2/mobility/seller", "/v2/mobility/seller/logo",
            "/v2/payables/mailbox", "/v2/payables/settings", "/v2/reconciliation/accounts", "/v2/reconciliation/rules",
        ),
        _FEW,
    ),
    **dict.fromkeys(
        (
            "/v2/banking/connections/{id}", "/v2/banking/events/{id}", "/v2/banking/imports/{id}",
            "/v2/banking/payments/{id}/order", "/v2/ledger-duo/belegbilder/{id}", "/v2/mobility/invoices/{id}/pdf",
            "/v2/mobility/invoices/{id}/xml", "/v2/payables/{id}/document", "/v2/payables/files/{id}",
        ),
        _AS_A_SIBLING,
    ),
}  # fmt: skip


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
        db.write_now(_events, self.account_id, count)
        db.close()
        self.server = stack.enter_context(
            measure.Child("-m", "bench.peers.kontobahn_server", str(place), environ=LIMITS)
        )
        self.http = stack.enter_context(
            httpx.Client(
                base_url=f"http://127.0.0.1:{self.server.port}",
                headers={"x-api-key": made.key},
                trust_env=False,
                timeout=600,
            )
        )
        self.client = {"connectionId": made.connection_id}
        self.count, self._asked = count, 0
        self._book(place / "before.csv", books_data.START, count)
        import_id = self._book(place / "now.csv", YEAR, OF_THIS_YEAR)
        for day in range(min(count, CASH_DAYS)):
            lines = count // CASH_DAYS + (day < count % CASH_DAYS)
            self.call("POST", ENTER, self.client, json=_entry(date(2025, 1, 2) + timedelta(days=day), lines))
        account = {"connection_id": made.connection_id, "konto": "1200", "fee_konto": "4970"}
        self.call("PUT", f"/v2/reconciliation/accounts/{self.account_id}", {}, json=account)
        sold, received = self._sell(count), self._receive()
        books = history_rows.Books(made.connection_id, books_data.CLIENT_ID, received["payable_id"])
        db = open_database(settings, SystemClock())
        db.write_now(_paid, books.payable_id, count)
        rows = db.write_now(history_rows.make, open_vault(settings), self.account_id, books, count)
        db.close()
        self.known = Known(
            made.connection_id,
            str(self.account_id),
            import_id=import_id,
            size=count,
            **sold,
            **received,
            **rows._asdict(),
        )
        print(f"made {count:,} of everything in {time.perf_counter() - started:,.0f} s", flush=True)

    def _book(self, path: Path, year: date, count: int) -> str:
        """Returns the id of the import."""
        _write(path, year, count)
        answer = self.call("POST", "/v2/ledger-rewe/imports", self.client, content=path.read_bytes())
        while answer.get("data", {}).get("status") == "running":
            time.sleep(0.2)
            answer = self.call("GET", f"/v2/ledger-rewe/imports/{answer['data']['id']}", self.client)
        return str(answer["data"]["id"])

    def _sell(self, count: int) -> dict[str, str]:
        """Tickets of a customer, and another one with a ticket and an invoice, who is asked about."""
        mobility = "/v2/mobility"
        self.call("PUT", f"{mobility}/seller", {}, json=SELLER)
        others, own = (str(self.call("POST", f"{mobility}/customers", {}, json=CUSTOMER)["id"]) for _ in range(2))
        for first in range(0, count, TICKETS_AT_ONCE):
            numbers = range(first, min(first + TICKETS_AT_ONCE, count))
            self.call("POST", f"{mobility}/customers/{others}/tickets", {}, json={"tickets": [*map(_ticket, numbers)]})
        self.call("POST", f"{mobility}/customers/{own}/tickets", {}, json={"tickets": [_ticket(0)]})
        invoice = self.call("POST", f"{mobility}/customers/{own}/invoice", {})
        return {"customer_id": own, "invoice_id": str(invoice["id"])}

    def _receive(self) -> dict[str, str]:
        [xml] = cii.write(PLAIN, "en16931")
        self.call("POST", "/v2/payables/files", {}, content=xml)
        [payable] = self.call("GET", "/v2/payables", {})["data"]
        return {"payable_id": payable["id"]}

    def call(self, method: str, path: str, query: dict[str, str], **body: Any) -> Any:
        answer = self.http.request(method, path, params=query, **body)
        if answer.is_error:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json() if answer.headers["content-type"].startswith("application/json") else answer.content

    def asked(self) -> list[Asked]:
        """The calls of one round."""
        self._asked += 1
        account = {"account_id": self.known.account_id, "limit": "1"}
        [newest] = self.call("GET", "/v2/banking/transactions", account)["data"]
        return calls(self.known._replace(transaction_id=str(newest["id"])), self._asked)


def calls(known: Known, number: int) -> list[Asked]:
    """The calls of one round; `number` is its own."""
    last = known.size
    account, client = {"account_id": known.account_id}, {"connectionId": known.connection_id}
    by_id = {"sort": "id", "from_id": known.transaction_id, "limit": "50"}
    year = {**client, "geschaeftsjahrStartDatum": YEAR.isoformat()}
    read, write = "/v2/ledger-rewe-read", "/v2/ledger-rewe"
    transactions, payments = "/v2/banking/transactions", "/v2/banking/payments"
    image = base64.b64encode(f"%PDF-1.4 {number} {last}".encode()).decode()
    return [
        Asked("a page of transactions", "GET", transactions, {**account, "limit": "50"}),
        Asked("a page of transactions by id", "GET", transactions, {**account, **by_id}),
        Asked("one transaction", "GET", f"{transactions}/{{id}}", account, values=_id(known.transaction_id)),
        Asked("changes since", "GET", f"{transactions}/changes", {**account, "limit": "50"}),
        Asked("a page of payments", "GET", payments, {"limit": "50"}),
        Asked("a page of payments by id", "GET", payments, {"sort": "id", "from_id": "10", "limit": "50"}),
        Asked("one payment", "GET", f"{payments}/{{id}}", {}, values=_id(last)),
        Asked("history of a payment", "GET", f"{payments}/{{id}}/history", {}, values=_id(last)),
        Asked("a page of imported statements", "GET", "/v2/banking/imports", {"limit": "50"}),
        Asked("bank accounts", "GET", "/v2/banking/accounts", {}),
        Asked("one bank account", "GET", "/v2/banking/accounts/{id}", {}, values=_id(known.account_id)),
        Asked("bank connections", "GET", "/v2/banking/connections", {}),
        Asked("a page of bookings", "GET", f"{read}/buchungen", {**year, "limit": "50"}),
        Asked("trial balance", "GET", f"{read}/susa", year),
        Asked("trial balance of an account", "GET", f"{read}/susa", {**year, "kontonummer": "1200"}),
        Asked("accounts of the ledger", "GET", f"{read}/konten", year),
        Asked("open items", "GET", f"{read}/opos", client),
        Asked("open items of an account", "GET", f"{read}/opos", {**client, "kontonummer": "10001"}),
        Asked("due dates", "GET", f"{read}/faelligkeiten", client),
        Asked("VAT figures", "GET", f"{read}/umsatzsteuer", year),
        Asked("profit and loss", "GET", f"{read}/bwa", year),
        Asked("a page of imports", "GET", f"{write}/imports", {**client, "limit": "50"}),
        Asked("a page of the cash book", "GET", "/v2/ledger-duo/kassenbuch",
              {**client, "kassenname": KASSE, "from_id": str(last - 50), "limit": "50"}),
        Asked("one import", "GET", f"{write}/imports/{{id}}", client, values=_id(known.import_id)),
        Asked("an export of this year", "GET", f"{write}/exports", year),
        Asked("cash books", "GET", "/v2/ledger-duo/kassenbuecher", client),
        Asked("events", "GET", "/v2/banking/events", {"limit": "50"}),
        *_of_matching(known),
        *_of_payables(known),
        *_of_mobility(known),
        *_of_others(known),
        Asked("a booking", "POST", f"{write}/buchungen", client, json={"buchungen": [{
            "umsatz": number, "sollHabenKennzeichen": "SOLL", "konto": "10001", "gegenkonto": "8400",
            "belegdatum": "2026-05-04", "belegfeld1": f"NEU-{number}"}]}),
        Asked("a cash entry with a receipt", "POST", ENTER, client, json=_entry(date(2026, 3, 2), 1, image, number)),
        Asked("a file of ten bookings", "POST", f"{write}/imports", client, content=_file(number)),
        Asked("a statement of one booking", "POST", "/v2/banking/statements", {}, content=_statement(number)),
    ]  # fmt: skip


def _of_matching(known: Known) -> list[Asked]:
    account, page = {"account_id": known.account_id}, {"account_id": known.account_id, "limit": "50"}
    place = "/v2/reconciliation"
    month = {**account, "from_date": "2026-05-01", "to_date": "2026-05-31"}
    knowledge = {"connection_id": known.connection_id, "limit": "50"}
    return [
        Asked("a page of transactions to match", "GET", f"{place}/transactions", page),
        Asked("a page of matches", "GET", f"{place}/matches", page),
        Asked("a page of knowledge", "GET", f"{place}/knowledge", knowledge),
        Asked("a page of batches of matching", "GET", f"{place}/batches", page),
        Asked(COUNTS_ALL, "GET", f"{place}/report", month),
        Asked("one matched transaction", "GET", f"{place}/transactions/{{id}}", {}, values=_id(known.matched_id)),
        Asked("one match", "GET", f"{place}/matches/{{id}}", {}, values=_id(known.match_id)),
        Asked("one batch of matching", "GET", f"{place}/batches/{{id}}", {}, values=_id(known.batch_id)),
        Asked("what became of a batch", "GET", f"{place}/batches/{{id}}/bookings", {}, values=_id(known.batch_id)),
        Asked("file of a batch of matching", "GET", f"{place}/batches/{{id}}/extf", {}, values=_id(known.batch_id)),
    ]


def _of_others(known: Known) -> list[Asked]:
    """Orders, transmissions and deliveries."""
    files, sent = "/v2/banking/order-files", "/v2/ledger-duo/uebermittlungen"
    file, client = _id(known.order_file_id), {"connectionId": known.connection_id}
    return [
        Asked("a page of order files", "GET", files, {"limit": "50"}),
        Asked("one order file", "GET", f"{files}/{{id}}", {}, values=file),
        Asked("content of an order file", "GET", f"{files}/{{id}}/file", {}, values=file),
        Asked("what became of an order file", "GET", f"{files}/{{id}}/submission", {}, values=file),
        Asked("a page of what was prepared", "GET", "/v2/assistants/prepared", {"limit": "50"}),
        Asked("one prepared order", "GET", "/v2/assistants/prepared/{id}", {}, values=_id(known.prepared_id)),
        Asked("a page of transmissions", "GET", sent, {**client, "limit": "50"}),
        Asked("one transmission", "GET", f"{sent}/{{id}}", client, values=_id(known.transmission_id)),
        Asked("a page of deliveries", "GET", "/v2/banking/webhook-endpoints/{id}/deliveries", {"limit": "50"},
              values=_id(known.endpoint_id)),
    ]  # fmt: skip


def _of_payables(known: Known) -> list[Asked]:
    place, one = "/v2/payables", _id(known.payable_id)
    return [
        Asked("a page of received invoices", "GET", place, {"limit": "50"}),
        Asked("a page of received invoices to release", "GET", place, {"status": "to_release", "limit": "50"}),
        Asked("received invoices that are due", "GET", f"{place}/due", {}),
        Asked("one received invoice", "GET", f"{place}/{{id}}", {}, values=one),
        Asked("history of a received invoice", "GET", f"{place}/{{id}}/history", {}, values=one),
        Asked("booking of a received invoice", "GET", f"{place}/{{id}}/booking", {}, values=one),
        Asked("file of a received invoice", "GET", f"{place}/{{id}}/file", {}, values=one),
        Asked("a page of payment runs", "GET", f"{place}/payment-runs", {"limit": "50"}),
        Asked("one payment run", "GET", f"{place}/payment-runs/{{id}}", {}, values=_id(known.run_id)),
        Asked("a page of hand-overs", "GET", f"{place}/handovers", {"limit": "50"}),
        Asked(
            "file of a hand-over",
            "GET",
            f"{place}/handovers/{{id}}/file",
            {},
            values=_id(known.handover_id),
        ),
    ]


def _of_mobility(known: Known) -> list[Asked]:
    place = "/v2/mobility"
    return [
        Asked("mobility customers", "GET", f"{place}/customers", {}),
        Asked("one mobility customer", "GET", f"{place}/customers/{{id}}", {}, values=_id(known.customer_id)),
        Asked("mobility invoices", "GET", f"{place}/invoices", {}),
        Asked("one mobility invoice", "GET", f"{place}/invoices/{{id}}", {}, values=_id(known.invoice_id)),
    ]


def _ask(served: list[Served], rounds: int) -> tuple[list[Row], list[list[str]]]:
    seconds: dict[str, list[list[float]]] = {}
    for _ in range(rounds + 1):
        for place, one in enumerate(served):
            for asked in one.asked():
                started = one.server.cpu_seconds()
                one.call(asked.method, asked.address, asked.query, json=asked.json, content=asked.content)
                taken = seconds.setdefault(asked.name, [[] for _ in served])
                taken[place].append(one.server.cpu_seconds() - started)
    rows, lines = [], []
    for name, taken in seconds.items():
        first, *more = ([item * 1000 for item in some[1:]] for some in taken)
        ratios = [statistics.median(some) / statistics.median(first) for some in more]
        beside, ours = measure.spread(first, " ms", 1), measure.spread(more[-1], " ms", 1)
        question = f"{name}, with {TIMES[-1]} times the history"
        rows.append(
            measure.for_information(question, ours, beside, ratios[-1])
            if name == COUNTS_ALL
            else measure.at_most(question, ours, beside, ratios[-1], MAX_TIMES)
        )
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


def _events(tx: Tx, account_id: int, count: int) -> None:
    account = ACCOUNTS.one(tx, "id = ?", account_id)
    assert account is not None
    for number in range(count):
        outbox.emit(tx, account.organization_id, "webhook_test", f"bench:{number}", {"id": number})


def _ticket(number: int) -> dict[str, Any]:
    return {
        "product": "Deutschlandticket Job", "holder_reference": f"PN-{number}", "valid_from": "2025-03", "price_in_cents": 6300,
        "vat_rate": 7,
    }  # fmt: skip


def _paid(tx: Tx, payable_id: str, count: int) -> None:
    """Invoices like this one that were paid."""
    like = PAYABLES.one(tx, "id = ?", payable_id)
    assert like is not None
    for number in range(count):
        PAYABLES.insert(tx, like._replace(
            id=new_id(), status="paid", number=f"P-{number}", identity=f"paid {number}", document_guid=new_id()
        ))  # fmt: skip


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
