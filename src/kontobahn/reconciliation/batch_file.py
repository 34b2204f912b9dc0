"""A batch of bookings as a DATEV file for the tax adviser: not committed, a proposal. Pure."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from datetime import date, datetime
from typing import NamedTuple

from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz
from kontobahn.ledger.accounting import Geschaeftsjahr
from kontobahn.reconciliation import booking_rows

TITLE = "Kontobahn Zahlungsabgleich"


class BatchFile(NamedTuple):
    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def make(records: Sequence[Buchungssatz], client_id: str, jahr: Geschaeftsjahr, made_at: datetime) -> BatchFile:
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
        bezeichnung=TITLE,
        festschreibung=False,
        skr=jahr.kontenrahmen.removeprefix("SKR"),
    )
    target = io.BytesIO()
    extf.write_buchungsstapel(target, header, booking_rows.for_file(records, jahr.konto_laenge))
    return BatchFile(extf.file_name(header), target.getvalue())
