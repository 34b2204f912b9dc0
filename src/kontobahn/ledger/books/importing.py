"""Imports EXTF files into the books: as a whole or not at all (or, on request, without the refused rows), and never twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from kontobahn import money
from kontobahn.db import Tx
from kontobahn.errors import Conflict, Refusal
from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz, ExtfFile, RowError, RowWarning
from kontobahn.json_text import encode_text
from kontobahn.ledger.accounting import Periode, Zahlungsbedingung
from kontobahn.ledger.books import cash_days, persons, posting, reading, store
from kontobahn.ledger.books.posting import Poster, Satz
from kontobahn.ledger.books.reimport import PartialRows
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kontierung import KontierungError
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.personenkonto import Adresse, Bankkonto, Email, Kontaktperson, Personenkonto, Telefon
from kontobahn.ledger.provider import ConnectionRef

REPORT_EVERY = 5_000
_MONTHS = ("des laufenden Monats", "des Folgemonats", "des übernächsten Monats")

Progress = Callable[[int, int], None]


class Report(NamedTuple):
    """The outcome for a file."""

    category: str
    client_id: str
    imported: int
    refused: list[RowError]
    # Rows that an earlier, partial import of the same file had booked.
    known: int = 0
    warnings: tuple[RowWarning, ...] = ()


class Protocol:
    """What is reported about a file, line by line: refused rows, and warnings about accepted ones."""

    def __init__(self, file: ExtfFile) -> None:
        self.refused: list[RowError] = []
        self.warnings: list[RowWarning] = [*file.warnings]

    def add(self, told: RowError | RowWarning) -> None:
        if isinstance(told, RowError):
            self.refused.append(told)
        else:
            self.warnings.append(told)


class ImportRefused(Refusal):
    """Rows were refused and nothing was imported."""

    status = 400

    def __init__(self, report: Report) -> None:
        super().__init__(f"{len(report.refused)} rows were refused; nothing was imported.")
        self.report = report


def import_file(
    tx: Tx,
    connection: ConnectionRef,
    client_id: str | None,
    file: ExtfFile,
    name: str,
    *,
    rows_sha256: str,
    partial: bool,
    progress: Progress,
    another: bool = False,
) -> Report:
    """One unit of work. Raises ImportRefused with every refused row.

    With `another`, rows like those that a partial import booked before are other bookings.
    """
    client = _client_of(tx, connection, client_id, file)
    header = file.header
    if header.has_chart and header.sachkontenlaenge != client.konto_laenge:
        raise Conflict(
            f"The file has account numbers of {header.sachkontenlaenge} digits, the client {client.client_id} has {client.konto_laenge}."
        )
    if header.has_chart and header.skr and f"SKR{header.skr}" != client.kontenrahmen:
        raise Conflict(f"The file is for SKR{header.skr}, the client {client.client_id} has {client.kontenrahmen}.")
    jahr = store.ensure_year(tx, client, header.wj_beginn)
    batch = posting.open_batch(
        tx, client, jahr, kind=f"extf {header.category}", source=name, sha256=rows_sha256, bezeichnung=header.bezeichnung,
        is_closing=header.buchungstyp == 2,
    )  # fmt: skip
    protocol = Protocol(file)
    refused = protocol.refused
    known = 0
    if header.category == extf.BUCHUNGSSTAPEL.number:
        partial_rows = PartialRows(tx, client, batch, header, is_partial=partial, is_another=another)
        imported = _import_bookings(tx, client, batch, file, protocol, progress, partial_rows)
        known = partial_rows.known
        if partial or not refused:
            partial_rows.finish(has_refused=bool(refused))
    else:
        imported = _IMPORTERS[header.category](tx, client, file, protocol)
    report = Report(file.category.name, client.client_id, imported, refused, known, tuple(protocol.warnings))
    if refused and not partial:
        raise ImportRefused(report._replace(imported=0, known=0))
    return report


def hash_rows(path: Path) -> str:
    """Identifies a file by its rows, without the header, which holds the time of its creation."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.readline(), file.readline()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _client_of(tx: Tx, connection: ConnectionRef, client_id: str | None, file: ExtfFile) -> Client:
    known = store.clients(tx, connection)
    for client in known:
        if client.client_id == (client_id or file.header.client_id):
            return client
    names = ", ".join(client.client_id for client in known) or "none"
    if client_id is not None:
        raise Conflict(f"The connection has no client {client_id}, only {names}.")
    raise Conflict(
        f"The file is of the client {file.header.client_id}, and the connection has {names}. Say with --client whose books it goes into."
    )


