"""Somebody at a browser on the way to the simulated identity provider and back."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from kontobahn.access import audit, identity_provider
from kontobahn.access.identity_provider import IdentityProvider
from kontobahn.clock import SECOND
from simulators.identity_provider import Provider
from tests.dashboard.browsing import COOKIE, Browser
from tests.harness import Organization, Service
from tests.waiting import PATIENCE_SECONDS

NAME = "Muster-Konto"
EMAIL = "erika@muster.example"


def provider_for(service: Service) -> Provider:
    """Not running yet."""
    return Provider(
        lambda: service.clock.now() // SECOND, redirect_uri=service.base_url + identity_provider.CALLBACK, present="erika-1"
    )  # fmt: skip


def settings_for(provider: Provider, **settings: Any) -> dict[str, Any]:
    return {
        "oidc_issuer": provider.issuer,
        "oidc_client_id": provider.client_id,
        "oidc_client_secret": "" if provider.method == "none" else provider.secret,
        "oidc_name": NAME,
        "oidc_allow": urlsplit(provider.origin).netloc,
        **settings,
    }


def connect(service: Service, provider: Provider, **settings: Any) -> IdentityProvider:
    """Gives a running service the provider, as its settings would have, instead of the one it had."""
    service.run(service.application.context.part(IdentityProvider).close())
    chosen = msgspec.structs.replace(service.settings, **settings_for(provider, **settings))
    made = identity_provider.set_up(chosen, service.clock)
    parts: Any = service.application.context.parts
    parts[IdentityProvider] = made
    return made


class Guest(Browser):
    def is_in(self) -> bool:
        return bool(self.cookies.get(COOKIE)) and self.get("/dashboard/profile").status_code == 200

    def set_out(self, **fields: str) -> str:
        """Presses the button. Returns the address at the provider that the page leads to."""
        return led_to(self.post("/dashboard/sign-in/provider", fields))

    def sign_in_there(self, **fields: str) -> httpx.Response:
        return self.come_back(self.set_out(**fields))

    def come_back(self, address: str) -> httpx.Response:
        """Signs in at the provider and follows it back here."""
        return self.get(way_back(address).removeprefix(self.service.base_url))

    def link(self) -> httpx.Response:
        return self.come_back(led_to(self.post("/dashboard/profile/account/link")))

    def notice(self) -> str:
        """Returns what the next page says."""
        page = self.get("/dashboard/profile" if self.cookies.get(COOKIE) else "/dashboard/sign-in").text
        found = re.search(r'<p class="notice[^>]*>(.*?)</p>', page, re.DOTALL)
        assert found is not None
        return html.unescape(re.sub(r"<[^>]+>", "", found[1])).strip()


def led_to(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    found = re.search(r'href="(http[^"]+)"', answer.text)
    assert found is not None, answer.text
    address = html.unescape(found[1])
    assert answer.headers["refresh"] == f"0; url={address}"
    return address


def way_back(address: str) -> str:
    answer = httpx.get(address, timeout=PATIENCE_SECONDS, verify=False, trust_env=False)
    assert answer.status_code == 302, answer.text
    return str(answer.headers["location"])


def audited(service: Service, organization: Organization, action: str) -> list[audit.AuditEntry]:
    return [entry for entry in service.db.read_now(audit.entries, organization.id) if entry.action == action]
