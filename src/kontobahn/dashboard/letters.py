"""Letters to partners on the invoices' letterhead: a statement of open items, and reminders. In German, as the invoices are.

A reminder is a proposal: it is shown, printed and sent by a person, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from kontobahn import money
from kontobahn.dashboard.words import N_, _
from kontobahn.errors import BadRequest
from kontobahn.formats.pain.sepa import in_groups
from kontobahn.ledger.faelligkeiten import FaelligerPosten
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.pdf import MAX_GIRO_CENTS, euro, giro_payload, make_printable, qr_code
from kontobahn.mobility.seller import Logo, Seller

Level = Literal[1, 2, 3]
# A reminder gives so many days.
DAYS_TO_PAY = 10
MAX_PURPOSE = 140
LEVELS: dict[Level, str] = {1: N_("Payment reminder"), 2: N_("Second reminder"), 3: N_("Final reminder")}
# From how many days overdue a level is proposed.
_FROM_DAYS: dict[Level, int] = {1: 1, 2: 30, 3: 60}
_TITLES: dict[Level, str] = {1: "Zahlungserinnerung", 2: "Mahnung", 3: "Letzte Mahnung"}
_OPENINGS: dict[Level, str] = {
    1: "sicher ist es Ihrer Aufmerksamkeit entgangen, dass die folgenden Beträge fällig sind. Bitte überweisen Sie"
    " den Gesamtbetrag bis zum {day}.",
    2: "die folgenden Beträge sind trotz Fälligkeit noch nicht bei uns eingegangen. Bitte überweisen Sie den"
    " Gesamtbetrag bis zum {day}.",
    3: "trotz unserer Erinnerungen sind die folgenden Beträge noch offen. Wir fordern Sie letztmalig auf, den"
    " Gesamtbetrag bis zum {day} zu überweisen. Danach behalten wir uns weitere Schritte vor.",
}
_GREETING = "Guten Tag,"
_CROSSED = "Sollten Sie inzwischen bezahlt haben, betrachten Sie dieses Schreiben bitte als gegenstandslos."


class Recipient(NamedTuple):
    """The partner: name and address as far as they are known, and the account in the client's own writing."""

    number: str
    lines: list[str]


class Open(NamedTuple):
    """An open document, and what is left of it after payments that were matched."""

    item: FaelligerPosten
    left: Decimal


class Sender(NamedTuple):
    seller: Seller
    logo: Logo | None


def proposed_level(days_overdue: int) -> Level | None:
    """Returns the reminder that is usual after so many days; None if nothing is overdue."""
    return max((level for level, days in _FROM_DAYS.items() if days_overdue >= days), default=None)


def missing_fields(seller: Seller) -> list[str]:
    """Returns what the letterhead lacks and every letter must say, in words."""
    needed = {
        _("Name"): seller.name, _("Street and number"): seller.street, _("Postal code"): seller.postal_code,
        _("Town"): seller.city, _("IBAN"): seller.iban,
    }  # fmt: skip
    return [name for name, value in needed.items() if not value]


def check_sender(seller: Seller) -> None:
    """Raises BadRequest if the letterhead lacks something."""
    missing = missing_fields(seller)
    if missing:
        raise BadRequest(
            _("Your letterhead lacks: %(fields)s. Enter it on the page “Seller's data”.", fields=", ".join(missing))
        )


def reminder(sender: Sender, to: Recipient, items: Sequence[Open], level: Level, today: date) -> dict[str, str]:
    """Returns the inputs of the template for what a customer owes and has not paid in time."""
    until = today + timedelta(days=DAYS_TO_PAY)
    opening = [_GREETING, _OPENINGS[level].format(day=_day(until))]
    terms = f"Bitte überweisen Sie bis zum {_day(until)}:"
    return _inputs(sender, to, items, today, _TITLES[level], opening, terms)


def statement(sender: Sender, to: Recipient, items: Sequence[Open], today: date, *, is_debitor: bool) -> dict[str, str]:
    """Returns the inputs of the template for all open items of a partner."""
    text = (
        "unsere Buchhaltung weist für Ihr Konto die folgenden offenen Posten aus."
        if is_debitor
        else "unsere Buchhaltung weist zu Ihren Rechnungen die folgenden offenen Posten aus. Bitte teilen Sie uns"
        " Abweichungen mit."
    )
    terms = "Bitte überweisen Sie zu den genannten Terminen:" if is_debitor else ""
    return _inputs(sender, to, items, today, "Kontoauszug", [_GREETING, text], terms)


def _inputs(
    sender: Sender, to: Recipient, items: Sequence[Open], today: date, title: str, opening: list[str], terms: str
) -> dict[str, str]:
    seller, total = sender.seller, sum((money.to_minor(one.left) for one in items), 0)
    purpose = _purpose(to, items)
    asks = bool(terms) and total > 0
    data: dict[str, Any] = {
        **pdf.letterhead(seller, sender.logo),
        "title": title,
        "number": to.number,
        "recipient": to.lines,
        "facts": [["Datum", _day(today)], ["Ihr Konto", to.number]],
        "opening": opening,
        "rows": [_row(one) for one in items],
        "total_label": "Gesamtbetrag",
        "total": euro(total),
        "terms": terms,
        "payment": _payment(seller, total, purpose) if asks else [],
        "closing": [_CROSSED, "Mit freundlichen Grüßen", seller.contact_name or seller.name or ""],
    }
    code = ""
    if asks and total <= MAX_GIRO_CENTS:
        code = qr_code(
            giro_payload(
                name=seller.name or "", iban=seller.iban or "", bic=seller.bic, amount_in_cents=total, purpose=purpose
            )
        )
    return {
        "data": msgspec.json.encode(make_printable(data)).decode(), "code": code, "logo": pdf.logo_input(sender.logo)
    }  # fmt: skip


def _row(one: Open) -> list[str]:
    item = one.item
    days = str(item.tageUeberfaellig) if item.tageUeberfaellig else ""
    due = _day(item.faelligAm)
    return [item.beleg, _day(item.belegdatum), item.buchungstext, due, days, euro(money.to_minor(one.left))]


def _payment(seller: Seller, total: int, purpose: str) -> list[list[str]]:
    rows = [["Empfänger", seller.name or ""], ["Betrag", euro(total)], ["IBAN", in_groups(seller.iban or "")]]
    rows += [["BIC", seller.bic]] if seller.bic else []
    return [*rows, ["Zweck", purpose]]


def _purpose(to: Recipient, items: Sequence[Open]) -> str:
    """As many document numbers as a transfer can name, then the account."""
    text = ""
    for one in items:
        longer = f"{text} {one.item.beleg}".strip()
        if len(longer) + len(to.number) >= MAX_PURPOSE:
            break
        text = longer
    return f"{text} {to.number}".strip()


def _day(day: date) -> str:
    return f"{day:%d.%m.%Y}"
