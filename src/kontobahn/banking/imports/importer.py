"""Imports statement files: accounts by IBAN, entries as transactions, status reports to their payments.

A file is read before (reading.py), and imported in one transaction. Booked statements may overlap, and must leave no gap between
them that was not there before.
"""

from __future__ import annotations

from typing import NamedTuple

from kontobahn.banking import accounts
from kontobahn.banking.accounts import AccountRow, emit_refresh_complete
from kontobahn.banking.connections import store as connections
from kontobahn.banking.imports import spans
from kontobahn.banking.imports.overlap import Gap, gaps
from kontobahn.banking.imports.reading import ReadFile, ReadStatement, own_ibans
from kontobahn.banking.imports.statement import StatementImport
from kontobahn.banking.payments import order_files
from kontobahn.banking.payments.apply import apply
from kontobahn.banking.payments.transitions import STATUS_BY_ISO_CODE
from kontobahn.banking.provider import FILES, AccountFacts, BankConnectionFacts, PaymentReport
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.statements import (
    Opening,
    ReportedStatus,
    StatementError,
    StatementWarning,
    StatusReport,
)


class ImportResult(NamedTuple):
    """What importing a file did.

    `repeated` counts statements that brought nothing new, `left_out` entries that are in the account's statements anyway, or
    only inform.
    """

    accounts: int = 0
    statements: int = 0
    repeated: int = 0
    added: int = 0
    modified: int = 0
    removed: int = 0
    left_out: int = 0
    payments: int = 0
    warnings: tuple[StatementWarning, ...] = ()


_COUNTS = ("accounts", "statements", "repeated", "added", "modified", "removed", "left_out", "payments")


