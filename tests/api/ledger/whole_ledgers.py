"""Whole ledgers made up by chance, and what every call must say of them, calculated from the rules of accounting alone.

Nothing here asks the program or knows its modules: rows are texts of a file, amounts are cents, SOLL is positive. Open items are
those of `recalculation`; here are tax, discounts, trial balance, VAT figures, due dates, profit and loss.
"""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, timedelta
from typing import Any, NamedTuple

from tests.unit.ledger.recalculation import Booking

YEARS = ("2024-01-01", "2025-01-01", "2026-01-01")
LAST_DAYS = ("2024-12-31", "2025-12-31", "2026-12-31")
TODAY = "2026-03-02"
DEBTORS, CREDITORS = ("10010", "10020", "10030"), ("70001", "70002")
# Days net, and one discount: days and percent. Those of the other partners are not known.
TERMS = {"10010": (30, 10, 2), "70001": (14, 0, 0)}
MONEY = ("1000", "1200", "1360")

# The kind and rate that accounts and keys stand for. U is output tax, V input tax, F free of it.
AUTOMATIC = {"8400": ("U", 19), "8300": ("U", 7), "8125": ("F", 0), "3400": ("V", 19), "3300": ("V", 7)}
KEYS = {"3": ("U", 19), "2": ("U", 7), "9": ("V", 19), "8": ("V", 7)}
TAX_ACCOUNTS = {("U", 19): "1776", ("U", 7): "1771", ("V", 19): "1576", ("V", 7): "1571"}
GRANTED, RECEIVED = {19: "8736", 7: "8731", 0: "8730"}, {19: "3736", 7: "3731", 0: "3730"}
CARRY = ("9000", "9008", "9009")
COSTS = (
    "4930",
    "4930",
    "4120",
    "4210",
    "4320",
    "4360",
    "4400",
    "4530",
    "4610",
    "4710",
    "4806",
    "2110",
    "2020",
    "2200",
    "2650",
)
# The lines of the profit and loss with the accounts of these ledgers; a sum of all above has none. No line of the scheme is 4400's.
BWA: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("Umsatzerlöse", ("8400", "8300", "8125", *GRANTED.values())),
    ("Bestandsveränderungen, Eigenleistungen", ()),
    ("Gesamtleistung", None),
    ("Material, Wareneinkauf, Fremdleistungen", ("3400", "3300", *RECEIVED.values())),
    ("Rohertrag", None),
    ("Sonstige betriebliche Erträge", ()),
    ("Betrieblicher Rohertrag", None),
    ("Personalkosten", ("4120",)),
    ("Raumkosten", ("4210",)),
    ("Betriebliche Steuern", ("4320",)),
    ("Versicherungen, Beiträge", ("4360",)),
    ("Fahrzeugkosten", ("4530",)),
    ("Werbe- und Reisekosten", ("4610",)),
    ("Kosten der Warenabgabe", ("4710",)),
    ("Abschreibungen", ("4830",)),
    ("Reparatur, Instandhaltung", ("4806",)),
    ("Sonstige Kosten", ("4930",)),
    ("Betriebsergebnis", None),
    ("Zinserträge", ("2650",)),
    ("Zinsaufwand", ("2110",)),
    ("Sonstiger neutraler Ertrag", ("2700",)),
    ("Sonstiger neutraler Aufwand", ("2020",)),
    ("Ergebnis vor Steuern", None),
    ("Steuern vom Einkommen und Ertrag", ("2200",)),
    ("Nicht zugeordnet", ("4400",)),
    ("Vorläufiges Ergebnis", None),
)


