"""What account statements and payment status reports say, whatever format they came in; and how statements continue.

`bank_files.read` is what reads them.
"""

from kontobahn.formats.statements.continuity import Sequel, StatementState, follows, state_after
from kontobahn.formats.statements.model import (
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
    "state_after",
]
