"""An adviser's other clients in the demo, each in another state: nothing set up yet, all done, money that nobody has matched, a consent
that has ended, a statement that was refused.
"""

from __future__ import annotations

import hashlib
from datetime import date, timedelta
from io import BytesIO
from typing import Any, NamedTuple

from kontobahn import credits
from kontobahn.access import client_access, organizations
from kontobahn.access.audit import Actor
from kontobahn.access.principal import ClientRole, Principal
from kontobahn.access.users import User
from kontobahn.api.call import Call, Context
from kontobahn.api.declare import Endpoint
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
from kontobahn.demo.story import CARD, GIRO, LENGTH, SAVINGS, TRANSIT, Story, number
from kontobahn.demo.trade import MATCHED, bank_day_before
from kontobahn.formats import bank_files
from kontobahn.formats.statements import StatementError
from kontobahn.ids import new_id
from kontobahn.ledger import connections as ledger_connections
from kontobahn.ledger.personenkonto import Bankkonto, Personenkonto
from kontobahn.money import to_minor
from kontobahn.reconciliation import accounts as recon_accounts
from kontobahn.reconciliation import batches, knowledge, matches, runs, transactions
from kontobahn.reconciliation.accounts import NewReconciliationSettings
from kontobahn.reconciliation.batch_store import NewBatch
from kontobahn.reconciliation.matches import MAX_CONFIRMATIONS, NewConfirmations
from kontobahn.reconciliation.runs import NewRun
from kontobahn.reconciliation.store import BookedBy, Client, RuleRow
from kontobahn.reconciliation.transactions import ReconciledTransaction, ReconciledTransactionsQuery

# Reconciliation in the demo: accounts set up, rules, a run, and what somebody has confirmed and handed over since.
#
# By the same calls as everybody's: what has arrived lately is proposed for. All that is no case of `trade.py` is
# confirmed and booked, so the cases are what waits.


# Name, text of the movement, ledger account.
_RULES = (
    ("Kontoführung", "Entgelte vom", "4970"),
    ("Löhne und Gehälter", "Lohn/Gehalt", "1740"),
    ("Lohnsteuer", "Lohnsteuer", "1741"),
    ("Sozialversicherung", "SV-Beitraege", "1742"),
    ("Miete", "Miete", "4210"),
    ("Betriebshaftpflicht", "Betriebshaftpflicht", "4360"),
    ("Umsatzsteuer des Vorjahres", "Umsatzst. 12/", "1790"),
    ("Umsatzsteuer-Vorauszahlung", "Umsatzst.", "1780"),
    ("Körperschaftsteuer", "Koerperschaftsteuer", "2200"),
    ("Gewerbesteuer", "Gewerbesteuer", "4320"),
    ("Kreditkarte", "Kreditkartenabrechnung", CARD),
    ("Bargeld", "Bargeldauszahlung", TRANSIT),
    ("Rücklage", "Ruecklage Tagesgeld", TRANSIT),
)


def add_rules(tx: Tx, client: Client, actor: Actor) -> None:
    rows = [
        RuleRow(*client, place, new_id(), name, text, "", "any", None, None, number(konto))
        for place, (name, text, konto) in enumerate(_RULES)
    ]
    knowledge.replace_rules(tx, client, rows, actor)


class Books(NamedTuple):
    """Books, and the bank account that is matched with them."""

    connection_id: str
    client_id: str
    account_id: str


class Desk(NamedTuple):
    """Somebody who matches payments."""

    context: Context
    principal: Principal

    async def ask(self, endpoint: Endpoint, **arguments: Any) -> Any:
        """Makes a call of the API in this person's name. It costs nothing: nobody has asked for it."""
        call = Call(self.context, endpoint, self.principal, "req_demo", "127.0.0.1", "demo")
        call.price = 0
        return await endpoint.handler(call, **arguments)

    async def set_up(self, books: Books, konto: str, start: date, booked_by: BookedBy = "kontobahn") -> None:
        settings = NewReconciliationSettings(
            connection_id=books.connection_id, client_id=books.client_id, konto=konto, fee_konto="4970",
            transfer_konto=TRANSIT, start_date=start, booked_by=booked_by,
        )  # fmt: skip
        await self.ask(recon_accounts.set_up_account, account_id=books.account_id, body=settings)

    async def propose(self, books: Books, start: date) -> list[ReconciledTransaction]:
        run = NewRun(account_id=books.account_id, from_date=start, trial=False, limit=0)
        await self.ask(runs.run_matching, body=run)
        asked = ReconciledTransactionsQuery(status="proposed", account_id=books.account_id, limit=500)
        found: list[ReconciledTransaction] = (
            await self.ask(transactions.list_reconciled_transactions, query=asked)
        ).data
        return found

    async def confirm(self, rows: list[ReconciledTransaction]) -> None:
        ids = [row.best_proposal.id for row in rows if row.best_proposal]
        for place in range(0, len(ids), MAX_CONFIRMATIONS):
            body = NewConfirmations(ids=ids[place : place + MAX_CONFIRMATIONS])
            answered = await self.ask(matches.confirm_proposals, body=body)
            assert all(one.error is None for one in answered.data), answered

    async def hand_over(self, books: Books, rows: list[ReconciledTransaction]) -> None:
        """A batch for each fiscal year."""
        for year in sorted({row.made_on.year for row in rows if row.made_on}):
            last = max(row.made_on for row in rows if row.made_on and row.made_on.year == year)
            await self.ask(batches.create_batch, body=NewBatch(account_id=books.account_id, to_date=last))


async def match_recent(desk: Desk, books: Books, savings_id: str, told: Story) -> None:
    start = told.start_of_waiting
    await desk.set_up(books, GIRO, start)
    await desk.set_up(books._replace(account_id=savings_id), SAVINGS, told.today)
    proposed = await desk.propose(books, start)
    usual = {(move.day, move.cents) for move in told.moves if move.case is None or move.case in MATCHED}
    sure = [row for row in proposed if row.amount is not None and (row.made_on, to_minor(row.amount)) in usual]
    await desk.confirm(sure)
    await desk.hand_over(books, sure)


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