class Row(NamedTuple):
    """A row as it is written into a file."""

    tag: str
    umsatz: int
    soll: bool
    konto: str
    gegenkonto: str
    key: str = ""
    beleg: str = ""
    text: str = ""
    skonto: int = 0
    # A Generalumkehr that is marked in its column; one of an older program has it in the key.
    reversal: bool = False
    basis: int | None = None
    faellig: str = ""
    leistung: str = ""
    steuerperiode: str = ""
    closing: bool = False
    by_cash_book: bool = False

    @property
    def jahr(self) -> str:
        return f"{self.tag[:4]}-01-01"

    @property
    def is_reversal(self) -> bool:
        return self.reversal or (len(self.key) == 2 and self.key[0] == "2")

    @property
    def plain_key(self) -> str:
        """The key without the digit of a Generalumkehr."""
        return self.key[1:].strip("0") if len(self.key) == 2 and self.key[0] == "2" else self.key

    @property
    def betrag(self) -> int:
        return self.umsatz if self.basis is None else self.basis

    @property
    def person(self) -> str:
        return next((konto for konto in (self.konto, self.gegenkonto) if len(konto) == 5), "")

    @property
    def is_opening(self) -> bool:
        return self.tag == self.jahr and (self.konto in CARRY or self.gegenkonto in CARRY)

    @property
    def tax_day(self) -> str:
        return self.steuerperiode or self.leistung or self.tag

    @property
    def tax(self) -> tuple[str, int, str] | None:
        """Kind, rate, and the account whose amount contains it."""
        if self.plain_key == "40" or self.skonto:
            return None
        for konto in (self.konto, self.gegenkonto):
            if konto in AUTOMATIC:
                return *AUTOMATIC[konto], konto
        if self.plain_key not in KEYS:
            return None
        carriers = [konto for konto in (self.gegenkonto, self.konto) if len(konto) == 4 and konto not in MONEY]
        return *KEYS[self.plain_key], carriers[0]

    @property
    def booking(self) -> Booking:
        konto, gegenkonto = full(self.konto), full(self.gegenkonto)
        return Booking(
            self.tag, self.jahr, konto, gegenkonto, self.soll, self.betrag, self.beleg, self.text, self.skonto, self.is_reversal
        )  # fmt: skip

    def line(self) -> str:
        """As a file of bookings has it, with 125 columns."""
        fields = [""] * 125
        fields[0], fields[1] = euros(self.umsatz), "S" if self.soll else "H"
        if self.basis is not None:
            fields[2], fields[3], fields[4], fields[5] = "CHF", "1,0500", euros(self.basis), "EUR"
        fields[6], fields[7], fields[8] = self.konto, self.gegenkonto, self.key
        fields[9], fields[10], fields[13] = self.tag[8:] + self.tag[5:7], self.beleg, self.text
        fields[12] = euros(self.skonto) if self.skonto else ""
        fields[114], fields[115], fields[116] = map(day_of_file, (self.leistung, self.steuerperiode, self.faellig))
        fields[117] = "1" if self.reversal else ""
        return ";".join(fields)


def euros(cents: int) -> str:
    return f"{cents // 100},{cents % 100:02}"


def day_of_file(day: str) -> str:
    return day[8:] + day[5:7] + day[:4] if day else ""


def full(konto: str) -> str:
    return konto + "0000"


# --- Made up by chance


SALES = (
    ("8400", ""), ("8400", ""), ("8300", ""), ("8300", ""), ("8125", ""), ("8400", "3"), ("8400", "40"), ("2700", "3"),
    ("2700", "2"), ("2700", ""),
)  # fmt: skip


