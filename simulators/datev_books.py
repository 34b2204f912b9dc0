"""The books of DATEV's simulator: DATEV-format files read into the rows that its services answer with."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import Any

from kontobahn.books.satz import (
    EB_PERIOD,
    Satz,
    discount_split,
    is_opening_balance,
    legs_of,
    merge_taxes,
    period_of,
    tax_for_item,
)
from kontobahn.formats.extf import (
    ALS_ZEITRAUM,
    BUCHUNGSSTAPEL,
    KONTENBESCHRIFTUNGEN,
    PERSONENKONTEN,
    Buchungssatz,
    ExtfFile,
    Kontobeschriftung,
    Personenkonto,
    Zahlungsbedingung,
    Zeitraum,
    display_name,
    open_extf,
)
from kontobahn.ledger import kontierung
from kontobahn.ledger.kontierung import Leg
from kontobahn.ledger.konto import KONTENRAHMEN, SACHKONTO_DIGITS, Kontenrahmen, is_personenkonto
from kontobahn.ledger.steuer import era_of

MONTHS = ("current_month", "next_month", "month_after_next")
Row = dict[str, Any]


@dataclass
class Year:
    begin: date
    end: date
    bookings: list[Satz] = field(default_factory=list)

    @property
    def id(self) -> int:
        return int(self.begin.strftime("%Y%m%d"))


@dataclass
class Ledger:
    """The books of one client; fed with files in any order, asked for rows."""

    account_length: int = 4
    skr: int = 3
    # Another number that it answers with, for a chart that we have no copy of.
    told_skr: int | None = None
    currency: str = "EUR"
    years: dict[int, Year] = field(default_factory=dict)
    captions: dict[str, str] = field(default_factory=dict)
    terms: dict[int, Zahlungsbedingung] = field(default_factory=dict)
    # Person accounts stand in the place of the account, or of the contra account, as the file has them; or always in one of them.
    persons: str = "as written"

    @property
    def rahmen(self) -> Kontenrahmen:
        return KONTENRAHMEN[f"SKR{self.skr:02}"]

    def feed(self, content: bytes) -> None:
        with open_extf(io.BytesIO(content)) as file:
            header = file.header
            if header.has_chart:
                self.account_length, self.skr = header.sachkontenlaenge, int(header.skr or self.skr)
            year = self.open_year(header.wj_beginn, header.wj_ende)
            if header.category == BUCHUNGSSTAPEL.number:
                year.bookings += [self._satz(row) for row in file.buchungssaetze() if isinstance(row, Buchungssatz)]
            else:
                self._feed_master_data(file, header.category)

    def open_year(self, begin: date, end: date) -> Year:
        made = Year(begin, end)
        return self.years.setdefault(made.id, made)

    def label_chart(self) -> None:
        """Labels the accounts of the chart, as every client begins with them."""
        for nummer, text in self.rahmen.beschriftungen.items():
            self.captions.setdefault(kontierung.full(nummer), text)

    def _feed_master_data(self, file: ExtfFile, category: int) -> None:
        if category == KONTENBESCHRIFTUNGEN.number:
            for label in file.kontenbeschriftungen():
                if isinstance(label, Kontobeschriftung):
                    self.captions[self._technical(label.konto)] = label.beschriftung
        elif category == PERSONENKONTEN.number:
            for person in file.personenkonten():
                if isinstance(person, Personenkonto):
                    self.captions[self._technical(person.konto)] = display_name(person)
        else:
            for terms in file.zahlungsbedingungen():
                if isinstance(terms, Zahlungsbedingung):
                    self.terms[terms.nummer] = terms

    def _technical(self, konto: str) -> str:
        return konto + "0" * (SACHKONTO_DIGITS - self.account_length)

    def _satz(self, row: Buchungssatz) -> Satz:
        values = {name: getattr(row, name) for name in Satz._fields}
        values |= {name: self._technical(values[name]) for name in ("konto", "gegenkonto")}
        return Satz(**values)

    # --- Answers

    def fiscal_year(self, year: Year) -> Row:
        return {
            "accountLength": self.account_length, "accountSystem": self.told_skr or self.skr, "currencyCode": self.currency,
            "costLength": None,
            "yearBegin": year.begin.isoformat(), "yearEnd": year.end.isoformat(), "nationalRight": "DE",
        }  # fmt: skip

    def accounts(self, year: Year, *, with_persons: bool) -> list[Row]:
        """Those that have a caption; persons among them only if they are booked as well."""
        booked = {konto for satz in year.bookings for konto in (satz.konto, satz.gegenkonto)}
        return [
            {"accountNumber": int(konto), "caption": text}
            for konto, text in sorted(self.captions.items(), key=lambda item: (len(item[0]), item[0]))
            if not is_personenkonto(konto) or (with_persons and konto in booked)
        ]

    def postings(self, year: Year, *, with_links: bool = False) -> list[Row]:
        found = []
        for number, satz in enumerate(year.bookings, 1):
            row = self._posting(year, satz, number)
            if with_links:
                row["documentLink"] = {"sourceSystem": "BEDI", "documentGuid": ""}
            found.append(row)
            if satz.skonto:
                found.append(self._discount(row, satz))
        return found

    def _posting(self, year: Year, satz: Satz, number: int) -> Row:
        konto, gegenkonto, soll = satz.konto, satz.gegenkonto, satz.soll
        wants_swap = {"contra": is_personenkonto(konto), "account": is_personenkonto(gegenkonto)}
        if wants_swap.get(self.persons):
            konto, gegenkonto, soll = gegenkonto, konto, not soll
        row = {
            "accountNumber": int(konto), "contraAccountNumber": int(gegenkonto),
            "amountDebit" if soll else "amountCredit": satz.betrag / 100, "date": satz.belegdatum,
            "currencyCode": "EUR", "accountingSequenceId": 1, "recordType": "financial_accounting",
            "isOpeningBalancePosting": is_opening_balance(satz, year.begin.isoformat()),
            "generalReversal": satz.generalumkehr, "documentField1": satz.belegfeld1, "documentField2": satz.belegfeld2,
            "postingDescription": satz.buchungstext, "kost1CostCenterId": satz.kost1, "kost2CostCenterId": satz.kost2,
            "followOnPostingType": "journal_entry",
        }  # fmt: skip
        if satz.bu_schluessel:
            row["accountingTransactionKey"] = int(satz.bu_schluessel)
        if satz.skonto:
            row["cashDiscount"] = satz.skonto / 100
        # What is empty is left out.
        return {name: value for name, value in row.items() if value not in ("", None)}

    def _discount(self, payment: Row, satz: Satz) -> Row:
        """The follow-on row of a payment with discount, on the same side of the person account as the payment."""
        person_first = is_personenkonto(str(payment["accountNumber"]))
        side = "amountDebit" if "amountDebit" in payment else "amountCredit"
        person = payment["accountNumber" if person_first else "contraAccountNumber"]
        accounts = self.rahmen.gewaehrte_skonti if str(person) < "7" else self.rahmen.erhaltene_skonti
        discount = int(kontierung.full(accounts[19]))
        row = {**payment, side: satz.skonto / 100, "followOnPostingType": "cash_discount_posting"}
        row["contraAccountNumber" if person_first else "accountNumber"] = discount
        row.pop("cashDiscount")
        return row

    def sums(self, year: Year) -> list[Row]:
        totals: dict[tuple[str, int], list[int]] = {}
        for satz in year.bookings:
            is_opening = is_opening_balance(satz, year.begin.isoformat())
            period = EB_PERIOD if is_opening else period_of(satz.belegdatum, year.begin.isoformat())
            for konto, betrag in self._legs(satz):
                sums = totals.setdefault((konto, period), [0, 0])
                if (betrag > 0) != satz.generalumkehr:
                    sums[0] += betrag
                else:
                    sums[1] -= betrag
        ordered = sorted(totals, key=lambda key: (len(key[0]), key))
        return [
            self._line(konto, {period: totals[konto, period] for _, period in keys})
            for konto, keys in groupby(ordered, key=lambda key: key[0])
        ]

    def _legs(self, satz: Satz) -> list[Leg]:
        if satz.skonto:
            return legs_of(self.rahmen, satz, discount_split(self.rahmen, satz, self._tax_of_document(satz)).text)
        return legs_of(self.rahmen, satz, self._split(satz))

    def _split(self, satz: Satz) -> str:
        return kontierung.split(
            self.rahmen, konto=satz.konto, gegenkonto=satz.gegenkonto, schluessel=satz.bu_schluessel,
            era=era_of(satz.belegdatum),
        ).text  # fmt: skip

    def _tax_of_document(self, payment: Satz) -> str:
        person = payment.konto if is_personenkonto(payment.konto) else payment.gegenkonto
        tax = ""
        for year in self.years.values():
            for satz in year.bookings:
                if (
                    satz.belegfeld1 == payment.belegfeld1
                    and person in (satz.konto, satz.gegenkonto)
                    and not satz.skonto
                ):
                    tax = merge_taxes(tax, tax_for_item(self._split(satz)))
        return tax

    def _line(self, konto: str, periods: dict[int, list[int]]) -> Row:
        months = {period: sums for period, sums in periods.items() if period != EB_PERIOD}
        debit, credit = (sum(sums[side] for sums in months.values()) for side in (0, 1))
        opening = periods.get(EB_PERIOD)
        balance = debit - credit + (opening[0] - opening[1] if opening else 0)
        row: Row = {
            "accountNumber": int(konto), "caption": self.captions.get(konto), "annualValueDebit": debit / 100,
            "annualValueCredit": credit / 100, "balance": abs(balance) / 100,
            "balanceDebitCreditIdentifier": "H" if balance < 0 else "S",
            "sumsAndBalancesMonthValues": [
                {
                    "fiscalYearMonth": period, "monthlyBalance": abs(soll - haben) / 100,
                    "monthlyBalanceDebitCreditIdentifier": "H" if soll < haben else "S",
                }
                for period, (soll, haben) in sorted(months.items())
            ],
        }  # fmt: skip
        if opening:
            saldo = opening[0] - opening[1]
            row["openingBalanceCredit" if saldo < 0 else "openingBalanceDebit"] = abs(saldo) / 100
        return row

    def terms_of_payment(self) -> list[Row]:
        return [_terms(terms) for _, terms in sorted(self.terms.items())]


def _terms(terms: Zahlungsbedingung) -> Row:
    row: Row = {
        "id": terms.nummer, "caption": terms.bezeichnung, "dueType": "due_in_days",
        "cashDiscount1Percentage": float(terms.skonto1_prozent),
        "cashDiscount2Percentage": float(terms.skonto2_prozent),
    }  # fmt: skip
    if terms.faelligkeitstyp == ALS_ZEITRAUM:
        row |= {"dueType": "due_as_period", "paymentDueAsPeriod": _periods(terms.zeitraeume)}
    else:
        row["paymentDueInDays"] = {
            "cashDiscount1Days": terms.skonto1_tage,
            "cashDiscount2Days": terms.skonto2_tage,
            "dueDateNet": terms.faellig_tage,
        }
    return row


def _periods(zeitraeume: Iterable[Zeitraum]) -> Row:
    return {
        f"period{number}": {
            "invoiceDayOfMonth": one.rechnung_bis,
            **_day("dueDateCashDiscount1", one.skonto1_tag, one.skonto1_monat),
            **_day("dueDateCashDiscount2", one.skonto2_tag, one.skonto2_monat),
            **_day("dueDateNet", one.faellig_tag, one.faellig_monat),
        }
        for number, one in enumerate(zeitraeume, 1)
    }


def _day(name: str, tag: int, monat: int) -> Row:
    return {name: {"relatedMonth": MONTHS[monat], "dayOfMonth": tag}} if tag else {}
