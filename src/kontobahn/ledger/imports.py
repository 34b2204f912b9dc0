"""Imports of files into a client's books: the file as it is sent, and the report.

Without the calls (`routes/rewe.py`): the port and its adapters speak these types.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, BinaryIO, Literal, NamedTuple

from msgspec import Meta

from kontobahn.api.wire import Answer, Timestamp, Uuid

ImportStatus = Literal["running", "done", "failed", "undone"]
ImportArt = Literal["DATEI", "BUCHUNGEN", "STORNO", "KORREKTUR"]


class SentFile(NamedTuple):
    """A file as it was sent, with the wishes of the caller."""

    stream: BinaryIO
    name: str
    # Import the file without its refused rows, instead of not at all.
    partial: bool
    # Rows that look booked already are other bookings.
    another: bool


class Protokollzeile(Answer):
    art: Literal["ABGELEHNT", "WARNUNG"]
    zeile: Annotated[int, Meta(ge=0, description="Line of the file; 1 is the header.")]
    spalte: Annotated[str, Meta(description="Title of the column; empty if the whole line is meant.")]
    gefunden: str
    getan: str


class Import(Answer, kw_only=True):
    id: Uuid
    status: ImportStatus
    art: ImportArt
    quelle: Annotated[str, Meta(description="Name of the file, or of the calling source.")]
    kategorie: str | None
    bezeichnung: str
    clientId: str | None
    geschaeftsjahrStartDatum: date | None
    uebernommen: Annotated[int, Meta(ge=0, description="Records that were imported.")]
    bekannt: Annotated[int, Meta(ge=0, description="Rows that an earlier import of the file had booked.")]
    abgelehnt: Annotated[int, Meta(ge=0, description="Rows that were refused.")]
    warnungen: Annotated[int, Meta(ge=0)]
    erstelltAm: Timestamp
    erstelltVon: str
    stornoVon: Annotated[Uuid, Meta(description="The import that this one undoes.")] | None
    stornoDurch: Annotated[Uuid, Meta(description="The import that undoes this one.")] | None


class ImportMitProtokoll(Import, kw_only=True):
    protokoll: Annotated[list[Protokollzeile], Meta(description="The first thousand refused rows and warnings.")]
    fehler: Annotated[str, Meta(description="Why it failed.")] | None = None
