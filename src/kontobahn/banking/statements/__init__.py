"""Account statements read (camt, MT940), payment orders written (pain.001), their status reports read (pain.002).

    with path.open("rb") as file:
        for item in read(file, path.name):  # Opening, Entry …, Closing; or StatusReport
            ...

A file is known by its content. An error in it is a StatementError, perhaps after some items were given: take them in one
transaction. Pure: no database, no HTTP, no network.
"""

from kontobahn.banking.statements.continuity import Sequel, StatementState, follows, state_after
from kontobahn.banking.statements.model import (
    Account,
    Amount,
    Balance,
    Closing,
    Entry,
    Item,
    Opening,
    Party,
    PaymentStatus,
    Reason,
    StatementError,
    StatusReport,
)
from kontobahn.banking.statements.reader import read

__all__ = [
    "Account",
    "Amount",
    "Balance",
    "Closing",
    "Entry",
    "Item",
    "Opening",
    "Party",
    "PaymentStatus",
    "Reason",
    "Sequel",
    "StatementError",
    "StatementState",
    "StatusReport",
    "follows",
    "read",
    "state_after",
]
