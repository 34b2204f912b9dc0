"""Full journeys through each provider of real banks, with everything that can go wrong on the way; for the search for secrets."""

from __future__ import annotations

import base64
import re
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx
import msgspec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key

from kontobahn.bank_providers.ebics.wire import Access
from kontobahn.vault import Vault
from simulators.ebics_bank import Break
from simulators.enable_banking import EnableBanking
from simulators.enable_banking_wire import key_pair, private_pem
from simulators.salt_edge import SaltEdge
from tests.providers.enable_banking import person as enable_banking_person
from tests.providers.salt_edge import person as salt_edge_person
from tests.waiting import PATIENCE_SECONDS, eventually
from torture.bank_trials import EBICS_TROUBLES, WAITING, EbicsTrial, FintsTrial, Person, let_time_pass
from torture.others import Target

CREDITOR = "DE75512108001245126199"
# Of one attempt that a FinTS bank spoils.
STEPS = 3


class Journey(Protocol):
    # The bank's name in answers, which is no secret.
    bank_name: str
    # An event found in the log after it.
    logged: str
    settings: dict[str, Any]
    # Everything that was answered.
    heard: list[str]

    def go(self, running: Target) -> None: ...

    def secrets(self) -> Sequence[str | bytes]:
        """Texts that nobody but the bank, or the provider, may ever see."""

    def faults(self) -> list[str]: ...

    def spoil_a_try(self) -> list[str]:
        """Has `kontobahn banks try` refused by somebody who repeats what he was sent. Returns the arguments."""

    def close(self) -> None: ...


class FintsJourney:
    logged = "fints"

    def __init__(self, folder: Path) -> None:
        self._trial = FintsTrial()
        self._trial.book(5)
        self._person = Person(self._trial, 7)
        self.bank_name, self.settings, self.heard = self._trial.bank_name, self._trial.settings, self._person.heard

    def go(self, running: Target) -> None:
        trial, person = self._trial, self._person
        for _ in trial.troubles(person.number):
            person.begin(running)
            for _ in range(STEPS):
                person.step(running)
            person.connection(running)
            let_time_pass(running.data, trial)
        person.begin(running)
        person.walk(running)
        let_time_pass(running.data, trial)
        # Without the person: refused, because the bank wants it.
        assert person.refresh(running).status_code == 409
        again = person.ask(running, "POST", f"/v2/banking/connections/{person.connection(running)['id']}/reconnect")
        person.path = httpx.URL(again.json()["connect_url"]).path
        person.walk(running)
        let_time_pass(running.data, trial)
        trial.asks_for_confirmation(False)
        assert person.refresh(running).status_code == 202
        assert person.transactions(running)[1] == trial.booked()

    def secrets(self) -> list[str]:
        return self._trial.secrets(self._person.number)

    def faults(self) -> list[str]:
        return self._trial.faults

    def spoil_a_try(self) -> list[str]:
        return ["fints", "--blz", "99990000", "--url", self._trial.address]

    def close(self) -> None:
        self._trial.close()


class _ReturningTrial(EbicsTrial):
    """Whoever comes back goes on with the access that waits."""

    def fields(self, page: str, person: int) -> dict[str, str]:
        waiting = re.findall(r'name="access" value="(\w+)"', page)
        return {"access": waiting[0]} if waiting else super().fields(page, person)


class EbicsJourney:
    logged = "ebics"

    def __init__(self, folder: Path) -> None:
        self._trial = _ReturningTrial()
        self._trial.book(5)
        self._person = Person(self._trial, 7)
        self.bank_name, self.settings, self.heard = self._trial.bank_name, self._trial.settings, self._person.heard
        self._secrets: list[bytes] = []

    def go(self, running: Target) -> None:
        trial, person = self._trial, self._person
        for _ in trial.troubles(person.number):
            self._try_to_connect(running)
            let_time_pass(running.data, trial)
        person.begin(running)
        person.walk(running)
        for order, phase, how in EBICS_TROUBLES:
            if order == "C53":
                trial.bank.breaks = [Break(how, order=order, phase=phase)]
                trial.book(1)
                let_time_pass(running.data, trial)
                person.refresh(running)
        let_time_pass(running.data, trial)
        assert person.refresh(running).status_code == 202
        assert person.transactions(running)[1] == trial.booked()
        self._secrets = _private_parts(running)

    def _try_to_connect(self, running: Target) -> None:
        """Goes on until the bank has spoilt it, which ends the flow."""
        self._person.begin(running)
        while self._trial.bank.breaks or WAITING in self.heard[-1]:
            self._person.step(running)

    def secrets(self) -> list[bytes]:
        return self._secrets

    def faults(self) -> list[str]:
        return self._trial.faults

    def spoil_a_try(self) -> list[str]:
        self._trial.bank.breaks = [Break("nonsense", order="HEV")]
        return ["ebics", "--url", self._trial.bank.url, "--host", self._trial.bank.host]

    def close(self) -> None:
        self._trial.close()


