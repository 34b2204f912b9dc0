"""Bookings and person accounts as DATEV-format files that are sent: one file for a call, of one fiscal year."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from datetime import date
from typing import Any

import msgspec

from kontobahn.clock import berlin_datetime
from kontobahn.datev.clients import FiscalYear
from kontobahn.datev.file_imports import SentFile
from kontobahn.errors import BadRequest
from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz, ExtfError, Header
from kontobahn.ledger import partner_rows
from kontobahn.ledger.buchungen import GebuchteBuchungen, NeueBuchung, cents, further_columns
from kontobahn.ledger.kassenbuch import ReceiptImage
from kontobahn.ledger.konto import functional, technical
from kontobahn.ledger.personenkonto import (
    Personenkonto,
    PersonenkontoAntwort,
    PersonenkontoErgebnis,
    answer_of,
    check_fits,
)
from kontobahn.ledger.provider import ConnectionRef, Outgoing, Transmission
from kontobahn.ledger.steuer import is_reversal
from kontobahn.ledger.transmissions import messages_of
from kontobahn.ledger.wire import Information, LedgerErgebnis
from kontobahn.sentences import said

FILE_TYPE = "application/octet-stream"
TITLE = "Kontobahn"


def _made(connection: ConnectionRef, client_id: str, kind: Any, title: str, content: bytes, sent: SentFile) -> Outgoing:
    file = ReceiptImage(sent.name, FILE_TYPE, hashlib.sha256(content).hexdigest(), content)
    return Outgoing(connection, client_id, kind, title, msgspec.json.encode(sent).decode(), (file,))


def _written(write: Callable[..., int], header: Header, records: list[Any]) -> bytes:
    target = io.BytesIO()
    try:
        write(target, header, records)
    except ExtfError as error:
        raise BadRequest(said("The file cannot be written. {why}", why=error)) from None
    return target.getvalue()


def _header(
    category: extf.Category, client_id: str, year: FiscalYear, now: int, days: list[date] | None = None
) -> Header:
    berater, _, mandant = client_id.partition("-")
    return extf.make_header(
        category, erzeugt_am=berlin_datetime(now).replace(tzinfo=None), berater=int(berater), mandant=int(mandant),
        wj_beginn=year.yearBegin, sachkontenlaenge=year.accountLength, datum_von=min(days) if days else None,
        datum_bis=max(days) if days else None, bezeichnung=TITLE, skr=f"{year.accountSystem:02}",
    )  # fmt: skip


# --- Bookings


def batch(
    connection: ConnectionRef, client_id: str, years: list[FiscalYear], buchungen: list[NeueBuchung], document: str, now: int
) -> Outgoing:  # fmt: skip
    """Raises BadRequest that names the booking if one is of another year than the first, or of none."""
    first = buchungen[0].belegdatum
    year = next((one for one in years if one.yearBegin <= first <= one.yearEnd), None)
    for number, buchung in enumerate(buchungen):
        if year is None or not year.yearBegin <= buchung.belegdatum <= year.yearEnd:
            path = f"buchungen[{number}].belegdatum"
            raise BadRequest(
                said("The field `{path}`: all bookings must be of one fiscal year that the client has.", path=path),
                field=path,
            )
    assert year is not None
    year = year.in_euros
    header = _header(extf.BUCHUNGSSTAPEL, client_id, year, now, [one.belegdatum for one in buchungen])
    rows = [_row(number, one, year.accountLength, document) for number, one in enumerate(buchungen)]
    content = _written(extf.write_buchungsstapel, header, rows)
    return file(connection, client_id, extf.file_name(header), content, [document] if document else [])


def file(
    connection: ConnectionRef, client_id: str, name: str, content: bytes, documents: list[str] | None = None
) -> Outgoing:
    """Returns a batch whose file is made already."""
    sent = SentFile(name=name, documents=documents or [])
    return _made(connection, client_id, "BUCHUNGSSTAPEL", name, content, sent)


def _row(number: int, buchung: NeueBuchung, laenge: int, document: str) -> Buchungssatz:
    kost = buchung.kostenstellen
    return Buchungssatz(
        line=0,
        umsatz=cents(buchung.umsatz) or 0,
        soll=buchung.sollHabenKennzeichen == "SOLL",
        waehrung=buchung.waehrung,
        kurs=(buchung.kurs or "").replace(".", ","),
        basis_umsatz=cents(buchung.basisUmsatz),
        konto=_konto(f"buchungen[{number}].konto", buchung.konto, laenge),
        gegenkonto=_konto(f"buchungen[{number}].gegenkonto", buchung.gegenkonto, laenge),
        bu_schluessel=(buchung.buSchluessel or "").lstrip("0"),
        belegdatum=buchung.belegdatum.isoformat(),
        belegfeld1=buchung.belegfeld1 or "",
        belegfeld2=buchung.belegfeld2 or "",
        skonto=cents(buchung.skonto) or 0,
        buchungstext=buchung.buchungstext or "",
        kost1=(kost.kost1 if kost else None) or "",
        kost2=(kost.kost2 if kost else None) or "",
        generalumkehr=buchung.generalumkehr or is_reversal(buchung.buSchluessel or ""),
        weitere=further_columns(buchung, document),
    )


def _konto(path: str, nummer: str, laenge: int) -> str:
    try:
        return functional(technical(nummer, laenge), laenge)
    except ValueError as error:
        raise BadRequest(said("The field `{path}` {reason}.", path=path, reason=error), field=path) from None


def batch_answer(sent: Transmission) -> GebuchteBuchungen:
    """Returns the answer to bookings that were sent: they have no ids until the adviser has imported them."""
    information = [Information.of(one) for one in messages_of(sent)]
    return GebuchteBuchungen(
        ids=[], importe=[sent.id], ledgerAntwort=LedgerErgebnis(status=sent.state, information=information)
    )


# --- Person accounts


def checked_konto(person: Personenkonto, years: list[FiscalYear]) -> tuple[str, FiscalYear]:
    """Returns the technical number and the fiscal year. Raises BadRequest if the record does not fit the client's books."""
    starts = [one.yearBegin.isoformat() for one in years]
    year = next((one for one in years if one.yearBegin == person.geschaeftsjahrStartDatum), None)
    usual = year or (years[-1] if years else None)
    laenge, chart = (usual.accountLength, usual.as_answer.kontenrahmen) if usual else (4, person.kontenrahmen)
    konto = check_fits(person, laenge, chart, starts)
    assert year is not None
    return konto, year


