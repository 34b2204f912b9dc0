"""An EBICS bank is connected, read and sent orders while the service is killed in every phase: before the bank has a message, and after.

Nothing may be lost, nothing be there twice, no key be useless, no order reach the bank again, and the bank never hear what it should not.

    python -m torture.ebics_kills --kills 50
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from simulators.ebics_bank import Break
from simulators.ebics_bank.breaks import How
from torture import killed
from torture.bank_trials import EbicsTrial, Person
from torture.banks import check
from torture.killed import Killed, until

Place = tuple[str, str, int]
# The order, its phase and its segment: on the way to a connection, and when statements are fetched.
CONNECTING = (("INI", "", 0), ("HIA", "", 0), ("HPB", "", 0))
FETCHING = (
    ("HTD", "Initialisation", 0), ("HTD", "Receipt", 0), ("C53", "Initialisation", 0), ("C53", "Transfer", 2), ("C53", "Receipt", 0),
)  # fmt: skip
# When an order file is sent.
SENDING = (("HTD", "Initialisation", 0), ("CTV", "Initialisation", 0), ("CTV", "Transfer", 0))
PAYEES = (("Papier GmbH", "DE75512108001245126199"), ("Druck AG", "DE02500105170137075030"))
MOMENTS: tuple[tuple[How, str], ...] = (("late_request", "before"), ("late", "after"))


def name_of(place: Place, moment: str) -> str:
    return f"{moment} {' '.join(filter(None, place[:2]))}"


class Kills:
    def __init__(self, data: Path, seed: int, version: str) -> None:
        self.trial = EbicsTrial()
        self.trial.bank.versions = {version: self.trial.bank.versions[version]}
        self.trial.book(60)
        self.service = Killed(data, seed, self.trial.settings, self.trial.time_passes)
        self._people = self.files = 0

    def connect(self, place: Place, how: How, moment: str) -> None:
        """Somebody connects, is interrupted there, and goes on where the page is."""
        person, service = self._next_person(), self.service
        person.begin(service.running)
        self._arm(place, how)
        service.when_reached(
            name_of(place, moment), lambda: person.walk(service.running), self.trial.bank.reached, self.trial.bank.go_on
        )
        person.walk(service.running)
        check(person, service, self.trial)
        person.remove(service.running)

    def fetch(self, person: Person, place: Place, how: How, moment: str) -> None:
        """Somebody who is connected reads what is new, is interrupted there, and reads again."""
        service, trial = self.service, self.trial
        before = check(person, service, trial)
        trial.book(300)
        service.let_claims_end()
        self._arm(place, how)
        service.when_reached(
            name_of(place, moment), lambda: person.refresh(service.running), trial.bank.reached, trial.bank.go_on
        )
        until(lambda: person.refresh(service.running).status_code in (202, 409))
        until(lambda: person.transactions(service.running)[1] == trial.booked(), "a booking is missing")
        assert check(person, service, trial)[: len(before)] == before, "what was stored has moved"

    def send(self, person: Person, place: Place, how: How, moment: str) -> None:
        """Somebody sends an order file, is interrupted there, and sends it again if the bank's protocol does not have it."""
        service, bank = self.service, self.trial.bank
        file = self._order_file(person)
        path = f"/v2/banking/order-files/{file['id']}/submission"
        service.let_claims_end()
        self._arm(place, how)
        service.when_reached(
            name_of(place, moment), lambda: person.ask(service.running, "POST", path), bank.reached, bank.go_on
        )
        until(lambda: self._is_at_bank(person, path), "nobody knows where the file is")
        found = [order for order in self.trial.orders() if order.file and order.file.message_id == file["message_id"]]
        assert [(order.state, order.signatures) for order in found] == [("waiting", [])], found
        self.files += 1

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

    def connected(self) -> Person:
        person = self._next_person()
        person.begin(self.service.running)
        person.walk(self.service.running)
        return person

    def _next_person(self) -> Person:
        self._people += 1
        self.trial.asks_for_confirmation(True)
        return Person(self.trial, self._people)

    def _arm(self, place: Place, how: How) -> None:
        order, phase, segment = place
        self.trial.bank.breaks = [Break(how, order=order, phase=phase, segment=segment)]


def run(
    data: Path,
    kills: int,
    seed: int,
    version: str = "H005",
    connecting: tuple[Place, ...] = CONNECTING,
    fetching: tuple[Place, ...] = FETCHING,
    sending: tuple[Place, ...] = SENDING,
) -> str:
    made = Kills(data, seed, version)
    try:
        for _ in range(kills):
            for place in connecting:
                for how, moment in MOMENTS:
                    made.connect(place, how, moment)
            # A new one each time, so that its history stays short.
            person = made.connected()
            for place in fetching:
                for how, moment in MOMENTS:
                    made.fetch(person, place, how, moment)
            for place in sending:
                for how, moment in MOMENTS:
                    made.send(person, place, how, moment)
            person.remove(made.service.running)
            print(made.service, flush=True)
    finally:
        made.service.stop()
        made.trial.close()
    assert made.trial.faults == [], made.trial.faults[:3]
    bookings = made.trial.booked().total()
    told = f"{bookings} bookings and {made.files} order files: none lost, none twice, no fault at the bank."
    return f"{made.service}; {told}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="at each moment")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--version", choices=("H004", "H005"), default="H005")
    chosen = parser.parse_args()
    return killed.report(lambda folder: run(folder, chosen.kills, chosen.seed, chosen.version))


if __name__ == "__main__":
    sys.exit(main())
