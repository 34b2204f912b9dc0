"""The modules of reconciliation that declare calls, and the events of this room and of the areas below it."""

from __future__ import annotations

from types import ModuleType

from kontobahn.api.wire import Answer
from kontobahn.banking import emitted as of_banking
from kontobahn.reconciliation import (
    batches,
    emitted,
    knowledge,
    matches,
    proposals,
    report,
    runs,
    settings,
    transactions,
)

MODULES: tuple[ModuleType, ...] = (settings, runs, transactions, proposals, matches, knowledge, report, batches)
ALL_EVENTS: dict[str, type[Answer]] = of_banking.EVENTS | emitted.EVENTS
