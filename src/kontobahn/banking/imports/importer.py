"""Imports statement files: accounts by IBAN, entries as transactions, status reports to their payments.

A file is one transaction. Booked statements must follow one another without a gap; a repeated one is recognised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any, NamedTuple

import msgspec
from schwifty import IBAN

from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.events import emit_refresh_complete
from kontobahn.banking.imports.chain import ChainPosition, Outcome, find_position
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.apply import apply
from kontobahn.banking.payments.transitions import STATUS_BY_ISO_CODE
from kontobahn.banking.provider import FILES, AccountFacts, BankConnectionFacts, PaymentReport, TransactionFacts
from kontobahn.banking.transactions.ingest import TransactionIngest
from kontobahn.clock import from_datetime, to_datetime
from kontobahn.db import Tx
from kontobahn.formats.statements import Closing, Entry, Item, Opening, StatementError, StatusReport
from kontobahn.money import from_minor

CHUNK = 2000
# Access by files does not expire.
NEVER = from_datetime(to_datetime(0).replace(year=2999))
# A pending entry that no statement has mentioned for this long will not be booked.
MAX_PENDING = timedelta(days=14)
_FEES = ("CHRG", "COMM", "FEES")


class ImportResult(NamedTuple):
    """What importing a file did, in numbers. `left_out` counts entries that are in the account's statements, or only inform."""

    accounts: int
    statements: int
    repeated: int
    added: int
    modified: int
    removed: int
    left_out: int
    payments: int


class StatementImporter:
    """Imports the items of one file for one organisation."""

    def __init__(
        self, tx: Tx, organization_id: str, source: str, *, allow_gaps: bool, progress: Callable[[], None]
    ) -> None:
        self._tx = tx
        self._organization_id = organization_id
        self._source = source
        self._allow_gaps = allow_gaps
        self._progress = progress
        self._own_ibans = {row.iban for row in accounts.of_organization(tx, organization_id) if row.iban}
        self._seen: set[int] = set()
        self._connections: set[str] = set()
        self._statement: _Statement | None = None
        self._counts = dict.fromkeys(ImportResult._fields, 0)

    def import_items(self, items: Iterable[Item]) -> ImportResult:
        for item in items:
            match item:
                case Opening():
                    self._open(item)
                case Entry():
                    assert self._statement is not None
                    self._statement.add(item)
                case Closing():
                    self._close(item)
                case StatusReport():
                    self._apply_report(item)
        self._counts["accounts"] = len(self._seen)
        if self._counts["statements"]:
            self._emit_events()
        return ImportResult(**self._counts)

    def _emit_events(self) -> None:
        """To a receiver of events a file is like a refresh: there is new account data."""
        for connection_id in sorted(self._connections):
            row = connections.get(self._tx, self._organization_id, connection_id)
            held = accounts.of_connection(self._tx, self._organization_id, connection_id)
            emit_refresh_complete(self._tx, row, "manual", held)

    def _open(self, opening: Opening) -> None:
        account = self._account(opening)
        self._seen.add(account.id)
        position = find_position(self._tx, account.id, opening, allow_gaps=self._allow_gaps)
        self._statement = _Statement(self._tx, account, opening, position, self._own_ibans)

    def _close(self, closing: Closing) -> None:
        statement = self._statement
        assert statement is not None
        outcome = statement.close(closing, self._source)
        self._progress()
        self._counts["repeated" if outcome is Outcome.REPEATED else "statements"] += 1
        self._counts["left_out"] += statement.left_out + closing.left_out
        for name in ("added", "modified", "removed"):
            self._counts[name] += getattr(statement.ingest, name)
        self._statement = None

    def _account(self, opening: Opening) -> AccountRow:
        stated = opening.account
        currency = stated.currency or (opening.balance.currency if opening.balance else "EUR")
        connection_id = self._connection(stated.iban, stated.bank_name)
        self._connections.add(connection_id)
        known = self._tx.one(
            "SELECT balance_minor, name, holder_name FROM banking_accounts"
            " WHERE organization_id = ? AND connection_id = ? AND provider_ref = ?",
            self._organization_id, connection_id, f"{stated.iban}/{currency}",
        )  # fmt: skip
        balance_minor, name, holder = known or (0, f"Konto {stated.iban[-10:]}", None)
        facts = AccountFacts(
            f"{stated.iban}/{currency}", name, "checking", balance_minor, currency, stated.iban, stated.holder or holder
        )
        self._own_ibans.add(stated.iban)
        account = accounts.save(self._tx, self._organization_id, connection_id, facts)
        connections.lock(self._tx, self._organization_id, connection_id)
        return account

    def _connection(self, iban: str, bank_name: str | None) -> str:
        """Returns the id of the connection to the account's bank; each bank code has one."""
        number = IBAN(iban)
        ref = f"{self._organization_id}/{number.country_code}{number.bank_code}"
        known = connections.by_provider_ref(self._tx, FILES, ref)
        if known is not None:
            return known.id
        name = bank_name or number.bank_name or f"Bank {number.bank_code}"
        facts = BankConnectionFacts(
            provider_ref=ref,
            provider_code=f"files_{number.country_code}_{number.bank_code}".lower(),
            provider_name=name,
            country_code=number.country_code,
            logo_url="",
            templates=("SEPA", "SEPA_INSTANT"),
            consent_expires_at=NEVER,
            next_refresh_possible_at=self._tx.now,
            automatic_refresh=False,
            display_name=name,
        )
        row = connections.create(
            self._tx, self._organization_id, provider=FILES, api="partner", owner_user_id=None, facts=facts
        )
        return row.id

    def _apply_report(self, report: StatusReport) -> None:
        """Moves the payments of a status report on as the bank says."""
        for item in report.items:
            # A file of ours holds one payment and has its id as message id.
            name = item.end_to_end_id if item.level == "transaction" else report.original_message_id
            row = payments.by_end_to_end_id(self._tx, self._organization_id, name) if name else None
            if row is None:
                raise StatementError(
                    f"It reports on “{name}”, which is not a payment of this organisation.",
                    file=report.file, place=f"line {item.line}",
                )  # fmt: skip
            reason = item.reasons[0] if item.reasons else None
            reported = PaymentReport(
                STATUS_BY_ISO_CODE.get(item.status),
                item.status,
                reason.code if reason else None,
                reason.text if reason else None,
            )
            apply(self._tx, self._organization_id, row.id, reported, f"pain.002 {report.message_id}")
            self._counts["payments"] += 1


