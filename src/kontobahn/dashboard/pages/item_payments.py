"""From open items to payments: documents of one supplier become one payment, those of several one payment each, made together."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple
from urllib.parse import urlencode

from msgspec import Struct
from starlette.responses import Response

from kontobahn.banking.connections import accounts
from kontobahn.banking.connections.accounts import AccountsQuery
from kontobahn.banking.payments import routes, store
from kontobahn.banking.payments.store import PaymentSearch
from kontobahn.banking.payments.wire import NewPayment, PaymentApiQuery
from kontobahn.banking.provider import SANDBOX
from kontobahn.banking.wire import NumericId
from kontobahn.dashboard import bank_words, figures, form_keys
from kontobahn.dashboard.declare import action, page
from kontobahn.dashboard.lists import search_words
from kontobahn.dashboard.pages import partner_statement, payments
from kontobahn.dashboard.pages.open_items import OpenItemsFilter
from kontobahn.dashboard.pages.partner_statement import Statement
from kontobahn.dashboard.pages.partners import first_of
from kontobahn.dashboard.visit import Visit
from kontobahn.dashboard.words import _, ngettext
from kontobahn.db import Tx
from kontobahn.errors import BadRequest
from kontobahn.formats.pain import sepa
from kontobahn.ledger.faelligkeiten import FaelligerPosten
from kontobahn.ledger.konto import is_debitor

PATH = partner_statement.PAY
MAX_ITEMS, MAX_PAYEES = 100, 20
# Payments of so many days are looked through for one that names the same document.
LOOKED_BACK_DAYS = 90


class Payable(NamedTuple):
    """A document to pay, less Skonto that may still be deducted."""

    beleg: str
    amount: Decimal
    skonto: Decimal


class Payee(NamedTuple):
    konto: str
    name: str
    iban: str
    documents: list[Payable]

    @property
    def amount(self) -> Decimal:
        return sum((one.amount for one in self.documents), Decimal())

    @property
    def purpose(self) -> str:
        """All document numbers, or as many as a transfer can name."""
        text = ""
        for one in self.documents:
            longer = f"{text} {one.beleg}".strip()
            if len(longer) > sepa.MAX_REMITTANCE:
                break
            text = longer
        return text


class PaySeveral(Struct):
    account_id: NumericId


async def _payees(visit: Visit, asked: list[str]) -> list[Payee]:
    """Returns who is to be paid for these documents. Raises BadRequest if one of them is not open any more."""
    chosen: dict[str, list[str]] = {}
    for one in dict.fromkeys(asked[:MAX_ITEMS]):
        konto, _blank, beleg = one.partition(" ")
        chosen.setdefault(konto, []).append(beleg)
    if len(chosen) > MAX_PAYEES or len(asked) > MAX_ITEMS:
        raise BadRequest(_("At most %(count)s payees are paid at once.", count=MAX_PAYEES))
    return [await _payee(visit, konto, belege) for konto, belege in chosen.items()]


async def _payee(visit: Visit, konto: str, belege: list[str]) -> Payee:
    found = await partner_statement.find(visit, konto, OpenItemsFilter())
    items = {item.beleg: item for item in found.items}
    documents = [_payable(visit, found, items[beleg]) for beleg in belege if beleg in items]
    if is_debitor(konto) or len(documents) < len(belege) or any(one.amount <= 0 for one in documents):
        raise BadRequest(
            _("One of the chosen documents is paid already, or nothing is owed for it. Please choose again.")
        )
    return Payee(konto, found.name, first_of(found.record, "bankkonten", "iban"), documents)


def _payable(visit: Visit, found: Statement, item: FaelligerPosten) -> Payable:
    left = -found.left(item)
    skonto = max((one.betrag for one in item.skonto if one.bis >= visit.today), default=Decimal())
    # A document that is paid in part has used its chance.
    skonto = skonto if left == -item.saldo else Decimal()
    return Payable(item.beleg, left - skonto, skonto)


def _ordered_before(tx: Tx, visit: Visit, payees: list[Payee]) -> list[str]:
    """Returns the documents that a payment to the same account names already, unless it failed."""
    since = visit.today - timedelta(days=LOOKED_BACK_DAYS)
    found = []
    for payee in payees:
        for one in payee.documents:
            search = PaymentSearch(since, None, "", "", search_words(one.beleg))
            rows = store.search(tx, visit.organization_id, search, 10).rows
            if any(
                row.creditor_iban == payee.iban and bank_words.payment_state(row.status).kind != "bad" for row in rows
            ):
                found.append(one.beleg)
    return found


@page("/open-items/pay", role="member", help="pay-items")
async def pay_items(visit: Visit) -> Response:
    asked = visit.form.all("item") or visit.query.get("item", [])
    if not asked:
        return visit.redirect(payments.PATH + "/new", _("Choose the documents to pay first."), "bad")
    payees = await _payees(visit, asked)
    before = await visit.read(_ordered_before, visit, payees)
    notice = _("There is a payment already that names %(documents)s. Please check that it is not paid twice.",
               documents=", ".join(before)) if before else ""  # fmt: skip
    if len(payees) == 1:
        name = await visit.read(store.payee_name, visit.organization_id, payees[0].iban)
        payees = [payees[0]._replace(name=name or payees[0].name)]
        return visit.redirect(f"{payments.PATH}/new?{urlencode(_fields(payees[0]))}", notice, "bad")
    sources = await visit.read(
        accounts.listing, visit.principal, AccountsQuery(payments_supported=True, organization_id=visit.organization_id)
    )
    return visit.show(
        "item_payments.html", payees=payees, asked=asked, warning=notice, total=sum((one.amount for one in payees), Decimal()),
        sources=[
            (account.id, f"{bank_words.account_name(account, is_sandbox=provider == SANDBOX)} · {figures.iban(account.iban)}")
            for account, provider in sources
        ],
        once_field=form_keys.FIELD, once_key=visit.form.text(form_keys.FIELD) or form_keys.new_key(),
    )  # fmt: skip


def _fields(payee: Payee) -> dict[str, str]:
    """The fields of the form of one payment."""
    return {
        "creditor_name": payee.name[: sepa.MAX_NAME], "creditor_iban": payee.iban,
        "amount": figures.plain_amount(payee.amount), "description": payee.purpose,
    }  # fmt: skip


@action("/open-items/pay", role="member", confirm=True)
async def make_payments(visit: Visit) -> Response:
    wanted = visit.form.read(PaySeveral)
    if wanted is not None:
        key = visit.form.text(form_keys.FIELD)
        with visit.form.refusals():
            payees = await _payees(visit, visit.form.all("item"))
            for payee in payees:
                if not payee.iban:
                    raise BadRequest(
                        _("No IBAN is known of %(name)s. Enter it on the partner's page.", name=payee.name)
                    )
                sepa.check_iban("creditor_iban", payee.iban)
            for place, payee in enumerate(payees):
                # Sent again, none is made twice.
                visit.form.values[form_keys.FIELD] = [f"{key}-{place}"]
                name = await visit.read(store.payee_name, visit.organization_id, payee.iban)
                body = _body(visit, wanted, payee._replace(name=name or payee.name))
                await form_keys.ask_once(visit, routes.create_payment, query=PaymentApiQuery(), body=body)
            text = ngettext("One payment was created. Authorise it now.",
                            "%(num)s payments were created. Authorise them now.", len(payees))  # fmt: skip
            return visit.redirect(payments.PATH, text)
        visit.form.values[form_keys.FIELD] = [key]
    response: Response = await pay_items.handler(visit)
    return response


def _body(visit: Visit, wanted: PaySeveral, payee: Payee) -> NewPayment:
    return NewPayment(
        account_id=wanted.account_id, amount=payee.amount, creditor_name=payee.name[: sepa.MAX_NAME],
        creditor_iban=payee.iban, description=payee.purpose,
        return_to=f"{visit.context.settings.base_url}{payments.PATH}/return",
    )  # fmt: skip
