"""The demo's bank accounts: two connections at the sandbox bank, three accounts by the story of its books, payments in several states.

Made by the bank's own functions and applied through the same entry points as its webhooks, so both sides agree to the cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from kontobahn.access.principal import Principal
from kontobahn.api.call import Context
from kontobahn.bank_providers.sandbox import adapter, bank, store
from kontobahn.bank_providers.sandbox import payments as sandbox_payments
from kontobahn.bank_providers.sandbox import webhooks as sandbox_webhooks
from kontobahn.bank_providers.sandbox.bank import Told
from kontobahn.bank_providers.sandbox.rules import BANKS, PEOPLE, Booking, iban
from kontobahn.banking.connections import accounts, flows
from kontobahn.banking.connections import store as connections
from kontobahn.banking.connections.flows import FlowRow
from kontobahn.banking.payments import routes as payment_routes
from kontobahn.banking.payments import store as payments
from kontobahn.banking.payments.routes import create_payment
from kontobahn.banking.payments.store import PaymentRow, apply_start
from kontobahn.banking.payments.wire import NewPayment
from kontobahn.banking.provider import Banking, ConnectionFinished, ConnectStart, PaymentStart
from kontobahn.banking.reports import intake as reports
from kontobahn.clock import HOUR, MINUTE
from kontobahn.credits import Cause
from kontobahn.db import Tx
from kontobahn.demo import trade
from kontobahn.demo.story import OPENING_GIRO, OPENING_SAVINGS, Story
from kontobahn.money import from_minor

CONNECT_USER = "demo"
# The bank's history begins so many days before it is connected, and the consent for the card ends in so many.
HISTORY_DAYS, CARD_CONSENT_DAYS = 118, 9
_IN_SEPA = str.maketrans({"ß": "ss", "&": "+"})
_CALLER_IP = "127.0.0.1"


class DemoBanking(NamedTuple):
    connection_id: str
    account_id: str
    second_account_id: str
    payment_id: str
    # Of the first account.
    iban: str

    def facts(self) -> dict[str, Any]:
        ids = {name: value for name, value in self._asdict().items() if name.endswith("_id")}
        return {**ids, "connect_user": CONNECT_USER}


def next_ibans(tx: Tx) -> tuple[str, str]:
    """Returns the IBANs that the bank will give to the current account and the savings."""
    first = bank.next_account_number(tx)
    giro, savings = (iban(BANKS[trade.BANK], first + place) for place in (0, 1))
    assert giro is not None
    assert savings is not None
    return giro, savings


def build_banking(tx: Tx, context: Context, principal: Principal, told: Story) -> DemoBanking:
    first = told.today - timedelta(days=HISTORY_DAYS)
    before = sum(move.cents for move in told.moves if move.day < first)
    giro_told = Told(OPENING_GIRO + before, [move.at_bank() for move in told.moves if move.day >= first])
    savings_told, card_told = _since(told.savings, OPENING_SAVINGS, first), _since(told.card, 0, first)
    connection_id = connect(tx, context, principal, trade.BANK, {0, 1}, (giro_told, savings_told))
    connect(tx, context, principal, trade.CARD_BANK, {0}, (card_told,), consent_days=CARD_CONSENT_DAYS)
    giro, savings = accounts.of_connection(tx, principal.organization_id, connection_id)
    payer = _Payer(tx, context, principal, str(giro.id))
    settled, *_ = [payer.order(order, told) for order in trade.ORDERS]
    # The settled payment's debit is on the account by now.
    row = store.find_connection(tx, ref_of(tx, principal.organization_id, connection_id))
    assert row is not None
    bank.notify_new_data(tx, row)
    apply_deliveries(tx, context)
    assert giro.iban is not None
    return DemoBanking(connection_id, str(giro.id), str(savings.id), str(settled.id), giro.iban)


def _since(bookings: list[Booking], opening_minor: int, first: date) -> Told:
    """Returns an account as the bank remembers it: the bookings from this day on, and the balance before them."""
    before = sum(booking.amount_minor for booking in bookings if booking.made_on < first)
    return Told(opening_minor + before, [booking for booking in bookings if booking.made_on >= first])


def connect(
    tx: Tx,
    context: Context,
    principal: Principal,
    code: str,
    positions: set[int],
    told: Sequence[Told] = (),
    *,
    consent_days: int | None = None,
) -> str:
    """Goes through a connect flow, from its start to the bank's first report, and returns the connection's id."""
    token, chosen = flows.new_token(), BANKS[code]
    flow = FlowRow(
        organization_id=principal.organization_id,
        pending_token=token,
        provider=adapter.NAME,
        api=chosen.api,
        owner_user_id=principal.user_id,
        connection_id=None,
        return_to=None,
        custom_fields=None,
        created_at=tx.now,
        expires_at=tx.now + HOUR,
    )
    flows.start(tx, flow, code, ConnectStart("", flow.expires_at, chosen.name, chosen.country_code))
    bank.connect(tx, chosen, PEOPLE[CONNECT_USER], "", positions, token, told, consent_days=consent_days)
    apply_deliveries(tx, context)
    finished = flows.find(tx, adapter.NAME, token)
    assert finished is not None
    assert finished.connection_id is not None
    return finished.connection_id


def ref_of(tx: Tx, organization_id: str, connection_id: str) -> str:
    return connections.get(tx, organization_id, connection_id).provider_ref


def apply_deliveries(tx: Tx, context: Context) -> None:
    """Applies what the bank has to deliver directly, without the network."""
    for delivery_id, body in sandbox_webhooks.waiting(tx):
        for report in sandbox_webhooks.reports(body):
            is_news = isinstance(report, ConnectionFinished)
            snapshot = bank.snapshot(tx, report.provider_ref or "", context.settings.base_url) if is_news else None
            reports.apply_report(tx, adapter.NAME, report, snapshot)
        sandbox_webhooks.mark_delivered(tx, delivery_id, "demo")


class _Payer:
    """Orders payments as a call would, and lets the bank process each up to a given status."""

    def __init__(self, tx: Tx, context: Context, principal: Principal, account_id: str) -> None:
        self._tx = tx
        self._context = context
        self._principal = principal
        self._account_id = account_id

    def order(self, order: trade.Order, told: Story) -> PaymentRow:
        tx, today, case = self._tx, told.today, order.case
        body = NewPayment(
            account_id=self._account_id, amount=from_minor(case.documents[0].cents),
            creditor_name=case.partner.translate(_IN_SEPA), creditor_iban=trade.iban_of(trade.place_of(case.partner)),
            description=order.text.format(told.numbers[case.partner, case.documents[0]]),
            date=today + timedelta(days=order.in_days) if order.in_days else None,
        )  # fmt: skip
        row, _ = payment_routes.create_pending(
            tx, self._principal, payment_routes.check_order(body, _CALLER_IP, today), None, self._context.part(Banking),
            price=create_payment.cost, claim=None,
            cause=Cause("req_demo", create_payment.name, self._principal.key_id, "demo"),
        )  # fmt: skip
        made = sandbox_payments.create(tx, payments.as_order(tx, row))
        url = f"{self._context.settings.base_url}/sandbox/pay/{made.token}"
        apply_start(tx, row, PaymentStart(made.ref, url, made.expires_at, sandbox_payments.report_of(made)), "creation")
        self._process(made, order.status)
        apply_deliveries(tx, self._context)
        return row

    def _process(self, made: sandbox_payments.SandboxPayment, status: str) -> None:
        tx = self._tx
        if status == "initiated":
            return
        made = sandbox_payments.sign_in(tx, made, PEOPLE[CONNECT_USER])
        if status in ("settled", "authorized"):
            made = sandbox_payments.confirm(tx, sandbox_payments.approve(tx, made))
            sandbox_payments.advance_one(tx, made, store.bank_now(tx) + MINUTE)
        else:
            sandbox_payments.force_status(
                tx, made, status, {"executed": "ACSC", "rejected": "RJCT"}.get(status, "PATC")
            )
