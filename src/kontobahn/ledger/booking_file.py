"""Bookings as a DATEV file for the tax adviser: not committed, a proposal."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ledger.konto import functional
from kontobahn.ledger.wire import Geschaeftsjahr


class BookingFile(NamedTuple):
    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def for_file(records: Iterable[Buchungssatz], konto_laenge: int) -> list[Buchungssatz]:
    """The same bookings with accounts as the client writes them."""
    return [
        record._replace(
            konto=functional(record.konto, konto_laenge), gegenkonto=functional(record.gegenkonto, konto_laenge)
        )
        for record in records
    ]


def make_file(
    records: Sequence[Buchungssatz], client_id: str, jahr: Geschaeftsjahr, made_at: datetime, title: str
) -> BookingFile:
    """`client_id` is the adviser's number and the client's. All bookings are of the fiscal year."""
    berater, _, mandant = client_id.partition("-")
    days = [date.fromisoformat(record.belegdatum) for record in records]
    header = extf.make_header(
        extf.BUCHUNGSSTAPEL,
        erzeugt_am=made_at,
        berater=int(berater),
        mandant=int(mandant),
        wj_beginn=jahr.start,
        sachkontenlaenge=jahr.konto_laenge,
        datum_von=min(days),
        datum_bis=max(days),
        bezeichnung=title,
        festschreibung=False,
        skr=jahr.kontenrahmen.removeprefix("SKR"),
    )
    target = io.BytesIO()
    extf.write_buchungsstapel(target, header, for_file(records, jahr.konto_laenge))
    return BookingFile(extf.file_name(header), target.getvalue())
