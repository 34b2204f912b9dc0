"""The changes that a payment may go through, written down from docs/spec/states.md and not from the code."""

from __future__ import annotations

import re
from pathlib import Path

from kontobahn.banking.provider import PaymentStatus

# A row for each status a payment has, a column for each that is reported, in the order of the rows:
# → the payment moves, = it has it already, . too late, ! contradicts what is final.
TABLE = """
initiated                = → → → → → → → →
initiated_info_required  . = → → → → → → →
authorizing              . → = → → → → → →
authorized               . . . = → → → → →
processing               . . . . = → → → →
executed                 . . . . . = → → →
settled                  . . . . . . = ! !
failed                   . . . . . . ! = !
rejected                 . . . . . . ! ! =
"""
_ROWS = [line.split() for line in TABLE.strip().splitlines()]
STATUSES: tuple[PaymentStatus, ...] = tuple(row[0] for row in _ROWS)  # type: ignore[misc]
MEANING: dict[tuple[str, str], str] = {
    (row[0], reported): sign for row in _ROWS for reported, sign in zip(STATUSES, row[1:], strict=True)
}

# The meaning of the codes in a bank's file, once the payer has authorised.
ISO_CODES = {
    "RCVD": "authorized", "ACTC": "authorized", "ACCP": "authorized", "ACFC": "authorized", "ACWC": "authorized",
    "PATC": "authorizing", "PDNG": "processing", "ACSP": "processing", "BLCK": "processing", "ACWP": "executed",
    "ACSC": "executed", "ACCC": "settled", "RJCT": "rejected", "CANC": "failed",
}  # fmt: skip


def documented() -> dict[str, list[str]]:
    """The rows “From | May become” of docs/spec/states.md, for payments."""
    text = (Path(__file__).parent.parent / "docs" / "spec" / "states.md").read_text()
    table = text.split("## Payment")[1].split("| From | May become |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE)
    return {before: re.findall(r"`(\w+)`", following) for before, following in rows}
