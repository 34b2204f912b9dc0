"""The audit log: what was changed, by whom, from where. It only grows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from kontobahn.access import audit, keys, users
from kontobahn.access.audit import COMMAND_LINE, SYSTEM, AuditEntry
from kontobahn.access.identities import PROVIDER
from kontobahn.assistants import grants
from kontobahn.banking.connections import accounts
from kontobahn.dashboard import figures
from kontobahn.dashboard.books import SHORTEST, clients_in_time
from kontobahn.dashboard.declare import page
from kontobahn.dashboard.lists import PAGE_SIZE, Filters
from kontobahn.dashboard.people import ROLE_NAMES
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _
from kontobahn.db import Tx
from kontobahn.ledger.konto import readable
from kontobahn.payables.intake import FOLDER
from kontobahn.payables.mailbox import MAILBOX
from kontobahn.payables.settlement import BANK

MAX_CSV_ROWS = 20_000
ACTIONS = {
    "assistants.approve": N_("Something prepared by an assistant approved"),
    "assistants.connect": N_("Assistant connected"),
    "assistants.disable": N_("Assistants switched off"),
    "assistants.disconnect": N_("Assistant disconnected"),
    "assistants.enable": N_("Assistants switched on"),
    "assistants.prepare_cash_entry": N_("Cash entry prepared by an assistant"),
    "assistants.prepare_payment": N_("Payment prepared by an assistant"),
    "assistants.refuse": N_("Something prepared by an assistant refused"),
    "assistants.withdraw": N_("Something prepared by an assistant withdrawn"),
    "api_key.create": N_("API key created"),
    "api_key.revoke": N_("API key revoked"),
    "api_key.rotate": N_("API key rotated"),
    "bank_account.merge": N_("Accounts merged"),
    "bank_account.merge_undo": N_("Merge of accounts undone"),
    "bank_connection.delete": N_("Bank connection deleted"),
    "bank_line.cancel": N_("Order at the bank cancelled"),
    "bank_line.cancel_refused": N_("Cancelling an order refused by the bank"),
    "bank_line.keys": N_("New keys sent to the bank"),
    "bank_line.keys_refused": N_("New keys refused by the bank"),
    "bank_line.sign": N_("Order at the bank signed"),
    "bank_line.sign_refused": N_("Signature refused by the bank"),
    "bank_line.signing": N_("Signing of orders switched on or off"),
    "bank_line.suspend": N_("Access locked at the bank"),
    "bank_line.suspend_refused": N_("Locking the access refused by the bank"),
    "books.create": N_("Books created"),
    "books.retax": N_("Tax of bookings corrected"),
    "books.reverse": N_("Cash entry reversed"),
    "books.right": N_("Right to the books changed"),
    "books.service": N_("Bookkeeping service changed"),
    "books.undo": N_("Booking batch undone"),
    "credits.grant": N_("Credits granted"),
    "client_access.give": N_("Access to a client given"),
    "client_access.withdraw": N_("Access to a client ended"),
    "factor.add": N_("Second factor added"),
    "factor.remove": N_("Second factor removed"),
    "identity.link": N_("Account of the identity provider linked"),
    "identity.unlink": N_("Account of the identity provider unlinked"),
    "invitation.accept": N_("Invitation accepted"),
    "invitation.create": N_("Invitation created"),
    "invitation.revoke": N_("Invitation revoked"),
    "ledger_connection.client": N_("Client of an accounting connection chosen"),
    "ledger_connection.close": N_("Books closed"),
    "ledger_connection.connected": N_("Accounting connection works again"),
    "ledger_connection.error": N_("Accounting connection broken"),
    "ledger_connection.expired": N_("Accounting connection expired"),
    "ledger_connection.pending": N_("Accounting connection begun"),
    "ledger_connection.revoked": N_("Accounting connection revoked"),
    "ledger_connection.rename": N_("Books renamed"),
    "ledger_connection.renew": N_("Accounting connection renewed"),
    "ledger_connection.sign_in": N_("Signed in at the accounting provider"),
    "ledger_transmission.again": N_("Batch sent to the accounting provider again"),
    "ledger_transmission.file": N_("File of a failed batch taken to be handed over"),
    "mobility.logo": N_("Logo on invoices changed"),
    "mobility.seller": N_("Seller's data changed"),
    "order_file.create": N_("Order file created"),
    "order_file.decide": N_("Said whether the bank has an order file"),
    "order_file.submit": N_("Order file sent to the bank"),
    "order_file.discard": N_("Order file discarded"),
    "organization.close": N_("Client closed"),
    "organization.create": N_("Organisation created"),
    "organization.delete": N_("Organisation deleted"),
    "organization.rename": N_("Organisation renamed"),
    "organization.reopen": N_("Client opened again"),
    "password_reset.create": N_("Link for a new password created"),
    "password_reset.use": N_("New password set by link"),
    "payable.assign": N_("Creditor of a received invoice assigned"),
    "payable.book": N_("Received invoice booked"),
    "payable.confirm_another": N_("Received invoice confirmed as a further one"),
    "payable.confirm_iban": N_("Changed IBAN of a received invoice confirmed"),
    "payable.hold": N_("Received invoice held back"),
    "payable.reject": N_("Received invoice rejected"),
    "payable.release": N_("Received invoice released"),
    "payables.handover": N_("Received invoices handed over"),
    "payables.payment_run": N_("Received invoices paid by a payment run"),
    "payables.mailbox": N_("Mailbox for invoices changed"),
    "payables.mailbox_removed": N_("Mailbox for invoices removed"),
    "payables.settings": N_("Settings of received invoices changed"),
    "payment.cancel": N_("Payment cancelled"),
    "payment.refuse": N_("Release of a payment refused"),
    "payment.release": N_("Payment released by a second person"),
    "payment_limit.change": N_("Limit for payments without a release changed"),
    "payment.take_payee_name": N_("Name of a payee taken over from the bank"),
    "payment.contradiction": N_("Bank contradicts itself about a payment"),
    "reconciliation.batch": N_("Matches handed over"),
    "reconciliation.forget": N_("Learned payer forgotten"),
    "reconciliation.match": N_("Transaction matched"),
    "reconciliation.rule_acts": N_("Acting alone allowed to a rule, or no longer"),
    "reconciliation.rules": N_("Rules of reconciliation changed"),
    "reconciliation.settings": N_("Account set up for reconciliation"),
    "reconciliation.undo": N_("Match undone"),
    "recovery_code.use": N_("Recovery code used"),
    "recovery_codes.make": N_("Recovery codes created"),
    "sandbox.book": N_("Booked at the sandbox bank"),
    "sandbox.clock": N_("Clock of the sandbox bank moved"),
    "sandbox.destroy": N_("Connection ended by the sandbox bank"),
    "sandbox.expire_consent": N_("Consent ended at the sandbox bank"),
    "sandbox.fail": N_("Failure at the sandbox bank"),
    "sandbox.orders": N_("Order file handed in at the sandbox bank"),
    "sandbox.payment": N_("Payment at the sandbox bank changed"),
    "sandbox.post_pending": N_("Pending bookings posted at the sandbox bank"),
    "sandbox.remove": N_("Everything of the sandbox bank removed"),
    "sandbox.report": N_("New data reported by the sandbox bank"),
    "second_factor.require": N_("Second-factor requirement changed"),
    "session.confirm": N_("Identity confirmed"),
    "session.create": N_("Signed in"),
    "session.end": N_("Session ended"),
    "session.end_others": N_("Other sessions ended"),
    "session.refuse": N_("Sign-in attempts refused"),
    "user.change_password": N_("Password changed"),
    "user.change_role": N_("Role changed"),
    "user.create": N_("Person added"),
    "user.delete": N_("Person deleted"),
    "user.end_password": N_("Password ended with the key of its link"),
    "webhook_endpoint.change": N_("Receiver of events changed"),
    "webhook_endpoint.create": N_("Receiver of events added"),
    "webhook_endpoint.delete": N_("Receiver of events removed"),
    "webhook_endpoint.paused": N_("Receiver of events switched off"),
    "webhook_endpoint.gone": N_("Receiver of events is gone"),
    "webhook_endpoint.pause": N_("Receiver of events paused"),
    "webhook_endpoint.resume": N_("Receiver of events resumed"),
    "webhook_secret.rotate": N_("Secret for events renewed"),
    "webhook_url.clear": N_("Webhook URL removed"),
    "webhook_url.paused": N_("Webhook URL switched off"),
    "webhook_url.gone": N_("Webhook URL is gone"),
    "webhook_url.set": N_("Webhook URL set"),
}
# The fields of details that people read; any other has its own name, which a test finds.
DETAILS = {
    "account": N_("Account"),
    "accounts": N_("Accounts"),
    "afterwards": N_("Afterwards"),
    "allowed": N_("Allowed"),
    "amount": N_("Amount"),
    "area": N_("Area"),
    "at_bank": N_("Known to the bank"),
    "automatic": N_("Acts alone"),
    "automatic_classes": N_("Without asking"),
    "bank": N_("Bank"),
    "bank_name": N_("Bank"),
    "bic": N_("BIC"),
    "book_on": N_("Booked on"),
    "booked": N_("Booked"),
    "booked_by": N_("Who books"),
    "bookings": N_("Bookings"),
    "cash_book": N_("Cash book"),
    "city": N_("City"),
    "client_id": N_("Client"),
    "clients": N_("Clients"),
    "comment": N_("Comment"),
    "connections": N_("Bank connections"),
    "contact_email": N_("E-mail address"),
    "contact_name": N_("Contact person"),
    "contact_phone": N_("Telephone"),
    "country_code": N_("Country"),
    "daily_limit": N_("At most a day"),
    "email": N_("E-mail address"),
    "ended": N_("Sessions ended"),
    "error_class": N_("Error"),
    "events": N_("Events"),
    "final": N_("Status"),
    "folder": N_("Folder"),
    "granted": N_("Granted"),
    "host": N_("Server"),
    "hours": N_("Valid for hours"),
    "iban": N_("IBAN"),
    "invoice_number_digits": N_("Digits of invoice numbers"),
    "invoice_number_prefix": N_("Invoice numbers begin with"),
    "invoices": N_("Invoices"),
    "kind": N_("Kind"),
    "kontenrahmen": N_("Chart of accounts"),
    "konto": N_("Account"),
    "left_out": N_("Left out"),
    "maker": N_("Created by"),
    "managing_directors": N_("Managing directors"),
    "matches": N_("Matches"),
    "moved": N_("Moved"),
    "name": N_("Name"),
    "new": N_("now"),
    "note": N_("Note"),
    "number": N_("Number"),
    "old": N_("before"),
    "overlap_seconds": N_("Old one valid for seconds"),
    "payment_days": N_("Payment period in days"),
    "payment_limit": N_("At most a payment"),
    "payments": N_("Payments"),
    "postal_code": N_("Postal code"),
    "reason": N_("Reason"),
    "register_entry": N_("Commercial register"),
    "removed": N_("Removed"),
    "reported": N_("Reported"),
    "required": N_("Required"),
    "role": N_("Role"),
    "rules": N_("Rules"),
    "same": N_("Known already"),
    "scopes": N_("Restricted to"),
    "sessions_ended": N_("Sessions ended"),
    "source": N_("Source"),
    "street": N_("Street and number"),
    "tax_number": N_("Tax number"),
    "transaction_id": N_("Transaction"),
    "two_people_above": N_("Two people above"),
    "url": N_("Address"),
    "user_id": N_("Person"),
    "username": N_("User name"),
    "vat_exemption_reason": N_("Reason for exemption from VAT"),
    "vat_id": N_("VAT identification number"),
    "versteuerung": N_("VAT"),
    "website": N_("Website"),
    "with_user": N_("Person"),
    "year": N_("Fiscal year"),
}
# Ids, which say nothing to people, and a state that is plain from the action.
LEFT_OUT = frozenset(
    (
        "batch",
        "by",
        "client_organization_id",
        "connection_id",
        "imports",
        "merged",
        "sha256",
        "status",
        "successor",
        "was",
        "with_key",
    )
)
ACCOUNT = "konto"
_AMOUNTS = ("amount", "payment_limit", "daily_limit", "old", "new")
_CHOICES = {
    "booked_by": {"adviser": N_("tax adviser"), "kontobahn": "Kontobahn"},
    "versteuerung": {"soll": "Sollversteuerung", "ist": "Istversteuerung"},
    "book_on": {"acceptance": N_("acceptance"), "release": N_("release")},
}
_PEOPLE = ("user_id", "with_user", "maker")
_DECIMAL = re.compile(r"-?\d+\.\d\d")
_ACTORS = {
    COMMAND_LINE.name: N_("command line"),
    SYSTEM.name: N_("automatically"),
    "anybody": N_("somebody unknown"),
    PROVIDER: N_("identity provider"),
    MAILBOX.name: N_("mailbox"),
    FOLDER.name: N_("watched folder"),
    BANK: N_("bank"),
}


class AuditFilters(Struct):
    from_date: date | None = None
    to_date: date | None = None
    action: str = ""
    actor: str = ""
    subject: str = ""


@page("/audit", own=True, role="admin", help="audit-log")
async def audit_log(visit: Visit) -> Response:
    filters = visit.filters(AuditFilters)
    found = await visit.read(_wanted, visit.principal.organization_id, filters, PAGE_SIZE + 1)
    names = await names_of_actors(visit, visit.principal.organization_id)
    told = names | await _names_of_accounts(visit)
    written = await _writer(visit, found)
    actions = await visit.read(audit.actions, visit.principal.organization_id)
    return visit.show(
        "audit_log.html",
        filters=filters,
        list=filters.first_page(found, lambda entry: entry.id),
        actions=[(action, action_words(action)) for action in actions],
        action_words=action_words,
        names=names,
        details=lambda entry: details_line(entry, told, written),
        chips=filters.chips(
            {
                "from_date": _("From"),
                "to_date": _("Until"),
                "action": _("What"),
                "actor": _("Who"),
                "subject": _("Object"),
            },
            lambda name, text: action_words(text) if name == "action" else names.get(text, text),
        ),
    )


@page("/audit.csv", own=True, role="admin")
async def audit_csv(visit: Visit) -> Response:
    found = await visit.read(_wanted, visit.principal.organization_id, visit.filters(AuditFilters), MAX_CSV_ROWS)
    names = await names_of_actors(visit, visit.principal.organization_id)
    told = names | await _names_of_accounts(visit)
    written = await _writer(visit, found)
    head = [_("When"), _("Who"), _("What"), _("Object"), _("Details"), _("Address"), _("Request")]
    rows = [
        (figures.moment(entry.at), names.get(entry.actor, entry.actor), action_words(entry.action), entry.subject,
         details_line(entry, told, written), entry.ip or "", entry.request_id or "")
        for entry in found
    ]  # fmt: skip
    return await visit.csv("audit", head, rows)


async def _writer(visit: Visit, found: list[AuditEntry]) -> Callable[[str], str]:
    """Returns a function that writes accounts as the clients do; an entry does not say which client it is about."""
    if not any(f'"{ACCOUNT}"' in entry.details for entry in found):
        return str
    lengths = [client.konto_laenge for client in await clients_in_time(visit, visit.principal.organization_id)]
    return lambda konto: readable(konto, max(lengths, default=SHORTEST))


def _wanted(tx: Tx, organization_id: str, filters: Filters[AuditFilters], limit: int) -> list[AuditEntry]:
    wanted = filters.wanted
    return audit.latest(
        tx, organization_id, limit,
        since=wanted.from_date, until=wanted.to_date, action=wanted.action, actor=wanted.actor, subject=wanted.subject,
        after=filters.after,
    )  # fmt: skip


async def _names_of_accounts(visit: Visit) -> dict[str, str]:
    held = await visit.read(accounts.of_organization, visit.principal.organization_id)
    return {f"account:{account.id}": account.name for account in held}


async def names_of_actors(visit: Visit, organization_id: str) -> dict[str, str]:
    people = await visit.read(users.listing, organization_id)
    made = await visit.read(keys.listing, organization_id)
    names = actor_names([(user.id, user.name) for user in people], [(key.id, key.name) for key in made])
    return names | await visit.read(grants.actor_names, organization_id)


# --- Words for what was done, who did it, and the details of it


def action_words(action: str) -> str:
    return _(ACTIONS[action]) if action in ACTIONS else action


def actor_names(people: Iterable[tuple[str, str]], keys: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns the names of actors: people and keys (id and name each) by their names."""
    names = {name: _(text) for name, text in _ACTORS.items()}
    names |= {f"key:{id}": _("Key “%(name)s”", name=name) for id, name in keys}
    return names | {f"user:{id}": name for id, name in people}


def details_line(entry: AuditEntry, names: Mapping[str, str], written: Callable[[str], str] = str) -> str:
    """The details in one line: `Role: administration, E-mail address: …`. What was not given is left out."""
    found = msgspec.json.decode(entry.details)
    if not isinstance(found, Mapping):
        return str(found)
    return ", ".join(
        f"{_(DETAILS[name]) if name in DETAILS else name}: {written(value) if name == ACCOUNT else _value(name, value, names)}"
        for name, value in found.items()
        if value not in (None, [], "") and name not in LEFT_OUT
    )


def _value(name: str, value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if name in _PEOPLE:
        return names.get(f"user:{value}", str(value))
    if name == "account":
        return names.get(f"account:{value}", str(value))
    if name == "iban":
        return figures.iban(value)
    if name == "two_people_above":
        return figures.money(value)
    if name in _CHOICES and value in _CHOICES[name]:
        return _(_CHOICES[name][value])
    if name in _AMOUNTS and isinstance(value, str) and _DECIMAL.fullmatch(value):
        # Limits, payments and matches: there are none but in euros.
        return figures.money(Decimal(value))
    if name in ("role", "old", "new") and (role := next((role for role in ROLE_NAMES if role == value), None)):
        return _(ROLE_NAMES[role])
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
