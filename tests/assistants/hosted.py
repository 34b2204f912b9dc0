"""An assistant that runs elsewhere: the document that describes it, on a server of its own, and a person who lets it in."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import msgspec

from kontobahn.outbound import Rule
from tests.dashboard.browsing import Browser
from tests.harness import Service
from tests.receiver import Answer, Authority, Delivered, FakeNames, Receiver, receiving

HOST = "assistant.example"
REDIRECT = f"https://{HOST}/callback"
LOOPBACK = "http://127.0.0.1/callback"
VERIFIER = "v" * 64
AUTHORIZE, TOKEN, REVOKE = "/dashboard/assistants/authorize", "/oauth/token", "/oauth/revoke"
_HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


class Maker:
    """Whoever makes the assistant, with a server for its document. `document` may be changed, as an attacker would."""

    def __init__(self, service: Service, authority: Authority, receiver: Receiver) -> None:
        self.service, self.receiver = service, receiver
        self.client_id = f"https://{HOST}:{receiver.port}/assistant.json"
        self.document: Any = {
            "client_id": self.client_id,
            "client_name": "Fragefix",
            "redirect_uris": [REDIRECT, LOOPBACK],
            "token_endpoint_auth_method": "none",
        }
        self.answer: Answer | None = None
        outbound = service.application.outbound
        outbound.rule = Rule.of_setting(f"{HOST}:{receiver.port}")
        outbound.resolver, outbound.tls = FakeNames(assistant_example=["127.0.0.1"]), authority.client()
        receiver.script = self._answer

    def _answer(self, asked: Delivered) -> Answer:
        return self.answer or Answer(200, {"content-type": "application/json"}, msgspec.json.encode(self.document))

    def request(self, **changed: str) -> dict[str, str]:
        """The fields of a request to be let in."""
        return {
            "client_id": self.client_id, "redirect_uri": REDIRECT, "response_type": "code",
            "code_challenge": challenge_of(VERIFIER), "code_challenge_method": "S256",
            "resource": f"{self.service.base_url}/mcp", "scope": "read", "state": "xyz", **changed,
        }  # fmt: skip

    def fetch_tokens(self, code: str, **changed: str) -> httpx.Response:
        form = {
            "grant_type": "authorization_code", "code": code, "client_id": self.client_id, "redirect_uri": REDIRECT,
            "code_verifier": VERIFIER, "resource": f"{self.service.base_url}/mcp", **changed,
        }  # fmt: skip
        return self.service.http.post(TOKEN, data=form)

    def renew(self, refresh_token: str, **changed: str) -> httpx.Response:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.client_id, **changed}
        return self.service.http.post(TOKEN, data=form)

    def tokens(self, browser: Browser, preset: str = "read", **choice: Any) -> dict[str, Any]:
        """Goes the whole way, asking for what is given, and returns the answer with the tokens."""
        code = code_in(let_in(browser, self.request(scope=preset), preset=preset, **choice))
        answer = self.fetch_tokens(code)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


@contextmanager
def making(service: Service, folder: Path) -> Iterator[Maker]:
    authority = Authority(folder)
    with receiving(tls=authority.server(HOST)) as receiver:
        yield Maker(service, authority, receiver)


def page_for(browser: Browser, request: dict[str, str]) -> httpx.Response:
    return browser.get(f"{AUTHORIZE}?{urlencode(request)}")


def let_in(browser: Browser, request: dict[str, str], **choice: Any) -> str:
    """Agrees on the page that a request opens, and returns the address that the browser is led to."""
    done = decide(browser, request, **choice)
    assert done.status_code == 200, done.text
    return done.headers["refresh"].partition("url=")[2]


def decide(browser: Browser, request: dict[str, str], *, preset: str = "read", **choice: Any) -> httpx.Response:
    """Fills in the page that a request opens."""
    shown = page_for(browser, request)
    assert shown.status_code == 200, shown.text
    fields = {name: html.unescape(value) for name, value in _HIDDEN.findall(shown.text)}
    return browser.post(AUTHORIZE, {**fields, "decision": "agree", "preset": preset, **choice})


def answer_in(address: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(address).query).items()}


def code_in(address: str) -> str:
    return answer_in(address)["code"]
