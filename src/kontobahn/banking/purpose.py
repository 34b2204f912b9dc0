"""The purpose text of a bank transaction taken apart by its SEPA tags. Pure; the caller keeps the raw text.

What the tags do not claim is free text and goes to `svwz`; nothing is lost between the two.
"""

from __future__ import annotations

from typing import NamedTuple


class Purpose(NamedTuple):
    """The contract's eleven keys first, in its order; then what goes elsewhere in a transaction."""

    cred: str | None = None
    mref: str | None = None
    kref: str | None = None
    debt: str | None = None
    svwz: str | None = None
    abwa: str | None = None
    abwe: str | None = None
    bic: str | None = None
    oamt: str | None = None
    coam: str | None = None
    purp: str | None = None
    end_to_end_id: str | None = None
    iban: str | None = None
    mdat: str | None = None
    sqtp: str | None = None
    orcr: str | None = None
    ormr: str | None = None
    ddat: str | None = None
    bref: str | None = None
    rref: str | None = None

    def parsed(self) -> dict[str, str | None]:
        """The transaction's `description_parsed`."""
        return dict(zip(self._fields[:11], self, strict=False))


def parse(description: str) -> Purpose:
    return Purpose(svwz=description.strip() or None)
