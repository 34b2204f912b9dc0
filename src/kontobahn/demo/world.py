"""The organisations of the demo: one company whose bank, books, tickets and matching tell one story, and its adviser with six clients.

Each area adds its own data, and its own object to the facts.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple

import msgspec

from kontobahn import credits
from kontobahn.access import keys, organizations, users
from kontobahn.access.audit import Actor
from kontobahn.access.principal import Principal
from kontobahn.access.users import User
from kontobahn.api.call import Context
from kontobahn.api.wire import OrganizationQuery
from kontobahn.app import make_context
from kontobahn.bank_providers.sandbox.rules import BANKS, COMPANY, Bank
from kontobahn.clock import Clock, SystemClock, berlin_date
from kontobahn.db import Database, Tx
from kontobahn.demo import clients, story, trade
from kontobahn.demo.banking import build_banking, next_ibans
from kontobahn.demo.clients import Books, Desk, Made, add_rules, match_recent
from kontobahn.demo.facts import facts_path, read_facts, write_facts
from kontobahn.demo.ledger import CLIENT_ID, build_ledger
from kontobahn.demo.story import Story
from kontobahn.demo.trade import TICKET_CUSTOMER
from kontobahn.formats import cii
from kontobahn.formats.invoices.model import (
    INVOICE,
    SEPA_TRANSFER,
    Address,
    Contact,
    CreditTransfer,
    ElectronicAddress,
    Invoice,
    Line,
    Party,
    Payment,
    Totals,
    VatBreakdown,
)
from kontobahn.ids import new_id
from kontobahn.mobility import customers, seller
from kontobahn.mobility.customers import NewCustomer
from kontobahn.mobility.invoices.pdf import typeset
from kontobahn.mobility.seller import Seller
from kontobahn.mobility.tickets import NewTicket, TicketReport, merge
from kontobahn.payables import intake, routes
from kontobahn.payables.intake import Arrival
from kontobahn.payables.mailbox import MAILBOX
from kontobahn.payables.routes import NewPayablesSettings
from kontobahn.reconciliation.store import Client
from kontobahn.settings import Settings
from kontobahn.vault import Vault
from kontobahn.webhooks import claims, endpoints, outbox
from kontobahn.webhooks.claims import GONE, Capacity, Outcome

# The demo's tickets: the demo organisation sells job tickets to one company with open tickets, and to one without.
#
# The first customer's tickets are for this month and the last: several products, both VAT rates, discounts, employer's
# shares and an annual ticket.


_SEED = 20_260_301
_EMPLOYEES = 34
_SELLER = Seller(
    name=COMPANY,
    street="Beispielallee 12",
    postal_code="10115",
    city="Berlin",
    vat_id="DE123456788",
    tax_number="37/123/45678",
    contact_name="Firmenkundenservice",
    contact_phone="+49 30 5550100",
    contact_email="firmenkunden@demo-handel.example",
    website="www.demo-handel.example",
    register_entry="Amtsgericht Charlottenburg, HRB 999999",
    managing_directors="Geschäftsführung: Dana Demo",
    # Apart from those of its goods.
    invoice_number_prefix="JT-{year}-",
)


class DemoMobility(NamedTuple):
    customer_id: str
    empty_customer_id: str

    def facts(self) -> dict[str, Any]:
        return self._asdict()


def build_mobility(tx: Tx, organization_id: str, iban: str, bank: Bank) -> DemoMobility:
    """Invoices are to be paid to this account."""
    own = msgspec.structs.replace(_SELLER, iban=iban, bic=bank.bic, bank_name=bank.name)
    seller.save(tx, organization_id, own, Actor("demo"))
    factory = customers.create(
        tx,
        organization_id,
        NewCustomer(
            name=TICKET_CUSTOMER,
            street="Industriestraße 12",
            postal_code="70565",
            city="Stuttgart",
            mobility_customer_id="MOB-4711",
            email="rechnungseingang@krueger-soehne.example",
        ),
    )
    empty = customers.create(
        tx,
        organization_id,
        NewCustomer(name="Stadtverwaltung Musterstadt", street="Rathausplatz 1", postal_code="12345", city="Musterstadt",
                    buyer_reference="04011000-12345-03"),
    )  # fmt: skip
    result = merge(tx, organization_id, factory.id, [TicketReport(new) for new in _tickets(tx)], repeats=False)
    assert not result.refused
    return DemoMobility(factory.id, empty.id)


def _tickets(tx: Tx) -> list[NewTicket]:
    rng = random.Random(_SEED)
    today = berlin_date(tx.now)
    this_month = f"{today:%Y-%m}"
    last_month = f"{today.replace(day=1) - timedelta(days=1):%Y-%m}"
    found = []
    for number in range(1, _EMPLOYEES + 1):
        holder = f"PN-{20_000 + 17 * number}"
        months = (last_month, this_month) if number <= 6 else (this_month,)
        for month in months:
            if rng.random() < 0.7:
                # Discounted by 5 %, as the employer bears at least a quarter of the price.
                found.append(
                    NewTicket(product="Deutschlandticket Job", holder_reference=holder, valid_from=month, price_in_cents=6300,
                              discount_in_cents=315, employer_share_in_cents=rng.choice((1575, 3000, 5985)), vat_rate=7)
                )  # fmt: skip
            else:
                found.append(
                    NewTicket(product="Firmenticket Region AB", holder_reference=holder, valid_from=month, price_in_cents=8650,
                              employer_share_in_cents=rng.choice((None, 4325)), vat_rate=7)
                )  # fmt: skip
        if number % 9 == 0:
            found.append(NewTicket(product="Stellplatz Park + Ride", holder_reference=holder, valid_from=this_month,
                                   price_in_cents=3500, vat_rate=19))  # fmt: skip
    found.append(
        NewTicket(product="Fahrradabo", holder_reference="PN-20901", valid_from=f"{today.year}-01", valid_to=f"{today.year}-12",
                  price_in_cents=9900, vat_rate=7)
    )  # fmt: skip
    return found


# Received invoices in the demo: eight of its suppliers, as they came by mail, and a letter that is only a PDF.
#
# Two have something wrong with them, and one names another bank account than the one its supplier is known by.


_BUYER = Party(
    COMPANY, Address("Beispielallee 12", "10115", "Berlin", "DE"), vat_id="DE123456788",
    electronic_address=ElectronicAddress("rechnung@demo-handel.example", "EM"),
)  # fmt: skip
_PAGE = b"""#let d = sys.inputs
#set page(margin: 25mm)
#set text(size: 11pt)
= #d.title
#for line in d.text.split("\\n") [#line \\ ]
"""
# Far above the numbers of bills that are booked already.
_FIRST_NUMBER = 8_101
_RATE = Decimal(19)


class _Bill(NamedTuple):
    supplier: str
    text: str
    quantity: int
    net_price: Decimal
    days_ago: int
    due_days: int | None = 14
    skonto: str = ""
    has_new_iban: bool = False
    # Cents by which its total is wrong.
    off: int = 0
    says_delivery: bool = True
    is_pdf: bool = False


_BILLS = (
    _Bill("Großhandel Zentral GmbH", "Handelsware lt. Lieferschein", 40, Decimal("86.50"), 2, 30, "#SKONTO#TAGE=10#PROZENT=2.00#\n"),
    _Bill("Papier & Mehr GmbH", "Kopierpapier A4, Karton", 25, Decimal("21.90"), 6),
    _Bill("Spedition Rollfix KG", "Transport Hamburg – Berlin", 3, Decimal("245.00"), 4, is_pdf=True),
    _Bill("Software Allee AG", "Warenwirtschaft, Lizenz je Platz", 8, Decimal("49.00"), 1),
    _Bill("Verpackung Nord GmbH", "Versandkartons 400 × 300", 1_200, Decimal("0.64"), 9, None, says_delivery=False),
    _Bill("Werbeagentur Laut", "Gestaltung des Katalogs", 12, Decimal("95.00"), 3, off=100),
    _Bill("Möbelfabrik Süd GmbH", "Regal, Buche", 6, Decimal("318.00"), 0, has_new_iban=True),
    _Bill("Telekomnetz AG", "Anschlüsse und Gespräche", 1, Decimal("187.40"), 5),
)  # fmt: skip
_LETTER = (
    "Büroreinigung Blitz",
    "Rechnungsnummer: {number}\nRechnungsdatum: {day}\nUnterhaltsreinigung\nRechnungsbetrag: 535,50 EUR\nIBAN: {iban}",
)


async def receive_invoices(desk: Desk, books: Books, today: date) -> None:
    """Takes them in as they come by mail, the oldest first."""
    settings = NewPayablesSettings(connection_id=books.connection_id, client_id=books.client_id)
    await desk.ask(routes.set_payables_settings, query=OrganizationQuery(), body=settings)
    for place, bill in sorted(enumerate(_BILLS), key=lambda item: -item[1].days_ago):
        invoice = _invoice(bill, place, today)
        (xml,) = cii.write(invoice, "en16931")
        name = f"{invoice.number.replace('/', '-')}.{'pdf' if bill.is_pdf else 'xml'}"
        await _take(desk, bill.supplier, name, _hybrid(invoice, xml, today) if bill.is_pdf else xml)
    await _letter(desk, today)


def _invoice(bill: _Bill, place: int, today: date) -> Invoice:
    issued_on, position = today - timedelta(days=bill.days_ago), trade.place_of(bill.supplier)
    net = int((bill.quantity * bill.net_price * 100).to_integral_value(ROUND_HALF_UP))
    vat = int((net * _RATE / 100).to_integral_value(ROUND_HALF_UP))
    gross = net + vat + bill.off
    due_on = None if bill.due_days is None else issued_on + timedelta(days=bill.due_days)
    return Invoice(
        number=_number(bill.supplier, place, issued_on), type_code=INVOICE, issued_on=issued_on, currency="EUR",
        seller=_seller(bill.supplier, position), buyer=_BUYER,
        lines=[
            Line(
                id="1", name=bill.text, quantity=Decimal(bill.quantity), net_price=bill.net_price, net_minor=net,
                vat_category="S", vat_rate=_RATE, unit_code="C62",
            )
        ],
        vat_breakdown=[VatBreakdown("S", _RATE, net, vat)],
        totals=Totals(lines_minor=net, net_minor=net, vat_minor=vat, gross_minor=gross, due_minor=gross),
        payment=Payment(
            SEPA_TRANSFER, due_on=due_on, terms=bill.skonto or None,
            transfers=[CreditTransfer(trade.iban_of(position + 500 if bill.has_new_iban else position))],
        ),
        delivered_on=issued_on if bill.says_delivery else None,
    )  # fmt: skip


def _number(supplier: str, place: int, day: date) -> str:
    return trade.SUPPLIERS[supplier].format(year=day.year, month=day.month, number=_FIRST_NUMBER + place)


def _seller(name: str, position: int) -> Party:
    mail = trade.mail_of(name)
    return Party(
        name, Address(f"Musterstraße {position + 1}", f"{10115 + position * 97:05d}", "Musterstadt", "DE"),
        vat_id=f"DE{300_000_000 + position}",
        contact=Contact("Buchhaltung", "+49 30 5550200", mail),
        electronic_address=ElectronicAddress(mail, "EM"),
    )  # fmt: skip


def _hybrid(invoice: Invoice, xml: bytes, today: date) -> bytes:
    from pypdf import PdfReader, PdfWriter

    total = f"{Decimal(invoice.totals.gross_minor or 0) / 100:.2f} EUR"
    page = _page(
        invoice.seller.name, f"Rechnung {invoice.number}\n{invoice.lines[0].name}\nRechnungsbetrag: {total}", today
    )
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(page)))
    writer.add_attachment("factur-x.xml", xml)
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def _page(title: str, text: str, today: date) -> bytes:
    at_seconds = (today - date(1970, 1, 1)).days * 86_400
    return typeset(_PAGE, {"title": title, "text": text}, at_seconds)


async def _letter(desk: Desk, today: date) -> None:
    supplier, text = _LETTER
    number = trade.SUPPLIERS[supplier].format(year=today.year, month=today.month)
    iban = trade.iban_of(trade.place_of(supplier))
    page = _page(supplier, text.format(number=number, day=f"{today:%d.%m.%Y}", iban=iban), today)
    await _take(desk, supplier, f"Rechnung {number}.pdf", page)


async def _take(desk: Desk, supplier: str, name: str, content: bytes) -> None:
    note = f"{supplier} <{trade.mail_of(supplier)}>"
    digest = hashlib.sha256(content).hexdigest()
    arrival = Arrival(desk.principal.organization_id, name, digest, content, MAILBOX, "", note)
    await intake.take(desk.context, desk.principal, arrival)


CREDITS = 10_000
EMAIL, ADVISER_EMAIL = "demo@kontobahn.example", "kanzlei@kontobahn.example"
REFUSED_FILE = "Kontoauszug_Musterbank.pdf"


class World(NamedTuple):
    """The demo as one transaction has written it, for the calls that follow."""

    facts: dict[str, Any]
    told: Story
    principal: Principal
    books: Books
    savings_id: str
    adviser_id: str
    clients: list[Made]


def ensure_demo(settings: Settings, db: Database, vault: Vault) -> dict[str, Any]:
    """Returns the demo's facts; makes the demo if this database has none."""
    known = read_facts(facts_path(settings))
    if known and db.read_now(organizations.exists, known["organization_id"]):
        return known
    facts = make(settings, db, vault, SystemClock(), secrets.token_urlsafe(12))
    write_facts(settings, facts)
    return facts


