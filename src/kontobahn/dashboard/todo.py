"""Matters that wait for a person in an organisation, in one list: consents, unmatched money, failed events, refused files, hand-overs."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kontobahn.access.principal import ROLES, Role
from kontobahn.assistants import prepared
from kontobahn.banking.connections import store
from kontobahn.banking.imports import store as imports
from kontobahn.banking.payments import releases
from kontobahn.clock import DAY, berlin_date
from kontobahn.dashboard import figures
from kontobahn.dashboard.declare import ROOT
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.ledger import connections, transmissions
from kontobahn.ledger import connections as ledger_connections
from kontobahn.ledger.routes import rewe
from kontobahn.payables import store as payables
from kontobahn.payables.rules import Status
from kontobahn.reconciliation import batch_store
from kontobahn.reconciliation import store as matching
from kontobahn.webhooks import entries, receiver

# Matters that need a person now: one line each, with the page to do something about it.


CONSENT_DAYS = 14
AttentionKind = Literal["bank_reconnect", "bank_off", "consent_ends", "ledger_reconnect", "receiver_stopped"]


class Attention(NamedTuple):
    kind: AttentionKind
    # A bank, a client, an address.
    name: str
    url: str
    at: int | None = None
    is_over: bool = False


def find_attention(tx: Tx, organization_id: str) -> list[Attention]:
    found = []
    # Only these: this is asked for every page, and an organisation may have many connections.
    for bank in store.needing_a_person(tx, organization_id, tx.now + CONSENT_DAYS * DAY):
        name = bank.display_name or bank.provider_name or bank.provider_code
        url = f"/dashboard/connections/{bank.id}"
        if bank.status in ("inactive", "pending"):
            found.append(Attention("bank_reconnect", name, url))
        elif bank.status == "disabled":
            found.append(Attention("bank_off", name, url))
        else:
            ends = bank.consent_expires_at
            found.append(Attention("consent_ends", name, url, ends, is_over=ends is not None and ends <= tx.now))
    closed = ledger_connections.closed(tx, organization_id)
    for books in ledger_connections.listing(tx, (organization_id,)):
        if books.status in ("expired", "revoked", "error") and books.id not in closed:
            url = f"/dashboard/ledger/connections/{books.id}/reconnect"
            found.append(Attention("ledger_reconnect", books.bezeichnung or books.id, url))
    for item in receiver.listing(tx, organization_id):
        if item.state in ("paused", "gone"):
            found.append(Attention("receiver_stopped", item.url or "", "/dashboard/webhooks", item.stopped_at))
    return found


# Anything refused or failed earlier than this is history.
DAYS = 14
# The latest files that are looked at for refused ones.
MAX_FILES = 50
Kind = Literal[
    "bank_reconnect", "bank_off", "consent_ends", "ledger_reconnect", "receiver_stopped", "unmatched", "failed_events",
    "refused_file", "handover", "release", "prepared", "stopped_invoices", "invoices", "transmission",
]  # fmt: skip
# The most urgent first.
_ORDER: tuple[Kind, ...] = (
    "release", "prepared", "bank_reconnect", "bank_off", "ledger_reconnect", "consent_ends", "refused_file",
    "transmission", "stopped_invoices", "invoices", "unmatched", "handover", "failed_events", "receiver_stopped",
)  # fmt: skip


# Received invoices that wait: those that are stopped, and those that somebody has to look at.
_INVOICES: dict[Kind, tuple[Status, ...]] = {
    "stopped_invoices": ("needs_person",),
    "invoices": ("to_release", "new"),
}


class Todo(NamedTuple):
    kind: Kind
    # A bank, a client, an address, a file.
    name: str
    url: str
    number: int = 1
    # In whole cents, what came in and what went out.
    came: int = 0
    went: int = 0
    at: int | None = None
    # A consent that has ended.
    is_over: bool = False
    # Of a payment to release: who made it, and may therefore not.
    maker: str | None = None


class Said(NamedTuple):
    """A matter in the language of the request, with the words of its button."""

    text: str
    hint: str
    button: str
    is_urgent: bool


def find(tx: Tx, organization_id: str) -> list[Todo]:
    found = [
        Todo(one.kind, one.name, one.url, at=one.at, is_over=one.is_over) for one in find_attention(tx, organization_id)
    ]
    open_money = matching.unmatched(tx, organization_id)
    if open_money.transactions:
        found.append(
            Todo(
                "unmatched", "", f"{ROOT}/reconciliation", open_money.transactions, open_money.came_minor, open_money.went_minor
            )
        )  # fmt: skip
    found += _refused_files(tx, organization_id)
    found += _troubled_transmissions(tx, organization_id)
    waiting = batch_store.count_waiting(tx, organization_id, berlin_date(tx.now))
    if waiting:
        found.append(Todo("handover", "", f"{ROOT}/handovers", waiting))
    for one in receiver.listing(tx, organization_id):
        failed = entries.count_failed(tx, organization_id, one.id, tx.now - DAYS * DAY)
        if failed:
            found.append(Todo("failed_events", one.url or "", f"{ROOT}/webhooks", failed))
    found += [
        Todo("release", row.creditor_name, f"{ROOT}/payments/{row.id}", went=row.amount_minor, at=row.created_at,
             maker=row.maker_user_id)
        for row in releases.waiting(tx, organization_id)
    ]  # fmt: skip
    counts = payables.waiting(tx, organization_id)
    for kind, statuses in _INVOICES.items():
        number = sum(counts.get(status, 0) for status in statuses)
        if number:
            found.append(Todo(kind, "", f"{ROOT}/payables?status={statuses[0]}", number))
    waiting_for_approval = len(prepared.waiting(tx, organization_id))
    if waiting_for_approval:
        found.append(Todo("prepared", "", f"{ROOT}/assistants", waiting_for_approval))
    return sorted(found, key=urgency)


def is_for(item: Todo, user_id: str | None, role: Role) -> bool:
    """Returns whether a matter waits for this person: a payment does for whoever may release it."""
    if item.kind != "release":
        return True
    return ROLES.index(role) >= ROLES.index("member") and item.maker != user_id


def urgency(item: Todo) -> int:
    """Returns its place in a list: the most urgent first."""
    return _ORDER.index(item.kind)


def _refused_files(tx: Tx, organization_id: str) -> list[Todo]:
    """Returns the files of the last days that were refused, unless a later one of the same name says how it ended."""
    since, found, seen = tx.now - DAYS * DAY, list[Todo](), set[str]()
    for row in imports.listing(tx, (organization_id,), MAX_FILES):
        if row.status == "failed" and row.created_at >= since and row.source not in seen:
            found.append(Todo("refused_file", row.source, f"{ROOT}/statements/{row.id}", at=row.created_at))
        seen.add(row.source)
    for task in rewe.failed_imports(tx, organization_id, MAX_FILES):
        if task.created_at >= since:
            url = f"{ROOT}/batches/{task.id}?connection={task.subject}"
            found.append(Todo("refused_file", task.source, url, at=task.created_at))
    return found


def _troubled_transmissions(tx: Tx, organization_id: str) -> list[Todo]:
    numbers = transmissions.troubled(tx, organization_id, tx.now - DAYS * DAY)
    return [
        Todo(
            "transmission",
            one.bezeichnung or one.id,
            f"{ROOT}/ledger/connections/{one.id}/transmissions",
            numbers[one.id],
        )
        for one in (connections.listing(tx, (organization_id,)) if numbers else [])
        if one.id in numbers
    ]


def said(item: Todo) -> Said:
    return _said_of_work(item) or _said_of_connections(item)


def _said_of_work(item: Todo) -> Said | None:
    """The words of what people work on."""
    name = item.name
    if item.kind == "release":
        text = _(
            "A payment of %(amount)s to %(name)s waits for your release.", amount=figures.money(item.went), name=name
        )
        return Said(text, "", _("Look at it"), True)
    if item.kind == "prepared":
        text = ngettext(
            "One item that an assistant prepared waits for your approval.",
            "%(num)s items that an assistant prepared wait for your approval.",
            item.number,
        )
        return Said(text, "", _("Look at it"), True)
    if item.kind == "stopped_invoices":
        text = ngettext("One received invoice is stopped.", "%(num)s received invoices are stopped.", item.number)
        return Said(text, "", _("See why"), True)
    if item.kind == "invoices":
        text = ngettext(
            "One received invoice waits to be released.", "%(num)s received invoices wait to be released.", item.number
        )
        return Said(text, "", _("Look at it"), False)
    if item.kind == "transmission":
        text = ngettext(
            "One transmission to the books needs a look.",
            "%(num)s transmissions to the books need a look.",
            item.number,
        )
        return Said(text, name, _("See why"), True)
    return None


def _words_of_consent(item: Todo) -> str:
    day = figures.day(item.at or 0)
    if item.is_over:
        return _("The consent at %(name)s ended on %(day)s.", name=item.name, day=day)
    return _("The consent at %(name)s ends on %(day)s.", name=item.name, day=day)


def _said_of_connections(item: Todo) -> Said:
    name = item.name
    if item.kind == "bank_reconnect":
        return Said(_("%(name)s needs you to sign in again.", name=name), "", _("Renew"), True)
    if item.kind == "bank_off":
        return Said(_("%(name)s has switched off the connection.", name=name), "", _("Look at it"), True)
    if item.kind == "consent_ends":
        return Said(_words_of_consent(item), "", _("Renew"), True)
    if item.kind == "ledger_reconnect":
        return Said(_("The accounting connection “%(name)s” must be renewed.", name=name), "", _("Renew"), True)
    if item.kind == "receiver_stopped":
        return Said(_("Events are no longer sent to %(name)s.", name=name), "", _("Look at it"), True)
    if item.kind == "refused_file":
        return Said(_("The file %(name)s was refused.", name=name), figures.moment(item.at or 0), _("See why"), True)
    if item.kind == "failed_events":
        text = ngettext("One event could not be delivered.", "%(num)s events could not be delivered.", item.number)
        return Said(text, name, _("Look at it"), False)
    if item.kind == "handover":
        text = ngettext(
            "One match is ready to be handed over.", "%(num)s matches are ready to be handed over.", item.number
        )
        return Said(text, "", _("Hand over"), False)
    text = ngettext("One transaction is unmatched.", "%(num)s transactions are unmatched.", item.number)
    amounts = _("in %(came)s, out %(went)s", came=figures.money(item.came), went=figures.money(-item.went))
    return Said(text, amounts, _("Match payments"), False)
