"""Trial balance and terms of payment, which DATEV answers at once, as the contract has them."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from msgspec import Struct

from kontobahn import money
from kontobahn.datev.rows import cents, konto_of
from kontobahn.formats import extf
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.faelligkeiten import as_answer
from kontobahn.ledger.wire import Periodenwert, Saldo, SusaZeile, Zahlungsbedingung

# Of the contract: closing entries and later corrections follow the months.
LAST_PERIOD = 14
_HUNDREDTH = Decimal("0.01")
_MONTHS = {"current_month": 0, "next_month": 1, "month_after_next": 2}


# --- Trial balance


class MonthValue(Struct):
    fiscalYearMonth: int
    monthlyBalance: Decimal
    monthlyBalanceDebitCreditIdentifier: str = "S"


class SumsAndBalances(Struct):
    accountNumber: int
    caption: str | None = None
    annualValueDebit: Decimal | None = None
    annualValueCredit: Decimal | None = None
    balance: Decimal | None = None
    balanceDebitCreditIdentifier: str = "S"
    openingBalanceDebit: Decimal | None = None
    openingBalanceCredit: Decimal | None = None
    sumsAndBalancesMonthValues: list[MonthValue] = []


class AccountTurnover(NamedTuple):
    """An account in the trial balance: cents, SOLL positive."""

    konto: str
    caption: str
    # None if it was not carried over.
    opening: int | None
    # Months of the fiscal year, in their order, and what the account moved by.
    months: list[tuple[int, int]]
    soll: int
    haben: int
    balance: int


def turnover(row: SumsAndBalances) -> AccountTurnover:
    opening = None
    if row.openingBalanceDebit is not None or row.openingBalanceCredit is not None:
        opening = cents(row.openingBalanceDebit) - cents(row.openingBalanceCredit)
    months = [
        (month.fiscalYearMonth, _signed(month.monthlyBalance, month.monthlyBalanceDebitCreditIdentifier))
        # The opening balance has a field of its own.
        for month in row.sumsAndBalancesMonthValues
        if 1 <= month.fiscalYearMonth <= LAST_PERIOD
    ]
    return AccountTurnover(
        konto_of(row.accountNumber),
        row.caption or "",
        opening,
        sorted(months),
        cents(row.annualValueDebit),
        cents(row.annualValueCredit),
        _signed(row.balance, row.balanceDebitCreditIdentifier),
    )


def susa_line(line: AccountTurnover) -> SusaZeile:
    return SusaZeile(
        kontobeschriftung=line.caption,
        kontonummer=line.konto,
        saldo=_saldo(line.balance),
        periodenwerte=[Periodenwert(periode, _saldo(betrag)) for periode, betrag in line.months],
        ebWert=None if line.opening is None else _saldo(line.opening),
        umsatzHaben=money.to_wire(line.haben),
        umsatzSoll=money.to_wire(line.soll),
    )


def _signed(amount: Decimal | None, side: str) -> int:
    if side not in ("S", "H"):
        raise ProviderError(None, f"DATEV names a side {side!r}", type="nonsense")
    return cents(amount) if side == "S" else -cents(amount)


def _saldo(betrag: int) -> Saldo:
    return Saldo(betrag=money.to_wire(abs(betrag)), sollHabenKennzeichen="HABEN" if betrag < 0 else "SOLL")


# --- Terms of payment


class DueInDays(Struct):
    cashDiscount1Days: int = 0
    cashDiscount2Days: int = 0
    dueDateNet: int = 0


class DayOfMonth(Struct):
    relatedMonth: str
    dayOfMonth: int = 0


class Period(Struct):
    invoiceDayOfMonth: int
    dueDateCashDiscount1: DayOfMonth | None = None
    dueDateCashDiscount2: DayOfMonth | None = None
    dueDateNet: DayOfMonth | None = None


class DueAsPeriod(Struct):
    period1: Period | None = None
    period2: Period | None = None
    period3: Period | None = None


class TermOfPayment(Struct):
    id: int
    caption: str = ""
    dueType: str = "due_in_days"
    cashDiscount1Percentage: Decimal = Decimal(0)
    cashDiscount2Percentage: Decimal = Decimal(0)
    paymentDueInDays: DueInDays | None = None
    paymentDueAsPeriod: DueAsPeriod | None = None


def payment_terms(row: TermOfPayment) -> Zahlungsbedingung:
    days = row.paymentDueInDays or DueInDays()
    periods = row.paymentDueAsPeriod or DueAsPeriod()
    found = (periods.period1, periods.period2, periods.period3)
    return as_answer(
        extf.Zahlungsbedingung(
            line=0,
            nummer=row.id,
            bezeichnung=row.caption,
            faelligkeitstyp=extf.ALS_ZEITRAUM if row.dueType == "due_as_period" else extf.NACH_TAGEN,
            skonto1_prozent=row.cashDiscount1Percentage.quantize(_HUNDREDTH),
            skonto1_tage=days.cashDiscount1Days,
            skonto2_prozent=row.cashDiscount2Percentage.quantize(_HUNDREDTH),
            skonto2_tage=days.cashDiscount2Days,
            faellig_tage=days.dueDateNet,
            zeitraeume=tuple(_zeitraum(one) for one in found if one is not None),
            verwendung=0,
        )
    )


def _zeitraum(period: Period) -> extf.Zeitraum:
    days = (period.dueDateCashDiscount1, period.dueDateCashDiscount2, period.dueDateNet)
    first, second, net = (_day(one) for one in days)
    return extf.Zeitraum(period.invoiceDayOfMonth, *first, *second, *net)


def _day(day: DayOfMonth | None) -> tuple[int, int]:
    if day is None or not day.dayOfMonth:
        return 0, 0
    if day.relatedMonth not in _MONTHS:
        raise ProviderError(None, f"DATEV names a month {day.relatedMonth!r}", type="nonsense")
    return day.dayOfMonth, _MONTHS[day.relatedMonth]
