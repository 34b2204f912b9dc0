"""An EBICS bank is connected, read and sent orders while the service is killed in every phase: before the bank has a message, and after.

People sign and cancel orders, change keys and lock their access meanwhile. Nothing may be lost, nothing be there twice, no key be
useless, no order reach the bank again or be carried out twice, and the bank never hear what it should not.

    python -m torture.ebics_kills --kills 10 --runs 5 --parts connecting fetching

Of the kills in each phase, half come before the bank has the message and half after.
"""

from __future__ import annotations

import argparse
import base64
import html
import os
import re
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import rsa

from kontobahn.access import factors
from kontobahn.dashboard import page_templates
from kontobahn.formats.ebics import keys
from simulators.ebics_bank import Break
from simulators.ebics_bank.breaks import How
from simulators.ebics_bank.customers import Order
from torture import killed
from torture.bank_trials import SECONDS, EbicsTrial, Person
from torture.banks import check
from torture.killed import Killed, until

Place = tuple[str, str, int]
# By part: the order, its phase and its segment.
PARTS: dict[str, tuple[Place, ...]] = {
    # From the data sheet to the first statements.
    "connecting": (
        ("INI", "", 0), ("HIA", "", 0), ("HPB", "", 0), ("C53", "Receipt", 0),
    ),
    "fetching": (
        ("HTD", "Initialisation", 0), ("C53", "Initialisation", 0), ("C53", "Transfer", 2), ("C53", "Transfer", 3),
        ("C53", "Receipt", 0),
    ),
    "sending": (("CTV", "Initialisation", 0), ("CTV", "Transfer", 0)),
    # The answer to an order was lost, and the bank's protocol is asked.
    "deciding": (("HAC", "Initialisation", 0), ("HAC", "Receipt", 0)),
    "signing": (("HVE", "Initialisation", 0),),
    "cancelling": (("HVS", "Initialisation", 0), ("HVS", "Transfer", 0)),
    "renewing": (("HCS", "Initialisation", 0), ("HCS", "Transfer", 0), ("HTD", "Initialisation", 0)),
    "locking": (("SPR", "Initialisation", 0),),
}  # fmt: skip
PAYEES = (("Papier GmbH", "DE75512108001245126199"), ("Druck AG", "DE02500105170137075030"))
SIGN_IN, APP = "/dashboard/sign-in", "/dashboard/profile/second-factor/app"
MOMENTS: tuple[tuple[How, str], ...] = (("late_request", "before"), ("late", "after"))
# So small that a few statements take several segments.
SEGMENT_SIZE = 1_000
# To make three takes longer than whatever is done with them; a process draws no more than these.
KEYS, KEYS_OF_PROCESS = 60, 6


def name_of(place: Place, moment: str) -> str:
    order, phase, segment = place
    return f"{moment} {' '.join(filter(None, (order, phase, str(segment or ''))))}"


def prepare() -> None:
    """Does once what each process would do for itself: keys are drawn from many, each process beginning at others."""
    for template in page_templates.environment("en").list_templates(["html"]):
        page_templates.environment("en").get_template(template)
    made = deque(keys._make(keys.MIN_BITS) for _ in range(KEYS))
    os.register_at_fork(after_in_parent=lambda: made.rotate(-KEYS_OF_PROCESS))

    def draw(bits: int) -> rsa.RSAPrivateKey:
        made.rotate(-1)
        return made[-1]

    keys._make = draw


def _hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert found is not None, page
    return html.unescape(found[1])