class _Statement:
    """One statement being imported."""

    def __init__(
        self, tx: Tx, account: AccountRow, opening: Opening, position: ChainPosition, own_ibans: set[str]
    ) -> None:
        self._tx = tx
        self._account = account
        self._opening = opening
        self._position = position
        self._own_ibans = own_ibans
        self._digest = hashlib.sha256()
        self._chunk: list[TransactionFacts] = []
        self._running = opening.balance.amount_minor if opening.balance and opening.kind == "booked" else None
        self.ingest = TransactionIngest(tx, account)
        self.left_out = 0
        # An advice repeats entries of statements, often split differently: if there are statements, they are authoritative.
        self._in_statements = opening.kind == "advice" and position.has_statements

    def add(self, entry: Entry) -> None:
        self._digest.update(msgspec.json.encode(msgspec.structs.replace(entry, line=0)))
        if self._position.is_repeat:
            return
        if self._in_statements:
            self.left_out += 1
            return
        if self._running is not None and entry.status == "posted":
            self._running += entry.amount_minor
        self._chunk.append(self._facts(entry))
        if len(self._chunk) >= CHUNK:
            self._flush()

    def close(self, closing: Closing, source: str) -> Outcome:
        self._flush()
        if self._opening.kind == "booked":
            outcome = self._position.close(self._tx, closing, self._digest.hexdigest(), source)
            if outcome is Outcome.REPEATED:
                return outcome
            if closing.balance is not None:
                self._drop_unbooked(closing.balance.day)
        self.ingest.finish()
        if closing.balance is not None and self._position.is_newest(closing.balance.day):
            self._tx.run(
                "UPDATE banking_accounts SET balance_minor = ?, updated_at = ? WHERE organization_id = ? AND id = ?",
                closing.balance.amount_minor, self._tx.now, self._account.organization_id, self._account.id,
            )  # fmt: skip
        return Outcome.ADDED

    def _flush(self) -> None:
        self.ingest.add(self._chunk)
        self._chunk = []

    def _drop_unbooked(self, closed_on: date) -> None:
        """What intraday reports showed as booked by then, but no statement contains, did not happen."""
        self.ingest.remove_unbooked(closed_on.isoformat(), (closed_on - MAX_PENDING).isoformat())

    def _facts(self, entry: Entry) -> TransactionFacts:
        payer, payee = entry.payer, entry.payee
        extra: dict[str, Any] = {
            "payer": payer.name,
            "payee": payee.name,
            "payer_information": payer.iban or payer.account,
            "payee_information": payee.iban or payee.account,
            "additional": " ".join(filter(None, (entry.booking_text, entry.purpose.additional))) or None,
            "posting_date": entry.booking_date,
        }
        if self._running is not None and entry.status == "posted":
            extra["account_balance_snapshot"] = from_minor(self._running)
        booked = self._opening.kind == "booked" and entry.status == "posted"
        return TransactionFacts(
            account_ref=self._account.provider_ref,
            made_on=entry.value_date or entry.booking_date,
            amount_minor=entry.amount_minor,
            currency_code=entry.currency,
            description=entry.description,
            status=entry.status,
            mode="fee" if _is_fee(entry) else "transfer" if entry.counterparty.iban in self._own_ibans else "normal",
            end_to_end_id=entry.end_to_end_id,
            parsed=entry.purpose.parsed(),
            extra=extra,
            statement=self._position.identity if booked else None,
        )


def _is_fee(entry: Entry) -> bool:
    return bool(
        (entry.gvc or "").startswith("8") or any(part in _FEES for part in (entry.transaction_code or "").split("-"))
    )