class StatementImporter:
    """Imports one file for one organisation.

    `allow_gaps` accepts gaps between statements; `unbalanced` accepts balances that bookings do not lead to.
    """

    def __init__(
        self,
        tx: Tx,
        organization_id: str,
        source: str,
        *,
        allow_gaps: bool = False,
        unbalanced: bool = False,
    ) -> None:
        self._tx = tx
        self._organization_id = organization_id
        self._source = source
        self._allow_gaps = allow_gaps
        self._unbalanced = unbalanced
        self._own_ibans = own_ibans(tx, organization_id)
        # Accounts of this file, with the gaps they had before it.
        self._seen: dict[int, list[Gap]] = {}
        self._booked: list[StatementImport] = []
        self._changed_connections: set[str] = set()
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._warnings: list[StatementWarning] = []

    def import_file(self, file: ReadFile) -> ImportResult:
        """Raises StatementError if the file contradicts what is known, or leaves a gap."""
        for part in file.parts:
            match part:
                case ReadStatement():
                    self._import(part)
                case StatementWarning():
                    self._warnings.append(part)
                case StatusReport():
                    self._apply_report(part)
        self._check_gaps()
        self._counts["accounts"] = len(self._seen)
        self._emit_events()
        return ImportResult(**self._counts, warnings=tuple(self._warnings))

    def _check_gaps(self) -> None:
        """Raises StatementError for the first gap that this file has made and not filled."""
        if self._allow_gaps:
            return
        for account_id, before in self._seen.items():
            after = gaps(spans.load(self._tx, account_id))
            new = [gap for gap in after if not any(gap.is_same(known) for known in before)]
            if len(after) > len(before) and new:
                raise self._gap_error(account_id, new[0])

    def _gap_error(self, account_id: int, gap: Gap) -> StatementError:
        own = {item.span: item for item in reversed(self._booked) if item.account.id == account_id}
        statement = own.get(gap.after.number) or own.get(gap.before.number) or self._booked[-1]
        about_later = gap.before.number not in own or gap.after.number in own
        return statement.error(gap.sentence(about_later=about_later, currency=statement.account.currency_code))

    def _emit_events(self) -> None:
        """To a receiver of events a file is like a refresh."""
        # Choice 43: only if something new was stored.
        for connection_id in sorted(self._changed_connections):
            row = connections.get(self._tx, self._organization_id, connection_id)
            held = accounts.of_connection(self._tx, self._organization_id, connection_id)
            emit_refresh_complete(self._tx, row, "manual", held)

    def _import(self, read: ReadStatement) -> None:
        account = self._account(read.opening)
        if account.id not in self._seen:
            self._seen[account.id] = gaps(spans.load(self._tx, account.id))
        statement = StatementImport(self._tx, account, read, self._own_ibans, unbalanced=self._unbalanced)
        statement.run(self._source)
        self._counts["statements" if statement.is_new else "repeated"] += 1
        self._counts["left_out"] += statement.left_out + read.closing.left_out
        for name in ("added", "modified", "removed"):
            self._counts[name] += getattr(statement.ingest, name)
        if statement.has_changed:
            self._changed_connections.add(statement.account.connection_id)
        if statement.span != spans.NO_SPAN:
            self._booked.append(statement)
        self._warnings += statement.warnings

    def _account(self, opening: Opening) -> AccountRow:
        stated = opening.account
        currency = stated.currency or (opening.balance.currency if opening.balance else "EUR")
        connection_id = self._connection(stated.iban, stated.bank_name)
        known = self._tx.one(
            "SELECT CASE WHEN balance_known = 1 THEN balance_minor END, name, holder_name FROM banking_accounts"
            " WHERE organization_id = ? AND connection_id = ? AND provider_ref = ?",
            self._organization_id, connection_id, f"{stated.iban}/{currency}",
        )  # fmt: skip
        balance_minor, name, holder = known or (None, f"Konto {stated.iban[-10:]}", None)
        facts = AccountFacts(
            f"{stated.iban}/{currency}", name, "checking", balance_minor, currency, stated.iban, stated.holder or holder
        )
        self._own_ibans.add(stated.iban)
        return accounts.save(self._tx, self._organization_id, connection_id, facts)

    def _connection(self, iban: str, bank_name: str | None) -> str:
        """Returns the id of the connection to the account's bank, which is locked then; each bank code has one."""
        from schwifty import IBAN

        number = IBAN(iban)
        ref = f"{self._organization_id}/{number.country_code}{number.bank_code}"
        # Two imports at once must not both create it, and it may be removed at this moment.
        connections.lock(self._tx, self._organization_id, ref)
        known = connections.by_provider_ref(self._tx, FILES, ref)
        if known is not None and connections.look_up_locked(self._tx, self._organization_id, known.id):
            return known.id
        name = bank_name or number.bank_name or f"Bank {number.bank_code}"
        facts = BankConnectionFacts(
            provider_ref=ref,
            provider_code=f"files_{number.country_code}_{number.bank_code}".lower(),
            provider_name=name,
            country_code=number.country_code,
            logo_url="",
            templates=("SEPA", "SEPA_INSTANT"),
            consent_expires_at=None,
            next_refresh_possible_at=self._tx.now,
            automatic_refresh=False,
            display_name=name,
        )
        row = connections.create(
            self._tx, self._organization_id, provider=FILES, api="partner", owner_user_id=None, facts=facts
        )
        connections.lock(self._tx, self._organization_id, row.id)
        return row.id

    def _apply_report(self, report: StatusReport) -> None:
        """Moves the payments of a status report on as the bank says. Others' payments among them are left out.

        Raises StatementError if it reports on none of this organisation's.
        """
        unknown = []
        # What is said of an instruction or an order itself counts more than what is said of the file around it, and comes later.
        latest: dict[int, ReportedStatus] = {}
        for item in report.items:
            found = order_files.reported_on(self._tx, self._organization_id, item)
            if not found:
                name = item.end_to_end_id if item.level == "transaction" else report.original_message_id
                sentence = f"It reports on “{name}”, which is not a payment of this organisation."
                unknown.append(StatementWarning(f"line {item.line}", sentence, "This report was left out."))
            latest |= dict.fromkeys(found, item)
        for payment_id, item in latest.items():
            reason = item.reasons[0] if item.reasons else None
            reported = PaymentReport(
                STATUS_BY_ISO_CODE.get(item.status),
                item.status,
                reason.code if reason else None,
                reason.text if reason else None,
            )
            apply(self._tx, self._organization_id, payment_id, reported, f"pain.002 {report.message_id}")
            self._counts["payments"] += 1
        if len(unknown) == len(report.items):
            raise StatementError(unknown[0].found, file=report.file, place=unknown[0].place)
        self._warnings += unknown


def account_named(option: str) -> tuple[str, str]:
    """Reads ACCOUNT=IBAN, for an account that a file identifies in another way."""
    account, equals, iban = option.partition("=")
    if not equals or not account.strip() or not iban.strip():
        raise BadRequest(f"`iban` takes ACCOUNT=IBAN, not “{option}”.", field="iban")
    return account.strip(), iban.strip()
