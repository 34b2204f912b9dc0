"""Somebody with accounts at a bank that Salt Edge reaches, and the settings of a service that asks our simulator of it; for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from simulators.salt_edge import Connection, SaltEdge
from tests.harness import START, Organization, Service
from tests.providers.customer import Customer

GIRO = "DE02120300000000202051"
RETURN_TO = "https://app.example/zurueck"
NAME = "salt_edge"


def simulator() -> SaltEdge:
    """One whose clock stands where the services of tests begin."""
    return SaltEdge(lambda: START / 1_000_000)


def public_pem(key: RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def settings_for(remote: SaltEdge, address: str, folder: Path) -> dict[str, Any]:
    folder.mkdir(parents=True, exist_ok=True)
    private, public = folder / "app.pem", folder / "callbacks.pem"
    private.write_bytes(remote.app_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(public_pem(remote.callback_key))
    return {
        "connect_provider": NAME, "salt_edge_app_id": remote.app_id, "salt_edge_secret": remote.secret,
        "salt_edge_private_key": str(private), "salt_edge_callback_key": str(public), "salt_edge_url": address,
        "bank_allow": urlsplit(address).netloc,
    }  # fmt: skip


class Person(Customer):
    def __init__(self, service: Service, owner: Organization, remote: SaltEdge) -> None:
        self.service, self.owner, self.remote = service, owner, remote
        remote.callback_url = f"{service.base_url}/v2/banking/webhooks/{NAME}"
        remote.now = lambda: service.clock.now() / 1_000_000
        self.url = self.token = ""

    def begin(self, **body: Any) -> Person:
        answer = self.service.post("/v2/banking/connect", self.owner.key, json={"return_to": RETURN_TO, **body})
        assert answer.status_code == 201, answer.text
        self.url, self.token = answer.json()["connect_url"], answer.json()["pending_token"]
        return self

    def reconnect(self) -> Person:
        path = f"/v2/banking/connections/{self.connection()['id']}/reconnect"
        answer = self.service.post(path, self.owner.key, json={"return_to": RETURN_TO})
        assert answer.status_code in (200, 201), answer.text
        self.url = answer.json()["connect_url"]
        return self

    def sign_in(self, error: str | None = None) -> tuple[str, Connection | None]:
        """Goes through the pages at Salt Edge. Returns where they lead, and the connection, which has accounts by then."""
        back, connection = self.remote.finish(self.url, error=error)
        if connection is not None and not connection.accounts and error is None:
            fill(self.remote, connection)
        return back, connection

    def come_back(self, back: str) -> httpx.Response:
        parts = urlsplit(back)
        return self.service.http.get(f"{parts.path}?{parts.query}")

    def connect(self, **body: Any) -> Connection:
        """Goes all the way, without any callback."""
        back, connection = self.begin(**body).sign_in()
        answer = self.come_back(back)
        assert answer.status_code == 303, answer.text
        assert connection is not None
        self.remote.outbox.clear()
        return connection

    def transactions(self) -> list[tuple[float, str, str, bool]]:
        names = ("amount", "description", "status", "duplicated")
        return sorted(tuple(one[name] for name in names) for one in self.listed())


def fill(remote: SaltEdge, connection: Connection) -> str:
    """An account with something posted, pending and taken for a duplicate. Returns its id."""
    account = remote.add_account(connection, GIRO)
    remote.add_account(connection, "", "0.10", nature="e-purse", name="Kasse", extra={})
    extra = {"end_to_end_id": "E-1", "payee": "Stadtwerke", "posting_date": "2026-02-28"}
    remote.book(connection, account, "-12.30", "2026-02-27", "Strom", extra=extra)
    remote.book(connection, account, "119.00", "2026-02-28", "Rechnung 1", category="income")
    remote.book(connection, account, "-7.00", "2026-03-02", "Vorgemerkt", status="pending")
    remote.book(connection, account, "-12.30", "2026-02-27", "Strom (noch einmal)", duplicated=True)
    remote.book(connection, account, "-0.01", "2026-03-01", "Entgelt", mode="fee")
    return account


EVERYTHING = [
    (-12.3, "Strom", "posted", False), (-12.3, "Strom (noch einmal)", "posted", True), (-7.0, "Vorgemerkt", "pending", False),
    (-0.01, "Entgelt", "posted", False), (119.0, "Rechnung 1", "posted", False),
]  # fmt: skip