class Signer:
    """The owner at the pages, with an app for codes."""

    def __init__(self, service: Killed) -> None:
        self._service, self._cookies, self._secret = service, httpx.Cookies(), b""
        self._send("POST", SIGN_IN, data=service.running.facts["user"])
        page = self.look(APP)
        shown = re.search(r"<code>([A-Z2-7 ]+)</code>", page)
        assert shown is not None
        text = shown[1].replace(" ", "")
        self._secret = base64.b32decode(text + "=" * (-len(text) % 8))
        self._send("POST", APP, data={"name": "App", "code": self._code(), "secret": _hidden(page, "secret")})

    def look(self, path: str) -> str:
        return self._signed_in("GET", path)

    def confirm(self, path: str, **fields: str) -> str:
        """Sends a form with the code of the app, and returns the page that it leads to."""
        return self._signed_in("POST", path, data={**fields, "_code": self._code()})

    def _signed_in(self, method: str, path: str, **options: Any) -> str:
        answer = self._send(method, path, **options)
        if answer.url.path == SIGN_IN:
            # The session was renewed by a form whose answer was lost.
            asked = self._send("POST", SIGN_IN, data=self._service.running.facts["user"])
            self._send("POST", f"{SIGN_IN}/code", data={"ticket": _hidden(asked.text, "ticket"), "code": self._code()})
            self._code()
            answer = self._send(method, path, **options)
        assert answer.url.path != SIGN_IN, answer.text
        return html.unescape(answer.text)

    def _code(self) -> str:
        # Half a minute passes: a code is taken once.
        self._service.change("UPDATE user_factors SET counter = 0")
        return factors.totp(self._secret, int(time.time()) // factors.STEP_SECONDS)

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        base = str(self._service.running.facts["base_url"])
        headers = {"accept-language": "en", "origin": base}
        with httpx.Client(
            base_url=base, cookies=self._cookies, timeout=SECONDS, verify=False, trust_env=False, follow_redirects=True
        ) as client:
            answer = client.request(method, path, headers=headers, **options)
            self._cookies = client.cookies
        return answer


class Kills:
    def __init__(self, data: Path, seed: int, version: str, *, draws_keys: bool) -> None:
        self.trial = EbicsTrial()
        self.trial.bank.versions = {version: self.trial.bank.versions[version]}
        self.trial.bank.payees = {iban: name for name, iban in PAYEES}
        prepare = "torture.ebics_kills:prepare" if draws_keys else ""
        self.service = Killed(data, seed, self.trial.settings, self.trial.time_passes, prepare)
        self.signer = Signer(self.service)
        self._people = self.bookings = self.files = self.signatures = self.key_changes = 0

    def round(self, parts: Mapping[str, tuple[Place, ...]]) -> None:
        """Kills once at each place of these parts, before and after; at a customer of its own, so that its history stays short."""
        self.trial.new_customer()
        self.trial.account.opening = Decimal(1_000_000)
        self._book(60)
        for part in ("connecting", "locking"):
            for place, how, moment in _moments(parts.get(part, ())):
                getattr(self, part)(place, how, moment)
        others = [part for part in PARTS if part in parts and part not in ("connecting", "locking")]
        if not others:
            return
        person = self._connected()
        # Orders that are carried out are bookings, which nobody here has counted: they come last.
        for part in sorted(others, key=("fetching", "renewing", "sending", "deciding", "cancelling", "signing").index):
            for place, how, moment in _moments(parts[part]):
                getattr(self, part)(person, place, how, moment)
        self.bookings += self.trial.booked().total()
        person.remove(self.service.running)

    def connecting(self, place: Place, how: How, moment: str) -> None:
        """Somebody connects, is interrupted there, and goes on where the page is."""
        person, service = self._next_person(), self.service
        person.begin(service.running)
        self._kill(place, how, moment, lambda: person.walk(service.running))
        person.walk(service.running)
        check(person, service, self.trial)
        person.remove(service.running)

    def fetching(self, person: Person, place: Place, how: How, moment: str) -> None:
        """Somebody who is connected reads what is new, is interrupted there, and reads again."""
        service, trial = self.service, self.trial
        before = check(person, service, trial)
        self._book(75)
        service.let_claims_end()
        self._kill(place, how, moment, lambda: person.refresh(service.running))
        self._read(person)
        assert check(person, service, trial)[: len(before)] == before, "what was stored has moved"

    def sending(self, person: Person, place: Place, how: How, moment: str) -> None:
        """Somebody sends an order file, is interrupted there, and sends it again if the bank's protocol does not have it."""
        file = self._order_file(person)
        path = _submission(file)
        self.service.let_claims_end()
        self._kill(place, how, moment, lambda: person.ask(self.service.running, "POST", path))
        self._wait_for_order(person, file)

    def deciding(self, person: Person, place: Place, how: How, moment: str) -> None:
        """The answer to an order is lost, and the bank's protocol, which decides, is interrupted too."""
        file = self._order_file(person)
        self.service.let_claims_end()
        self.trial.bank.breaks = [Break("lost", order="CTV", phase="Transfer")]
        answer = person.ask(self.service.running, "POST", _submission(file))
        assert answer.json()["data"]["state"] == "unknown", answer.text
        self.service.let_claims_end()
        self._kill(place, how, moment, lambda: person.refresh(self.service.running))
        self._wait_for_order(person, file)

    def signing(self, person: Person, place: Place, how: How, moment: str) -> None:
        """A person signs, is interrupted there, and signs again only what the bank still lists."""
        before = len(self.trial.account.bookings)
        order, page = self._shown_order(person, "sign")
        self._kill(place, how, moment, lambda: self.signer.confirm(page, digest=order.digest.hex()))
        self._until_gone(person, order, "sign")
        assert (order.state, order.signatures) == ("executed", [(self.trial.user(person.number).id, "E")]), order
        assert len(self.trial.account.bookings) == before + len(PAYEES), "an order was carried out twice"
        self.signatures += 1

    def cancelling(self, person: Person, place: Place, how: How, moment: str) -> None:
        order, page = self._shown_order(person, "cancel")
        self._kill(place, how, moment, lambda: self.signer.confirm(page, digest=order.digest.hex()))
        self._until_gone(person, order, "cancel")
        assert (order.state, order.signatures) == ("cancelled", []), order

    def renewing(self, person: Person, place: Place, how: How, moment: str) -> None:
        """A person changes the keys, is interrupted there, and goes on reading with those that the bank has."""
        bank, line, user = self.trial.bank, self._line(person), self.trial.user(person.number)
        old = dict(user.keys)
        lost = [Break("lost", order="HCS", phase="Transfer")] if place[0] == "HTD" else []
        self.service.let_claims_end()
        self._kill(place, how, moment, lambda: self.signer.confirm(f"{line}/keys"), lost)
        self._book(25)
        self._read(person)
        if user.keys == old:
            self.service.let_claims_end()
            assert "The bank has the new keys" in self.signer.confirm(f"{line}/keys")
        assert not set(map(id, old.values())) & set(map(id, user.keys.values()))
        until(lambda: "New keys were sent" not in self.signer.look(line), "nobody knows which keys hold")
        self._book(25)
        self._read(person)
        assert bank.breaks == []
        self.key_changes += 1

    def locking(self, place: Place, how: How, moment: str) -> None:
        """A person locks the access, is interrupted there, and does it again until the page says that it is so."""
        person = self._connected()
        line, user = self._line(person), self.trial.user(person.number)
        self.service.let_claims_end()
        self._kill(place, how, moment, lambda: self.signer.confirm(f"{line}/suspend"))
        if "was locked at the bank" not in self.signer.look(line):
            self.service.let_claims_end()
            page = self.signer.confirm(f"{line}/suspend")
            assert "has locked the access" in page, page
        assert user.state == "suspended"
        assert person.connection(self.service.running)["status"] != "active"
        person.remove(self.service.running)

    def _kill(self, place: Place, how: How, moment: str, act: killed.Act, earlier: Sequence[Break] = ()) -> None:
        order, phase, segment = place
        bank = self.trial.bank
        bank.breaks = [*earlier, Break(how, order=order, phase=phase, segment=segment)]
        self.service.when_reached(name_of(place, moment), act, bank.reached, bank.go_on)

    def _book(self, count: int) -> None:
        self.trial.book(count)
        self.trial.bank.segment_size = SEGMENT_SIZE

    def _read(self, person: Person) -> None:
        """Reads until everything is there."""
        service = self.service

        def everything() -> bool:
            service.let_claims_end()
            person.refresh(service.running)
            return person.transactions(service.running)[1] == self.trial.booked()

        until(everything, "a booking is missing")

    def _order_file(self, person: Person) -> Any:
        running = self.service.running

        def call(method: str, path: str, **more: Any) -> Any:
            answer = person.ask(running, method, path, **more)
            assert answer.status_code < 300, answer.text
            return answer.json()["data"]

        [account] = call("GET", "/v2/banking/accounts", params={"connection_id": person.connection(running)["id"]})
        order = {"account_id": account["id"], "amount": "12.34", "description": "Rechnung"}
        made = [
            call("POST", "/v2/banking/payments", json={**order, "creditor_name": name, "creditor_iban": iban})["id"]
            for name, iban in PAYEES
        ]
        return call("POST", "/v2/banking/order-files", json={"payment_ids": made})

    def _wait_for_order(self, person: Person, file: Any) -> Order:
        """Returns the order at the bank: there once, and unsigned."""
        until(lambda: self._is_at_bank(person, _submission(file)), "nobody knows where the file is")
        found = [order for order in self.trial.orders() if order.file and order.file.message_id == file["message_id"]]
        assert [(order.state, order.signatures) for order in found] == [("waiting", [])], found
        self.files += 1
        return found[0]

    def _is_at_bank(self, person: Person, path: str) -> bool:
        """Does what a person would: asks the bank, and sends only what it certainly does not have."""
        running = self.service.running
        state = person.ask(running, "GET", path).json()["data"]["state"]
        if state in ("not_sent", "missing"):
            person.ask(running, "POST", path)
        elif state != "waiting":
            self.service.let_claims_end()
            person.refresh(running)
        return bool(state == "waiting")

    def _shown_order(self, person: Person, what: str) -> tuple[Order, str]:
        """Returns an order that waits, and the page on which it is signed or cancelled."""
        user, line = self.trial.user(person.number), self._line(person)
        if user.level != "E":
            user.level = "E"
            user.rights |= {"HVE", "HVS"}
            assert "can be signed here now" in self.signer.confirm(f"{line}/signing", allowed="1")
        self.service.let_claims_end()
        order = self._wait_for_order(person, self._order_file(person))
        page = f"{line}/orders/{order.id}/{what}"
        assert order.digest.hex() in self.signer.look(page)
        return order, page

    def _until_gone(self, person: Person, order: Order, what: str) -> None:
        """Does what a person would: looks at the list, and repeats only what the bank still lists."""
        list_page = f"{self._line(person)}/orders"
        page = f"{list_page}/{order.id}/{what}"

        def is_gone() -> bool:
            self.service.let_claims_end()
            if page not in self.signer.look(list_page):
                return True
            self.signer.confirm(page, digest=order.digest.hex())
            return False

        until(is_gone, "an order waits for ever")

    def _line(self, person: Person) -> str:
        return f"/dashboard/connections/{person.connection(self.service.running)['id']}/line"

    def _connected(self) -> Person:
        person = self._next_person()
        person.begin(self.service.running)
        person.walk(self.service.running)
        return person

    def _next_person(self) -> Person:
        self._people += 1
        self.trial.asks_for_confirmation(True)
        return Person(self.trial, self._people)


def _moments(places: tuple[Place, ...]) -> list[tuple[Place, How, str]]:
    return [(place, how, moment) for place in places for how, moment in MOMENTS]


def _submission(file: Any) -> str:
    return f"/v2/banking/order-files/{file['id']}/submission"


def run(
    data: Path, kills: int, seed: int, version: str = "H005", parts: Mapping[str, tuple[Place, ...]] = PARTS
) -> str:
    # To make all that can be drawn takes longer than a round, which needs few.
    made = Kills(data, seed, version, draws_keys=kills > len(MOMENTS))
    try:
        for _ in range(-(-kills // len(MOMENTS))):
            made.round(parts)
            print(made.service, flush=True)
    finally:
        made.service.stop()
        made.trial.close()
    assert made.trial.faults == [], made.trial.faults[:3]
    told = (
        f"{made.bookings} bookings, {made.files} order files, {made.signatures} signatures, {made.key_changes} changes of keys:"
        " none lost, none twice, no fault at the bank."
    )
    return f"{made.service}; {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--kills", type=int, default=50, help="in each phase: half of them before the bank has the message"
    )
    parser.add_argument("--runs", type=int, default=1, help="of so many kills each, on a new database")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; each further one has the next")
    parser.add_argument("--version", choices=("H004", "H005"), default="H005")
    parser.add_argument("--parts", nargs="+", choices=sorted(PARTS), default=list(PARTS))
    chosen = parser.parse_args()
    parts = {part: PARTS[part] for part in chosen.parts}
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        killed.report(lambda folder, seed=seed: run(folder, chosen.kills, seed, chosen.version, parts))  # type: ignore[misc]
    return 0


if __name__ == "__main__":
    sys.exit(main())