def _import_bookings(
    tx: Tx,
    client: Client,
    batch: posting.Batch,
    file: ExtfFile,
    protocol: Protocol,
    progress: Progress,
    partial_rows: PartialRows,
) -> int:
    poster = Poster(tx, client, batch)
    last_day = batch.jahr.end
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    for number, record in enumerate(file.buchungssaetze()):
        if number % REPORT_EVERY == 0:
            progress(file.bytes_read, file.total_bytes)
        if not isinstance(record, Buchungssatz):
            protocol.add(record)
            continue
        satz = _as_satz(record, zeros)
        if satz.belegdatum > last_day:
            reason = f"{satz.belegdatum} lies after the fiscal year, which ends on {last_day}."
            protocol.add(RowError(record.line, "Belegdatum", reason))
            continue
        if partial_rows.has(satz):
            continue
        try:
            poster.add(satz)
            partial_rows.add(satz)
            if poster.hint is not None:
                protocol.add(RowWarning(record.line, *poster.hint[:3]))
        except KontierungError as error:
            protocol.add(RowError(record.line, error.field, f"{error.field} {error.reason}."))
    progress(file.total_bytes, file.total_bytes)
    imported = poster.finish()
    for name, day, saldo in cash_days.negative(tx, client, poster.moved_cash_books):
        found = f"The cash book “{name}” is negative on {day}: {money.from_minor(saldo)} EUR."
        protocol.add(RowWarning(0, "", found, "It was booked nevertheless."))
    return imported


# The fields of a Satz, taken by name from a row of the file; a million rows go through here.
_fields_of_satz = itemgetter(*map(Buchungssatz._fields.index, Satz._fields))
_KONTO, _GEGENKONTO = Satz._fields.index("konto"), Satz._fields.index("gegenkonto")


def _as_satz(record: Buchungssatz, zeros: str) -> Satz:
    """Returns the row with technical account numbers."""
    values = [*_fields_of_satz(record)]
    values[_KONTO] += zeros
    values[_GEGENKONTO] += zeros
    return tuple.__new__(Satz, values)


def _import_labels(tx: Tx, client: Client, file: ExtfFile, protocol: Protocol) -> int:
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    labels = []
    for record in file.kontenbeschriftungen():
        if isinstance(record, RowError | RowWarning):
            protocol.add(record)
        else:
            labels.append((record.konto + zeros, record.beschriftung))
    store.label_accounts(tx, client, labels)
    return len(labels)


def _import_persons(tx: Tx, client: Client, file: ExtfFile, protocol: Protocol) -> int:
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    imported = 0
    for person in file.personenkonten():
        if isinstance(person, RowError | RowWarning):
            protocol.add(person)
        elif len(person.konto) != client.konto_laenge + 1:
            # The format allows labels of ledger accounts here.
            store.label_accounts(tx, client, [(person.konto + zeros, extf.display_name(person))])
            imported += 1
        else:
            # An array in the order of the fields, which must not change: it is stored, and read back by the export.
            row = encode_text(person)
            persons.store(tx, client, person.konto + zeros, _as_personenkonto(client, file, person), extf=row)
            imported += 1
    return imported


