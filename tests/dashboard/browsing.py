"""A browser as far as HTTP goes, for tests of pages that need no real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx

from tests.harness import PASSWORD, Service
from tests.plain_http import PlainClient

COOKIE = "kontobahn_session"


class Browser:
    """A browser as far as HTTP goes: cookies, and `Origin` with every form."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self._client = PlainClient(service.base_url, service.transport)

    @property
    def cookies(self) -> httpx.Cookies:
        return self._client.cookies

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"accept-language": "en", **options.pop("headers", {})}
        return self._client.request(method, path, headers=headers, **options)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self.send("GET", path, headers=headers)

    def post(self, path: str, data: Mapping[str, str | list[str]] | None = None) -> httpx.Response:
        return self.send("POST", path, data=dict(data or {}), headers={"origin": self.service.base_url})

    def sign_in(self, email: str, password: str = PASSWORD) -> httpx.Response:
        return self.post("/dashboard/sign-in", {"email": email, "password": password})

    @property
    def token(self) -> str:
        return str(self.cookies[COOKIE])

    @token.setter
    def token(self, value: str) -> None:
        self._client.cookies = httpx.Cookies({COOKIE: value})
