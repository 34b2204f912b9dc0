"""The permission probe: one entry per area of a client's books, by what the provider answers."""

from __future__ import annotations

from datetime import date

from kontobahn.ledger.errors import BEREICHE, Bereich, ProviderError
from kontobahn.ledger.model import ProbeEintrag, Rechte
from kontobahn.ledger.provider import ClientBooks

# What cannot be asked for without knowing a fiscal year.
NEEDS_YEAR: tuple[Bereich, ...] = ("konten", "buchungen", "susa", "zahlungsbedingungen")
NOT_CHECKABLE = "not checked: the master data, and with it the fiscal year, could not be read"


def classify(error: ProviderError | None) -> ProbeEintrag:
    if error is None:
        return ProbeEintrag(status="ok", httpStatus=200)
    status = {401: "expired", 403: "permission"}.get(error.status or 0, "error")
    return ProbeEintrag(
        status=status,  # type: ignore[arg-type]
        httpStatus=error.status,
        maesnType=error.type,
        message=error.message,
    )


def not_checkable() -> ProbeEintrag:
    return ProbeEintrag(status="unknown", message=NOT_CHECKABLE)


def closed(error: ProviderError) -> Rechte:
    """The areas of books that could not even be opened: the master data has failed with all the rest."""
    return Rechte(**{name: not_checkable() if name in NEEDS_YEAR else classify(error) for name in BEREICHE})


# Choice 18: unknown for what needs the fiscal year when the master data failed.
async def probe(books: ClientBooks) -> Rechte:
    """Choice 18: every area; `unknown` for what needs the fiscal year when the master data failed."""
    entries: dict[str, ProbeEintrag] = {}
    jahr: date | None = None
    for bereich in BEREICHE:
        if bereich in NEEDS_YEAR and jahr is None:
            entries[bereich] = not_checkable()
            continue
        try:
            await books.probe(bereich, jahr)
            if bereich == "stammdaten":
                jahr = max((year.start for year in await books.geschaeftsjahre()), default=None)
        except ProviderError as error:
            entries[bereich] = classify(error)
        else:
            entries[bereich] = classify(None)
    return Rechte(**entries)
