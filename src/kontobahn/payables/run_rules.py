"""The payments of a run: which invoices may be paid, with what Skonto, less which credit notes, in how many transfers. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from itertools import groupby
from typing import NamedTuple

import msgspec

from kontobahn.formats.pain.sepa import (
    MAX_AMOUNT_MINOR,
    MAX_NAME,
    MAX_REMITTANCE,
    NotSepa,
    as_far_as_carried,
    check_iban,
)
from kontobahn.ledger.buchungen import EUR
from kontobahn.money import to_minor
from kontobahn.payables.rules import Why, is_collected, is_to_be_paid
from kontobahn.payables.store import DueRow
from kontobahn.payables.wire import SkontoTerm

_terms = msgspec.json.Decoder(list[SkontoTerm]).decode


class Creditor(NamedTuple):
    connection_id: str
    client_id: str
    konto: str


class Share(NamedTuple):
    """An invoice in a payment: what it adds to it, and the Skonto that was deducted before. A credit note takes away."""

    row: DueRow
    amount_minor: int
    skonto_minor: int


class LeftOut(NamedTuple):
    row: DueRow
    why: Why


class PlannedPayment(NamedTuple):
    creditor: Creditor
    iban: str
    name: str
    shares: tuple[Share, ...]

    @property
    def amount_minor(self) -> int:
        return sum(share.amount_minor for share in self.shares)

    @property
    def text(self) -> str:
        """The numbers of the documents, for whoever is paid."""
        return as_far_as_carried(_text([share.row for share in self.shares]), MAX_REMITTANCE)


class Plan(NamedTuple):
    payments: list[PlannedPayment]
    left_out: list[LeftOut]

    @property
    def amount_minor(self) -> int:
        return sum(payment.amount_minor for payment in self.payments)


def creditor_of(row: DueRow) -> Creditor:
    return Creditor(row.connection_id, row.client_id, row.konto)


# --- When, and how much


def skonto_on(row: DueRow, day: date) -> SkontoTerm | None:
    """Returns the largest Skonto that may be deducted if it is paid on this day."""
    if row.payable_minor <= 0:
        return None
    return next((term for term in _terms(row.terms) if day <= term.until), None)


def pay_by(row: DueRow, day: date) -> date:
    """Returns the last day that costs nothing: that of the Skonto, else the due day; without either it is due since it was issued."""
    skonto = skonto_on(row, day)
    if skonto is not None:
        return skonto.until
    return date.fromisoformat(row.due_date or row.issue_date)


# --- The plan


def plan(
    rows: Iterable[DueRow], day: date, *, takes_skonto: bool, changed: Collection[str], named: Collection[str]
) -> Plan:
    """Plans the payments of these invoices on a day.

    `changed` are the ids of those whose IBAN is not known; `named` those that were asked for by id. Of the rest, a credit note
    without an invoice that it could be deducted from is none of this run's business.
    """
    made, by_creditor = Plan([], []), sorted(rows, key=lambda row: (creditor_of(row), row.id))
    for creditor, group in groupby(by_creditor, creditor_of):
        shares = []
        for row in group:
            why = _refuses(row, changed)
            if why is None:
                shares.append(_share(row, day, takes_skonto=takes_skonto))
            else:
                made.left_out.append(LeftOut(row, why))
        _add_payments(made, creditor, shares, named)
    return made


def _refuses(row: DueRow, changed: Collection[str]) -> Why | None:
    if row.status != "released" or row.stops:
        return "not_released"
    if row.currency_code != EUR:
        return "not_euro"
    if row.payable_minor < 0:
        return "not_to_be_paid" if is_collected(row.means_code) else None
    if not is_to_be_paid(row.means_code, row.payable_minor):
        return "not_to_be_paid"
    try:
        check_iban("creditor_iban", row.creditor_iban)
    except NotSepa:
        return "no_iban"
    if not as_far_as_carried(row.creditor_name, MAX_NAME) or not _carried(row):
        return "not_named"
    return "iban_changed" if row.id in changed else None


def _share(row: DueRow, day: date, *, takes_skonto: bool) -> Share:
    term = skonto_on(row, day) if takes_skonto else None
    skonto = 0 if term is None else to_minor(term.amount)
    return Share(row, row.payable_minor - skonto, skonto)


def _add_payments(made: Plan, creditor: Creditor, shares: Sequence[Share], named: Collection[str]) -> None:
    """Adds the payments to one creditor: one for each account, less the credit notes; more if the numbers need more room."""
    credits = [share for share in shares if share.amount_minor < 0]
    invoices = sorted((share for share in shares if share.amount_minor > 0), key=lambda share: share.row.creditor_iban)
    if not invoices:
        made.left_out.extend(LeftOut(share.row, "credit_exceeds") for share in credits if share.row.id in named)
        return
    accounts = [list(group) for _, group in groupby(invoices, lambda share: share.row.creditor_iban)]
    # The credit notes go to the account that gets most.
    accounts.sort(key=_sum, reverse=True)
    accounts[0] = credits + accounts[0]
    for of_account in accounts:
        if _sum(of_account) <= 0:
            made.left_out.extend(LeftOut(share.row, "credit_exceeds") for share in of_account)
            continue
        for part in _parts(of_account):
            if _sum(part) > MAX_AMOUNT_MINOR:
                made.left_out.extend(LeftOut(share.row, "too_much") for share in part)
            else:
                last = part[-1].row
                made.payments.append(PlannedPayment(creditor, last.creditor_iban, last.creditor_name, tuple(part)))


def _sum(shares: Iterable[Share]) -> int:
    return sum(share.amount_minor for share in shares)


def _parts(shares: Sequence[Share]) -> list[list[Share]]:
    """Divides what one account gets so that the text of each transfer names all of its documents. Each part is above 0."""
    parts: list[list[Share]] = [[]]
    for share in shares:
        part = parts[-1]
        if part and _sum(part) > 0 and len(_text([one.row for one in (*part, share)])) > MAX_REMITTANCE:
            parts.append([])
        parts[-1].append(share)
    return parts


def _carried(row: DueRow) -> str:
    return as_far_as_carried(row.number, MAX_REMITTANCE)


def _text(rows: Sequence[DueRow]) -> str:
    invoices = [_carried(row) for row in rows if row.payable_minor > 0]
    credits = [_carried(row) for row in rows if row.payable_minor < 0]
    text = f"{'Rechnung' if len(invoices) == 1 else 'Rechnungen'} {', '.join(invoices)}"
    if credits:
        text += f" abzgl. {', '.join(credits)}"
    return text
