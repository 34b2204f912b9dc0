"""The two clients: the same calls, one to be called and one to be awaited."""

from __future__ import annotations

from kontobahn_client.calls.assistants import AssistantCalls
from kontobahn_client.calls.auth import AuthCalls
from kontobahn_client.calls.banking import BankingCalls
from kontobahn_client.calls.events import EventCalls
from kontobahn_client.calls.ledger import LedgerCalls
from kontobahn_client.calls.mobility import MobilityCalls
from kontobahn_client.calls.payables import PayableCalls
from kontobahn_client.calls.reconciliation import ReconciliationCalls
from kontobahn_client.transport.connections import AsyncConnection, Connection


class _Calls(
    AssistantCalls, AuthCalls, BankingCalls, EventCalls, LedgerCalls, MobilityCalls, PayableCalls, ReconciliationCalls
):
    """Every call of the API, by its `operationId`."""


class Kontobahn(_Calls, Connection):
    """The service at an address, as the holder of a key sees it."""


class AsyncKontobahn(_Calls, AsyncConnection):
    """The same with `await`; lists are walked with `async for`."""
