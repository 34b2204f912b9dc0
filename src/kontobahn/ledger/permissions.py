"""The permission probe: one entry per area of a client's books, from the provider's answer."""

from __future__ import annotations

from datetime import date
from typing import Literal

from kontobahn.api.wire import Answer
from kontobahn.ledger.errors import AREAS, Area, ProviderError
from kontobahn.ledger.provider import ClientBooks

# Areas that cannot be probed without a fiscal year.
NEEDS_YEAR: tuple[Area, ...] = ("konten", "buchungen", "susa", "zahlungsbedingungen")
NOT_CHECKABLE = "not checked: the master data, and with it the fiscal year, could not be read"
ProbeStatus = Literal["ok", "permission", "expired", "error", "unknown"]
_STATUSES: dict[int | None, ProbeStatus] = {401: "expired", 403: "permission"}


class ProbeEintrag(Answer):
    status: ProbeStatus
    httpStatus: int | None = None
    maesnType: str | None = None
    message: str | None = None


class Rechte(Answer):
    stammdaten: ProbeEintrag
    konten: ProbeEintrag
    buchungen: ProbeEintrag
    susa: ProbeEintrag
    zahlungsbedingungen: ProbeEintrag
    personenkonten: ProbeEintrag
    kassenbuch: ProbeEintrag
    belege: ProbeEintrag


def classify(error: ProviderError | None) -> ProbeEintrag:
    if error is None:
        return ProbeEintrag(status="ok", httpStatus=200)
    return ProbeEintrag(
        status=_STATUSES.get(error.status, "error"),
        httpStatus=error.status,
        maesnType=error.type,
        message=error.message,
    )


def not_checkable() -> ProbeEintrag:
    return ProbeEintrag(status="unknown", message=NOT_CHECKABLE)


def closed(error: ProviderError) -> Rechte:
    """Returns the areas of books that could not even be opened: the master data has failed with all the rest."""
    return Rechte(**{name: not_checkable() if name in NEEDS_YEAR else classify(error) for name in AREAS})


# Choice 18: unknown for what needs the fiscal year when the master data failed.
async def probe(books: ClientBooks) -> Rechte:
    entries: dict[str, ProbeEintrag] = {}
    jahr: date | None = None
    for area in AREAS:
        if area in NEEDS_YEAR and jahr is None:
            entries[area] = not_checkable()
            continue
        try:
            await books.probe(area, jahr)
            if area == "stammdaten":
                jahr = max((year.start for year in await books.geschaeftsjahre()), default=None)
        except ProviderError as error:
            entries[area] = classify(error)
        else:
            entries[area] = classify(None)
    return Rechte(**entries)