def _as_personenkonto(client: Client, file: ExtfFile, person: extf.Personenkonto) -> Personenkonto:
    """The row of the file in the form of the API."""
    kinds = {"1": "CONTACT_PERSON", "2": "COMPANY"}
    name = person.name or person.name_ohne_angabe
    phones = [Telefon(nummer=person.telefon)] if person.telefon else []
    phones += [Telefon(nummer=person.fax, typ="FAX")] if person.fax else []
    return Personenkonto(
        personenkontoNummer=person.konto,
        kontaktTyp=kinds.get(person.adressattyp, "COMPANY" if person.firmenname else "UNDEFINED"),  # type: ignore[arg-type]
        kontenrahmen=client.kontenrahmen,  # type: ignore[arg-type]
        kontonummernLaenge=client.konto_laenge,
        geschaeftsjahrStartDatum=file.header.wj_beginn,
        firmenname=person.firmenname or None,
        ustId=person.ust_id or None,
        emailAdressen=[Email(email=person.email)] if person.email else [],
        telefonnummern=phones,
        bankkonten=[
            Bankkonto(iban=bank.iban, bic=bank.bic or None, name=bank.name or None, istHauptkonto=bank.haupt)
            for bank in person.bankverbindungen
            if bank.iban
        ],
        kontaktpersonen=[Kontaktperson(nachname=name, vorname=person.vorname or None, anrede=person.anrede or None)]
        if name
        else [],
        adressen=[
            Adresse(
                adresszeile=adresse.strasse or f"Postfach {adresse.postfach}".strip(),
                adresszeile2=adresse.adresszusatz or None,
                postleitzahl=adresse.plz,
                ort=adresse.ort,
                laendercode=adresse.land or "DE",
                typ="BILLING" if adresse.rechnung else "WORK",
            )
            for adresse in person.adressen
        ],
    )


def _import_terms(tx: Tx, client: Client, file: ExtfFile, protocol: Protocol) -> int:
    imported = 0
    for bedingung in file.zahlungsbedingungen():
        if isinstance(bedingung, RowError | RowWarning):
            protocol.add(bedingung)
        else:
            reading.save_zahlungsbedingung(tx, client, zahlungsbedingung(bedingung))
            imported += 1
    return imported


def zahlungsbedingung(bedingung: extf.Zahlungsbedingung) -> Zahlungsbedingung:
    by_period = bedingung.faelligkeitstyp == extf.ALS_ZEITRAUM
    return Zahlungsbedingung(
        id=str(bedingung.nummer),
        bezeichnung=bedingung.bezeichnung,
        skontoFrist1=None if by_period or not bedingung.skonto1_prozent else bedingung.skonto1_tage,
        skontoSatz1=bedingung.skonto1_prozent,
        skontoFrist2=None if by_period or not bedingung.skonto2_prozent else bedingung.skonto2_tage,
        skontoSatz2=bedingung.skonto2_prozent,
        nettoFrist=None if by_period else bedingung.faellig_tage,
        faelligkeitsart="ALS_ZEITRAUM" if by_period else "NACH_TAGE",
        perioden=_perioden(bedingung.zeitraeume) if by_period else [],
    )


def _perioden(zeitraeume: tuple[extf.Zeitraum, ...]) -> list[Periode]:
    first = 1
    perioden = []
    for zeitraum in zeitraeume:
        perioden.append(
            Periode(
                rechnungsbereich=f"Rechnungen vom {first}. bis {zeitraum.rechnung_bis}.",
                skontoFrist1=_deadline(zeitraum.skonto1_tag, zeitraum.skonto1_monat) or "kein Skonto",
                skontoFrist2=_deadline(zeitraum.skonto2_tag, zeitraum.skonto2_monat),
                nettoFrist=_deadline(zeitraum.faellig_tag, zeitraum.faellig_monat) or "sofort fällig",
            )
        )
        first = zeitraum.rechnung_bis + 1
    return perioden


def _deadline(tag: int, monat: int) -> str | None:
    if not tag:
        return None
    month = _MONTHS[monat] if monat < len(_MONTHS) else f"des {monat}. Monats danach"
    return f"Monatsende {month}" if tag == 31 else f"{tag}. {month}"


_IMPORTERS: dict[int, Callable[[Tx, Client, ExtfFile, Protocol], int]] = {
    extf.PERSONENKONTEN.number: _import_persons,
    extf.KONTENBESCHRIFTUNGEN.number: _import_labels,
    extf.ZAHLUNGSBEDINGUNGEN.number: _import_terms,
}
