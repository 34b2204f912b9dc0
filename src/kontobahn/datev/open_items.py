"""Open items and due dates from postings: DATEV offers neither online. The rules are those of the built-in books."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import NamedTuple

from kontobahn.datev.postings import Posting
from kontobahn.ledger import opos
from kontobahn.ledger.eroeffnungen import AccountYear, OpeningLeg, may_be_paired, twins_of_account
from kontobahn.ledger.faelligkeiten import NOT_NAMED, FirstInvoice, as_invoice, earlier_invoice, invoice_text
from kontobahn.ledger.kontenrahmen import Kontenrahmen
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS
from kontobahn.ledger.opos import EB_RESIDUAL_TEXT, Item, Opos, OposSelection, Rest, Side

_ALL_PERSONS = ("100000000", "999999999")


class Document:
    """The legs of one person account under one document number."""

    __slots__ = ("first", "haben", "later", "rechnung", "soll")

    def __init__(self, first: tuple[str, str]) -> None:
        self.soll = self.haben = 0
        # The sum of its legs after the cut-off; None if there are none.
        self.later: int | None = None
        self.first = first
        self.rechnung = ""

    @property
    def is_shown(self) -> bool:
        """Returns whether it is open today, or has moved since the cut-off."""
        return self.later is not None or self.soll != self.haben


class AccountSums:
    """A person account in a fiscal year."""

    __slots__ = ("bewegung", "eb", "eb_text", "openings")

    def __init__(self) -> None:
        self.eb = self.bewegung = 0
        self.eb_text = ""
        self.openings: list[OpeningLeg] = []


class Range(NamedTuple):
    low: str
    high: str


def range_of(side: Side, konto: str | None) -> Range:
    """Returns the person accounts that are asked for; `konto` is technical."""
    low, high = _ALL_PERSONS
    if side == "debitors":
        high = "699999999"
    elif side == "creditors":
        low = FIRST_CREDITOR
    return Range(low, high) if konto is None else Range(max(low, konto), min(high, konto))


class OpenItems:
    """Gathers postings, year by year, and says what was open at the cut-off."""

    def __init__(
        self, selection: OposSelection, accounts: Range, rahmen: Kontenrahmen, *, with_invoices: bool = False
    ) -> None:
        """The first invoice of a document is looked for only `with_invoices`: due dates need it, open items do not."""
        self._selection, self._accounts, self._rahmen = selection, accounts, rahmen
        self._with_invoices = with_invoices
        self._stichtag = selection.stichtag.isoformat()
        self._documents: dict[tuple[str, str], Document] = {}
        self._years: dict[str, dict[str, AccountSums]] = {}
        # Fiscal years into which person accounts were carried; of all accounts, whichever are asked for.
        self._carried: set[str] = set()

    def add(self, jahr: str, postings: Iterable[Posting], first_number: int) -> None:
        """Adds postings of a year, numbered from there on in DATEV's order."""
        for number, posting in enumerate(postings, first_number):
            if len(posting.konto) == PERSONENKONTO_DIGITS:
                self._add_leg(jahr, number, posting, posting.konto, posting.gegenkonto, posting.betrag)
            if len(posting.gegenkonto) == PERSONENKONTO_DIGITS:
                self._add_leg(jahr, number, posting, posting.gegenkonto, posting.konto, -posting.betrag)

    def _add_leg(self, jahr: str, number: int, posting: Posting, konto: str, other: str, betrag: int) -> None:
        if posting.is_opening:
            self._carried.add(jahr)
        if not self._accounts.low <= konto <= self._accounts.high:
            return
        years = self._years.get(konto)
        if years is None:
            years = self._years[konto] = {}
        sums = years.get(jahr)
        if sums is None:
            sums = years[jahr] = AccountSums()
        if posting.is_opening:
            sums.eb += betrag
            text = posting.buchungstext or EB_RESIDUAL_TEXT
            sums.eb_text = min(sums.eb_text, text) if sums.eb_text else text
            if may_be_paired(other):
                leg = OpeningLeg(jahr, number, betrag, other, posting.belegfeld1, int(posting.is_reversal))
                sums.openings.append(leg)
            return
        sums.bewegung += betrag
        self._add_to_document(posting, konto, other, betrag)

    def _add_to_document(self, posting: Posting, konto: str, other: str, betrag: int) -> None:
        first = (posting.belegdatum, posting.buchungstext)
        document = self._documents.get((konto, posting.belegfeld1))
        if document is None:
            document = self._documents[konto, posting.belegfeld1] = Document(first)
        elif first < document.first:
            document.first = first
        if self._with_invoices and not posting.is_discount:
            rechnung = invoice_text(
                self._rahmen, konto, other, soll=betrag > 0, belegdatum=posting.belegdatum,
                reversal=posting.is_reversal, due=NOT_NAMED,
            )  # fmt: skip
            document.rechnung = earlier_invoice(document.rechnung, rechnung)
        if posting.belegdatum > self._stichtag:
            document.later = (document.later or 0) + betrag
        elif betrag > 0:
            document.soll += betrag
        else:
            document.haben -= betrag

    # --- Answers

    def answer(self, names: dict[str, str]) -> Opos:
        net = opos.reconcile if self._selection.eb_modus == "reconcile" else opos.raw
        items: dict[str, list[Item]] = {}
        for (konto, beleg), document in self._documents.items():
            if document.is_shown:
                items.setdefault(konto, []).append(Item(beleg, document.soll, document.haben, *document.first))
        rests = self._rests()
        found = []
        for konto in items.keys() | rests.keys():
            own = items.get(konto, [])
            shown = opos.open_konto(konto, net(own, rests[konto]) if konto in rests else own)
            if shown is not None:
                found.append(shown)
        return opos.assemble(self._selection.stichtag, found, names)

    def invoices(self) -> dict[tuple[str, str], FirstInvoice]:
        return {key: as_invoice(one.rechnung) for key, one in self._documents.items() if one.rechnung}

    def _rests(self) -> dict[str, Rest]:
        """Returns what the opening balances of the last carried year have beyond the documents of the years before."""
        carried = [jahr for jahr in sorted(self._carried) if jahr <= self._stichtag]
        if not carried:
            return {}
        found = {}
        for konto, years in self._years.items():
            openings = self._openings_without_twins(years)
            betrag = self._rest(years, openings, carried[-1])
            if betrag and self._selection.eb_modus == "reconcile":
                found[konto] = Rest(betrag, carried[-1], EB_RESIDUAL_TEXT)
            elif betrag:
                found[konto] = Rest(betrag, *self._first_opening(years, openings, carried))
        return found

    def _rest(self, years: dict[str, AccountSums], openings: dict[str, int], carried: str) -> int:
        return openings.get(carried, 0) - sum(sums.bewegung for jahr, sums in years.items() if jahr < carried)

    def _openings_without_twins(self, years: dict[str, AccountSums]) -> dict[str, int]:
        openings = {jahr: sums.eb for jahr, sums in years.items()}
        legs = [leg for sums in years.values() for leg in sums.openings]
        is_mixed = any(
            min(signs) < 0 < max(signs) for sums in years.values() if (signs := [leg.betrag for leg in sums.openings])
        )
        if is_mixed:
            rows = [AccountYear(jahr, sums.eb, sums.eb_text, sums.bewegung) for jahr, sums in years.items()]
            twins = twins_of_account(rows, legs)
            for leg in legs:
                if leg.booking in twins:
                    openings[leg.jahr] -= leg.betrag
        return openings

    def _first_opening(
        self, years: dict[str, AccountSums], openings: dict[str, int], carried: list[str]
    ) -> tuple[str, str]:
        """Returns the first year that the account was carried into, with or without an opening balance, and the text of it."""
        first = next(jahr for jahr in carried if self._rest(years, openings, jahr))
        found = (first, EB_RESIDUAL_TEXT)
        for jahr, sums in sorted(years.items(), reverse=True):
            if sums.eb_text and jahr <= found[0]:
                found = (jahr, sums.eb_text)
        return found


def years_up_to(starts: Iterable[date], stichtag: date) -> list[date]:
    """Returns the fiscal years whose postings count at the cut-off."""
    return [start for start in sorted(starts) if start <= stichtag]
