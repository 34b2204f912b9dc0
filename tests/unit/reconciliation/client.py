"""A client with two customers and a supplier, to whom each test adds what is owed, and a movement to be matched."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from kontobahn.reconciliation.core.matcher import Matcher
from kontobahn.reconciliation.core.model import Knowledge, Line, Movement, OpenItem, Person, Proposal

DAY = date(2026, 5, 4)
IBAN, OTHER = "DE89370400440532013000", "DE02120300000000202051"
ANNA = Person("100010000", "Anna Muster Bau GmbH", (IBAN,), ("10001",))
BERT = Person("100020000", "Bert Beispiel Handel KG", (OTHER,), ("10002",))
LIEFERANT = Person("700010000", "Stahl Nord AG", ("DE75512108001245126199",))


def item(beleg: str, amount: int = 11_900, konto: str = ANNA.konto, **changes: Any) -> OpenItem:
    return OpenItem(konto, beleg, DAY - timedelta(10), amount)._replace(**changes)


# Three more of the same shape, so that it is known which places vary.
OTHERS = [item(f"RE-2026-00{n}", 1_000 + n, BERT.konto) for n in (311, 422, 533)]


def movement(text: str, amount: int = 11_900, **changes: Any) -> Movement:
    base = Movement("1", DAY, amount, texts=(("svwz", text),), name="Anna Muster Bau GmbH", iban=IBAN)
    return base._replace(**changes)


STRANGER: dict[str, Any] = {"name": "Zentrale Abrechnung", "iban": "DE12500105170648489890"}


def matcher(*items: OpenItem, **knowledge: Any) -> Matcher:
    known = Knowledge(persons=(ANNA, BERT, LIEFERANT), fee_konto="49700000", transfer_konto="13600000")
    return Matcher([*OTHERS, *items], known._replace(**knowledge))


def match(it: Movement, *items: OpenItem, **knowledge: Any) -> list[Proposal]:
    return matcher(*items, **knowledge).match(it)


def best(it: Movement, *items: OpenItem, **knowledge: Any) -> Proposal:
    return match(it, *items, **knowledge)[0]


def posten(one: OpenItem, amount: int | None = None) -> Line:
    return Line("item", one.konto, one.beleg, one.open_minor if amount is None else amount)
