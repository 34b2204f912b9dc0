"""Open items and balances recalculated the long way: from a plain list of bookings, each time from the beginning.

It shares nothing with the program but the rules: grouping by account and document, and carry-overs netted against what lacks
its document. Amounts are cents, SOLL is positive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CARRY = ("90000000", "90080000", "90090000")
PERSONS = ("100100000", "100200000", "600010000", "700010000", "999990000")


class Booking(NamedTuple):
    tag: str
    # First day of its fiscal year.
    jahr: str
    konto: str
    gegenkonto: str
    soll: bool
    betrag: int
    beleg: str
    text: str
    skonto: int = 0
    reversal: bool = False

    @property
    def is_opening(self) -> bool:
        """On the first day of a year: against an account of carry-overs, or of a person under the number 0."""
        with_person = 9 in (len(self.konto), len(self.gegenkonto))
        by_number = with_person and self.beleg == "0"
        return self.tag == self.jahr and (self.konto in CARRY or self.gegenkonto in CARRY or by_number)


class Leg(NamedTuple):
    konto: str
    tag: str
    jahr: str
    beleg: str
    text: str
    betrag: int
    is_opening: bool
    reversal: bool
    # An opening that says nothing but an amount, against an account of class 9.
    may_be_paired: bool = False


def person_legs(bookings: list[Booking]) -> list[Leg]:
    legs = []
    for item in bookings:
        # A discount clears as much of the document as the money does.
        amount = (item.betrag + item.skonto) * (1 if item.soll else -1)
        for konto, other, betrag in ((item.konto, item.gegenkonto, amount), (item.gegenkonto, item.konto, -amount)):
            if len(konto) == 9:
                # An opening balance that says nothing of itself is called what it is.
                text = item.text or ("Saldovortrag" if item.is_opening else "")
                plain = item.is_opening and len(other) == 8 and other[0] == "9" and not item.skonto
                legs.append(
                    Leg(konto, item.tag, item.jahr, item.beleg, text, betrag, item.is_opening, item.reversal, plain)
                )
    return legs


def counted_legs(bookings: list[Booking]) -> list[Leg]:
    """The legs, in the order of the bookings, without the twins of opening balances that were written as pairs."""
    legs = person_legs(bookings)
    gone: set[int] = set()
    for konto in {leg.konto for leg in legs}:
        stood, began = 0, False
        for jahr in sorted({leg.jahr for leg in legs if leg.konto == konto}):
            own = [(number, leg) for number, leg in enumerate(legs) if (leg.konto, leg.jahr) == (konto, jahr)]
            openings = [(number, leg) for number, leg in own if leg.is_opening]
            total = sum(leg.betrag for _, leg in openings)
            if not (began and total == stood):
                gone |= _twins(openings, stood)
            if openings:
                stood = sum(leg.betrag for number, leg in openings if number not in gone)
            stood += sum(leg.betrag for _, leg in own if not leg.is_opening)
            began = True
    return [leg for number, leg in enumerate(legs) if number not in gone]


def _twins(openings: list[tuple[int, Leg]], stood: int) -> set[int]:
    """Of two openings of one amount the one whose side is not that of what the account stood at before."""
    candidates = [(number, leg) for number, leg in openings if leg.may_be_paired]
    left = [(number, leg) for number, leg in candidates if not leg.reversal]
    for _, reversal in (item for item in candidates if item[1].reversal):
        taken_back = [item for item in left if item[1].betrag == -reversal.betrag]
        if taken_back:
            left.remove(taken_back[-1])
    found = set()
    while left:
        number, leg = left.pop(0)
        twin = next((item for item in left if item[1].betrag == -leg.betrag), None)
        if twin is None:
            continue
        left.remove(twin)
        if stood:
            found.add(number if (leg.betrag > 0) != (stood > 0) else twin[0])
        elif leg.beleg == twin[1].beleg:
            found.add(twin[0])
    return found


def carried_years(bookings: list[Booking], stichtag: str) -> list[str]:
    """Fiscal years begun by the cut-off in which any person account has an opening balance."""
    return sorted({leg.jahr for leg in person_legs(bookings) if leg.is_opening and leg.jahr <= stichtag})


def open_items(bookings: list[Booking], stichtag: str, mode: str) -> dict[str, list[dict[str, Any]]]:
    """Account → items with a balance, as the answer lists them but in cents."""
    carried = carried_years(bookings, stichtag)
    legs = [leg for leg in counted_legs(bookings) if leg.tag <= stichtag]
    found = {}
    for konto in sorted({leg.konto for leg in legs}):
        own = [leg for leg in legs if leg.konto == konto]
        items = _raw(own, carried) if mode == "raw" else _reconciled(own, carried)
        items = [item for item in items if item["saldo"]]
        if items:
            found[konto] = sorted(items, key=lambda item: (-abs(item["saldo"]), item["beleg"]))
    return found


def _grouped(legs: list[Leg]) -> list[dict[str, Any]]:
    groups: dict[str, list[Leg]] = {}
    for leg in legs:
        groups.setdefault(leg.beleg, []).append(leg)
    items = []
    for beleg, members in groups.items():
        tag, text = min((leg.tag, leg.text) for leg in members)
        items.append({
            "beleg": beleg, "belegdatum": tag, "buchungstext": text, "saldo": sum(leg.betrag for leg in members),
            "one_sided": len({leg.betrag > 0 for leg in members}) == 1,
        })  # fmt: skip
    return items


def _reconciled(own: list[Leg], carried: list[str]) -> list[dict[str, Any]]:
    details = [leg for leg in own if not leg.is_opening]
    items = sorted(_grouped(details), key=lambda item: (item["belegdatum"], item["beleg"]))
    rest = 0
    if carried:
        latest = carried[-1]
        opening = sum(leg.betrag for leg in own if leg.is_opening and leg.jahr == latest)
        rest = opening - sum(leg.betrag for leg in details if leg.jahr < latest)
    for item in items:
        # A payment or credit without its document, of the other sign, takes up the rest: the oldest first.
        if item["one_sided"] and rest * item["saldo"] < 0:
            taken = min(abs(rest), abs(item["saldo"]))
            item["saldo"] += taken if item["saldo"] < 0 else -taken
            rest += -taken if rest > 0 else taken
    if rest:
        items.append({"beleg": "EB-RESIDUAL", "belegdatum": carried[-1], "buchungstext": "Saldovortrag", "saldo": rest})
    return items


def _raw(own: list[Leg], carried: list[str]) -> list[dict[str, Any]]:
    """Every opening is an ordinary item “0”; its counter leg takes out what the account stood at the day before."""
    legs = [leg._replace(beleg="0") if leg.is_opening else leg for leg in own]
    for jahr in carried:
        before = sum(leg.betrag for leg in legs if leg.jahr < jahr)
        if before:
            texts = [leg.text for leg in own if leg.is_opening and leg.jahr == jahr]
            text = min(texts, default="Saldovortrag")
            legs.append(Leg(own[0].konto, jahr, jahr, "0", text, -before, True, False))
    return _grouped(legs)


class Balance(NamedTuple):
    eb: int | None
    # Period → debit and credit turnover.
    periods: dict[int, tuple[int, int]]

    @property
    def saldo(self) -> int:
        return (self.eb or 0) + sum(soll - haben for soll, haben in self.periods.values())


def balance(bookings: list[Booking], konto: str, jahr: str) -> Balance | None:
    """A person account's line of the trial balance; None if it has no bookings in the year."""
    legs = [leg for leg in counted_legs(bookings) if (leg.konto, leg.jahr) == (konto, jahr)]
    if not legs:
        return None
    periods: dict[int, tuple[int, int]] = {}
    openings = [leg.betrag for leg in legs if leg.is_opening]
    for leg in legs:
        if leg.is_opening:
            continue
        number = _month_of_year(leg.tag, jahr)
        soll, haben = periods.get(number, (0, 0))
        # A general reversal takes turnover back on the side it was on.
        if (leg.betrag > 0) != leg.reversal:
            soll += leg.betrag
        else:
            haben -= leg.betrag
        periods[number] = soll, haben
    return Balance(sum(openings) if openings else None, periods)


def _month_of_year(tag: str, jahr: str) -> int:
    year, month = int(jahr[:4]), int(jahr[5:7])
    number = 1
    while f"{year:04}-{month:02}" != tag[:7]:
        month += 1
        number += 1
        if month == 13:
            year, month = year + 1, 1
    # A full year that begins within a month ends in a thirteenth one.
    return min(number, 12)
