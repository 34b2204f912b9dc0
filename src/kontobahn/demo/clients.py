"""An adviser's other clients in the demo, each in another state: nothing set up yet, all done, money that nobody has matched, a consent
that has ended, a statement that was refused.
"""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from io import BytesIO
from typing import NamedTuple

from kontobahn import credits
from kontobahn.access import client_access, organizations
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ClientRole, Principal
from kontobahn.access.users import User
from kontobahn.api.call import Context
from kontobahn.bank_providers.sandbox import bank
from kontobahn.bank_providers.sandbox import store as sandbox
from kontobahn.bank_providers.sandbox.bank import Told
from kontobahn.bank_providers.sandbox.rules import BANKS, Party, transfer
from kontobahn.banking.connections import accounts
from kontobahn.banking.imports import store as imports
from kontobahn.books import partners, setup, store
from kontobahn.books.satz import Satz
from kontobahn.db import Tx
from kontobahn.demo import banking
from kontobahn.demo.ledger import carry_over, opening, post
from kontobahn.demo.reconciliation import Books, Desk
from kontobahn.demo.story import GIRO, LENGTH, number
from kontobahn.demo.trade import bank_day_before
from kontobahn.formats import bank_files
from kontobahn.formats.statements import StatementError
from kontobahn.ids import new_id
from kontobahn.ledger import connections as ledger_connections
from kontobahn.ledger.personenkonto import Bankkonto, Personenkonto

OPENING = 8_400_00


class Invoice(NamedTuple):
    customer: str
    cents: int
    days_ago: int
    # None: nothing has arrived yet.
    paid_days_ago: int | None = None


class Plan(NamedTuple):
    name: str
    client_id: str
    bank: str
    invoices: tuple[Invoice, ...]
    # Confirmed and handed over; otherwise only proposed.
    is_done: bool = False
    consent_has_ended: bool = False
    refused_file: str = ""


NEW_CLIENT = "Zweite Muster UG"
PLANS = (
    Plan("Bäckerei Morgenrot GmbH", "29098-55011", "volksbank_muster", is_done=True, invoices=(
        Invoice("Hotel Seeblick GmbH", 864_20, 30, 16), Invoice("Kantine am Werk", 1_240_05, 26, 12),
        Invoice("Café am Markt e. K.", 312_40, 9),
    )),
    Plan("Schlosserei Eisenhart e. K.", "29098-55012", "sparkasse_beispielstadt", invoices=(
        Invoice("Quartier Wohnbau eG", 4_355_40, 44, 31), Invoice("Autohaus Nord GmbH", 1_785_00, 40, 27),
        Invoice("Stadtverwaltung Musterstadt", 2_927_40, 35, 22), Invoice("Gasthof Zur Linde", 618_80, 33, 18),
    )),
    Plan("Physiopraxis Balance GbR", "29098-55013", "direktbank", consent_has_ended=True, invoices=(
        Invoice("Sportverein Blau-Weiß e. V.", 540_00, 38), Invoice("Seniorenheim Abendsonne", 1_320_00, 24),
    )),
    Plan("Kaffeerösterei Bohnenglück GmbH", "29098-55014", "volksbank_muster", refused_file="Kontoauszug_Oktober.pdf", invoices=(
        Invoice("Café am Markt e. K.", 731_85, 21, 8), Invoice("Naturkost Grünewald", 1_106_70, 12),
    )),
)  # fmt: skip


class Made(NamedTuple):
    plan: Plan
    organization_id: str
    books: Books


def add_new_client(tx: Tx, today: date, actor: Actor) -> str:
    """Somebody who has books and nothing in them, and no bank."""
    made = organizations.create(tx, NEW_CLIENT, actor)
    setup.create_books(
        tx, made.id, None, name=NEW_CLIENT, skr="SKR04", length=LENGTH, client_id="29098-55005",
        year_start=date(today.year, 1, 1),
    )  # fmt: skip
    return made.id


def add_clients(tx: Tx, context: Context, adviser: User, today: date, granted: int, actor: Actor) -> list[Made]:
    found = []
    for plan in PLANS:
        organization = organizations.create(tx, plan.name, actor)
        credits.grant(tx, organization.id, granted, note="demo")
        give_access(tx, adviser, organization.id, actor)
        principal = Principal(organization.id, "admin", (organization.id,), user_id=adviser.id)
        connection_id = _keep_books(tx, organization.id, plan, today)
        account_id = _connect(tx, context, principal, plan, today)
        if plan.refused_file:
            refuse_file(tx, organization.id, plan.refused_file, actor)
        found.append(Made(plan, organization.id, Books(connection_id, plan.client_id, account_id)))
    return found


