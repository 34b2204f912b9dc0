"""The statement of what one partner has to pay or to get, from which it is paid, reminded of and written about."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote, urlencode

from msgspec import Meta, Struct
from starlette.responses import Response

from kontobahn.dashboard import books, figures, letters, prints, settlements, sheets
from kontobahn.dashboard.books import ChosenBooks
from kontobahn.dashboard.declare import ROOT, page
from kontobahn.dashboard.letters import LEVELS, Level, Open, Recipient, Sender
from kontobahn.dashboard.pages import open_items
from kontobahn.dashboard.pages.open_items import AGES, OpenItemsFilter
from kontobahn.dashboard.pages.partners import first_of, record_of
from kontobahn.dashboard.settlements import Settlements
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.ledger.faelligkeiten import FaelligerPosten, FaelligesKonto
from kontobahn.ledger.konto import is_debitor, is_personenkonto
from kontobahn.mobility import seller

PAY = f"{ROOT}/open-items/pay"


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
    settled = await settlements.of_items(visit, chosen, [account] if account else [])
    return Statement(chosen, konto, account, settled, record_of(partner), found.stichtag)


@page("/open-items/{konto}", help="partner-statement")
async def partner_statement(visit: Visit, konto: str) -> Response:
    shown = await find(visit, konto, visit.filters(OpenItemsFilter).wanted)
    overdue = shown.overdue() if is_debitor(konto) else []
    sender = await visit.read(seller.load, visit.organization_id)
    return visit.show(
        "partner_statement.html", shown=shown, chosen=shown.chosen, konto=konto, account=shown.account, ages=AGES,
        left=sum((shown.left(item) for item in shown.items), Decimal()), is_debitor=is_debitor(konto),
        level=letters.proposed_level(max((one.item.tageUeberfaellig for one in overdue), default=0)),
        levels=[(level, _(text)) for level, text in LEVELS.items()], mail=_mail(shown), pay=PAY,
        has_letterhead=not letters.missing_fields(sender),
        pay_key=pay_key, may_pay=visit.may("member") and not is_debitor(konto),
    )  # fmt: skip


def pay_key(konto: str, beleg: str) -> str:
    """An open item as a value of a form: no account contains a blank, and a document may contain anything."""
    return f"{konto} {beleg}"


def _mail(shown: Statement) -> str:
    """Returns the address of a mail to the partner that says what is open; empty if no address is known."""
    address = first_of(shown.record, "emailAdressen", "email")
    if not address:
        return ""
    lines = [
        f"{item.beleg}  {figures.day(item.faelligAm)}  {figures.money(abs(shown.left(item)))}"
        for item in shown.items[:20]
        if shown.left(item)
    ]
    subject = _("Open items of account %(konto)s", konto=shown.chosen.written(shown.konto))
    body = "\r\n".join([_("Document, due date, open amount:"), *lines, ""])
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
        letters.statement, sender, _recipient(shown), items, visit.today, is_debitor=is_debitor(konto)
    )
    return await sheets.typeset(visit, prints.LETTER, inputs, f"Kontoauszug {shown.chosen.written(konto)}")


@page("/open-items/{konto}/reminder.pdf")
async def reminder_letter(visit: Visit, konto: str) -> Response:
    shown = await find(visit, konto, OpenItemsFilter())
    items = shown.overdue() if is_debitor(konto) else []
    proposed = letters.proposed_level(max((one.item.tageUeberfaellig for one in items), default=0))
    if proposed is None:
        raise BadRequest(_("Nothing of this account is overdue, so there is nothing to remind of."))
    level: Level = visit.filters(LetterQuery).wanted.level or proposed  # type: ignore[assignment]
    sender = await _sender(visit)
    inputs = await visit.off_loop(letters.reminder, sender, _recipient(shown), items, level, visit.today)
    return await sheets.typeset(visit, prints.LETTER, inputs, f"Mahnung {shown.chosen.written(konto)} {visit.today}")


async def _sender(visit: Visit) -> Sender:
    def load(tx: Tx) -> Sender:
        organization_id = visit.organization_id
        return Sender(seller.load(tx, organization_id), seller.current_logo(tx, organization_id))

    found = await visit.read(load)
    letters.check_sender(found.seller)
    return found


def _recipient(shown: Statement) -> Recipient:
    place = f"{first_of(shown.record, 'adressen', 'postleitzahl')} {first_of(shown.record, 'adressen', 'ort')}".strip()
    lines = [shown.name, first_of(shown.record, "adressen", "adresszeile"), place]
    return Recipient(shown.chosen.written(shown.konto), [line for line in lines if line])
