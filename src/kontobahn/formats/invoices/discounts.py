"""Skonto in payment terms (BT-20): lines of the form that XRechnung prescribes, `#SKONTO#TAGE=14#PROZENT=2.00#`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from kontobahn.formats.invoices.model import Discount
from kontobahn.money import amount_text

_LINE = re.compile(
    r"\s*#SKONTO#TAGE=(\d{1,4})#PROZENT=(\d{1,3}\.\d{2})(?:#BASISBETRAG=(-?\d{1,12})\.(\d{2}))?#\s*", re.ASCII
)


def discounts_of(terms: str | None) -> list[Discount]:
    """Returns the discounts that the terms promise in the prescribed form; a sentence of prose promises none."""
    if not terms or "#SKONTO#" not in terms:
        return []
    found = (_LINE.fullmatch(line) for line in terms.splitlines())
    return [
        Discount(Decimal(line[2]), days=int(line[1]), base_minor=int(line[3] + line[4]) if line[3] else None)
        for line in found
        if line
    ]


def terms_of(discounts: Sequence[Discount]) -> str:
    """Returns the lines for discounts that run for some days."""
    return "".join(
        f"#SKONTO#TAGE={item.days}#PROZENT={item.percent:.2f}"
        f"{'' if item.base_minor is None else f'#BASISBETRAG={amount_text(item.base_minor)}'}#\n"
        for item in discounts
    )


def has_wrong_line(terms: str | None) -> bool:
    """Tells whether a line begins like a discount and is none, or is not ended as it must be (BR-DE-18)."""
    lines = [line for line in (terms or "").splitlines() if line.strip().startswith("#")]
    return any(not _LINE.fullmatch(line) for line in lines) or bool(lines and terms and not terms.endswith("\n"))
