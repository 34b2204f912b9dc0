"""Takes EXTF files into the books: whole or not at all (or, if asked, without the refused rows), and never twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kontobahn.db import Tx
from kontobahn.errors import Conflict, Refusal
from kontobahn.formats import extf
from kontobahn.formats.extf import ExtfDatei, Zeilenfehler
from kontobahn.json_text import encode_text
from kontobahn.ledger.books import persons, posting, reading, store
from kontobahn.ledger.books.mending import PartialRows
from kontobahn.ledger.books.posting import Poster, Satz
from kontobahn.ledger.books.store import Client
from kontobahn.ledger.kontierung import KontierungError
from kontobahn.ledger.konto import SACHKONTO_DIGITS
from kontobahn.ledger.model import (
    Adresse,
    Bankkonto,
    Email,
    Kontaktperson,
    Periode,
    Personenkonto,
    Telefon,
    Zahlungsbedingung,
)
from kontobahn.ledger.provider import Connection

REPORT_EVERY = 5_000
_MONTHS = ("des laufenden Monats", "des Folgemonats", "des übernächsten Monats")

Progress = Callable[[int, int], None]


class Report(NamedTuple):
    """What became of a file."""

    kategorie: str
    client_id: str
    taken: int
    refused: list[Zeilenfehler]
    # Rows that an earlier, partial import of the same file had taken.
    known: int = 0


class ImportRefused(Refusal):
    """Rows were refused and nothing was taken."""

    status = 400

    def __init__(self, report: Report) -> None:
        super().__init__(f"{len(report.refused)} rows were refused; nothing was taken.")
        self.report = report


def import_file(
    tx: Tx,
    connection: Connection,
    client_id: str | None,
    datei: ExtfDatei,
    name: str,
    *,
    rows_sha256: str,
    partial: bool,
    progress: Progress,
    another: bool = False,
) -> Report:
    """One unit of work: the file, or ImportRefused with every refused row.

    `another` says that rows which a partial import took before are other bookings in this file.
    """
    client = _client_of(tx, connection, client_id, datei)
    kopf = datei.kopf
    if kopf.sachkontenlaenge != client.konto_laenge:
        raise Conflict(
            f"The file has account numbers of {kopf.sachkontenlaenge} digits, the client {client.client_id} has {client.konto_laenge}."
        )
    if kopf.skr and f"SKR{kopf.skr}" != client.kontenrahmen:
        raise Conflict(f"The file is for SKR{kopf.skr}, the client {client.client_id} has {client.kontenrahmen}.")
    jahr = store.ensure_year(tx, client, kopf.wj_beginn)
    batch = posting.open_batch(
        tx, client, jahr, kind=f"extf {kopf.kategorie}", source=name, sha256=rows_sha256, bezeichnung=kopf.bezeichnung,
        is_closing=kopf.buchungstyp == 2,
    )  # fmt: skip
    refused: list[Zeilenfehler] = []
    known = 0
    if kopf.kategorie == extf.BUCHUNGSSTAPEL.nummer:
        before = PartialRows(tx, client, batch, kopf, is_partial=partial, is_another=another)
        taken = _take_bookings(tx, client, batch, datei, refused, progress, before)
        known = before.known
        if partial or not refused:
            before.finish(has_refused=bool(refused))
    else:
        taken = _RECORDS[kopf.kategorie](tx, client, datei, refused)
    report = Report(datei.kategorie.name, client.client_id, taken, refused, known)
    if refused and not partial:
        raise ImportRefused(report._replace(taken=0, known=0))
    return report


def hash_rows(path: Path) -> str:
    """What a file is known by: its rows, without the header that holds the time of its making."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.readline(), file.readline()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _client_of(tx: Tx, connection: Connection, client_id: str | None, datei: ExtfDatei) -> Client:
    known = store.clients(tx, connection)
    for client in known:
        if client.client_id == (client_id or datei.client_id):
            return client
    names = ", ".join(client.client_id for client in known) or "none"
    if client_id is not None:
        raise Conflict(f"The connection has no client {client_id}, only {names}.")
    raise Conflict(
        f"The file is of the client {datei.client_id}, and the connection has {names}. Say with --client whose books it goes into."
    )


