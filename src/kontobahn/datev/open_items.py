"""Open items and due dates from postings: DATEV offers neither online. The rules are those of the built-in books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import date
from itertools import repeat
from typing import Any, NamedTuple

from kontobahn.datev.rows import (
    IS_DISCOUNT,
    IS_REVERSAL,
    LAST_LEDGER_ACCOUNT,
    PERSON_SHARES,
    Part,
    Posting,
    konto_of,
    postings,
)
from kontobahn.ledger import opos
from kontobahn.ledger.errors import ProviderError
from kontobahn.ledger.faelligkeiten import NOT_NAMED, FirstInvoice, as_invoice, earlier_invoice, invoice_text
from kontobahn.ledger.konto import FIRST_CREDITOR, PERSONENKONTO_DIGITS, Kontenrahmen, is_personenkonto
from kontobahn.ledger.opos import (
    EB_RESIDUAL_TEXT,
    AccountYear,
    Item,
    OpeningLeg,
    OpenKonto,
    Opos,
    OposSelection,
    Rest,
    Side,
    may_be_paired,
    twins_of_account,
)

_ALL_PERSONS = (LAST_LEDGER_ACCOUNT + 1, 10**PERSONENKONTO_DIGITS - 1)
_FIRST_CREDITOR = int(FIRST_CREDITOR)
# The accounts that a refusal names.
_NAMED = 5


# A document of a person account: its legs up to the cut-off, those after it (None if there are none), and what it began with. A list,
# because there may be millions of them.
_SOLL, _HABEN, _LATER, _DAY, _TEXT = range(5)
Document = list[Any]
# Of a leg: account, other account, cents, day, document, text, marks.
Leg = tuple[int, int, int, str, str, str, int]


class AccountSums:
    """A person account in a fiscal year."""

    __slots__ = ("bewegung", "eb", "eb_text", "openings")

    def __init__(self) -> None:
        self.eb = self.bewegung = 0
        self.eb_text = ""
        self.openings: list[OpeningLeg] = []


class Range(NamedTuple):
    low: int
    high: int


def range_of(side: Side, konto: str | None) -> Range:
    """Returns the person accounts that are asked for; `konto` is technical."""
    low, high = _ALL_PERSONS
    if side == "debitors":
        high = _FIRST_CREDITOR - 1
    elif side == "creditors":
        low = _FIRST_CREDITOR
    return Range(low, high) if konto is None else Range(max(low, int(konto)), min(high, int(konto)))


class OpenItems:
    """Gathers postings, some accounts at a time, and says what was open at the cut-off.

    First the opening balances of all years; then all postings of some accounts, `calculate`, and those of the next. An amount in another
    currency is refused: how DATEV turns it into euros is not told.
    """

    def __init__(
        self, selection: OposSelection, accounts: Range, rahmen: Kontenrahmen, *, with_invoices: bool = False
    ) -> None:
        """The first invoice of a document is looked for only `with_invoices`: due dates need it, open items do not."""
        self._selection, self._accounts, self._rahmen = selection, accounts, rahmen
        self._with_invoices = with_invoices
        self._stichtag = selection.stichtag.isoformat()
        # Of the accounts that are being gathered: their documents, first invoices, and movements of the years before the last carried one.
        self._documents: dict[int, dict[str, Document]] = {}
        self._rechnungen: dict[tuple[int, str], str] = {}
        self._moved: dict[str, dict[int, int]] = {}
        self._openings: dict[int, dict[str, AccountSums]] = {}
        self._between: dict[int, list[tuple[str, Leg]]] = defaultdict(list)
        # Fiscal years into which person accounts were carried; of all accounts, whichever are asked for.
        self._carried: set[str] = set()
        self._numbered = 0
        self._foreign: dict[int, str] = {}
        self._found: list[OpenKonto] = []
        self.invoices: dict[tuple[str, str], FirstInvoice] = {}

    # --- Postings

    def add_openings(self, jahr: str, part: Part) -> None:
        self._carried.add(jahr)
        for posting in postings(part):
            # Numbers begin again each year; pairs of openings are told apart by theirs over all years.
            self._numbered += 1
            for konto, other, betrag in posting.legs:
                if is_personenkonto(konto) and self._accounts.low <= int(konto) <= self._accounts.high:
                    self._add_opening(jahr, posting, konto, other, betrag)

    def _add_opening(self, jahr: str, posting: Posting, konto: str, other: str, betrag: int) -> None:
        if posting.waehrung:
            self._foreign[int(konto)] = posting.waehrung
        sums = self._openings.setdefault(int(konto), {}).setdefault(jahr, AccountSums())
        sums.eb += betrag
        text = posting.buchungstext or EB_RESIDUAL_TEXT
        sums.eb_text = min(sums.eb_text, text) if sums.eb_text else text
        if may_be_paired(other):
            leg = OpeningLeg(jahr, self._numbered, betrag, other, posting.belegfeld1, int(posting.is_reversal))
            sums.openings.append(leg)

    def add_between_persons(self, jahr: str, part: Part) -> None:
        """Keeps the legs of postings that move two persons' accounts, each for the share of its account."""
        self._note_currencies(part)
        for leg in _legs(part):
            konto, other, betrag, day, beleg, text, marks = leg
            self._between[konto % PERSON_SHARES].append((jahr, leg))
            self._between[other % PERSON_SHARES].append((jahr, (other, konto, -betrag, day, beleg, text, marks)))

    def add(self, jahr: str, part: Part) -> None:
        """Adds postings of a year that move the account of one person each."""
        self._note_currencies(part)
        self._add_legs(jahr, _legs(part))
        if self._with_invoices:
            self._add_invoices(_legs(part))

    def _note_currencies(self, part: Part) -> None:
        for code, konten in zip(
            part.waehrung, zip(part.konto, part.gegenkonto or repeat(0), strict=False), strict=False
        ):
            for konto in konten if code else ():
                if self._accounts.low <= konto <= self._accounts.high:
                    self._foreign[konto] = code

    def _add_legs(self, jahr: str, legs: Iterable[Leg]) -> None:
        # Run for every posting of the books: nothing is called here that need not be.
        low, high = self._accounts
        stichtag, documents = self._stichtag, self._documents
        moved = self._moved.setdefault(jahr, {}) if self._carried and jahr < max(self._carried) else None
        for konto, other, betrag, day, beleg, text, _ in legs:
            if konto <= LAST_LEDGER_ACCOUNT:
                konto, betrag = other, -betrag  # noqa: PLW2901
            if not low <= konto <= high:
                continue
            if moved is not None:
                moved[konto] = moved.get(konto, 0) + betrag
            own = documents.get(konto)
            if own is None:
                own = documents[konto] = {}
            document = own.get(beleg)
            if document is None:
                document = own[beleg] = [0, 0, None, day, text]
            elif day <= document[_DAY] and (day, text) < (document[_DAY], document[_TEXT]):
                document[_DAY], document[_TEXT] = day, text
            if day > stichtag:
                document[_LATER] = (document[_LATER] or 0) + betrag
            elif betrag > 0:
                document[_SOLL] += betrag
            else:
                document[_HABEN] -= betrag

    def _add_invoices(self, legs: Iterable[Leg]) -> None:
        for konto, other, betrag, day, beleg, _, marks in legs:
            if konto <= LAST_LEDGER_ACCOUNT:
                konto, other, betrag = other, konto, -betrag  # noqa: PLW2901
            if marks & IS_DISCOUNT or not self._accounts.low <= konto <= self._accounts.high:
                continue
            rechnung = invoice_text(
                self._rahmen, konto_of(konto), konto_of(other) if other else "", soll=betrag > 0, belegdatum=day,
                reversal=bool(marks & IS_REVERSAL), due=NOT_NAMED,
            )  # fmt: skip
            self._rechnungen[konto, beleg] = earlier_invoice(self._rechnungen.get((konto, beleg), ""), rechnung)

    # --- Answers

    def calculate(self, shares: range) -> None:
        """Says what is open of the accounts of these shares, all of whose postings were added, and forgets their documents."""
        for share in shares:
            for jahr, leg in self._between.pop(share, []):
                self._add_legs(jahr, [leg])
                if self._with_invoices:
                    self._add_invoices([leg])
        calculated = {konto for konto in self._openings if konto % PERSON_SHARES in shares} | self._documents.keys()
        net = opos.reconcile if self._selection.eb_modus == "reconcile" else opos.raw
        for konto in calculated:
            items = [
                Item(beleg, soll, haben, day, text)
                for beleg, (soll, haben, later, day, text) in self._documents.get(konto, {}).items()
                # It is open, or has moved since the cut-off.
                if later is not None or soll != haben
            ]
            for item in items if self._with_invoices else ():
                if rechnung := self._rechnungen.get((konto, item.beleg)):
                    self.invoices[str(konto), item.beleg] = as_invoice(rechnung)
            rest = self._rest_of(konto)
            shown = opos.open_konto(str(konto), items if rest is None else net(items, rest))
            if shown is not None:
                self._found.append(shown)
        self._documents, self._moved, self._rechnungen = {}, {}, {}

    def answer(self, names: dict[str, str]) -> Opos:
        """Raises ProviderError if an amount was in another currency."""
        if self._foreign:
            raise foreign_currency(self._foreign)
        return opos.assemble(self._selection.stichtag, self._found, names)

    def _rest_of(self, konto: int) -> Rest | None:
        """Returns what the opening balance of the last carried year has beyond the documents of the years before."""
        carried = [jahr for jahr in sorted(self._carried) if jahr <= self._stichtag]
        if not carried:
            return None
        years = dict(self._openings.get(konto, {}))
        for jahr, moved in self._moved.items():
            if konto in moved:
                years.setdefault(jahr, AccountSums()).bewegung = moved[konto]
        openings = self._openings_without_twins(years)
        betrag = self._rest(years, openings, carried[-1])
        if not betrag:
            return None
        if self._selection.eb_modus == "reconcile":
            return Rest(betrag, carried[-1], EB_RESIDUAL_TEXT)
        return Rest(betrag, *self._first_opening(years, openings, carried))

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


def _legs(part: Part) -> Iterable[Leg]:
    return zip(
        part.konto, part.gegenkonto or repeat(0), part.betrag or repeat(0), part.belegdatum,
        part.belegfeld1 or repeat(""), part.buchungstext or repeat(""), part.marks or repeat(0),
        strict=False,
    )  # fmt: skip


def foreign_currency(konten: Mapping[int, str]) -> ProviderError:
    """Returns the refusal of figures of which some are not in euros: DATEV tells the rate, but not the amount that it booked."""
    named = ", ".join(f"{konto} ({code})" for konto, code in sorted(konten.items())[:_NAMED])
    more = f" and {len(konten) - _NAMED} more" if len(konten) > _NAMED else ""
    return ProviderError(
        409, f"DATEV has postings in another currency and does not tell their euros: account {named}{more}. Ask for another account.",
        type="foreign_currency",
    )  # fmt: skip
