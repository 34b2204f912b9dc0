"""The work of the callers: whatever they begin they carry on with after each kill, and everything carries a text of its own."""

from __future__ import annotations

import io
import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from kontobahn.books.undo import SLICED_FROM_ROWS
from kontobahn.formats import extf
from kontobahn.ledger.konto import technical
from tests.bank_builder import CREDITOR_IBAN
from tests.ledger_builder import KASSENBUCH, entry, line
from tests.mobility_builder import CUSTOMER, ticket
from tests.statement_builder import Booking, Sheet, camt
from torture.kills.calls import FORM, Call, Journal, Line
from torture.kills.service import Service

IMPORTS = "/v2/ledger-rewe/imports"
YEAR = date(2026, 1, 1)
FIRST_DAY = date(2019, 1, 1)
BLZ = "12030000"
PLANS = ("Sandbox at once", "Papier GmbH", "Sandbox repeats", "Sandbox disorder", "Sandbox contradiction",
         "Sandbox rejected", "Sandbox refused")  # fmt: skip
WEIGHTS = {"list": 5, "cash": 4, "bookings": 3, "extf": 2, "camt": 2, "payment": 2, "customer": 1}
# Rows of a DATEV file. From 60 on it is imported after its answer; the first large one is undone in slices, the other imported so as well.
SMALL, LARGE = (5, 20, 60, 150), (SLICED_FROM_ROWS, SLICED_FROM_ROWS + 300)
PAUSE_SECONDS = 2
# Failures of a file that is in the books, by the service.
FOR_GOOD = ("imported before", "booked already")
KONTO_DIGITS = 4
# The chance that a small import is undone, and that one that was undone is imported again.
UNDONE, AGAIN = 0.75, 0.5
SHORT = tuple(kind for kind in WEIGHTS if kind != "payment")


def iban(number: int) -> str:
    """A German IBAN with right check digits."""
    account = f"{BLZ}{number:010d}"
    return f"DE{98 - int(account + '131400') % 97:02d}{account}"


class Booked(NamedTuple):
    """A booking, as far as it is known: its document, cents, person account and side."""

    beleg: str
    cents: int
    konto: str
    side: str = "SOLL"

    def undone(self) -> Booked:
        return self._replace(side="HABEN")


