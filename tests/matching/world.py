"""A made-up client for judging the matcher: customers, suppliers, documents in twelve number schemes, and prices of three kinds.

Everything follows from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from typing import NamedTuple

from kontobahn.reconciliation.core.model import Discount, OpenItem, Person

FIRST_DAY = date(2026, 1, 5)
# fmt: off
_NAMES = (
    "Ahrens", "Albrecht", "Arndt", "Bachmann", "Bauer", "Becker", "Behrendt", "Berger", "Böhm", "Brandt", "Busch", "Dietrich", "Engel",
    "Fischer", "Förster", "Franke", "Friedrich", "Fuchs", "Graf", "Groß", "Günther", "Haas", "Hahn", "Hartmann", "Heinrich",
    "Herrmann", "Hoffmann", "Horn", "Huber", "Jäger", "Jansen", "Kaiser", "Keller", "Klein", "Koch", "König", "Köhler", "Kraus",
    "Krüger", "Kuhn", "Lang", "Lehmann", "Lorenz", "Ludwig", "Maier", "Martin", "Meyer", "Möller", "Müller", "Neumann", "Otto",
    "Peters", "Pfeiffer", "Pohl", "Richter", "Roth", "Sauer", "Schäfer", "Schmitt", "Scholz", "Schreiber", "Schröder", "Schubert",
    "Schulte", "Schulz", "Schuster", "Seidel", "Simon", "Sommer", "Stein", "Thomas", "Vogel", "Vogt", "Wagner", "Walter", "Weber",
    "Weiß", "Werner", "Winkler", "Winter", "Wolf", "Ziegler", "Zimmermann",
)
_TRADES = (
    "Bau", "Elektro", "Sanitär", "Logistik", "Handel", "Technik", "Druck", "Medien", "Garten", "Metallbau", "Holzbau", "Software",
    "Reisen", "Catering", "Immobilien", "Autohaus", "Transporte", "Verlag", "Labor", "Optik", "Textil", "Heizung", "Dach", "Fenster",
    "Möbel",
)
_FIRST_NAMES = (
    "Anna", "Bernd", "Clara", "David", "Eva", "Felix", "Gerda", "Hans", "Ida", "Jonas", "Karin", "Lars", "Maria", "Nils", "Olga",
    "Paul", "Rita", "Sven", "Tina", "Uwe",
)
_TOWNS = (
    "Hamburg", "Kiel", "Lübeck", "Bremen", "Hannover", "Leipzig", "Dresden", "Erfurt", "Kassel", "Mainz", "Trier", "Ulm", "Passau",
    "Bayreuth",
)
# fmt: on
_FORMS = ("GmbH", "GmbH & Co. KG", "AG", "e.K.", "UG (haftungsbeschränkt)", "OHG", "KG")

# From a running number, a year and a random source to a document's number.
Scheme = Callable[[int, random.Random], str]
SCHEMES: dict[str, Scheme] = {
    "RE-2026-00123": lambda n, _: f"RE-2026-{n:05d}",
    "2026-0123": lambda n, _: f"2026-{n:04d}",
    "20260123": lambda n, _: f"2026{n:05d}",
    "R00123": lambda n, _: f"R{n:06d}",
    "123 (short)": lambda n, _: str(100 + n),
    "RG26/0123": lambda n, _: f"RG26/{n:05d}",
    "100123": lambda n, _: str(100_000 + n),
    "7000123": lambda n, _: str(7_000_000 + n * 7),
    "INV.26.K.0123": lambda n, r: f"INV.26.{'ABCDEFGHKM'[n % 10]}.{n:04d}",
    "AR2603-0123": lambda n, r: f"AR26{r.randint(1, 12):02d}-{n:04d}",
    "random 8": lambda _, r: str(r.randint(10_000_000, 99_999_999)),
    "K4T-88123": lambda n, r: (
        f"{r.choice('ABCDEFGHKLMNPRT')}{r.randint(1, 9)}{r.choice('ABCDEFGHKLMNPRT')}-{r.randint(10, 99)}{n:04d}"
    ),
}
PRICES: dict[str, Callable[[random.Random], int]] = {
    "free": lambda r: r.randint(1_500, 900_000),
    "list": lambda r: r.choice((1_990, 2_490, 4_900, 7_950, 12_900, 24_900)) * r.randint(1, 12),
    "flat": lambda r: r.choice((4_900, 9_900, 19_900)),
}


class Payer(NamedTuple):
    person: Person
    iban: str
    name: str
    habit: str
    price: str
    has_terms: bool


class World(NamedTuple):
    """`payers` are customers and suppliers by person account; `items` their documents; `settled` those paid before."""

    payers: dict[str, Payer]
    items: list[OpenItem]
    settled: list[OpenItem]
    scheme: str


def iban(r: random.Random) -> str:
    """A German IBAN with right check digits."""
    bban = f"{r.choice((12030000, 37040044, 50010517, 20041133, 70020270))}{r.randint(0, 9_999_999_999):010d}"
    return f"DE{98 - int(bban + '131400') % 97:02d}{bban}"


def company(r: random.Random) -> str:
    if r.random() < 0.25:
        return f"{r.choice(_FIRST_NAMES)} {r.choice(_NAMES)}"
    middle = f" {r.choice(_NAMES)}" if r.random() < 0.4 else ""
    return f"{r.choice(_NAMES)}{middle} {r.choice(_TRADES)} {r.choice(_TOWNS)} {r.choice(_FORMS)}"


def make_world(r: random.Random, mix: dict[str, dict[str, int]], customers: int, documents: int) -> World:
    """A client with so many customers (a tenth as many suppliers) and documents."""
    scheme = _choose(r, mix["schemes"])
    payers: dict[str, Payer] = {}
    suppliers = max(customers // 10, 1)
    for number in (*range(10_001, 10_001 + customers), *range(70_001, 70_001 + suppliers)):
        payers[f"{number}0000"] = _payer(r, mix, f"{number}0000", str(number))
    items: list[OpenItem] = []
    settled: list[OpenItem] = []
    numbers = set[str]()
    kontos = list(payers)
    for running in range(documents):
        own = r.random() > mix["known"]["suppliers"] / 100
        of_side = kontos[:customers] if own else kontos[customers:]
        konto = of_side[int(len(of_side) * r.random() ** 1.6)]
        beleg = SCHEMES[scheme if own else r.choice(list(SCHEMES))](running + 1, r)
        if own and beleg in numbers:
            continue
        numbers.add(beleg)
        item = _document(r, payers[konto], beleg, running, documents)
        settled.append(item._replace(open_minor=0)) if running % 6 == 0 else items.append(item)
    return World(payers, items, settled, scheme)


def _payer(r: random.Random, mix: dict[str, dict[str, int]], konto: str, number: str) -> Payer:
    name = company(r)
    account = iban(r)
    known = r.random() * 100 < mix["known"]["iban"]
    person = Person(konto, name, (account,) if known else (), (number,))
    # Who pays is not always who is in the books: an owner, a parent company.
    at_bank = company(r) if r.random() * 100 < mix["known"]["other_name"] else _as_bank_writes(r, name)
    return Payer(
        person, account, at_bank, _choose(r, mix["habits"]), _choose(r, mix["prices"]),
        r.random() < 0.4,
    )  # fmt: skip


def _document(r: random.Random, payer: Payer, beleg: str, running: int, documents: int) -> OpenItem:
    gross = PRICES[payer.price](r)
    day = FIRST_DAY + timedelta(running * 250 // documents)
    konto = payer.person.konto
    discounts: tuple[Discount, ...] = ()
    if payer.has_terms:
        discounts = (Discount(day + timedelta(10), "2", (gross * 2 + 50) // 100),)
    sign = 1 if konto < "7" else -1
    return OpenItem(konto, beleg, day, sign * gross, day + timedelta(30), discounts)


def _as_bank_writes(r: random.Random, name: str) -> str:
    """Names at banks differ from those in the books: capitals, umlauts, cut off, without the legal form."""
    way = r.random()
    if way < 0.35:
        return name
    if way < 0.6:
        return name.upper().replace("Ä", "AE").replace("Ö", "OE").replace("Ü", "UE")
    if way < 0.75:
        return name[:27]
    for form in _FORMS:
        name = name.removesuffix(f" {form}")
    return name


def _choose(r: random.Random, weights: dict[str, int]) -> str:
    return r.choices(list(weights), list(weights.values()))[0]
