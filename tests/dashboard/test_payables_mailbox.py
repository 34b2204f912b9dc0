"""The page of the mailbox: set up by an administrator, read at once, with a sentence for what goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulators.imap_server import Mailbox
from tests.dashboard.browsing import Browser
from tests.harness import Organization, Service
from tests.mailbox_builder import HOST, mail, mail_server
from tests.received_invoices import Inbox, as_xml

PATH = "/dashboard/payables/mailbox"
ADMIN = "chef@muster.example"


@pytest.fixture
def server(service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Mailbox]:
    with mail_server(service, monkeypatch, tmp_path) as made:
        yield made


@pytest.fixture
def admin(service: Service, muster: Organization) -> Browser:
    service.user(muster, ADMIN, "admin")
    found = Browser(service)
    assert found.sign_in(ADMIN).status_code == 303
    return found


def _fields(server: Mailbox, **changes: str) -> dict[str, str]:
    return {
        "host": HOST, "port": str(server.port), "username": server.user, "password": server.password, "folder": "INBOX",
        "since": "2026-03-01", "afterwards": "keep", "moved_to": "", **changes,
    }  # fmt: skip


@pytest.mark.either_engine
def test_a_mailbox_is_set_up_read_and_no_longer_read(
    service: Service, muster: Organization, server: Mailbox, admin: Browser
) -> None:
    Inbox(service, muster)
    server.deliver(bytes(mail(("rechnung.xml", as_xml()))))
    assert admin.post(PATH, _fields(server)).status_code == 303
    shown = admin.get(PATH).text
    for text in ("1 new invoice was in the mailbox.", "in use", server.user, "Ihre Rechnung", "1 invoice"):
        assert text in shown, text
    assert server.password not in shown
    assert admin.post(f"{PATH}/read", {}).status_code == 303
    assert "It has no new invoice." in admin.get(PATH).text
    server.password = "another"
    assert admin.post(f"{PATH}/read", {}).status_code == 303
    assert admin.get(PATH).text.count("The server did not accept the user name and the password.") == 2
    assert "The mailbox for invoices cannot be read" in admin.get("/dashboard/payables").text
    assert admin.post(f"{PATH}/remove", {}).status_code == 303
    assert "Read it now" not in admin.get(PATH).text
    assert "R-7" in admin.get("/dashboard/payables").text


@pytest.mark.either_engine
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"password": ""}, "password"),
        ({"host": "localhost"}, "host"),
        ({"host": "10.0.0.1", "port": "993"}, "host"),
        ({"afterwards": "move"}, "moved_to"),
        ({"afterwards": "move", "moved_to": "INBOX"}, "moved_to"),
        ({"username": "a\x1bb"}, "username"),
        ({"since": "gestern"}, "since"),
    ],
)
def test_a_mailbox_that_cannot_be_is_said_beside_its_field(
    server: Mailbox, admin: Browser, changes: dict[str, str], field: str
) -> None:
    refused = admin.post(PATH, _fields(server, **changes))
    assert refused.status_code == 422
    assert f'id="e-{field}"' in refused.text
    assert server.commands == []


@pytest.mark.either_engine
def test_only_an_administrator_sees_the_mailbox(browser: Browser) -> None:
    assert browser.get(PATH).status_code == 403
    assert PATH not in browser.get("/dashboard/payables").text
