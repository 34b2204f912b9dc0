"""Payments that look like those of somebody else, or like those of another document: the hostile mix.

Each family is one way in which a matcher is fooled. The payer owes something, or nothing; beside it stands a document that fits the
amount and, by the text or the name, seems meant. Acting alone on anything but the truth is wrong; not acting never is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta

from kontobahn.reconciliation.core.model import Learned, Person
from tests.matching.companies import (
    MONTHS,
    STREETS,
    Company,
    Document,
    on_account,
    paid,
)
from tests.matching.events import Event
from tests.matching.world import iban

_FIRST = ("Jan", "Erik", "Christian", "Martin", "Daniel", "Gabriel", "Manuel", "Raphael", "Michael", "Stephan")
_LAST = (
    ("Schmitt", "Schmidt"), ("Meyer", "Meier"), ("Maier", "Mayer"), ("Hofmann", "Hoffmann"), ("Neumann", "Naumann"),
    ("Herrmann", "Hermann"), ("Walter", "Walther"), ("Schulz", "Schulze"), ("Peters", "Petersen"), ("Jansen", "Janssen"),
    ("Fischer", "Fischler"), ("Kramer", "Krämer"), ("Bauer", "Baur"), ("Köhler", "Kohler"), ("Seidel", "Seidl"),
)  # fmt: skip
_TOWNS = ("Kiel", "Ulm", "Trier", "Mainz", "Passau", "Erfurt", "Kassel", "Bremen")
_LABELS = (
    "TAN {}", "TAN: {}", "TAN1:{}", "mTAN {}", "Auftrag {}", "Auftrags-Nr. {}", "Auftragsnr {}", "Bestellung {}", "Best.-Nr. {}",
    "Bestellnummer: {}", "Order {}", "Objekt {}", "Objekt-Nr. {}", "Obj. {}", "Haus {}", "Hausnr. {}", "Wohnung {}", "WE {}",
    "Whg. {}", "Vertrag {}", "Vertragsnr. {}", "Vertrags-Nr.: {}", "Schaden {}", "Schadennummer {}", "Schaden-Nr. {}", "Police {}",
    "Versicherungsschein {}", "Aktenzeichen {}", "Az. {}", "Kassenzeichen {}", "Mitgliedsnr. {}", "Mitglied {}", "Projekt {}",
    "Angebot {}", "Angebots-Nr. {}", "Lieferschein {}", "LS {}", "Zaehler {}", "Zaehlernr. {}", "Kundennr. {}", "Kd-Nr. {}",
    "Ihr Angebot Nr. {}", "Personalnr. {}", "Steuernr. {}", "Ticket {}", "Vorgang {}", "Fall {}", "Tour {}", "Kommission {}",
    "Artikel {}", "Charge {}", "Kartennr. {}", "Terminal {}", "Filiale {}", "Referenz Kunde {}", "Kostenstelle {}",
)  # fmt: skip
_NOTHING_SAID = ("Zahlung", "Rechnung", "Ueberweisung", "Danke", "wie besprochen", "Ihre Lieferung", "Honorar")


def look_alikes(r: random.Random) -> tuple[str, str]:
    """Two names that differ by a letter, a turned figure, a part of a name or a legal form."""
    one, other = r.choice(_LAST)
    first, town = r.choice(_FIRST), r.choice(_TOWNS)
    year = r.randint(1901, 1989)
    turned = year // 100 * 100 + year % 10 * 10 + year // 10 % 10
    house = r.randint(12, 98)
    turned_house = house % 10 * 10 + house // 10
    street = r.choice(STREETS)
    pairs = (
        (f"{first} {one}", f"{first} {other}"),
        (f"{first} {one}", f"{first}a {one}"),
        (f"{one} Bau {town} GmbH", f"{other} Bau {town} GmbH"),
        (f"SV Blau-Weiß {town} {year} e.V.", f"SV Blau-Weiß {town} {turned if turned != year else year + 1} e.V."),
        (f"WEG {street} {house}", f"WEG {street} {turned_house if turned_house != house else house + 1}"),
        (f"{one} Metallbau {town} GmbH", f"{one} Metallbau {town} Verwaltungs GmbH"),
        (f"Hans {first} {one}", f"{first} {one}"),
        (f"Autohaus {one} {town} I", f"Autohaus {one} {town} II"),
        (f"Praxis Dr. {one} {town}", f"Praxis Dr. {one}-{r.choice(_LAST)[1]} {town}"),
        (f"{one} Immobilien {town} GmbH", f"{one} Immobilien {town} KG"),
        (f"{first} und Eva {one}", f"{first} {one}"),
        (f"Kita Sonnenschein {town} {r.randint(1, 4)}", f"Kita Sonnenschein {town} {r.randint(5, 9)}"),
    )
    pair = r.choice(pairs)
    return pair if r.random() < 0.5 else (pair[1], pair[0])


class Impostors:
    """Draws hostile payments of one company. A family that does not fit the company yields nothing."""

    def __init__(self, r: random.Random, kind: str, customers: int = 60) -> None:
        self.r = r
        self.company = Company(r, kind)
        for _ in range(customers):
            person = self.company.customer()
            for _ in range(r.randint(1, 4)):
                self.company.document(person)

    def draw(self, count: int) -> list[Event]:
        events: list[Event] = []
        turn = 0
        while len(events) < count:
            events += FAMILIES[turn % len(FAMILIES)](self)
            turn += 1
        return sorted(events, key=lambda event: event.booking.booked)

    # --- Pieces

    def pair(self, *, known: float = 0.3) -> tuple[Person, Person]:
        taken = {person.name for person in self.company.persons.values()}
        while (names := look_alikes(self.r))[0] in taken or names[1] in taken:
            pass
        return self.company.customer(names[0], known=known), self.company.customer(names[1], known=known)

    def twins(self, one: Person, other: Person) -> tuple[Document, Document]:
        """A document of each, of the same amount."""
        amount = self.company.price()
        return self.company.document(one, amount), self.company.document(other, amount)

    def after(self, *documents: Document, most: int = 30) -> date:
        return max(document.item.day for document in documents) + timedelta(self.r.randint(1, most))

    def event(
        self,
        kind: str,
        payer: Person | None,
        truth: Sequence[Document],
        text: str,
        day: date,
        *,
        amount: int = 0,
        **more: str | None,
    ) -> Event:
        """A payment that settles `truth`; with none of it, a known payer's money is on account and a stranger's is nothing of ours."""
        amount = amount or sum(document.amount for document in truth)
        booking = self.company.booking(amount, text, payer, day, **more)
        lines = paid(*truth) if truth else on_account(payer, amount) if payer else ()
        return Event(kind, booking, lines)

    def core(self, document: Document) -> str:
        """The digits of a number that differ from document to document."""
        return document.beleg.lstrip("R") if self.company.kind == "club" else document.beleg

    # --- Families

    def look_alike_number(self) -> Iterator[Event]:
        payer, neighbour = self.pair(known=0.0)
        mine, theirs = self.twins(payer, neighbour)
        text = self.r.choice(("Rechnung {}", "{}", "Rg.-Nr. {} danke", "RE {} vom Montag")).format(theirs.beleg)
        yield self.event("look-alike, number of the other", payer, [mine], text, self.after(mine, theirs))

    def look_alike_without_number(self) -> Iterator[Event]:
        payer, neighbour = self.pair()
        mine, theirs = self.twins(payer, neighbour)
        yield self.event(
            "look-alike, no number",
            payer,
            [mine],
            self.r.choice(_NOTHING_SAID),
            self.after(mine, theirs),
            account=iban(self.r),
        )

    def look_alike_owes_nothing(self) -> Iterator[Event]:
        """Only the other one owes that amount; the payer's own document is another."""
        payer, neighbour = self.pair(known=0.0)
        theirs = self.company.document(neighbour)
        text = self.r.choice((*_NOTHING_SAID, f"Rechnung {theirs.beleg}"))
        yield self.event("look-alike owes nothing", payer, [], text, self.after(theirs), amount=theirs.amount)

    def look_alike_sum(self) -> Iterator[Event]:
        """Two documents of the other add up to the payer's one."""
        payer, neighbour = self.pair(known=0.0)
        one, other = self.company.document(neighbour), self.company.document(neighbour)
        mine = self.company.document(payer, one.amount + other.amount)
        text = self.r.choice((*_NOTHING_SAID, f"{one.beleg} {other.beleg}"))
        yield self.event("look-alike, sum of the other", payer, [mine], text, self.after(one, other, mine))

    def part_of_a_name(self) -> Iterator[Event]:
        """A short name that is a part of two customers' names."""
        last, town = self.r.choice(_LAST)[0], self.r.choice(_TOWNS)
        taken = {person.name for person in self.company.persons.values()}
        names = (f"{last} Elektro {town} GmbH", f"{last} Garten {town} GmbH")
        if taken & set(names):
            return
        one, other = (self.company.customer(name, known=0.0) for name in names)
        mine, theirs = self.twins(one, other)
        text = self.r.choice((*_NOTHING_SAID, f"Rechnung {theirs.beleg}"))
        yield self.event("part of two names", one, [mine], text, self.after(mine, theirs), name=f"{last} {town}")

    def shared_account(self) -> Iterator[Event]:
        """Two customers pay from one bank account."""
        account = iban(self.r)
        one = self.company.customer(known=1.0, account=account)
        other = self.company.customer(known=1.0, account=account)
        mine, theirs = self.twins(one, other)
        name = self.r.choice((one.name, "Gemeinschaftskonto", other.name))
        text = self.r.choice((*_NOTHING_SAID, f"fuer {one.name}"[:60]))
        yield self.event("shared account", one, [mine], text, self.after(mine, theirs), account=account, name=name)

    def pays_for_another(self) -> Iterator[Event]:
        """An account that was learned for one customer pays for another, without a number."""
        account = iban(self.r)
        usual, helped = self.company.customer(known=0.0), self.company.customer(known=0.0)
        self.company.learned.append(Learned(usual.konto, 3, iban=account))
        theirs, mine = self.twins(usual, helped)
        text = self.r.choice((f"fuer {helped.name}"[:60], f"{helped.name}"[:60], f"i.A. {helped.name} Rechnung"[:60]))
        yield self.event(
            "pays for another", helped, [mine], text, self.after(mine, theirs), account=account, name=usual.name
        )

    def labelled(self) -> Iterator[Event]:
        """A number that is labelled as something else is that of a document of the same amount: the payer's own or another's."""
        payer = self.company.customer(known=0.6)
        mine, decoy = self.twins(payer, payer if self.r.random() < 0.6 else self.company.customer())
        text = self.r.choice(_LABELS).format(self.core(decoy))
        text = self.r.choice(("{}", "Zahlung {}", "{} Danke", "Ihre Leistung, {}")).format(text)
        yield self.event("labelled as something else", payer, [mine], text, self.after(mine, decoy))

    def labelled_by_a_stranger(self) -> Iterator[Event]:
        decoy = self.company.document(self.company.customer())
        text = self.r.choice(_LABELS).format(self.core(decoy))
        yield self.event("a stranger's label", None, [], text, self.after(decoy), amount=decoy.amount)

    def date_as_number(self) -> Iterator[Event]:
        """A date in the text reads like a document's number."""
        if self.company.kind != "laboratory":
            return
        decoy = self.company.document(self.company.customer())
        payer = self.company.customer(known=0.6) if self.r.random() < 0.6 else None
        day = decoy.item.day
        said = self.r.choice((f"{day:%Y%m%d}", f"{day:%d.%m.%Y}", f"{day:%Y-%m-%d}", f"{day:%d%m%Y}"))
        text = self.r.choice(
            ("Leistung vom {}", "Termin {}", "{}", "Lieferung {}", "Behandlung am {}", "Rechnung vom {}")
        ).format(said)
        truth = [self.company.document(payer, decoy.amount)] if payer else []
        yield self.event("a date", payer, truth, text, self.after(decoy, *truth), amount=decoy.amount)

    def clock(self) -> Iterator[Event]:
        """A time of day, or the bank's own stamp of it, reads like a number."""
        if self.company.kind != "club":
            return
        running = self.company.free(lambda n: (900 + n) % 100 < 60 and (900 + n) // 100 < 24)
        if running is None:
            return
        payer = self.company.customer(known=0.6)
        decoy = self.company.document(payer if self.r.random() < 0.5 else self.company.customer(), running=running)
        mine = self.company.document(payer, decoy.amount)
        hour, minute = divmod(900 + running, 100)
        said = self.r.choice(
            ("{:02d}.{:02d} UHR", "{:02d}:{:02d} Uhr", "um {:02d}.{:02d}", "{:02d}{:02d} Uhr", "{:02d}.{:02d}h")
        )
        day = self.after(mine, decoy)
        text = f"{self.r.choice(('DATUM', 'Online', 'vom'))} {day:%d.%m.%Y}, {said.format(hour, minute)}"
        text += self.r.choice(("", " 1.TAN 482913", " Zahlung"))
        yield self.event("a time of day", payer, [mine], text, day)

    def month_as_number(self) -> Iterator[Event]:
        """`9/2026` is September, not the ninth document."""
        if self.company.kind not in ("caretaker", "craftsman"):
            return
        running = self.company.free(lambda n: n <= 12)
        payer = self.company.customer(known=0.7)
        if running is None:
            return
        decoy = self.company.document(payer if self.r.random() < 0.6 else self.company.customer(), running=running)
        mine = self.company.document(payer, decoy.amount)
        year = mine.item.day.year
        said = self.r.choice(
            (f"{running}/{year}", f"{running:02d}/{year}", f"{running}/{year % 100}", f"{year % 100}-{running:04d}")
        )
        if self.company.kind == "craftsman":
            said = self.r.choice(
                (f"{year % 100}-{running:02d}", f"{running:02d}/{year % 100}", f"{year}-{running:02d}")
            )
        text = self.r.choice(
            ("Wartung {}", "Pauschale {}", "Monat {}", "Reinigung {}", "Abschlag {}", "{} Miete")
        ).format(said)
        yield self.event("a month", payer, [mine], text, self.after(mine, decoy))

    def amount_as_number(self) -> Iterator[Event]:
        """The amount is written out, and its digits are a number of ours."""
        if self.company.kind != "wholesaler":
            return
        payer = self.company.customer(known=0.6)
        running = self.company.free(lambda n: True)
        if running is None:
            return
        digits = str(104_000 + running)
        amount = int(digits)
        decoy = self.company.document(
            payer if self.r.random() < 0.5 else self.company.customer(), amount, running=running
        )
        mine = self.company.document(payer, amount)
        euros = f"{amount // 100:,}".replace(",", ".")
        text = self.r.choice(
            (f"Betrag {euros},{amount % 100:02d}", f"{euros},{amount % 100:02d} EUR", f"EUR {amount // 100},{amount % 100:02d}",
             f"Zahlung ueber {amount // 100},{amount % 100:02d} Euro", f"Betrag {amount // 100}.{amount % 100:02d}")
        )  # fmt: skip
        yield self.event("an amount", payer, [mine], text, self.after(mine, decoy))

    def number_of_another(self) -> Iterator[Event]:
        """A known payer writes the number of somebody else's document, and owes as much."""
        payer = self.company.customer(known=0.5)
        mine, theirs = self.twins(payer, self.company.customer())
        said = self.r.choice((theirs.beleg, theirs.beleg, self.company.said(theirs)))
        text = self.r.choice(("Rechnung {}", "{}", "Re-Nr {}", "Zu {}")).format(said)
        reference = self.r.choice((None, None, theirs.beleg))
        yield self.event("number of another", payer, [mine], text, self.after(mine, theirs), reference=reference)

    def number_of_another_only(self) -> Iterator[Event]:
        """The same, and the payer owes nothing like it: a deposit."""
        payer = self.company.customer(known=0.5)
        self.company.document(payer)
        theirs = self.company.document(self.company.customer())
        text = self.r.choice(("Anzahlung {}", "{}", "Vorkasse zu {}")).format(theirs.beleg)
        yield self.event("number of another, owes nothing", payer, [], text, self.after(theirs), amount=theirs.amount)

    def own_and_foreign_number(self) -> Iterator[Event]:
        """Both numbers stand in the text, the amount is that of either."""
        payer = self.company.customer(known=0.5)
        mine, theirs = self.twins(payer, self.company.customer(known=0.5))
        text = self.r.choice(("{0} {1}", "Rechnung {0} nicht {1}", "{1}, {0}", "Rechnung {1} storniert, {0}"))
        day = self.after(mine, theirs)
        yield self.event("both numbers", payer, [mine], text.format(mine.beleg, theirs.beleg), day)

    def stranger_mistypes(self) -> Iterator[Event]:
        """Somebody who is in no books pays for a customer, and one wrong digit makes it another customer's number."""
        amount = self.company.price()
        running = self.company.free(lambda n: n > 20 and n % 10 < 9)
        if running is None:
            return
        mine = self.company.document(self.company.customer(), amount, running=running)
        near = self.company.free(
            lambda n: n // 10 == running // 10 or (n % 10 == running % 10 and abs(n - running) in (10, 100))
        )
        if near is None:
            return
        theirs = self.company.document(self.company.customer(), amount, running=near)
        text = self.r.choice(("Rechnung {}", "{}", "Rg. {} danke")).format(theirs.beleg)
        yield self.event("a stranger mistypes", None, [mine], text, self.after(mine, theirs))

    def torn(self) -> Iterator[Event]:
        """A number torn apart so that its end is another number of the same payer."""
        if self.company.kind not in ("caretaker", "software"):
            return
        short = self.company.free(lambda n: 11 <= n <= 99)
        long = self.company.free(lambda n: n >= 100 and n % 100 == short)
        if short is None or long is None:
            return
        payer = self.company.customer(known=0.6)
        amount = self.company.price()
        decoy = self.company.document(payer, amount, running=short)
        mine = self.company.document(payer, amount, running=long)
        year = mine.item.day.year
        text = f"Rechnung {long // 100} {short:02d}/{year}"
        yield self.event("torn apart", payer, [mine], text, self.after(mine, decoy))

    def date_of_another(self) -> Iterator[Event]:
        """A running number with a day that is not that document's day: a number of the payer's own."""
        payer = self.company.customer(known=0.6)
        mine, decoy = self.twins(payer, payer if self.r.random() < 0.5 else self.company.customer())
        wrong = decoy.item.day + timedelta(self.r.choice((-9, -30, 13, 44)))
        text = f"{self.r.choice(('Beleg', 'unsere Nr.', 'Nr.', ''))} {decoy.running} vom {wrong:%d.%m.%Y}".strip()
        yield self.event("the day of another", payer, [mine], text, self.after(mine, decoy))

    def second_payment(self) -> Iterator[Event]:
        """Paid twice, while another document of the same amount is open."""
        payer = self.company.customer(known=0.8)
        first, open_one = self.twins(payer, payer)
        text = self.r.choice(("Rechnung {}", "{}", "Rg. {} Danke")).format(first.beleg)
        account = payer.ibans[0] if payer.ibans else iban(self.r)
        day = self.after(first, open_one)
        if self.r.random() < 0.4:
            self.company.settle(first)
        else:
            yield self.event("first payment", payer, [first], text, day, account=account)
        again = text if self.r.random() < 0.7 else self.r.choice(_NOTHING_SAID)
        later = day + timedelta(self.r.randint(1, 20))
        yield self.event("second payment", payer, [], again, later, amount=first.amount, account=account)

    def second_payment_alone(self) -> Iterator[Event]:
        """Paid twice, and nothing else is open."""
        payer = self.company.customer(known=0.8)
        first = self.company.document(payer)
        text = self.r.choice(("Rechnung {}", "{}", "Rg. {} Danke")).format(first.beleg)
        day = self.after(first)
        account = payer.ibans[0] if payer.ibans else iban(self.r)
        yield self.event("first payment", payer, [first], text, day, account=account)
        later = day + timedelta(self.r.randint(1, 20))
        yield self.event("second payment, nothing open", payer, [], text, later, amount=first.amount, account=account)

    def not_written_yet(self) -> Iterator[Event]:
        """Paid in advance; the document of that amount is dated days or weeks later."""
        payer = self.company.customer(known=0.8)
        later = self.company.document(payer)
        day = later.item.day - timedelta(self.r.randint(1, 45))
        text = self.r.choice(
            (*_NOTHING_SAID, f"Vorkasse {later.beleg}", f"Anzahlung Auftrag {later.running}", later.beleg)
        )
        yield self.event("not written yet", payer, [], text, day, amount=later.amount)

    def sums_by_chance(self) -> Iterator[Event]:
        """One document of the payer, without its number; two others of the payer's add up to the same."""
        payer = self.company.customer(known=0.7)
        one, other = self.company.document(payer), self.company.document(payer)
        mine = self.company.document(payer, one.amount + other.amount)
        yield self.event("a sum by chance", payer, [mine], self.r.choice(_NOTHING_SAID), self.after(one, other, mine))

    def credit_note_by_chance(self) -> Iterator[Event]:
        """An invoice less a credit note is as much as another invoice, which is what is paid."""
        payer = self.company.customer(known=0.7)
        mine = self.company.document(payer, self.company.price() * 2)
        note = self.company.document(payer, -self.r.randint(500, 1_400))
        more = self.company.document(payer, mine.amount - note.amount)
        text = self.r.choice((*_NOTHING_SAID, "abz. Gutschrift", "Rechnung abzgl. Gutschrift"))
        truth = [mine] if "utschrift" not in text else [more, note]
        if len(truth) == 2:
            # Said so, but a second credit note of the same amount makes it anybody's guess which.
            self.company.document(payer, note.amount)
        yield self.event("a credit note by chance", payer, truth, text, self.after(mine, note, more))

    def refund_of_a_supplier(self) -> Iterator[Event]:
        """Money back from somebody we buy from, with a number that is also one of ours."""
        decoy = self.company.document(self.company.customer())
        text = self.r.choice(
            ("Erstattung Gutschrift {}", "Gutschrift {}", "Rueckzahlung zu {}", "Ruecküberweisung {}")
        ).format(decoy.beleg)
        yield self.event("a supplier's refund", None, [], text, self.after(decoy), amount=decoy.amount)

    def month_paid_already(self) -> Iterator[Event]:
        """A standing order names a month that is paid; the open document is another month's."""
        payer, amount = self.company.customer(known=0.9), self.company.price()
        august, september = self._month(payer, amount, 8), self._month(payer, amount, 9)
        self.company.settle(self.r.choice((august, september)))
        said, truth = (8, august) if august.item in self.company.items else (9, september)
        wrong = 17 - said
        text = self.r.choice(("Miete {}", "Dauerauftrag {}", "Rate {}", "{} 2026")).format(MONTHS[wrong - 1])
        day = date(2026, 10, self.r.randint(1, 25))
        yield self.event("a month that is paid", payer, [], text, day, amount=truth.amount)

    def month_not_written_yet(self) -> Iterator[Event]:
        payer, amount = self.company.customer(known=0.9), self.company.price()
        august = self._month(payer, amount, 8)
        text = self.r.choice(("Miete September", "Miete 09/2026", "Rate Sept. 2026"))
        yield self.event(
            "a month that is not written", payer, [], text, date(2026, 9, self.r.randint(1, 3)), amount=august.amount
        )

    def house_of_another_number(self) -> Iterator[Event]:
        """A manager of several houses: 12 is paid already, 21 is open for the same amount."""
        payer, amount = self.company.customer(known=0.9), self.company.price()
        street, low = self.r.choice(STREETS), self.r.choice((12, 13, 14, 23, 24, 34))
        turned = low % 10 * 10 + low // 10
        houses = [self._house(payer, amount, f"{street} {number}") for number in (low, turned)]
        self.company.settle(houses[0])
        text = self.r.choice(("Objekt {} {}", "{} {}", "WEG {} {}", "Wartung {} {}")).format(street, low)
        yield self.event("another house", payer, [], text, self.after(*houses), amount=amount)

    def _month(self, payer: Person, amount: int, month: int) -> Document:
        text = f"Miete {MONTHS[month - 1]} 2026"
        return self.company.document(payer, amount, text=text, day=date(2026, month, self.r.randint(1, 3)))

    def _house(self, payer: Person, amount: int, house: str) -> Document:
        return self.company.document(payer, amount, text=f"Hausreinigung {house}")

    def discount_too_late(self) -> Iterator[Event]:
        payer = self.company.customer(known=0.8)
        document = self.company.document(payer, self.company.price() * 10, terms=True)
        day = document.item.day + timedelta(self.r.randint(14, 40))
        amount = document.amount - document.item.discounts[0].amount_minor
        booking = self.company.booking(amount, f"Rechnung {document.beleg}", payer, day)
        line = paid(document)[0]._replace(amount_minor=amount)
        yield Event("Skonto too late", booking, (line,))

    def discount_of_another(self) -> Iterator[Event]:
        """One document less its Skonto is as much as another document, whose number is given."""
        payer = self.company.customer(known=0.8)
        large = self.company.document(payer, self.company.price() * 10, terms=True)
        amount = large.amount - large.item.discounts[0].amount_minor
        mine = self.company.document(payer, amount)
        day = large.item.day + timedelta(self.r.randint(1, 9))
        if day < mine.item.day:
            return
        yield self.event("Skonto by chance", payer, [mine], self.r.choice(_NOTHING_SAID), day)

    def name_of_a_stranger(self) -> Iterator[Event]:
        """Somebody in no books has nearly the name of a customer, and pays what that one owes."""
        name, known = look_alikes(self.r)
        if {name, known} & {person.name for person in self.company.persons.values()}:
            return
        decoy = self.company.document(self.company.customer(known, known=0.5))
        text = self.r.choice((*_NOTHING_SAID, "Spende", f"Kaution {self.r.randint(100, 999)}"))
        booking = self.company.booking(decoy.amount, text, None, self.after(decoy), name=name)
        yield Event("name of a stranger", booking, ())

    def several_with_a_foreign_one(self) -> Iterator[Event]:
        """Three numbers of which one is a neighbour's by mistake; the sum fits with either."""
        payer, neighbour = self.pair(known=0.4)
        one = self.company.document(payer)
        mine, theirs = self.twins(payer, neighbour)
        text = self.r.choice(("{} {}", "Rechnungen {} und {}", "{}, {}")).format(one.beleg, theirs.beleg)
        yield self.event("several, one of another", payer, [one, mine], text, self.after(one, mine, theirs))


FAMILIES: tuple[Callable[[Impostors], Iterator[Event]], ...] = (
    Impostors.look_alike_number, Impostors.look_alike_without_number, Impostors.look_alike_owes_nothing, Impostors.look_alike_sum,
    Impostors.part_of_a_name, Impostors.shared_account, Impostors.pays_for_another, Impostors.labelled, Impostors.labelled,
    Impostors.labelled_by_a_stranger, Impostors.date_as_number, Impostors.clock, Impostors.month_as_number,
    Impostors.amount_as_number, Impostors.number_of_another, Impostors.number_of_another_only, Impostors.own_and_foreign_number,
    Impostors.stranger_mistypes, Impostors.torn, Impostors.date_of_another, Impostors.second_payment, Impostors.second_payment_alone,
    Impostors.not_written_yet, Impostors.sums_by_chance, Impostors.credit_note_by_chance, Impostors.refund_of_a_supplier,
    Impostors.month_paid_already, Impostors.month_not_written_yet, Impostors.house_of_another_number, Impostors.discount_too_late,
    Impostors.discount_of_another, Impostors.name_of_a_stranger, Impostors.several_with_a_foreign_one,
)  # fmt: skip