def give_access(tx: Tx, adviser: User, organization_id: str, actor: Actor, role: ClientRole = "admin") -> None:
    client_access.give_by_operator(tx, adviser, organization_id, role, actor)


def refuse_file(tx: Tx, organization_id: str, name: str, actor: Actor) -> None:
    """A statement as the bank's website offers it to print: read like any other file, and refused."""
    content = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog>>\nendobj\n"
    file = imports.File(organization_id, new_id(), name, hashlib.sha256(content).hexdigest(), actor.name)
    try:
        list(bank_files.read(BytesIO(content), name, ibans={}))
    except StatementError as error:
        imports.record_refused(tx, file, error.without_file(name))


def _days(plan: Plan, today: date) -> list[tuple[Invoice, date, date | None]]:
    return [
        (one, bank_day_before(today - timedelta(days=one.days_ago)),
         None if one.paid_days_ago is None else bank_day_before(today - timedelta(days=one.paid_days_ago)))
        for one in plan.invoices
    ]  # fmt: skip


def _konto(place: int) -> str:
    return str(10_100 + 100 * place)


def _customer(place: int, name: str) -> Party:
    return Party(name, 800 + place, "sales")


def _keep_books(tx: Tx, organization_id: str, plan: Plan, today: date) -> str:
    dated = _days(plan, today)
    first, this = date(min(day.year for _, day, _ in dated), 1, 1), date(today.year, 1, 1)
    made = setup.create_books(
        tx,
        organization_id,
        None,
        name=plan.name,
        skr="SKR03",
        length=LENGTH,
        client_id=plan.client_id,
        year_start=first,
    )
    client = store.find_client(tx, ledger_connections.find_for_operator(tx, made.connection_id), plan.client_id)
    for place, invoice in enumerate(plan.invoices):
        person = Personenkonto(
            personenkontoNummer=_konto(place), kontaktTyp="COMPANY", kontenrahmen="SKR03", kontonummernLaenge=LENGTH,
            geschaeftsjahrStartDatum=first, firmenname=invoice.customer,
            bankkonten=[Bankkonto(iban=_customer(place, invoice.customer).iban, name=invoice.customer, istHauptkonto=True)],
        )  # fmt: skip
        partners.save_record(tx, client, number(_konto(place)), person, row="")
    for start in dict.fromkeys((first, this)):
        store.ensure_year(tx, client, start)
        invoices = [
            Satz(
                one.cents,
                True,
                number(_konto(place)),
                number("8400"),
                day.isoformat(),
                "",
                _beleg(place, day),
                "Rechnung",
            )
            for place, (one, day, _) in enumerate(dated)
            if day.year == start.year
        ]
        capital = [
            opening(start, number(GIRO), "9000", OPENING),
            opening(start, number("0800"), "9000", -OPENING),
        ]
        post(tx, client, start, [*(capital if start == first else carry_over(tx, client, start)), *invoices])
    return made.connection_id


def _beleg(place: int, day: date) -> str:
    return f"R{day:%y}-{1041 + 3 * place}"


def _connect(tx: Tx, context: Context, principal: Principal, plan: Plan, today: date) -> str:
    bookings = [
        transfer(
            BANKS[plan.bank],
            paid,
            one.cents,
            _customer(place, one.customer),
            f"Rechnung {_beleg(place, day)}",
            holder=plan.name,
        )
        for place, (one, day, paid) in enumerate(_days(plan, today))
        if paid is not None
    ]
    told = Told(OPENING, sorted(bookings, key=lambda booking: booking.made_on), plan.name)
    connection_id = banking.connect(tx, context, principal, plan.bank, {0}, [told] + 2 * [Told(0, (), plan.name)])
    if plan.consent_has_ended:
        row = sandbox.find_connection(tx, banking.ref_of(tx, principal.organization_id, connection_id))
        assert row is not None
        bank.expire_consent(tx, row)
        banking.apply_deliveries(tx, context)
    [account] = accounts.of_connection(tx, principal.organization_id, connection_id)
    return str(account.id)


async def match_clients(context: Context, adviser_id: str, made: list[Made], today: date) -> None:
    """Sets every account up and proposes; whoever is done has confirmed and handed over."""
    for client in made:
        desk = Desk(context, Principal(client.organization_id, "admin", (client.organization_id,), user_id=adviser_id))
        start = today - timedelta(days=60)
        await desk.set_up(client.books, GIRO, start, "adviser")
        found = await desk.propose(client.books, start)
        if client.plan.is_done:
            await desk.confirm(found)
            await desk.hand_over(client.books, found)