def person_file(
    connection: ConnectionRef, client_id: str, person: Personenkonto, konto: str, year: FiscalYear, now: int, *, is_new: bool
) -> Outgoing:  # fmt: skip
    header = _header(extf.PERSONENKONTEN, client_id, year, now)
    record = msgspec.to_builtins(person)
    content = _written(extf.write_personenkonten, header, [partner_rows.as_row(record)])
    sent = SentFile(name=extf.file_name(header), person=person, konto=konto, is_new=is_new)
    title = f"{person.personenkontoNummer} {partner_rows.name_of(record)}"
    return _made(connection, client_id, "PERSONENKONTO", title, content, sent)


def person_answer(sent: Transmission) -> tuple[PersonenkontoAntwort, bool]:
    """Returns the answer, and whether the account was new as far as anybody here knew."""
    kept = msgspec.json.decode(sent.content, type=SentFile)
    assert kept.person is not None
    ergebnis = PersonenkontoErgebnis(
        status=sent.state, antwortDaten={"uebermittlungId": sent.id}, meldungen=messages_of(sent)
    )
    kept_id = f"{sent.client_id}/{kept.konto}"
    updated_at = None if kept.is_new else sent.created_at
    return answer_of(kept.person, kept.konto, sent.id, kept_id, sent.created_at, updated_at, ergebnis), kept.is_new