def _private_parts(running: Target) -> list[bytes]:
    """The primes of the keys that are sealed in the database, and the keys of what was downloaded."""
    vault = Vault(base64.b64decode((running.data / "secret.key").read_text("ascii")))
    database = sqlite3.connect(running.data / "kontobahn.sqlite3", timeout=PATIENCE_SECONDS)
    accesses = [
        msgspec.msgpack.decode(vault.open(sealed, f"ebics_accesses:{ref}"), type=Access)
        for ref, sealed in database.execute("SELECT ref, sealed FROM ebics_accesses")
    ]
    found = [
        vault.open(sealed, f"ebics_downloads:{number}")
        for number, sealed in database.execute("SELECT id, sealed_key FROM ebics_downloads")
    ]
    database.close()
    for access in accesses:
        for kept in (access.signature, access.authentication, access.encryption):
            key = load_der_private_key(kept.private, None, unsafe_skip_rsa_key_validation=True)
            assert isinstance(key, RSAPrivateKey)
            numbers = key.private_numbers()
            found += [prime.to_bytes((prime.bit_length() + 7) // 8, "big")[:64] for prime in (numbers.p, numbers.q)]
    assert len(found) > 6
    return found


class Called:
    """Whoever calls the service, and keeps what it answers."""

    running: Target

    def __init__(self) -> None:
        self.heard: list[str] = []

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        parts = urlsplit(path)
        url = f"http://127.0.0.1:{self.running.port}{parts.path}{'?' if parts.query else ''}{parts.query}"
        answer = httpx.request(
            method, url, headers={"x-api-key": self.running.key}, timeout=PATIENCE_SECONDS, trust_env=False, **more
        )
        self.heard += [answer.text, str(answer.headers)]
        return answer

    def data(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def pay(self, connection_id: str) -> httpx.Response:
        account = self.data(f"/v2/banking/accounts?connection_id={connection_id}")[0]
        order = {"account_id": account["id"], "amount": 1.25, "currency_code": "EUR", "creditor_name": "Papier GmbH",
                 "creditor_iban": CREDITOR, "description": "Rechnung", "template_identifier": "SEPA"}  # fmt: skip
        answer = self.ask("POST", "/v2/banking/payments", json=order)
        assert answer.status_code == 201, answer.text
        return answer

    def connected(self, prefix: str) -> list[dict[str, Any]]:
        """The connections that work, but for those of the demo."""
        rows = self.data("/v2/banking/connections")
        return [row for row in rows if row["status"] == "active" and row["provider_code"].startswith(prefix)]

    def look_around(self) -> None:
        for path in ("connections", "accounts", "payments", "events", "providers"):
            self.data(f"/v2/banking/{path}")


class EnableBankingJourney(Called):
    bank_name, logged = "Musterbank", "payment_creation_without_answer"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._bank: EnableBanking = enable_banking_person.open_bank()
        self._bank.now = time.time
        self._bank.serve()
        self.settings = enable_banking_person.settings_for(self._bank, folder) | {
            "enable_banking_webhooks": "true", "run_jobs": "true",
        }  # fmt: skip

    def go(self, running: Target) -> None:
        self.running, bank = running, self._bank
        for how in ("echo", "lost", "nonsense", "502"):
            begun = self._begin()
            bank.breaks = [("/sessions", how)]
            self.ask("GET", bank.sign_in(begun["connect_url"]))
            bank.breaks = []
            self.data(f"/v2/banking/connections/{begun['pending_token']}")
        begun = self._begin()
        self.ask("GET", bank.refuse(begun["connect_url"]))
        address = bank.sign_in(self._begin()["connect_url"])
        eventually(lambda: self.ask("GET", address).status_code == 200, "it does not connect")
        # A return that could not be applied at once is applied later.
        connection = self.connected("enable_banking")[-1]
        path = f"/v2/banking/connections/{connection['id']}"
        let_refreshes_be(running)
        for place in ("/sessions/", "/balances", "/transactions"):
            bank.breaks = [(place, "echo")]
            self.ask("POST", f"{path}/refresh")
            let_refreshes_be(running)
        self._pay(connection["id"])
        again = self.ask("POST", f"{path}/reconnect", json={}).json()
        self.ask("GET", bank.sign_in(again["connect_url"]))
        self.look_around()

    def _pay(self, connection_id: str) -> None:
        bank = self._bank
        bank.breaks = [("/payments", "echo")]
        self.pay(connection_id)
        bank.breaks = [("/payments", "lost")]
        self.pay(connection_id)
        paid = self.pay(connection_id).json()["data"]
        ref = next(reversed(bank.payments))
        self.ask("GET", bank.pay(paid["payment_url"]))
        bank.payments[ref]["asked"]["webhook_url"] = (
            f"http://127.0.0.1:{self.running.port}/v2/banking/webhooks/enable_banking"
        )
        # The key is fetched after the first one was refused.
        eventually(lambda: bank.deliver(ref) == 200, "the webhook is not taken")
        assert bank.deliver(ref, body=b"{}") == 401
        self.data(f"/v2/banking/payments/{paid['payment_id']}")

    def _begin(self) -> dict[str, Any]:
        answer = self.ask("POST", "/v2/banking/connect", json={"provider_code": enable_banking_person.BANK})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def secrets(self) -> list[str]:
        signatures = [token.rpartition(".")[2] for token in self._bank.tokens if "." in token]
        return [*self._bank.tokens, *signatures, self._bank.application_id, *lines_of(self._bank.key)]

    def faults(self) -> list[str]:
        return self._bank.faults

    def spoil_a_try(self) -> list[str]:
        self._bank.breaks = [("/application", "echo")]
        return ["enable-banking"]

    def close(self) -> None:
        self._bank.stop()


class SaltEdgeJourney(Called):
    bank_name, logged = "Musterbank", "salt_edge"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._remote = SaltEdge()
        self.settings = salt_edge_person.settings_for(self._remote, self._remote.serve(), folder)
        self._seals: list[str] = []

    def go(self, running: Target) -> None:
        self.running, remote = running, self._remote
        remote.callback_url = f"http://127.0.0.1:{running.port}/v2/banking/webhooks/salt_edge"
        for place in ("POST /customers", "POST /connections/connect"):
            remote.breaks = [(place, "echo")]
            self.ask("POST", "/v2/banking/connect", json={})
        for how in ("echo", "torn"):
            remote.breaks = [(r"GET /connections/.*", how)]
            self._come_back(None)
        self._come_back("InvalidCredentials")
        connection = self._come_back(None)
        remote.breaks = []
        remote.deliver()
        eventually(lambda: bool(self.connected("salt_edge")), "it does not connect")
        # Those whose return was spoiled were told by callbacks.
        row = self.connected("salt_edge")[-1]
        let_refreshes_be(running)
        for place in (r"POST /connections/.*/refresh", r"GET /connections/.*"):
            remote.breaks = [(place, "echo")]
            self.ask("POST", f"/v2/banking/connections/{row['id']}/refresh")
            let_refreshes_be(running)
        self.ask("POST", f"/v2/banking/connections/{row['id']}/refresh")
        remote.attempt(connection)
        remote.deliver()
        self._pay(row["id"])
        self.look_around()

    def _come_back(self, error: str | None) -> Any:
        answer = self.ask("POST", "/v2/banking/connect", json={})
        assert answer.status_code == 201, answer.text
        back, connection = self._remote.finish(answer.json()["connect_url"], error=error)
        if connection is not None and not connection.accounts:
            salt_edge_person.fill(self._remote, connection)
        self._seals.append(parse_qs(urlsplit(back).query)["seal"][0])
        self.ask("GET", back)
        return connection

    def _pay(self, connection_id: str) -> None:
        remote = self._remote
        for how in ("echo", "lost", None):
            remote.breaks = [("POST /payments/create", how)] if how else []
            self.pay(connection_id)
        ref = next(reversed(remote.payments))
        remote.pay(ref, "executed")
        news = remote.outbox[-1]
        remote.deliver()
        assert remote.post(news, key_pair("somebody else")) == 401

    def secrets(self) -> list[str]:
        remote = self._remote
        return [remote.secret, *filter(None, remote.signatures), *self._seals, *lines_of(remote.app_key)]

    def faults(self) -> list[str]:
        return self._remote.faults

    def spoil_a_try(self) -> list[str]:
        self._remote.breaks = [("GET /providers", "echo")]
        return ["salt-edge"]

    def close(self) -> None:
        self._remote.stop()


def lines_of(key: RSAPrivateKey) -> list[str]:
    """The lines of a key file, without those that say what it is, and without the first and the last, which many keys share."""
    return private_pem(key).decode().splitlines()[2:-2]


def let_refreshes_be(running: Target) -> None:
    """Makes the next refresh possible, whatever the last one said."""
    database = sqlite3.connect(running.data / "kontobahn.sqlite3", timeout=PATIENCE_SECONDS)
    with database:
        database.execute(
            "UPDATE banking_connections SET next_refresh_possible_at = 0, refresh_started_at = NULL, refresh_type = ''"
        )
    database.close()


JOURNEYS: dict[str, Callable[[Path], Journey]] = {
    "ebics": EbicsJourney, "fints": FintsJourney, "enable_banking": EnableBankingJourney, "salt_edge": SaltEdgeJourney,
}  # fmt: skip
