"""Payments at Salt Edge: from an order to what is sent, and asking about one. There is no key against sending one twice."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from kontobahn.banking.provider import PaymentOrder
from kontobahn.banking.providers.reaching import NotSent, path_part
from kontobahn.banking.providers.salt_edge.callbacks import ORDER_FIELD
from kontobahn.banking.providers.salt_edge.client import Answered, SaltEdgeClient
from kontobahn.banking.providers.salt_edge.wire import One, Page, Payment, custom
from kontobahn.money import amount_text

# How many pages of payments are looked through for one.
MAX_PAGES = 50


def body_of(order: PaymentOrder, customer: str, provider_code: str) -> dict[str, Any]:
    details = order.details
    attributes = {
        "end_to_end_id": order.end_to_end_id,
        "customer_ip_address": order.customer_ip_address,
        "creditor_name": order.creditor_name,
        "creditor_country_code": details.get("creditor_country_code") or order.creditor_iban[:2],
        "creditor_iban": order.creditor_iban,
        "amount": amount_text(order.amount_minor),
        "currency_code": order.currency_code,
        "description": order.description,
        "reference": order.reference,
        "debtor_iban": order.debtor_iban or None,
        "debtor_name": order.debtor_name or None,
        "date": details.get("date"),
        "creditor_address": _one_line(details.get("creditor_address")),
    }
    attempt: dict[str, Any] = {"custom_fields": {ORDER_FIELD: order.end_to_end_id}}
    if order.callback_url:
        # Our page, which leads on to the application, or says that the payer is done.
        attempt["return_to"] = f"{order.callback_url}?{urlencode({'state': order.state})}"
    return {
        "customer_id": customer,
        "provider": {"code": provider_code},
        "template_identifier": order.template_identifier,
        "payment_attributes": {name: value for name, value in attributes.items() if value is not None},
        "attempt": attempt,
    }


def _one_line(address: Any) -> str | None:
    if not isinstance(address, dict):
        return address or None
    street = " ".join(filter(None, (address.get("street_name"), address.get("building_number"))))
    town = " ".join(filter(None, (address.get("post_code"), address.get("town_name"))))
    return ", ".join(filter(None, (street, town))) or None


async def search(client: SaltEdgeClient, customer: str, order: PaymentOrder) -> Payment | None:
    """Returns the customer's payment with our end-to-end id, from as many pages as there are."""
    next_id: str | int | None = None
    for _ in range(MAX_PAGES):
        page = await client.get(Page[Payment], "/payments", customer_id=customer, from_id=next_id)
        for payment in page.data:
            if order.end_to_end_id in _ids(payment):
                return payment
        if page.meta is None or page.meta.next_id is None or page.meta.next_id == next_id:
            return None
        next_id = page.meta.next_id
    return None


def _ids(payment: Payment) -> tuple[Any, Any]:
    return (payment.payment_attributes or {}).get("end_to_end_id"), custom(payment.custom_fields).get(ORDER_FIELD)


async def ask(client: SaltEdgeClient, provider_ref: str) -> Payment:
    """Has Salt Edge ask the bank, and returns the payment. If it may not ask now, what it knows already. Raises Answered."""
    path = f"/payments/{path_part(provider_ref)}"
    try:
        answer = (await client.change(One[Payment], "PUT", f"{path}/refresh")).data
        if answer.status:
            return answer
    except NotSent:
        pass
    except Answered as error:
        if error.status == 404 or error.is_ours:
            raise
    return (await client.get(One[Payment], path)).data
