"""The bank behind its counter: customers, keys, the bookings of a day, and orders that are executed, wait or are refused."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from datetime import UTC, date, datetime

from simulators.ebics_bank import secrecy
from simulators.ebics_bank.books import Account, camt
from simulators.ebics_bank.breaks import Break
from simulators.ebics_bank.catalogue import Level
from simulators.ebics_bank.customers import Delivery, Event, Order, Partner, User
from simulators.ebics_bank.payments import Transfer, compare, payee_report, status_report

_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class Desk:
    def __init__(self, host: str = "FAKEBANK") -> None:
        self.host, self.name, self.url = host, "Fakebank", ""
        self.versions = {"H004": "02.50", "H005": "03.00"}
        self.authentication = secrecy.usual_key("X002", f"{self.name} X002")
        self.encryption = secrecy.usual_key("E002", f"{self.name} E002")
        self.partners: dict[str, Partner] = {}
        # The day that it books on, and its clock.
        self.today: date = datetime.now(UTC).date()
        self.now: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.segment_size = 1_000_000
        # Names of payees that other banks tell, by IBAN; and why payments to an IBAN are refused.
        self.payees: dict[str, str] = {}
        self.refuses: dict[str, str] = {}
        # Whether a file with one payment is refused if its payee is not to be checked.
        self.refuses_single_unchecked = False
        self.recognises_duplicates = True
        self.breaks: list[Break] = []
        self.faults: list[str] = []
        # Each message by order and phase, in their turn; and a test's own look at the moment of a receipt.
        self.heard: list[tuple[str, str]] = []
        self.on_receipt: Callable[[str], None] = lambda kind: None
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.nonces: set[str] = set()
        self._order_numbers = itertools.count(0)
        self.lock = threading.RLock()

    # --- The bank's own staff

    def add_user(self, partner: str, user: str, *rights: str, level: Level = "T", name: str = "") -> User:
        customer = self.partners.setdefault(partner, Partner(partner))
        customer.users[user] = User(user, name or f"Teilnehmer {user}", level, set(rights))
        return customer.users[user]

    def add_account(self, partner: str, iban: str, owner: str = "Muster GmbH") -> Account:
        account = Account(iban, owner)
        self.partners.setdefault(partner, Partner(partner)).accounts.append(account)
        return account

    def activate(self, partner: str, user: str, letter: dict[str, bytes] | None = None) -> None:
        """Lets a user in whose letter has come; `letter` are the hashes on it, by role, in the terms of either version."""
        found = self.partners[partner].users[user]
        if found.state != "initialised":
            raise ValueError(f"the user is {found.state}")
        for role, digest in (letter or {}).items():
            if digest not in (found.keys[role].letter_hash(), found.keys[role].digest("H005")):
                raise ValueError(f"the letter has another hash of the {role.lower()} key")
        found.state = "ready"
        self.note(self.partners[partner], found.id, "ORDER_HAC_FINAL_POS", "INI", self.new_order_id())

    def suspend(self, partner: str, user: str) -> None:
        self.partners[partner].users[user].state = "suspended"

    def reset(self, partner: str, user: str) -> None:
        """Makes the user new: its keys are gone."""
        found = self.partners[partner].users[user]
        found.state, found.keys = "new", {}

    def change_keys(self) -> None:
        self.authentication = secrecy.new_key("X002", f"{self.name} X002")
        self.encryption = secrecy.new_key("E002", f"{self.name} E002")

    def letter(self, version: str = "H005") -> dict[str, str]:
        """The hashes that the bank's own letter prints."""
        keys = {"Authentication": self.authentication, "Encryption": self.encryption}
        return {role: key.public.digest(version).hex().upper() for role, key in keys.items()}

    def deliver(self, partner: str, kind: str, content: bytes, *, day: date | None = None, name: str = "") -> Delivery:
        customer = self.partners[partner]
        suffix = "sta" if kind == "STA" else "xml"
        name = name or f"{kind}-{len(customer.deliveries) + 1:05d}.{suffix}"
        delivery = Delivery(kind, day or self.today, name, content)
        customer.deliveries.append(delivery)
        return delivery

    def close_day(self, partner: str) -> None:
        """Makes statements, reports and notifications of what was booked since the last time."""
        for account in self.partners[partner].accounts:
            fresh = account.bookings[account.stated :]
            if not fresh:
                continue
            self.deliver(partner, "C52", camt("C52", account, self.today, fresh, number=account.statements + 1))
            credits = [booking for booking in fresh if booking.amount > 0]
            if credits:
                self.deliver(partner, "C54", camt("C54", account, self.today, credits, number=account.statements + 1))
            self.deliver(partner, "C53", account.statement(self.today))

    def release(self, partner: str, order: str) -> None:
        """A person signs it in the bank's own app."""
        customer = self.partners[partner]
        found = customer.order(order)
        if found is None or found.state != "waiting":
            raise ValueError("no order that waits")
        found.waits_for_release = False
        self.execute(customer, found)

    # --- Orders

    def new_order_id(self) -> str:
        number = next(self._order_numbers)
        return "N" + "".join(_LETTERS[number // 36**place % 36] for place in (2, 1, 0))

    def note(self, partner: Partner, user: str, action: str, kind: str, order: str, code: str = "", *more: str) -> None:
        partner.events.append(Event(self.now(), user, action, kind, order, code, more))

    def check_payees(self, partner: Partner, order: Order) -> None:
        """Compares the names of all payees; the order waits for a person unless each of them is right."""
        if order.file is None:
            return
        results: list[tuple[str, str | None]] = []
        for transfer in order.file.transfers:
            known = self.payees.get(transfer.iban)
            results.append((compare(transfer.name, known), known))
        order.waits_for_release = any(code != "RCVC" for code, _ in results)
        self.deliver(partner.id, "VPZ", payee_report(order.file, results, self.today, f"VOP{order.id}"))

    def try_to_execute(self, partner: Partner, order: Order) -> None:
        """Executes an order that enough people have signed; otherwise it waits for them."""
        levels = sorted(level for _, level in order.signatures)
        is_signed = "E" in levels or (len(levels) > 1 and "A" in levels)
        if is_signed and not order.waits_for_release:
            self.execute(partner, order)

    def execute(self, partner: Partner, order: Order) -> None:
        file = order.file
        if file is None:
            order.state = "executed"
            self.note(partner, order.user, "ORDER_HAC_FINAL_POS", order.kind, order.id)
            return
        refusals = [self._book(partner, transfer) for transfer in file.transfers]
        order.state = "refused" if all(refusals) else "executed"
        result = status_report(file, refusals, self.today, f"PSR{order.id}")
        self.deliver(partner.id, "CIZ" if order.kind in ("CIP", "CIV") else "CRZ", result)
        final = "ORDER_HAC_FINAL_NEG" if order.state == "refused" else "ORDER_HAC_FINAL_POS"
        self.note(partner, order.user, final, order.kind, order.id, "", f"{len(file.transfers)} x, {file.total} EUR")

    def _book(self, partner: Partner, transfer: Transfer) -> str:
        """Books a payment, or returns why not."""
        account = partner.account(transfer.debtor)
        if account is None:
            return "AC01"
        if transfer.iban in self.refuses:
            return self.refuses[transfer.iban]
        if account.balance() < transfer.amount:
            return "AM04"
        account.book(
            self.today,
            -transfer.amount,
            transfer.text,
            name=transfer.name,
            iban=transfer.iban,
            end_to_end_id=transfer.end_to_end_id,
        )
        return ""

    def cancel(self, partner: Partner, order: Order, user: str) -> None:
        order.state = "cancelled"
        self.note(partner, user, "VEU_CANCEL_ORDER", order.kind, order.id, "DS02")
        self.note(partner, user, "ORDER_HAC_FINAL_NEG", order.kind, order.id)