class Chance:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0

    def row(self, cash: bool = False) -> Row:
        make = (
            self._cash
            if cash
            else self._random.choice(
                (
                    self._sale,
                    self._sale,
                    self._purchase,
                    self._receipt,
                    self._receipt,
                    self._payment,
                    self._expense,
                    self._other,
                )
            )
        )
        row = make()
        if not cash and self._random.random() < 0.1 and not row.closing:
            row = self._reversed(row)
        return row

    def rows(self, count: int, cash: int) -> list[Row]:
        found = [self.row() for _ in range(count)] + [self.row(cash=True) for _ in range(cash)]
        for jahr in YEARS[1:]:
            if self._random.random() < 0.6:
                found += self._openings(jahr)
        return found

    def _day(self, last: str = LAST_DAYS[-1]) -> str:
        first = date.fromisoformat(YEARS[0]) + timedelta(days=1)
        return (first + timedelta(days=self._random.randint(0, (date.fromisoformat(last) - first).days))).isoformat()

    def _amount(self) -> int:
        """No two are equal, so that no row looks like another."""
        self._count += 1
        return self._random.randint(1, 300) * 1_000 + self._count

    def _some(self, share: float) -> str:
        return self._day() if self._random.random() < share else ""

    def _taxed(self, row: Row) -> Row:
        row = row._replace(leistung=self._some(0.15), steuerperiode=self._some(0.15))
        if self._random.random() < 0.15:
            row = row._replace(basis=row.umsatz * 20 // 21)
        return row

    def _document(self) -> str:
        return self._random.choice(("R1", "R2", "R3", "r1", "R/4"))

    def _text(self) -> str:
        return f"Zeile {self._count}"

    def _sale(self) -> Row:
        konto, key = self._random.choice(
            (
                ("8400", ""),
                ("8400", ""),
                ("8300", ""),
                ("8300", ""),
                ("8125", ""),
                ("8400", "3"),
                ("8400", "40"),
                ("2700", "3"),
                ("2700", "2"),
                ("2700", ""),
            )
        )
        umsatz, person, soll = self._amount(), self._random.choice(DEBTORS), self._random.random() < 0.9
        row = Row(
            self._day(), umsatz, soll, person, konto, key, self._document(), self._text(), faellig=self._some(0.4)
        )
        return self._turned(self._taxed(row))

    def _purchase(self) -> Row:
        konto, key = self._random.choice((("3400", ""), ("3300", ""), ("4930", "9"), ("4930", "8"), ("4930", "")))
        umsatz, person, soll = self._amount(), self._random.choice(CREDITORS), self._random.random() < 0.1
        row = Row(
            self._day(), umsatz, soll, person, konto, key, self._document(), self._text(), faellig=self._some(0.4)
        )
        return self._turned(self._taxed(row))

    def _turned(self, row: Row) -> Row:
        if self._random.random() < 0.5:
            return row
        return row._replace(konto=row.gegenkonto, gegenkonto=row.konto, soll=not row.soll)

    def _discount(self) -> int:
        return self._random.randint(1, 3_000) if self._random.random() < 0.5 else 0

    def _receipt(self) -> Row:
        row = self._money("1200", self._random.choice(DEBTORS))
        return row._replace(key=self._random.choice(("", "", "", "2", "40")) if row.skonto else "")

    def _payment(self) -> Row:
        return self._money(self._random.choice(CREDITORS), "1200")

    def _money(self, debit: str, credit: str) -> Row:
        """One in ten goes the other way."""
        umsatz, soll = self._amount(), self._random.random() < 0.9
        row = Row(
            self._day(), umsatz, soll, debit, credit, beleg=self._document(), text=self._text(), skonto=self._discount()
        )
        return self._turned(row)

    def _expense(self) -> Row:
        return self._turned(
            self._taxed(
                Row(
                    self._day(),
                    self._amount(),
                    True,
                    self._random.choice(COSTS),
                    "1200",
                    self._random.choice(("9", "8", "", "40")),
                    text=self._text(),
                )
            )
        )

    def _other(self) -> Row:
        kind = self._random.choice(("transfer", "import tax", "tax paid", "closing", "cash", "persons"))
        if kind == "closing":
            return Row(
                f"{self._random.choice(YEARS)[:4]}-12-31",
                self._amount(),
                True,
                "4830",
                "0420",
                text=self._text(),
                closing=True,
            )
        if kind == "persons":
            return Row(
                self._day(), self._amount(), True, "70001", "10010", beleg=self._document(), text=self._text(), skonto=0
            )  # fmt: skip
        konten = {
            "transfer": ("1360", "1200"),
            "import tax": ("1576", "1200"),
            "tax paid": ("1776", "1200"),
            "cash": ("1000", "1360"),
        }
        return self._turned(Row(self._day(), self._amount(), True, *konten[kind], text=self._text()))

    def _cash(self) -> Row:
        """Income of a cash book, so that it is never negative."""
        konto, key = self._random.choice((("8400", ""), ("8300", ""), ("2700", "3"), ("1360", "")))
        return Row(self._day(TODAY), self._amount(), True, "1000", konto, key, text=self._text(), by_cash_book=True)

    def _reversed(self, row: Row) -> Row:
        if len(row.key) <= 1 and not row.skonto and self._random.random() < 0.4:
            return row._replace(soll=not row.soll, key=f"2{row.key or 0}")
        return row._replace(soll=not row.soll, reversal=True)

    def _openings(self, jahr: str) -> list[Row]:
        found = []
        for konto, contra in (
            ("1200", "9000"),
            *((name, "9008") for name in DEBTORS),
            *((name, "9009") for name in CREDITORS),
        ):
            if self._random.random() < 0.7:
                soll = (konto not in CREDITORS) == (self._random.random() < 0.9)
                found.append(Row(jahr, self._amount(), soll, konto, contra, text=f"EB {self._count}"))
        return found


# --- What is true of them


class Leg(NamedTuple):
    konto: str
    betrag: int


def net_of(gross: int, rate: int) -> int:
    """Rounded half up, by whole cents."""
    return (gross * 200 + 100 + rate) // (2 * (100 + rate))


class Figures:
    """The figures of a ledger, each from the plain list of its rows."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.taxes: dict[tuple[str, str], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            if row.tax is not None and row.beleg and not row.is_opening:
                for konto in (row.konto, row.gegenkonto):
                    if len(konto) == 5:
                        self.taxes[konto, row.beleg].add(row.tax[:2])

    # --- Accounts

    def discount_rate(self, row: Row) -> int:
        """That of the document's one tax; else of the key; else the full one."""
        if row.plain_key == "40":
            return 0
        taxes = self.taxes[row.person, row.beleg] if row.beleg else set()
        kind = "U" if row.person in DEBTORS else "V"
        if len(taxes) == 1 and next(iter(taxes))[0] in (kind, "F"):
            return next(iter(taxes))[1]
        return KEYS[row.plain_key][1] if row.plain_key in KEYS else 19

    def legs(self, row: Row) -> list[Leg]:
        amount = row.betrag if row.soll else -row.betrag
        legs = [Leg(row.konto, amount), Leg(row.gegenkonto, -amount)]
        if row.skonto:
            rate, debtor = self.discount_rate(row), row.person in DEBTORS
            side = 1 if dict(legs)[row.person] > 0 else -1
            net = net_of(row.skonto, rate)
            legs += [Leg(row.person, side * row.skonto), Leg((GRANTED if debtor else RECEIVED)[rate], -side * net)]
            if row.skonto != net:
                legs.append(Leg(TAX_ACCOUNTS["U" if debtor else "V", rate], -side * (row.skonto - net)))
        elif row.tax is not None and row.tax[1]:
            kind, rate, carrier = row.tax
            side = 1 if dict(legs)[carrier] > 0 else -1
            tax = row.betrag - net_of(row.betrag, rate)
            if tax:
                legs += [Leg(carrier, -side * tax), Leg(TAX_ACCOUNTS[kind, rate], side * tax)]
        summed: dict[str, int] = defaultdict(int)
        for konto, betrag in legs:
            summed[konto] += betrag
        return [Leg(konto, betrag) for konto, betrag in summed.items()]

    def trial_balance(self, jahr: str) -> dict[str, dict[str, Any]]:
        """Account → opening balance (or None), and debit and credit of each period."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            if row.jahr != jahr:
                continue
            for konto, betrag in self.legs(row):
                line = found.setdefault(full(konto), {"eb": None, "periods": {}})
                if row.is_opening:
                    line["eb"] = (line["eb"] or 0) + betrag
                    continue
                period = 13 if row.closing else int(row.tag[5:7])
                soll, haben = line["periods"].get(period, (0, 0))
                # A general reversal takes turnover back on the other side.
                on_debit = (betrag > 0) != row.is_reversal
                line["periods"][period] = (soll + betrag, haben) if on_debit else (soll, haben - betrag)
        return found

    def profit_and_loss(self, jahr: str, periods: int) -> list[tuple[str, list[int]]]:
        """Name and periods of each line, income less costs. The last one has every account of classes 2, 3, 4 and 8."""
        of_account: dict[str, list[int]] = defaultdict(lambda: [0] * periods)
        for konto, line in self.trial_balance(jahr).items():
            for period, (soll, haben) in line["periods"].items():
                if len(konto) == 8 and konto[0] in "2348" and period <= periods:
                    of_account[konto[:4]][period - 1] += haben - soll
        lines: list[tuple[str, list[int]]] = []
        above: list[str] = []
        for name, accounts in BWA:
            above += accounts or ()
            summed = above if accounts is None else accounts
            lines.append((name, [sum(of_account[konto][number] for konto in summed) for number in range(periods)]))
        assert set(of_account) <= set(above), "an account of these ledgers has no line"
        return lines

    # --- VAT

    def vat(self, first: str, last: str) -> dict[str, Any]:
        lines: dict[tuple[str, str, str, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        direct = {"U": 0, "V": 0}
        for row in self.rows:
            if row.is_opening or not first <= row.tax_day <= last:
                continue
            for konto, sign in ((row.konto, 1), (row.gegenkonto, -1)):
                kind = next((kind for (kind, _), name in TAX_ACCOUNTS.items() if name == konto), None)
                if kind is not None:
                    amount = sign * (row.betrag if row.soll else -row.betrag)
                    direct[kind] += amount if kind == "V" else -amount
            self._add_vat(lines, row)
        return {"lines": dict(lines), "direct": direct}

    def _add_vat(self, lines: dict[tuple[str, str, str, int], list[int]], row: Row) -> None:
        if row.skonto:
            rate, debtor = self.discount_rate(row), row.person in DEBTORS
            paid = (row.soll == (row.konto == row.person)) != debtor
            net = net_of(row.skonto, rate)
            reduced = [-net, -(row.skonto - net) if debtor else 0, 0 if debtor else -(row.skonto - net)]
            values = [*(value if paid else -value for value in reduced), 1]
            key = ("", "", "SKONTO", rate)
        elif row.tax is not None:
            kind, rate, carrier = row.tax
            net = net_of(row.betrag, rate)
            sign = 1 if (row.soll == (row.konto == carrier)) == (kind == "V") else -1
            tax = sign * (row.betrag - net)
            values = [sign * net, tax if kind == "U" else 0, tax if kind == "V" else 0, 1]
            name = {"U": "UMSATZSTEUER", "V": "VORSTEUER", "F": "STEUERFREI"}[kind]
            key = (row.plain_key, "" if row.plain_key else full(carrier), name, rate)
        else:
            return
        sums = lines[key]
        for number, value in enumerate(values):
            sums[number] += value

    # --- Due dates

    def invoice(self, konto: str, beleg: str, stichtag: str) -> tuple[str, str] | None:
        """The day of the first invoice of a document by then, and the earliest due date that one of that day names."""
        found = []
        for row in self.rows:
            other = row.gegenkonto if row.konto == konto else row.konto
            if konto not in (row.konto, row.gegenkonto) or row.beleg != beleg or row.is_opening or row.tag > stichtag:
                continue
            owed = (row.soll == (row.konto == konto)) == (konto in DEBTORS)
            if owed and not row.is_reversal and other not in MONEY:
                found.append((row.tag, row.faellig or "~"))
        return min(found) if found else None

    def due(self, konto: str, item: dict[str, Any], stichtag: str) -> tuple[str, str, list[tuple[str, int]]]:
        """Day, source, and discounts: until when, and how much."""
        owed = (item["saldo"] > 0) == (konto in DEBTORS)
        invoice = self.invoice(konto, item["beleg"], stichtag) if owed else None
        terms = TERMS.get(konto) if owed else None
        begin = date.fromisoformat(invoice[0] if invoice else item["belegdatum"])
        discounts = []
        if terms and terms[2]:
            discounts = [
                ((begin + timedelta(days=terms[1])).isoformat(), (abs(item["saldo"]) * terms[2] * 2 + 100) // 200)
            ]
        if invoice and invoice[1] != "~":
            return invoice[1], "zeile", discounts
        if not owed and (credit := self.credit(konto, item["beleg"], stichtag)):
            return credit, "zeile", []
        if terms:
            return (begin + timedelta(days=terms[0])).isoformat(), "zahlungsbedingung", discounts
        return begin.isoformat(), "belegdatum", discounts

    def credit(self, konto: str, beleg: str, stichtag: str) -> str:
        """The due date that the first credit note with one names, if the document has no invoice at all."""
        if self.invoice(konto, beleg, "9999"):
            return ""
        found = [
            (row.tag, row.faellig)
            for row in self.rows
            if konto in (row.konto, row.gegenkonto) and row.beleg == beleg and row.faellig and not row.is_reversal
            and (row.gegenkonto if row.konto == konto else row.konto) not in MONEY
        ]  # fmt: skip
        return min(found)[1] if found and min(found)[0] <= stichtag else ""