def _take_bookings(
    tx: Tx,
    client: Client,
    batch: posting.Batch,
    datei: ExtfDatei,
    refused: list[Zeilenfehler],
    progress: Progress,
    before: PartialRows,
) -> int:
    poster = Poster(tx, client, batch)
    last_day = batch.jahr.ende
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    for number, satz in enumerate(datei.buchungssaetze()):
        if number % REPORT_EVERY == 0:
            progress(datei.bytes_read, datei.total_bytes)
        if isinstance(satz, Zeilenfehler):
            refused.append(satz)
            continue
        (zeile, umsatz, soll, waehrung, kurs, basis_umsatz, konto, gegenkonto, bu_schluessel, belegdatum, belegfeld1, belegfeld2,
         skonto, buchungstext, kost1, kost2, generalumkehr, weitere) = satz  # fmt: skip
        booking = Satz(umsatz, soll, konto + zeros, gegenkonto + zeros, belegdatum, bu_schluessel, belegfeld1, buchungstext, waehrung,
                       kurs, basis_umsatz, belegfeld2, skonto, kost1, kost2, generalumkehr, weitere)  # fmt: skip
        if belegdatum > last_day:
            refused.append(
                Zeilenfehler(zeile, "Belegdatum", f"{belegdatum} lies after the fiscal year, which ends on {last_day}.")
            )
            continue
        if before.has(booking):
            continue
        try:
            poster.add(booking)
            before.take(booking)
        except KontierungError as error:
            refused.append(Zeilenfehler(zeile, error.field, f"{error.field} {error.reason}."))
    progress(datei.total_bytes, datei.total_bytes)
    return poster.finish()


def _take_labels(tx: Tx, client: Client, datei: ExtfDatei, refused: list[Zeilenfehler]) -> int:
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    labels = []
    for zeile in datei.kontenbeschriftungen():
        if isinstance(zeile, Zeilenfehler):
            refused.append(zeile)
        else:
            labels.append((zeile.konto + zeros, zeile.beschriftung))
    store.label_accounts(tx, client, labels)
    return len(labels)


def _take_persons(tx: Tx, client: Client, datei: ExtfDatei, refused: list[Zeilenfehler]) -> int:
    zeros = "0" * (SACHKONTO_DIGITS - client.konto_laenge)
    taken = 0
    for person in datei.personenkonten():
        if isinstance(person, Zeilenfehler):
            refused.append(person)
        elif len(person.konto) != client.konto_laenge + 1:
            # The format allows labels of ledger accounts here.
            store.label_accounts(tx, client, [(person.konto + zeros, extf.bezeichnung(person))])
            taken += 1
        else:
            row = encode_text(person)
            persons.store(tx, client, person.konto + zeros, _as_record(client, datei, person), extf=row)
            taken += 1
    return taken


def _as_record(client: Client, datei: ExtfDatei, person: extf.Personenkonto) -> Personenkonto:
    """The file's row as the API knows a person account."""
    kinds = {"1": "CONTACT_PERSON", "2": "COMPANY"}
    name = person.name or person.name_ohne_angabe
    phones = [Telefon(nummer=person.telefon)] if person.telefon else []
    phones += [Telefon(nummer=person.fax, typ="FAX")] if person.fax else []
    return Personenkonto(
        personenkontoNummer=person.konto,
        kontaktTyp=kinds.get(person.adressattyp, "COMPANY" if person.firmenname else "UNDEFINED"),  # type: ignore[arg-type]
        kontenrahmen=client.kontenrahmen,  # type: ignore[arg-type]
        kontonummernLaenge=client.konto_laenge,
        geschaeftsjahrStartDatum=datei.kopf.wj_beginn,
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


def _take_terms(tx: Tx, client: Client, datei: ExtfDatei, refused: list[Zeilenfehler]) -> int:
    taken = 0
    for bedingung in datei.zahlungsbedingungen():
        if isinstance(bedingung, Zeilenfehler):
            refused.append(bedingung)
        else:
            reading.save_zahlungsbedingung(tx, client, zahlungsbedingung(bedingung))
            taken += 1
    return taken


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


_RECORDS: dict[int, Callable[[Tx, Client, ExtfDatei, list[Zeilenfehler]], int]] = {
    extf.PERSONENKONTEN.nummer: _take_persons,
    extf.KONTENBESCHRIFTUNGEN.nummer: _take_labels,
    extf.ZAHLUNGSBEDINGUNGEN.nummer: _take_terms,
}
