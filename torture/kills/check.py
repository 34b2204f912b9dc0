"""The facts that must hold after the kills, calculated from what was sent."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from kontobahn.books.batches import FILE
from kontobahn.books.read_models import TABLES
from kontobahn.ledger.konto import PERSONENKONTO_DIGITS
from torture.kills.calls import Call, Journal
from torture.kills.readers import Feed, Reader
from torture.kills.service import Service
from torture.payments import ENDS, Receiver

FEW = 3
SOLL, HABEN = "umsatzSoll", "umsatzHaben"
LEDGER_ACCOUNTS = "ledger accounts"
# States that a job ends if it was broken off.
BROKEN_OFF = {
    "books_preparing": "books_preparing",
    "books_left_editions": "books_left_editions",
    "books_clients": "books_clients WHERE undone_from <> 0 OR undone_to <> 0",
}
NUMBERED = {"books_bookings": "id", "books_sheets": "booking", "books_item_moves": "booking"}


class Check:
    """Collects what does not hold, in sentences."""

    def __init__(self, service: Service, journal: Journal, prefix: str) -> None:
        self._service, self._journal, self._prefix = service, journal, prefix
        self._organization = service.facts["organization_id"]
        self.faults: list[str] = list(journal.faults)

    def same(self, what: str, expected: Iterable[Any], found: Iterable[Any]) -> int:
        """Everything that was acknowledged is there, once, and nothing else. Returns how many there are."""
        wanted, there = Counter(expected), Counter(found)
        if lost := wanted - there:
            self.faults.append(f"{what}: {lost.total()} lost or too few: {list(lost)[:FEW]}")
        if more := there - wanted:
            self.faults.append(f"{what}: {more.total()} doubled or nobody's: {list(more)[:FEW]}")
        return wanted.total()

    def without_gaps(self, what: str, numbers: list[int]) -> None:
        if numbers and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            gaps = [number for number, after in itertools.pairwise(numbers) if after != number + 1]
            self.faults.append(f"{what}: the numbers have gaps after {gaps[:FEW]}")

    def _facts(self, *kinds: str) -> Iterator[Any]:
        for kind in kinds:
            for call in self._journal.of(kind):
                yield from call.facts or ()

    # --- Writes

    def books(self, bookings: list[Any], cash: list[Any]) -> int:
        found = [
            (line["belegfeld1"], _cents(line["umsatz"]), line["kontonummer"], row["sollHabenKennzeichen"])
            for row in bookings
            if (line := row["buchungszeilen"][0])["belegfeld1"].startswith(self._prefix)
        ]
        entries = [(row["belegtext"], _cents(row["betrag"])) for row in cash]
        ours = [entry for entry in entries if entry[0].startswith(self._prefix)]
        self.without_gaps("cash book", [row["nummer"] for row in cash])
        return self.same("bookings", self._facts("bookings", "extf", "undo"), found) + self.same(
            "cash book", self._facts("cash"), ours
        )

    def imports(self) -> int:
        """Each is there once and whole, and so is each undoing. Returns how many were undone."""
        undone = {urlsplit(call.path).path.split("/")[-2]: call for call in self._journal.of("undo")}
        ids = {number: call.answer["data"]["id"] for number, call in undone.items() if call.status < 400}
        sent = [(call.answer["data"]["id"], len(call.facts)) for call in self._journal.of("extf") if call.facts]
        self.same(
            "imports", ((number, rows, ids.get(number, "")) for number, rows in sent),
            self._service.rows("SELECT id, records, undone_by FROM books_batches WHERE kind LIKE ?", f"{FILE} %"),
        )  # fmt: skip
        return self.same(
            "undoings", ((by, len(undone[number].facts), number) for number, by in ids.items()),
            self._service.rows("SELECT id, records, undoes FROM books_batches WHERE undoes <> ''"),
        )  # fmt: skip

    def _counting(self) -> Counter[tuple[str, str]]:
        """Person account and document → cents: an import that was undone is nothing."""
        counting: Counter[tuple[str, str]] = Counter()
        for beleg, cents, konto, side in self._facts("bookings", "extf", "undo"):
            counting[konto, beleg] += cents if side == "SOLL" else -cents
        return +counting

    def open_items(self, konten: list[Any]) -> None:
        counting = self._counting().items()
        found = [
            ((konto["kontonummer"], item["beleg"]), _cents(item["saldo"])) for konto in konten for item in konto["posten"]
        ]  # fmt: skip
        self.same("open items", counting, (item for item in found if item[0][1].startswith(self._prefix)))
        moves = self._service.rows(
            "SELECT konto, beleg, betrag FROM books_item_moves WHERE beleg LIKE ?", f"{self._prefix}%"
        )
        self.same("movements of open items", counting, (((konto, beleg), cents) for konto, beleg, cents in moves))

    def trial_balance(self, before: list[Any], now: list[Any]) -> None:
        """Turnover of each person account, and of ledger accounts together: sales and their tax, and the cash account."""
        moved, right = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for sign, row in [*((-1, row) for row in before), *((1, row) for row in now)]:
            konto = row["kontonummer"] if len(row["kontonummer"]) == PERSONENKONTO_DIGITS else LEDGER_ACCOUNTS
            for side in (SOLL, HABEN):
                moved[konto, side] += sign * _cents(row[side])
        for (konto, _), cents in self._counting().items():
            right[konto, SOLL] += cents
            right[LEDGER_ACCOUNTS, HABEN] += cents
        cash = sum(cents for _, cents in self._facts("cash"))
        right += Counter({(LEDGER_ACCOUNTS, SOLL): cash, (LEDGER_ACCOUNTS, HABEN): cash})
        self.same("trial balance", right.items(), (item for item in moved.items() if item[1]))

    def nothing_left(self) -> None:
        """Of large files and undoings that were broken off: what others would find once the job has swept."""
        editions = {table: f"{table} WHERE edition NOT IN (SELECT edition FROM books_clients)" for table in TABLES}
        hidden = " t WHERE {} > (SELECT last_buchung FROM books_clients c WHERE c.mandant = t.mandant)"
        numbers = {table: table + hidden.format(name) for table, name in NUMBERED.items()}
        for table, rows in (*BROKEN_OFF.items(), *editions.items(), *numbers.items()):
            [(left,)] = self._service.rows(f"SELECT COUNT(*) FROM {rows}")
            if left:
                self.faults.append(f"books: {left} rows are left of what was broken off, in {table}")

    def statements(self, feeds: list[Feed]) -> int:
        found = [(row["description"], _cents(row["amount"])) for feed in feeds for row in feed.got]
        texts = [(_text(description, self._prefix), cents) for description, cents in found]
        return self.same("transactions of files", self._facts("camt"), texts)

    def mobility(self) -> int:
        rows = self._service.rows(
            "SELECT c.mobility_customer_id, t.holder_reference, t.price_in_cents, t.invoice_id FROM mobility_customers c"
            " JOIN mobility_tickets t ON t.organization_id = c.organization_id AND t.customer_id = c.id"
            " WHERE c.organization_id = ? AND c.mobility_customer_id LIKE ?",
            self._organization, f"{self._prefix}%",
        )  # fmt: skip
        tickets = self.same("tickets", self._facts("tickets"), ((holder, cents) for _, holder, cents, _ in rows))
        if left := [holder for _, holder, _, invoice in rows if invoice is None]:
            self.faults.append(f"tickets: {len(left)} never invoiced: {left[:FEW]}")
        self.same(
            "customers",
            (call.facts for call in self._journal.of("customer")),
            (name for (name,) in self._service.rows(
                "SELECT mobility_customer_id FROM mobility_customers WHERE organization_id = ? AND mobility_customer_id LIKE ?",
                self._organization, f"{self._prefix}%",
            )),
        )  # fmt: skip
        invoices = self._service.rows(
            "SELECT i.invoice_number, i.amount_in_cents, c.mobility_customer_id FROM mobility_invoices i"
            " JOIN mobility_customers c ON c.organization_id = i.organization_id AND c.id = i.customer_id"
            " WHERE i.organization_id = ?", self._organization,
        )  # fmt: skip
        made = self._journal.of("invoice")
        self.same(
            "invoices",
            (
                (call.key.removesuffix("ti"), call.facts, call.answer.get("invoice_number"))
                for call in made
                if call.answer
            ),
            ((name, cents, number) for number, cents, name in invoices if (name or "").startswith(self._prefix)),
        )
        self.without_gaps("invoices", sorted(_trailing_number(number) for number, _, _ in invoices))
        return tickets + len(made)

    def payments(self) -> tuple[int, dict[str, int]]:
        """Returns how many there are, and by key how many credits each has cost."""
        rows = self._service.rows(
            "SELECT p.id, p.description, p.amount_minor, p.status, p.end_to_end_id FROM banking_payments p"
            " WHERE p.organization_id = ? AND p.description LIKE ?", self._organization, f"{self._prefix}%",
        )  # fmt: skip
        made = self._journal.of("payment")
        self.same("payments", ((call.key, call.facts) for call in made), ((key, cents) for _, key, cents, _, _ in rows))
        if endless := [key for _, key, _, status, _ in rows if status not in ENDS]:
            self.faults.append(f"payments: {len(endless)} without an end: {endless[:FEW]}")
        of_bank = self._service.rows("SELECT end_to_end_id, status FROM sandbox_payments")
        at_bank = Counter(end for end, _ in of_bank)
        if twice := [key for _, key, _, _, end in rows if at_bank[end] > 1]:
            self.faults.append(f"payments: {len(twice)} ordered twice at the bank: {twice[:FEW]}")
        settled = {end for end, status in of_bank if status == "settled"}
        # A contradiction is reported after the end, and changes nothing.
        wrong = [
            (key, status, "unknown") for _, key, _, status, end in rows if status == "settled" and not at_bank[end]
        ]
        wrong += [(key, status, "settled") for _, key, _, status, end in rows if status != "settled" and end in settled]
        if wrong:
            self.faults.append(f"payments: {len(wrong)} are otherwise at the bank: {wrong[:FEW]}")
        return len(rows), {key: 3 if status == "settled" else 0 for _, key, _, status, _ in rows}

    # --- Credits

    def credits(self, after_line: int, before: tuple[int, int, int], paid: dict[str, int]) -> int:
        """Whoever was answered was charged once. Returns how many credits were spent."""
        lines = self._service.rows(
            "SELECT kind, amount, request_id, reference FROM credit_movements WHERE organization_id = ? AND line > ?",
            self._organization, after_line,
        )  # fmt: skip
        reserved = {reference for kind, _, _, reference in lines if kind == "reserve"}
        charged: Counter[str] = Counter()
        # Payments of the demo, which come to their end meanwhile.
        others: Counter[str] = Counter()
        for kind, amount, request_id, reference in lines:
            if reference in reserved:
                charged[request_id.rpartition(".")[0]] += amount if kind == "confirm" else 0
            else:
                others[kind] += amount
        known = {call.key: call for call in self._journal.calls}
        for key, amount in charged.items():
            if amount and key not in known:
                self.faults.append(f"credits: {amount} charged for nobody's call {key}")
        for key, call in known.items():
            if charged[key] not in _prices(call, paid):
                self.faults.append(f"credits: {call.kind} {key} cost {charged[key]}, answered {call.status or 'never'}")
        spent = charged.total()
        [now] = self._service.rows(
            "SELECT available, reserved, spent FROM credit_accounts WHERE organization_id = ?", self._organization
        )
        right = (
            before[0] - spent + others["expire"],
            before[1] - others.total(),
            before[2] + spent + others["confirm"],
        )
        if tuple(now) != right:
            self.faults.append(f"credits: {right} should be left of {before}, and {tuple(now)} are")
        return spent

    # --- Readers and events

    def readers(self, reader: Reader, feeds: list[Feed]) -> int:
        """Each got everything exactly once and in order: what somebody gets who begins now."""
        rows = 0
        for feed in feeds:
            along = [_identity(row) for row in reader.read_to_the_end(feed)]
            now = [_identity(row) for row in reader.read_to_the_end(feed.from_the_start())]
            rows += len(along)
            if feed.name == "changes":
                # What changes again is told again, at its last place.
                along = [row for number, row in enumerate(along) if row not in set(along[number + 1 :])]
            if along != now:
                self.same(f"reader of {feed.name}", now, along)
                self.faults.append(f"reader of {feed.name}: not what is there, in its order")
        return rows

    def events(self, log: Feed, receiver: Receiver, since: int) -> int:
        ids = [row["id"] for row in log.got]
        if len(set(ids)) != len(ids):
            self.faults.append("events: an id is in the log twice")
        got = {event["id"] for event in receiver.taken}
        sent = {str(name) for (name,) in self._service.rows(
            "SELECT id FROM webhook_events WHERE organization_id = ? AND sequence > ?", self._organization, since
        )}  # fmt: skip
        if never := sent - got:
            self.faults.append(f"events: {len(never)} never delivered: {sorted(never)[:FEW]}")
        if unknown := got - set(ids):
            self.faults.append(f"events: {len(unknown)} delivered that the log does not have: {sorted(unknown)[:FEW]}")
        if receiver.wrong:
            self.faults.append(f"events: signatures: {receiver.wrong[:FEW]}")
        self._in_order(receiver)
        return len(sent)

    def _in_order(self, receiver: Receiver) -> None:
        """The first delivery of each status of a payment, beside the history of the payment."""
        told: dict[str, list[str]] = {}
        seen: set[str] = set()
        for event in receiver.taken:
            number = event["data"].get("payment_id")
            if number and event["id"] not in seen:
                seen.add(event["id"])
                told.setdefault(number, []).append(event["data"]["status"])
        moves: dict[str, list[str]] = {}
        for number, status in self._service.rows(
            "SELECT r.payment_id, r.status FROM banking_payment_reports r JOIN banking_payments p"
            " ON p.organization_id = r.organization_id AND p.id = r.payment_id"
            " WHERE p.organization_id = ? AND p.description LIKE ? AND r.outcome = 'moved' ORDER BY r.payment_id, r.position",
            self._organization, f"{self._prefix}%",
        ):  # fmt: skip
            moves.setdefault(str(number), ["initiated"]).append(status)
        wrong = [number for number, history in moves.items() if told.get(number) != history]
        if wrong:
            few = [(number, told.get(number), moves[number]) for number in wrong[:FEW]]
            self.faults.append(f"events: {len(wrong)} payments were not told as they went: {few}")


def _prices(call: Call, paid: dict[str, int]) -> tuple[int, ...]:
    """The prices that a call may have had: if it was never answered, a read may have been charged before the kill."""
    if call.kind == "payment":
        return (paid.get(call.key, 0),)
    if call.status == 0:
        return (0, call.price)
    return (call.price,) if call.status < 400 else (0,)


def _identity(row: Any) -> tuple[Any, ...]:
    """The part of a row that never changes. The balance of a cash book follows the day: a late entry moves those after it."""
    if "event" in row:
        return (row["id"], row["event"], str(row["data"]))
    if "nummer" in row:
        return (row["nummer"], row["belegtext"], row["betrag"])
    if "buchungszeilen" in row:
        return (row["id"], str(row["buchungszeilen"]))
    return (row["id"], row.get("account_id"))


def _cents(amount: float) -> int:
    return round(amount * 100)


def _text(description: str, prefix: str) -> str:
    return next((word for word in description.replace("+", " ").split() if word.startswith(prefix)), description)


def _trailing_number(text: str) -> int:
    digits = len(text) - len(text.rstrip("0123456789"))
    return int(text[-digits:])
