"""Mails with invoices, and a service that may read the mailbox of a server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from kontobahn.outbound import Rule
from kontobahn.payables import mailbox
from kontobahn.payables.mailbox import Fetched, Mailboxes, MailboxRow, Wanted
from simulators import imap_server
from tests.harness import ACTOR, Organization, Service
from tests.receiver import Authority

HOST = "imap.muster.example"


class _Loopback:
    async def addresses(self, host: str, port: int) -> list[str]:
        return ["127.0.0.1"]


@contextmanager
def mail_server(
    service: Service, patch: pytest.MonkeyPatch, folder: Path, name: str = HOST
) -> Iterator[imap_server.Mailbox]:
    """A server that the service reaches under its name, and whose certificate it trusts."""
    authority = Authority(folder)
    with imap_server.running(imap_server.Mailbox(), authority.server(name)) as made:
        part = service.application.context.part(Mailboxes)
        patch.setattr(part, "rule", Rule(frozenset({(HOST, made.port)})))
        patch.setattr(part, "resolver", _Loopback())
        patch.setattr(part, "tls", authority.client())
        yield made


def mail(*files: tuple[str, bytes], subject: str = "Ihre Rechnung", **headers: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = headers.get("sender", "Rösterei Hafen <rechnung@roesterei.example>")
    message["To"] = "rechnung@muster.example"
    message["Subject"] = subject
    message.set_content("Anbei unsere Rechnung.")
    for name, content in files:
        subtype = name.rpartition(".")[2]
        message.add_attachment(content, maintype="application", subtype=subtype, filename=name)
    return message


def forwarded(inner: EmailMessage) -> EmailMessage:
    outer = mail(subject="WG: Rechnung", sender="Erika <erika@muster.example>")
    outer.add_attachment(inner)
    return outer


class Reader:
    """An organisation whose mailbox is read."""

    def __init__(self, service: Service, owner: Organization, server: imap_server.Mailbox, **changes: Any) -> None:
        self.service, self.owner, self.server = service, owner, server
        self.set_up(**changes)

    def set_up(self, **changes: Any) -> None:
        server = self.server
        wanted = Wanted(HOST, server.port, server.user, server.password, "INBOX", "keep", "", date(2026, 3, 1))
        self.service.db.write_now(mailbox.save, self.service.vault, self.owner.id, wanted._replace(**changes), ACTOR)

    def fetch(self) -> Fetched:
        found: Fetched = self.service.run(mailbox.fetch(self.service.application.context, self.owner.id))
        return found

    @property
    def row(self) -> MailboxRow:
        found = self.service.db.read_now(mailbox.of_organization, self.owner.id)
        assert found is not None
        return found

    def payables(self) -> list[dict[str, Any]]:
        return list(self.service.get("/v2/payables", self.owner.key).json()["data"])
