"""Drafts that programs prepare for a person. Names are those of the API."""

from __future__ import annotations

import datetime
from decimal import Decimal

from kontobahn_client.models.common import Answer, Body


class AssistantAccess(Answer, kw_only=True):
    organization_id: str
    organization: str
    enabled: bool
    role: str
    scopes: list[str] | None
    credits: int


class AssistantBooks(Answer, kw_only=True):
    connection_id: str
    client_id: str
    name: str
    fiscal_years: list[datetime.date] | None


class NewAssistantSettings(Body, kw_only=True):
    enabled: bool


class AssistantSettings(Answer, kw_only=True):
    enabled: bool
    changed_at: datetime.datetime | None


class NewPreparedPayment(Body, kw_only=True):
    account_id: str
    amount: Decimal
    creditor_name: str
    creditor_iban: str
    description: str
    reference: str | None = None
    template_identifier: str = "SEPA"
    date: datetime.date | None = None


class NewPreparedCashEntry(Body, kw_only=True):
    connection_id: str
    client_id: str | None = None
    kassenname: str
    date: datetime.date
    amount: Decimal
    text: str
    gegenkonto: str
    beleg: str | None = None
    steuer_prozent: Decimal | None = None


class PreparedPayment(Answer, kw_only=True):
    account_id: str
    amount: Decimal
    creditor_name: str
    creditor_iban: str
    description: str
    reference: str | None
    template_identifier: str
    date: datetime.date | None


class PreparedCashEntry(Answer, kw_only=True):
    connection_id: str
    client_id: str | None
    kassenname: str
    date: datetime.date
    amount: Decimal
    text: str
    gegenkonto: str
    beleg: str | None
    steuer_prozent: Decimal | None


class Prepared(Answer, kw_only=True):
    id: str
    organization_id: str
    kind: str
    state: str
    approval_url: str
    payment: PreparedPayment | None
    cash_entry: PreparedCashEntry | None
    payment_id: str | None
    created_at: datetime.datetime
    expires_at: datetime.datetime
    decided_at: datetime.datetime | None
