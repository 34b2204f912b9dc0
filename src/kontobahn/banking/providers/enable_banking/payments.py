"""An order as Enable Banking wants it, within what the bank takes. Nothing is truncated, and no day is ignored."""

from __future__ import annotations

from typing import Any

from kontobahn.banking.provider import PaymentOrder, ProviderRefused
from kontobahn.banking.providers.enable_banking.bank_list import PAYMENT_TYPES, kind_of
from kontobahn.banking.providers.enable_banking.wire import Bank, Named, PaymentKind
from kontobahn.errors import BadRequest
from kontobahn.formats.pain.places import Remittance, place_reference
from kontobahn.money import amount_text


def payment_body(
    order: PaymentOrder, bank: Bank, psu_type: str, *, redirect_url: str, state: str, webhook_url: str | None
) -> dict[str, Any]:
    """Raises ProviderRefused if the bank does not take such an order."""
    kind = kind_of(bank, order.template_identifier, psu_type)
    if kind is None:
        raise ProviderRefused(
            "PaymentTemplateNotSupported", f"{bank.name} takes no {order.template_identifier} payments"
        )
    body: dict[str, Any] = {
        "payment_type": PAYMENT_TYPES[order.template_identifier],
        "payment_request": {
            "debtor_account": _iban(order.debtor_iban),
            "credit_transfer_transaction": [_transfer(order, kind)],
        },
        "aspsp": named(bank),
        "state": state,
        "redirect_url": redirect_url,
        "psu_type": psu_type,
    }
    if webhook_url is not None:
        body["webhook_url"] = webhook_url
    return body


def named(bank: Bank | Named) -> dict[str, str]:
    return {"name": bank.name, "country": bank.country}


def _transfer(order: PaymentOrder, kind: PaymentKind) -> dict[str, Any]:
    try:
        remittance = place_reference(order.description, order.reference)
    except BadRequest as error:
        raise ProviderRefused("InvalidPaymentAttributes", str(error).rstrip(".")) from None
    ids = {"end_to_end_id": order.end_to_end_id}
    if remittance.instruction_id is not None:
        ids["instruction_id"] = remittance.instruction_id
    beneficiary: dict[str, Any] = {
        "creditor": {"name": order.creditor_name},
        "creditor_account": _iban(order.creditor_iban),
    }
    agent = order.details.get("creditor_agent")
    if isinstance(agent, str):
        beneficiary["creditor_agent"] = {"bic_fi": agent}
    transfer: dict[str, Any] = {
        "instructed_amount": {"amount": amount_text(order.amount_minor), "currency": order.currency_code},
        "beneficiary": beneficiary,
        "payment_id": ids,
        **_texts(remittance, kind),
    }
    day = order.details.get("date")
    if day is not None:
        if not kind.requested_execution_date_supported:
            raise ProviderRefused("InvalidPaymentAttributes", "The bank takes no day of execution: leave out `date`")
        transfer["requested_execution_date"] = day
    return transfer


def _texts(remittance: Remittance, kind: PaymentKind) -> dict[str, Any]:
    if remittance.unstructured is None:
        assert remittance.creditor_reference is not None
        if kind.reference_number_supported:
            return {"reference_number": remittance.creditor_reference}
    text = remittance.unstructured or remittance.creditor_reference or ""
    lines = []
    for line in kind.remittance_information_lines or ():
        if text:
            lines.append(text[: line.max_length] if line.max_length else text)
            text = text[len(lines[-1]) :]
    if text and kind.remittance_information_lines:
        room = sum(line.max_length or 0 for line in kind.remittance_information_lines)
        raise ProviderRefused("InvalidPaymentAttributes", f"The bank takes a description of at most {room} characters")
    return {"remittance_information": lines or [text]}


def _iban(iban: str) -> dict[str, str]:
    return {"scheme_name": "IBAN", "identification": iban}
