"""An office with a connection to the simulated DATEV; for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from kontobahn import app
from kontobahn.datev.adapter import DatevProvider
from kontobahn.datev.setup import CALLBACK
from kontobahn.ledger.connections import find_for_operator, of_organization
from kontobahn.ledger.provider import ConnectionRef, Ledger
from simulators.datev import SCOPES, Datev
from simulators.datev_books import Ledger as Books
from tests.harness import START, Organization, Service

CLIENT = "29098-55003"
SESSION = "session of Erika's browser"
READ = "/v2/ledger-rewe-read"


def settings_for(datev: Datev, **more: Any) -> dict[str, Any]:
    return {
        "datev_client_id": datev.sign_in.client_id, "datev_client_secret": datev.sign_in.client_secret, "datev_sandbox": True,
        "datev_allow": urlsplit(datev.address).netloc, "datev_discovery": f"{datev.address}/openid/.well-known/openid-configuration",
        "datev_urls": {
            "clients": f"{datev.address}/clients/v2", "exchange": f"{datev.address}/exchange/v1",
            "documents": f"{datev.address}/documents/v2", "dxso": f"{datev.address}/dxso/v2", "extf": f"{datev.address}/extf/v3",
        },
        "datev_scopes": f"openid profile {' '.join(SCOPES.values())}",
        **more,
    }  # fmt: skip


class Office:
    """An organisation of a running service that has been given DATEV, as its settings would have."""

    def __init__(self, service: Service, datev: Datev, *, is_begun: bool = True, **settings: Any) -> None:
        """Without `is_begun` it has no connection yet: somebody makes one in the browser."""
        self.service, self.datev = service, datev
        datev.now = datev.sign_in.now = lambda: service.clock.now() / 1_000_000
        datev.sign_in.redirect_uris = [service.base_url + CALLBACK]
        self.provider = provider_of(service, datev, **settings)
        service.ledger_providers[DatevProvider.name] = self.provider
        self.owner: Organization = service.organization(credits_granted=1_000_000)
        if is_begun:
            service.ledger_connection(self.owner, provider=DatevProvider.name)

    @property
    def connection_id(self) -> str:
        known = self.service.db.read_now(of_organization, self.owner.id)
        return next(one.id for one, _ in known if one.provider == DatevProvider.name)

    @property
    def ref(self) -> ConnectionRef:
        return self.service.db.read_now(find_for_operator, self.connection_id)

    def begin(self) -> str:
        return str(self.service.run(self.provider.begin_sign_in(self.ref, SESSION)))

    def come_back(self, address: str, session: str = SESSION) -> None:
        query = dict(parse_qsl(urlsplit(address).query))
        self.service.run(self.provider.finish_sign_in(self.owner.id, session, query))

    def sign_in(self) -> Office:
        self.come_back(self.datev.sign_in.sign_in(self.begin()))
        return self

    def get(self, what: str, area: str = READ, **query: str) -> httpx.Response:
        return self.service.get(f"{area}/{what}", self.owner.key, params={"connectionId": self.connection_id, **query})

    def read(self, what: str, **query: str) -> bytes:
        """The bytes of an answer that must succeed, without what it cost."""
        answer = self.get(what, **query)
        assert answer.status_code == 200, answer.text
        return answer.content.partition(b',"platform"')[0]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.service.db.read_now(lambda tx: tx.all(sql))

    @property
    def session(self) -> Any:
        return self.service.run(self.provider.sign_in_of(self.ref))

    def asked(self, part: str) -> int:
        return sum(part in path for _, path in self.datev.asked)


NewOffice = Callable[..., Office]


def provider_of(service: Service, datev: Datev, **settings: Any) -> DatevProvider:
    chosen = msgspec.structs.replace(service.settings, **settings_for(datev, **settings))
    made = app.set_up_ledger(chosen, service.db, service.vault, service.clock)
    found = made.providers[DatevProvider.name]
    assert isinstance(found, DatevProvider)
    assert isinstance(made, Ledger)
    return found


@contextmanager
def running_datev() -> Iterator[Datev]:
    datev = Datev(lambda: START / 1_000_000)
    datev.job_states = ["COMPLETED"]
    datev.serve()
    try:
        yield datev
    finally:
        datev.stop()


def books_of(datev: Datev, client_id: str = CLIENT) -> Books:
    return datev.companies[client_id].ledger
