"""Texts that payers of small companies write on an ordinary day: the realistic mix of the second set of worlds.

Payers keep their habits. Most name a number, many in a form of their own or beside numbers of theirs; some name a month or a house,
some nothing; some deduct credit notes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import date, timedelta

from kontobahn.reconciliation.core.model import Learned, Line, OwnPayment, Person, Rule
from tests.matching.companies import (
    FEE_KONTO,
    MONTHS,
    OWN_IBAN,
    STREETS,
    TRANSFER_KONTO,
    Company,
    Document,
    on_account,
    paid,
)
from tests.matching.events import Event
from tests.matching.impostors import look_alikes
from tests.matching.world import iban

HABITS = {
    "number": 22, "sentence": 22, "own form": 12, "beside voucher": 9, "beside customer": 8, "with day": 5, "torn": 4, "reference": 5,
    "end": 2, "typo": 2, "never": 5,
}  # fmt: skip
EVENTS = {
    "full": 560, "month": 70, "house": 40, "skonto": 45, "several": 55, "sum": 25, "credit_note": 25, "part": 15, "over": 8,
    "double": 8, "deviating": 18, "returned": 14, "own_payment": 30, "fees": 40, "wages": 40, "rent": 30, "transfer": 12, "noise": 15,
}  # fmt: skip
_WORDS = (
    "Rechnung",
    "Rg.",
    "RE-Nr.",
    "Rechnung Nr.",
    "Rechnungsnr.:",
    "RNr",
    "Invoice",
    "Ihre Rechnung",
    "zu",
    "Beleg",
    "",
)
_TAIL = ("", "", "", " danke", " vielen Dank", " mfg", " Gruss", " SAGT DANKE")
_SILENT = (
    "Zahlung",
    "wie vereinbart",
    "Ueberweisung",
    "Ihre Leistung",
    "Honorar",
    "Danke",
    "Auftrag Nordhof",
    "Service",
)
_NOISE = (
    ("Steuererstattung", "Finanzamt Mitte", 48_211),
    ("Spende", "Unbekannt", 2_500),
    ("Kartenzahlung", "Tankstelle Nord", -7_412),
)
RULES = (
    Rule("fees", "49700000", text="entgelt kontofuehrung", sign="out", acts=True),
    Rule("wages", "17400000", text="lohn/gehalt", sign="out", acts=True),
    Rule("rent", "42100000", text="miete lagerhalle", sign="out", acts=True),
)


class Everyday:
    """Draws a company's movements. Standing customers get a document a month; managers one for each of their houses."""

    def __init__(self, r: random.Random, kind: str, customers: int = 110) -> None:
        self.r = r
        self.company = Company(r, kind)
        self.company.rules = RULES
        self.accounts: dict[str, str] = {}
        self.habits: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.open: dict[str, list[Document]] = {}
        self.months: dict[str, list[tuple[Document, int]]] = {}
        self.houses: dict[str, list[tuple[Document, str]]] = {}
        self._people(customers)
        self._documents()

    def _people(self, customers: int) -> None:
        taken = set[str]()
        for number in range(customers):
            names: tuple[str, ...] = look_alikes(self.r) if number % 12 == 0 else (self.company.unused_name(),)
            for name in names:
                if name in taken:
                    continue
                taken.add(name)
                account = iban(self.r)
                person = self.company.customer(name, known=0.45, account=account)
                self.accounts[person.konto] = account
                self.habits[person.konto] = self.r.choices(list(HABITS), list(HABITS.values()))[0]
                self.names[person.konto] = self._at_the_bank(name)
                if not person.ibans and self.r.random() < 0.3:
                    # The office has booked payments of this IBAN before.
                    self.company.learned.append(Learned(person.konto, self.r.choice((1, 2, 4)), iban=account))

    def _at_the_bank(self, name: str) -> str:
        way = self.r.random()
        if way < 0.45:
            return name
        if way < 0.7:
            return name.upper().replace("Ä", "AE").replace("Ö", "OE").replace("Ü", "UE")
        if way < 0.85:
            return name[:27].strip()
        return name.removesuffix(" GmbH").removesuffix(" e.K.") if way < 0.96 else self.company.unused_name()

    def _documents(self) -> None:
        persons = list(self.company.persons.values())
        standing = (
            persons[:: max(int(1 / self.company.trade.standing), 1)][:14]
            if self.company.trade.standing
            else persons[:4]
        )
        managers = persons[1:3]
        for person in standing:
            amount, thing = self.company.price(), self.r.choice(("Miete", "Wartung", "Pauschale", "Abo", "Beitrag"))
            for month in range(1, 10):
                day = date(2026, month, self.r.randint(1, 4))
                document = self.company.document(person, amount, text=f"{thing} {MONTHS[month - 1]} 2026", day=day)
                self.months.setdefault(person.konto, []).append((document, month))
        for person in managers:
            amount = self.company.price()
            for house in self.r.sample([(street, number) for street in STREETS for number in (3, 12, 21, 48)], 14):
                said = f"{house[0]} {house[1]}"
                document = self.company.document(person, amount, text=f"Hausreinigung {said}")
                self.houses.setdefault(person.konto, []).append((document, said))
        rest = [person for person in persons if person not in managers and person not in standing]
        for _ in range(self.company.trade.documents - len(self.company.items)):
            person = rest[int(len(rest) * self.r.random() ** 1.4)]
            amount = -self.r.randint(500, 4_000) if self.r.random() < 0.03 else 0
            document = self.company.document(person, amount, terms=self.r.random() < self.company.trade.terms)
            self.open.setdefault(person.konto, []).append(document)

    # --- Drawing

    def draw(self, count: int) -> list[Event]:
        events: list[Event] = []
        misses = 0
        while len(events) < count and misses < 200:
            kind = self.r.choices(list(EVENTS), list(EVENTS.values()))[0]
            drawn = list(getattr(self, f"_{kind}")())
            misses = 0 if drawn else misses + 1
            events += drawn
        return sorted(events, key=lambda event: event.booking.booked)

    def _take(self, least: int = 1, *, terms: bool = False) -> list[Document]:
        kontos = [
            konto for konto, documents in self.open.items()
            if sum(document.amount > 0 and (not terms or bool(document.item.discounts)) for document in documents) >= least
        ]  # fmt: skip
        if not kontos:
            return []
        documents = self.open[self.r.choice(kontos)]
        fit = [document for document in documents if document.amount > 0 and (not terms or document.item.discounts)]
        # Mostly the oldest first.
        start = 0 if self.r.random() < 0.7 else self.r.randrange(len(fit) - least + 1)
        chosen = sorted(fit, key=lambda document: document.item.day)[start : start + least]
        for document in chosen:
            documents.remove(document)
        return chosen

    def _pays(
        self, kind: str, documents: list[Document], text: str, truth: tuple[Line, ...], day: date, **more: str | None
    ) -> Event:
        person = documents[0].person
        amount = sum(line.amount_minor for line in truth)
        merged: dict[str, str | None] = {
            "account": self.accounts[person.konto],
            "name": self.names[person.konto],
            **more,
        }
        return Event(kind, self.company.booking(amount, text, person, day, **merged), truth)

    def _after(self, documents: list[Document], least: int = 3, most: int = 40) -> date:
        return max(document.item.day for document in documents) + timedelta(self.r.randint(least, most))

    def _text(self, documents: list[Document]) -> tuple[str, str | None]:
        """The purpose and the end-to-end id, by the payer's habit."""
        person = documents[0].person
        habit = self.habits[person.konto]
        numbers = [document.beleg for document in documents]
        word = self.r.choice(_WORDS)
        joined = self.r.choice((", ", " ", " u. ", " + ")).join(numbers)
        of_the_payer = self.r.randint(10_000, 99_999)
        voucher = self.r.choice((f"51{of_the_payer}{of_the_payer // 100}", f"{of_the_payer}7", f"K{of_the_payer}"))
        if habit == "never":
            return self.r.choice(_SILENT), None
        if habit == "reference":
            return self.r.choice(_SILENT), " ".join(numbers)[:35]
        if habit == "own form":
            joined = self.r.choice((", ", " u. ", " + ")).join(self.company.said(document) for document in documents)
        elif habit == "end":
            joined = " ".join(str(document.running) for document in documents)
        elif habit == "typo":
            joined = " ".join(self._mistyped(number) for number in numbers)
        elif habit == "torn":
            joined = " ".join(self._torn(number) for number in numbers)
        texts = {
            "beside voucher": self.r.choice((f"{joined} {voucher}", f"{voucher} {joined}", f"{voucher}/{joined}")),
            "beside customer": self.r.choice(("{1} {0}", "{0} {1}", "{2} {0} {1}")).format(joined, person.numbers[0], word),
            "with day": f"{word} {numbers[0]} vom {documents[0].item.day:%d.%m.%Y}" + "".join(f" {number}" for number in numbers[1:]),
            "number": joined,
        }  # fmt: skip
        return texts.get(habit, f"{word} {joined}{self.r.choice(_TAIL)}".strip()), None

    def _mistyped(self, number: str) -> str:
        place = self.r.choice([place for place, char in enumerate(number) if char.isdigit()][-3:])
        return number[:place] + str(self.r.randint(0, 9)) + number[place + 1 :]

    def _torn(self, number: str) -> str:
        place = self.r.randrange(2, len(number)) if len(number) > 3 else 1
        return f"{number[:place]} {number[place:]}"

    # --- Kinds

    def _full(self) -> Iterator[Event]:
        if documents := self._take():
            text, reference = self._text(documents)
            yield self._pays("full", documents, text, paid(*documents), self._after(documents), reference=reference)

    def _skonto(self) -> Iterator[Event]:
        if documents := self._take(terms=True):
            text, reference = self._text(documents)
            item = documents[0].item
            truth = (*paid(*documents), Line("skonto", item.konto, item.beleg, -item.discounts[0].amount_minor))
            yield self._pays("skonto", documents, text, truth, self._after(documents, 1, 9), reference=reference)

    def _several(self) -> Iterator[Event]:
        if documents := self._take(self.r.choice((2, 2, 2, 3, 3, 5))):
            text, reference = self._text(documents)
            yield self._pays("several", documents, text, paid(*documents), self._after(documents), reference=reference)

    def _sum(self) -> Iterator[Event]:
        """Everything that is open, without a number."""
        few = [
            konto
            for konto, documents in self.open.items()
            if 2 <= len(documents) <= 4 and all(d.amount > 0 for d in documents)
        ]
        if few:
            documents = self.open.pop(self.r.choice(few))
            text = self.r.choice(("offene Posten", "alle Rechnungen", "Sammelzahlung", "Kontoausgleich", *_SILENT))
            yield self._pays("sum", documents, text, paid(*documents), self._after(documents))

    def _credit_note(self) -> Iterator[Event]:
        """An invoice less a credit note, named or only mentioned."""
        for documents in self.open.values():
            notes = [document for document in documents if document.amount < 0]
            large = [document for document in documents if notes and document.amount > -notes[0].amount]
            if large:
                note, invoice = notes[0], self.r.choice(large)
                documents.remove(note)
                documents.remove(invoice)
                text = self.r.choice(
                    (
                        "Rechnung {} abz. Gutschrift {}",
                        "{} abzgl. GS {}",
                        "{} - {}",
                        "RE {} abz. Gutschrift",
                        "{} minus Gutschrift {}",
                    )
                ).format(invoice.beleg, note.beleg)
                yield self._pays("credit note", [invoice], text, paid(invoice, note), self._after([invoice, note]))
                return

    def _month(self) -> Iterator[Event]:
        """A standing order or a monthly transfer that names the month."""
        kontos = [konto for konto, documents in self.months.items() if documents]
        if kontos:
            document, month = self.months[self.r.choice(kontos)].pop(0)
            thing = document.item.text.split()[0]
            name = MONTHS[month - 1]
            said = self.r.choice((name, f"{month:02d}/2026", f"{name[:3]}. 26", f"{name} 2026", f"{month}/26"))
            text = self.r.choice(
                (f"{thing} {said}", f"Dauerauftrag {thing} {said}", f"{said} {thing}", f"{thing} {said} Danke")
            )
            day = document.item.day + timedelta(self.r.randint(0, 12))
            yield self._pays("month", [document], text, paid(document), day)

    def _house(self) -> Iterator[Event]:
        """One manager pays for one of many houses, and names it."""
        kontos = [konto for konto, documents in self.houses.items() if documents]
        if kontos:
            document, house = self.houses[self.r.choice(kontos)].pop(0)
            text = self.r.choice(
                (f"Objekt {house}", f"WEG {house}", house, f"{house} Hausreinigung", f"{house} {document.beleg}")
            )
            yield self._pays("house", [document], text, paid(document), self._after([document]))

    def _part(self) -> Iterator[Event]:
        if documents := self._take():
            item = documents[0].item
            part = item.open_minor * self.r.choice((30, 40, 50)) // 100
            text, reference = self._text(documents)
            truth = (Line("item", item.konto, item.beleg, part),)
            yield self._pays("part", documents, text, truth, self._after(documents), reference=reference)

    def _over(self) -> Iterator[Event]:
        if documents := self._take():
            text, reference = self._text(documents)
            truth = (*paid(*documents), *on_account(documents[0].person, self.r.choice((100, 500, 1_000))))
            yield self._pays("over", documents, text, truth, self._after(documents), reference=reference)

    def _double(self) -> Iterator[Event]:
        if documents := self._take():
            text, reference = self._text(documents)
            day = self._after(documents)
            yield self._pays("full", documents, text, paid(*documents), day, reference=reference)
            truth = on_account(documents[0].person, documents[0].amount)
            yield self._pays(
                "double", documents, text, truth, day + timedelta(self.r.randint(1, 9)), reference=reference
            )

    def _deviating(self) -> Iterator[Event]:
        """Somebody else pays, who is in nobody's books."""
        if documents := self._take():
            text, reference = self._text(documents)
            name, account = self.company.unused_name(), iban(self.r)
            yield self._pays(
                "deviating",
                documents,
                text,
                paid(*documents),
                self._after(documents),
                reference=reference,
                name=name,
                account=account,
            )

    def _returned(self) -> Iterator[Event]:
        if documents := self._take():
            item, day = documents[0].item, self._after(documents)
            reference = f"DD{item.konto}{documents[0].running}"
            first = self._pays("debit", documents, f"Einzug {item.beleg}", paid(*documents), day, reference=reference)
            yield first
            fee = self.r.choice((300, 350, 0))
            tags = f"OAMT+{item.open_minor // 100},{item.open_minor % 100:02d}" + (
                f" COAM+{fee // 100},{fee % 100:02d}" if fee else ""
            )
            lines = [Line("return", item.konto, item.beleg, -item.open_minor)]
            lines += [Line("fee", FEE_KONTO, "", -fee)] if fee else []
            later = day + timedelta(self.r.randint(2, 6))
            text = f"Ruecklastschrift MD06 RREF+{first.booking.reference} {tags}"
            back = first.booking._replace(
                amount=-item.open_minor - fee, text=text, booked=later, valued=later,
                reference=f"{first.booking.reference}R", reversal=True,
            )  # fmt: skip
            yield Event("returned", back, tuple(lines))

    def _own_payment(self) -> Iterator[Event]:
        """A supplier's invoice, paid by an order of ours."""
        supplier = Person(f"7{len(self.company.persons):04d}0000", self.company.unused_name(), (iban(self.r),))
        self.company.persons[supplier.konto] = supplier
        document = self.company.document(supplier, -self.company.price())
        document = document._replace(item=document.item._replace(beleg=f"ER{self.r.randint(10_000, 99_999)}"))
        self.company.items[-1] = document.item
        reference = f"KB-{document.running}-{len(self.company.payments)}"
        self.company.payments.append(
            OwnPayment(reference, document.amount, f"Rechnung {document.beleg}", (document.item.key,))
        )
        text, day = f"Rechnung {document.beleg}", self._after([document])
        booking = self.company.booking(document.amount, text, supplier, day, reference=reference)
        yield Event("own payment", booking, paid(document))

    def _of_a_rule(self, rule: Rule, text: str, name: str, amount: int) -> Iterator[Event]:
        day = date(2026, self.r.randint(1, 9), self.r.randint(1, 28))
        booking = self.company.booking(amount, text.format(month=f"{day:%m/%Y}"), None, day, name=name)
        yield Event(rule.id, booking, (Line("ledger_account", rule.konto, "", amount),))

    def _fees(self) -> Iterator[Event]:
        yield from self._of_a_rule(RULES[0], "Entgelt Kontofuehrung {month}", "Ihre Bank", -self.r.randint(300, 2_900))

    def _wages(self) -> Iterator[Event]:
        yield from self._of_a_rule(RULES[1], "Lohn/Gehalt {month}", "Karla Beispiel", -self.r.randint(90_000, 290_000))

    def _rent(self) -> Iterator[Event]:
        yield from self._of_a_rule(RULES[2], "Miete Lagerhalle {month}", "Hansen Grundbesitz KG", -185_000)

    def _transfer(self) -> Iterator[Event]:
        amount = self.r.choice((-1, 1)) * self.r.choice((100_000, 250_000))
        day = date(2026, self.r.randint(1, 9), self.r.randint(1, 28))
        booking = self.company.booking(amount, "Umbuchung", None, day, name="Muster GmbH", account=OWN_IBAN)
        yield Event("transfer", booking, (Line("transfer", TRANSFER_KONTO, "", amount),))

    def _noise(self) -> Iterator[Event]:
        text, name, amount = self.r.choice(_NOISE)
        day = date(2026, self.r.randint(1, 9), self.r.randint(1, 28))
        yield Event("noise", self.company.booking(amount, text, None, day, name=name), ())