class Somebody:
    """One caller, whose every choice follows from its seed."""

    def __init__(self, service: Service, journal: Journal, name: str, number: int, kinds: Sequence[str]) -> None:
        self._service, self._journal, self._name = service, journal, name
        self._chance = random.Random(name)
        self._kinds = [kind for kind in kinds for _ in range(WEIGHTS[kind])]
        self._made = 0
        # One file each for the first callers, to and fro: two cores are soon busy with them.
        self._large = list(LARGE[number : number + 1])
        self._line = Line(service, journal)
        self._cut: list[Call] = []
        self._sending: Call | None = None
        self._iban = iban(4_000_000 + number)
        self._sheet = Sheet(iban=self._iban, opening=100_000, number=0, id="S-0", day=FIRST_DAY)
        self._ending = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Begins nothing new, and waits until everything begun is answered."""
        self._ending.set()

    @property
    def iban(self) -> str:
        return self._iban

    @property
    def undoes_slices(self) -> bool:
        """Tells whether a large import is being undone for it right now."""
        call = self._sending
        return call is not None and call.kind == "undo" and len(call.facts) >= SLICED_FROM_ROWS

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def _go_on(self) -> None:
        try:
            while not self._ending.is_set() or self._cut:
                if not self._service.up.wait(0.1):
                    continue
                call = self._next()
                if call is None:
                    time.sleep(0.05)
                elif self._send(call):
                    if call in self._cut:
                        self._cut.remove(call)
                    self._cut[:0] = [
                        self._journal.note(one) for one in (call.then(call) if call.then and call.status < 400 else ())
                    ]
                elif not call.reads and call not in self._cut:
                    self._cut.append(call)
        except BaseException as error:
            self.failure = error
        finally:
            self._line.close()

    def _send(self, call: Call) -> bool:
        self._sending = call
        try:
            return self._line.send(call)
        finally:
            self._sending = None

    def _next(self) -> Call | None:
        """Returns what was cut off, about every other time; otherwise something new."""
        now = time.monotonic()
        waiting = [call for call in self._cut if call.due <= now]
        if waiting and (self._ending.is_set() or waiting[0].attempts == 0 or self._chance.random() < 0.5):
            return waiting[0]
        if self._ending.is_set():
            return None
        self._made += 1
        kind = "extf" if self._large else self._chance.choice(self._kinds)
        makers: dict[str, Callable[[str], Call]] = {
            "list": self._list, "cash": self._cash, "bookings": self._bookings, "extf": self._extf, "camt": self._camt,
            "payment": self._payment, "customer": self._customer,
        }  # fmt: skip
        return self._journal.note(makers[kind](f"{self._name}-{self._made}"))

    def _books(self, path: str, **query: str) -> str:
        return f"{path}?{urlencode({'connectionId': self._service.facts['ledger']['connection_id'], **query})}"

    def _list(self, key: str) -> Call:
        query = {"account_id": self._service.facts["banking"]["account_id"], "sort": "id", "limit": "100"}
        return Call("list", key, "GET", f"/v2/banking/transactions?{urlencode(query)}", price=1)

    def _cash(self, key: str) -> Call:
        amounts = [self._chance.randrange(1, 50_000) for _ in range(self._chance.randint(1, 3))]
        lines = [line(cents / 100, belegtext=f"{key}/{number}") for number, cents in enumerate(amounts)]
        facts = [(f"{key}/{number}", cents) for number, cents in enumerate(amounts)]
        body = json.dumps(entry(*lines, betrag=sum(amounts) / 100)).encode()
        return Call("cash", key, "POST", self._books(KASSENBUCH), body, price=1, facts=facts)

    def _rows(self, key: str, count: int) -> list[tuple[str, int, str, date]]:
        """Document, cents, person account and day."""
        return [
            (f"{key}/{number}", self._chance.randrange(1, 100_000), str(self._chance.randrange(10_001, 10_400)),
             YEAR + timedelta(self._chance.randrange(300)))
            for number in range(count)
        ]  # fmt: skip

    def _bookings(self, key: str) -> Call:
        rows = self._rows(key, self._chance.randint(1, 5))
        body = [
            {"umsatz": cents / 100, "sollHabenKennzeichen": "SOLL", "konto": konto, "gegenkonto": "8400",
             "belegdatum": day.isoformat(), "belegfeld1": beleg, "buchungstext": "Verkauf"}
            for beleg, cents, konto, day in rows
        ]  # fmt: skip
        path, content = self._books("/v2/ledger-rewe/buchungen"), json.dumps({"buchungen": body}).encode()
        return Call("bookings", key, "POST", path, content, price=1, facts=_booked(rows))

    def _extf(self, key: str) -> Call:
        rows = self._rows(key, self._large.pop() if self._large else self._chance.choice(SMALL))
        adviser, client = self._service.facts["ledger"]["client_id"].split("-")
        header = extf.make_header(
            extf.BUCHUNGSSTAPEL, erzeugt_am=datetime(2026, 11, 1), berater=int(adviser), mandant=int(client), wj_beginn=YEAR,
            sachkontenlaenge=KONTO_DIGITS, datum_von=YEAR, datum_bis=date(2026, 12, 31), skr="03",
        )  # fmt: skip
        file = io.BytesIO()
        extf.write_buchungsstapel(
            file, header,
            (
                extf.Buchungssatz(
                    0, cents, True, "EUR", "", None, konto, "8400", "", day.isoformat(), beleg, "", 0, "Verkauf", "", "",
                    False, "",
                )
                for beleg, cents, konto, day in rows
            ),
        )  # fmt: skip
        return self._file("extf", key, self._books(IMPORTS), file.getvalue(), _booked(rows))

    def _undo(self, imported: Call) -> list[Call]:
        """Undoes the import perhaps, and then perhaps sends the same file again; a large one always, until the end."""
        goes_on = len(imported.facts) >= SLICED_FROM_ROWS and not self._ending.is_set()
        if not goes_on and self._chance.random() >= UNDONE:
            return []
        path = self._books(f"{IMPORTS}/{imported.answer['data']['id']}/undo")
        facts = [row.undone() for row in imported.facts]

        def again(undone: Call) -> list[Call]:
            if self._ending.is_set() or (not goes_on and self._chance.random() >= AGAIN):
                return []
            return [self._file("extf", f"{undone.key}a", imported.path, imported.body, imported.facts)]

        return [Call("undo", f"{imported.key}u", "POST", path, facts=facts, then=again)]

    def _camt(self, key: str) -> Call:
        amounts = [self._chance.randrange(1, 90_000) for _ in range(self._chance.choice((2, 8, 30)))]
        before = self._sheet
        day = before.day + timedelta(1)
        bookings = [Booking(cents, f"{key}/{number}", booked=day, valued=day) for number, cents in enumerate(amounts)]
        number = (before.number or 0) + 1
        self._sheet = before._replace(bookings=bookings, opening=before.end, number=number, id=f"S-{number}", day=day)
        facts = [(f"{key}/{number}", cents) for number, cents in enumerate(amounts)]
        # A file that was cut off comes later than those after it.
        return self._file(
            "camt", key, "/v2/banking/statements?allow_gaps=true", camt(self._sheet), facts, "application/xml"
        )

    def _file(self, kind: str, key: str, path: str, content: bytes, facts: Any, media: str = "text/csv") -> Call:
        return Call(kind, key, "POST", path, content, media, facts=facts, then=self._look_after)

    def _look_after(self, sent: Call) -> list[Call]:
        """A file answered with 202 is done with all of it or has failed with nothing: then it is sent again."""
        when_done = self._undo if sent.kind == "extf" else lambda _: []
        if sent.status != 202:
            return when_done(sent)
        found = sent.answer["data"]["id"]
        path, _, query = sent.path.partition("?")
        listed = path.replace("statements", "imports") + f"/{found}?{query if 'connectionId' in query else ''}"

        def look(asked: Call) -> list[Call]:
            status = asked.answer["data"]["status"] if asked.status == 200 else "lost"
            if status == "running":
                return [Call("look", f"{asked.key}l", "GET", listed, then=look, due=_soon())]
            failure = asked.answer["data"].get("fehler") or ""
            if status == "failed" and not any(words in failure for words in FOR_GOOD):
                again = self._file(sent.kind, f"{sent.key}r", sent.path, sent.body, sent.facts, sent.media)
                # Perhaps because another large one was under way.
                sent.facts, again.due = [], _soon()
                return [again]
            if status == "done":
                return when_done(sent)
            sent.facts = []
            self._journal.faults.append(f"{sent.kind} {sent.key}: the import is {status} {failure}")
            return []

        return [Call("look", f"{sent.key}l", "GET", listed, then=look)]

    def _payment(self, key: str) -> Call:
        cents = self._chance.randrange(1, 100)
        body = {
            "account_id": self._service.facts["banking"]["account_id"], "amount": f"0.{cents:02d}",
            "creditor_name": self._chance.choice(PLANS), "creditor_iban": CREDITOR_IBAN, "description": key,
            "custom_fields": {"key": key},
        }  # fmt: skip
        path = "/v2/banking/payments"
        return Call("payment", key, "POST", path, json.dumps(body).encode(), price=3, facts=cents, then=self._authorise)

    def _authorise(self, paid: Call) -> list[Call]:
        """The payer at the bank's pages: what was cut off there is done again."""
        url = paid.answer["data"]["payment_url"] if paid.answer else None
        if url is None:
            return []
        user = self._service.facts["banking"]["connect_user"]
        steps = ({"action": "login", "user_name": user, "password": "geheim"}, {"action": "tan", "tan": "123456"},
                 {"action": "confirm"})  # fmt: skip
        return [
            Call(
                "page",
                f"{paid.key}p{number}",
                "POST",
                urlsplit(url).path,
                urlencode(step).encode(),
                FORM,
                may_be=(409,),
            )
            for number, step in enumerate(steps)
        ]

    def _customer(self, key: str) -> Call:
        body = json.dumps({**CUSTOMER, "mobility_customer_id": key}).encode()
        return Call("customer", key, "POST", "/v2/mobility/customers", body, facts=key, then=self._tickets)

    def _tickets(self, made: Call) -> list[Call]:
        sold = [ticket(f"{made.key}/{number}") for number in range(self._chance.randint(1, 4))]
        path = f"/v2/mobility/customers/{made.answer['id']}/tickets"
        facts = [(one["holder_reference"], one["price_in_cents"]) for one in sold]
        body = json.dumps({"tickets": sold}).encode()
        return [Call("tickets", f"{made.key}t", "POST", path, body, facts=facts, then=self._invoice)]

    def _invoice(self, sold: Call) -> list[Call]:
        path = sold.path.replace("/tickets", "/invoice")
        return [Call("invoice", f"{sold.key}i", "POST", path, facts=sum(cents for _, cents in sold.facts))]


def _soon() -> float:
    return time.monotonic() + PAUSE_SECONDS


def _booked(rows: list[tuple[str, int, str, date]]) -> list[Booked]:
    return [Booked(beleg, cents, technical(konto, KONTO_DIGITS)) for beleg, cents, konto, _ in rows]
