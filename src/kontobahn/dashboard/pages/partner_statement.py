"""The statement of what one partner has to pay or to get, from which it is paid, reminded of and written about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn import money
from kontobahn.dashboard import books, figures, prints, sheets
from kontobahn.dashboard.books import ChosenBooks
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.pages import open_items
from kontobahn.dashboard.pages.open_items import AGES, OpenItemsFilter, Settlements
from kontobahn.dashboard.pages.partners import first_of, record_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import N_, _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain.sepa import in_groups
from kontobahn.ledger.faelligkeiten import FaelligerPosten, FaelligesKonto
from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.mobility import seller
from kontobahn.mobility.invoices import pdf
from kontobahn.mobility.invoices.pdf import MAX_GIRO_CENTS, euro, giro_payload, make_printable, qr_code
from kontobahn.mobility.seller import Logo, Seller

# Letters to partners on the invoices' letterhead: a statement of open items, and reminders. In German, as the invoices
# are.
#
# A reminder is a proposal: it is shown, printed and sent by a person, or not at all.


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
    """Returns the inputs of the template for all open items of a partner: what is owed, by whichever side, is positive."""
    text = (
        "unsere Buchhaltung weist für Ihr Konto die folgenden offenen Posten aus."
        if is_debitor
        else "unsere Buchhaltung weist zu Ihren Rechnungen die folgenden offenen Posten aus. Bitte teilen Sie uns"
        " Abweichungen mit."
    )
    owed = items if is_debitor else [one._replace(left=-one.left) for one in items]
    return _inputs(sender, to, owed, today, "Kontoauszug", [_GREETING, text], _terms(items) if is_debitor else "")


def _terms(items: Sequence[Open]) -> str:
    are_late = {one.item.tageUeberfaellig > 0 for one in items}
    if are_late == {True}:
        return "Bitte überweisen Sie umgehend:"
    if True in are_late:
        return "Bitte überweisen Sie Fälliges umgehend, das Übrige zu den genannten Terminen:"
    return "Bitte überweisen Sie zu den genannten Terminen:"


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
        "closing": [*([_CROSSED] if asks else []), "Mit freundlichen Grüßen", seller.contact_name or seller.name or ""],
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
    late = item.tageUeberfaellig
    days = f"{late} {'Tag' if late == 1 else 'Tage'}" if late else ""
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


PAY = f"{ROOT}/open-items/pay"
# Programs for mail take an address of some 2,000 characters.
MAIL_ROWS = 20


class LetterQuery(Struct):
    level: Annotated[int, Meta(ge=1, le=3)] | None = None


class Statement(NamedTuple):
    chosen: ChosenBooks
    konto: str
    # None if nothing is open.
    account: FaelligesKonto | None
    settled: Settlements
    # The partner's record as it is kept.
    record: dict[str, Any]
    stichtag: date

    @property
    def name(self) -> str:
        known = self.account.bezeichnung if self.account else ""
        return known or str(self.record.get("firmenname") or "") or self.chosen.written(self.konto)

    @property
    def items(self) -> list[FaelligerPosten]:
        return self.account.posten if self.account else []

    def left(self, item: FaelligerPosten) -> Decimal:
        """The amount that is open after payments that were matched and are not in the books yet."""
        found = self.settled.get((self.konto, item.beleg))
        return found.left if found else item.saldo

    def overdue(self) -> list[Open]:
        """The documents of which the customer still has to be reminded."""
        found = [Open(item, self.left(item)) for item in self.items if item.tageUeberfaellig > 0]
        return sorted((one for one in found if one.left > 0), key=_by_due_date)


def _by_due_date(one: Open) -> tuple[date, str]:
    return one.item.faelligAm, one.item.beleg


async def find(visit: Visit, konto: str, wanted: OpenItemsFilter) -> Statement:
    """Raises NotFound if there is no such partner in the chosen books."""
    chosen = await books.choose(visit)
    if not (konto.isascii() and konto.isdigit() and is_personenkonto(konto) and konto[0] != "0"):
        raise visit.principal.missing("Partner")
    found = await open_items.read(visit, chosen, wanted, konto)
    account = next((item for item in found.konten if item.kontonummer == konto), None)
    partner = await books.ask(visit, chosen, "personenkonten", lambda opened: opened.partner(konto))
    settled = await open_items.settlements_of(visit, chosen, [account] if account else [])
    return Statement(chosen, konto, account, settled, record_of(partner), found.stichtag)


@page("/open-items/{konto}", help="partner-statement")
async def partner_statement(visit: Visit, konto: str) -> Response:
    shown = await find(visit, konto, visit.filters(OpenItemsFilter).wanted)
    overdue = shown.overdue() if is_debitor(konto) else []
    sender = await visit.read(seller.load, visit.organization_id)
    return visit.show(
        "partner_statement.html", shown=shown, chosen=shown.chosen, konto=konto, account=shown.account, ages=AGES,
        left=sum((shown.left(item) for item in shown.items), Decimal()), is_debitor=is_debitor(konto),
        level=proposed_level(max((one.item.tageUeberfaellig for one in overdue), default=0)),
        levels=[(level, _(text)) for level, text in LEVELS.items()], mail=_mail(shown, visit.today), pay=PAY,
        has_letterhead=not missing_fields(sender),
        pay_key=pay_key, may_pay=visit.may("member") and not is_debitor(konto),
    )  # fmt: skip


def pay_key(konto: str, beleg: str) -> str:
    """An open item as a value of a form: no account contains a blank, and a document may contain anything."""
    return f"{konto} {beleg}"


def _mail(shown: Statement, today: date) -> str:
    """Returns the address of a mail to the partner that says what is open; empty if no address is known.

    What a customer owes is positive, and what we owe a supplier; a credit note is negative, so that the rows add up to the sum.
    """
    address = first_of(shown.record, "emailAdressen", "email")
    if not address:
        return ""
    sign = 1 if is_debitor(shown.konto) else -1
    items = [(item, sign * shown.left(item)) for item in shown.items if shown.left(item)]
    lines = [f"{item.beleg}  {figures.day(item.faelligAm)}  {figures.money(left)}" for item, left in items[:MAIL_ROWS]]
    if more := items[MAIL_ROWS:]:
        rest = figures.money(sum((left for _item, left in more), Decimal()))
        lines.append(ngettext("and one more: %(rest)s", "and %(num)s more: %(rest)s", len(more), rest=rest))
    total = figures.money(sum((left for _item, left in items), Decimal()))
    told = _("these documents are open in our books (number, due date, amount):")
    body = "\r\n".join([_("Dear Sir or Madam,"), "", told, "", *lines, "", _("Total: %(total)s", total=total), ""])
    subject = _("Open items on %(day)s", day=figures.day(today))
    return f"mailto:{quote(address, safe='@')}?{urlencode({'subject': subject, 'body': body}, quote_via=quote)}"


# --- Letters


@page("/open-items/{konto}/statement.pdf")
async def statement_letter(visit: Visit, konto: str) -> Response:
    shown = await find(visit, konto, OpenItemsFilter())
    items = sorted((Open(item, shown.left(item)) for item in shown.items if shown.left(item)), key=_by_due_date)
    if not items:
        raise BadRequest(_("Nothing is open on this account."))
    sender = await _sender(visit)
    inputs = await visit.off_loop(
        statement, sender, _recipient(shown), items, visit.today, is_debitor=is_debitor(konto)
    )
    return await sheets.typeset(visit, prints.LETTER, inputs, f"Kontoauszug {shown.chosen.written(konto)}")


@page("/open-items/{konto}/reminder.pdf")
async def reminder_letter(visit: Visit, konto: str) -> Response:
    shown = await find(visit, konto, OpenItemsFilter())
    items = shown.overdue() if is_debitor(konto) else []
    proposed = proposed_level(max((one.item.tageUeberfaellig for one in items), default=0))
    if proposed is None:
        raise BadRequest(_("Nothing of this account is overdue, so there is nothing to remind of."))
    level: Level = visit.filters(LetterQuery).wanted.level or proposed  # type: ignore[assignment]
    sender = await _sender(visit)
    inputs = await visit.off_loop(reminder, sender, _recipient(shown), items, level, visit.today)
    return await sheets.typeset(visit, prints.LETTER, inputs, f"Mahnung {shown.chosen.written(konto)} {visit.today}")


async def _sender(visit: Visit) -> Sender:
    def load(tx: Tx) -> Sender:
        organization_id = visit.organization_id
        return Sender(seller.load(tx, organization_id), seller.current_logo(tx, organization_id))

    found = await visit.read(load)
    check_sender(found.seller)
    return found


def _recipient(shown: Statement) -> Recipient:
    place = f"{first_of(shown.record, 'adressen', 'postleitzahl')} {first_of(shown.record, 'adressen', 'ort')}".strip()
    lines = [shown.name, first_of(shown.record, "adressen", "adresszeile"), place]
    return Recipient(shown.chosen.written(shown.konto), [line for line in lines if line])