def make(settings: Settings, db: Database, vault: Vault, clock: Clock, password: str) -> dict[str, Any]:
    """Makes the demo as of the clock's day, and returns its facts."""
    context = make_context(settings, db, vault, clock)
    with ThreadPoolExecutor(1) as beside:
        # It takes as long as the books, which are written meanwhile.
        hashed = beside.submit(users.hash_password, password)
        world = db.write_now(build, context, password, hashed.result)
    asyncio.run(work(context, world))
    return world.facts


async def work(context: Context, world: World) -> None:
    """Does at the new desks what people have done there: accounts set up, payments matched, batches handed over, invoices received."""
    desk = Desk(context, world.principal)
    await match_recent(desk, world.books, world.savings_id, world.told)
    await receive_invoices(desk, world.books, world.told.today)
    await clients.match_clients(context, world.adviser_id, world.clients, world.told.today)


def build(tx: Tx, context: Context, password: str, hashed: Callable[[], str]) -> World:
    actor, vault, today = Actor("demo"), context.vault, berlin_date(tx.now)
    demo = organizations.create(tx, COMPANY, actor)
    told = story.tell(today, next_ibans(tx))
    ledger = build_ledger(tx, demo.id, told)
    add_rules(tx, Client(demo.id, ledger.connection_id, CLIENT_ID), actor)
    password_hash = hashed()
    user = users.create(
        tx, demo.id, email=EMAIL, name="Dana Demo", role="owner", password_hash=password_hash, actor=actor
    )
    key = keys.create(tx, vault, demo.id, "demo", actor, role="admin", created_by=user.id)
    second_id = clients.add_new_client(tx, today, actor)
    second_key = keys.create(tx, vault, second_id, "demo of another organisation", actor, role="admin")
    agency = organizations.create(tx, "Kanzlei Beispiel Steuerberatung", actor)
    agency_key = keys.create(tx, vault, agency.id, "demo of an agency", actor, clients=(demo.id,))
    for organization_id in (demo.id, second_id, agency.id):
        credits.grant(tx, organization_id, CREDITS, note="demo")
    principal = Principal(demo.id, "admin", (demo.id,), key_id=key.key.id, user_id=user.id)
    banking = build_banking(tx, context, principal, told)
    mobility = build_mobility(tx, demo.id, banking.iban, BANKS[trade.BANK])
    fail_event(tx, context, principal, actor)
    clients.refuse_file(tx, demo.id, REFUSED_FILE, actor)
    adviser = add_adviser(tx, agency.id, password_hash, (demo.id, second_id), actor)
    facts = {
        "base_url": "",
        "dashboard": {"url": ""},
        "api_key": key.secret,
        "second_api_key": second_key.secret,
        "agency_key": agency_key.secret,
        "organization_id": demo.id,
        "second_organization_id": second_id,
        "agency_organization_id": agency.id,
        "user": {"email": EMAIL, "password": password},
        "adviser": {"email": ADVISER_EMAIL, "password": password},
        "ledger": ledger.facts(),
        "banking": banking.facts(),
        "mobility": mobility.facts(),
    }
    made = clients.add_clients(tx, context, adviser, today, CREDITS, actor)
    books = Books(ledger.connection_id, CLIENT_ID, banking.account_id)
    return World(facts, told, principal, books, banking.second_account_id, adviser.id, made)


