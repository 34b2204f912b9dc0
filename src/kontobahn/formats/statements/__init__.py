"""The content of account statements and payment status reports, whatever format they came in.

`bank_files.read` reads them.
"""

from kontobahn.formats.statements.model import (
    Amount,
    Balance,
    Closing,
    Entry,
    Item,
    Opening,
    Party,
    Reason,
    ReportedStatus,
    StatementAccount,
    StatementError,
    StatementWarning,
    StatusReport,
)

__all__ = [
    "Amount",
    "Balance",
    "Closing",
    "Entry",
    "Item",
    "Opening",
    "Party",
    "Reason",
    "ReportedStatus",
    "StatementAccount",
    "StatementError",
    "StatementWarning",
    "StatusReport",
]