def add_adviser(tx: Tx, agency_id: str, password_hash: str, organization_ids: tuple[str, ...], actor: Actor) -> User:
    adviser = users.create(
        tx, agency_id, email=ADVISER_EMAIL, name="Katja Kanzlei", role="owner", password_hash=password_hash, actor=actor
    )
    for organization_id in organization_ids:
        clients.give_access(tx, adviser, organization_id, actor)
    return adviser


def fail_event(tx: Tx, context: Context, principal: Principal, actor: Actor) -> None:
    """A receiver answers its test with 410 and was switched on again since: one event that was given up."""
    wanted = endpoints.Wanted(
        "https://lager.demo-handel.example/kontobahn", ("connection_destroyed",), "Lagerverwaltung"
    )
    receiver, _ = endpoints.create(tx, context.vault, principal.organization_id, wanted, actor)
    data = {"message": "A test of this endpoint."}
    outbox.emit(tx, principal.organization_id, outbox.TEST_EVENT, f"test:{new_id()}", data, only=receiver.id)
    owner, everything = f"demo {new_id()}", Capacity(1_000, 1_000, 1_000, 1_000, {}, (), frozenset())
    cycle = claims.run_cycle(tx, owner, [], everything, claim_seconds=60, pause_days=5)
    ended = [
        Outcome(one, tx.now, 84, GONE, "The receiver wants no more events at this URL.")
        for one in cycle.claimed
        if one.receiver_id == receiver.id
    ]
    nothing = everything._replace(quick=0, failing_or_slow=0)
    claims.run_cycle(tx, owner, ended, nothing, claim_seconds=60, pause_days=5)
    claims.release(tx, owner)
    endpoints.resume(tx, principal, receiver.id, actor)
