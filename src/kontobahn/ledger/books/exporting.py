"""Exports the books as EXTF files that can be imported again unchanged: bookings of a fiscal year, and person accounts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path
from typing import Any

import msgspec

from kontobahn.clock import berlin_datetime
from kontobahn.db import Database, Tx
from kontobahn.errors import SetupError
from kontobahn.formats import extf
from kontobahn.formats.extf import Buchungssatz, Header
from kontobahn.ledger.books import persons
from kontobahn.ledger.books.posting import CLOSING_PERIOD
from kontobahn.ledger.books.store import Client, FiscalYear
from kontobahn.ledger.konto import functional

# The format's own limit for a batch.
MAX_ROWS_PER_FILE = 99_999
PAGE = 20_000
# The fields of a Buchungssatz are columns of the table, but for the first: the line of a file.
_FIELDS = Buchungssatz._fields[1:]
_KONTO, _GEGENKONTO = _FIELDS.index("konto"), _FIELDS.index("gegenkonto")
_SOLL, _GENERALUMKEHR = _FIELDS.index("soll"), _FIELDS.index("generalumkehr")


def export_bookings(db: Database, client: Client, jahr: FiscalYear, folder: Path, now: int) -> list[Path]:
    """Writes the bookings of a fiscal year in files of at most 99,999 rows, closing entries in files of their own."""
    written = []
    for is_closing in (False, True):
        after = 0
        number = 0
        while (count := db.read_now(_count_after, client, jahr, after, is_closing=is_closing)) > 0:
            number += 1
            header = _header(client, jahr, extf.BUCHUNGSSTAPEL, now, buchungstyp=2 if is_closing else 1)
            is_one_of_many = count > MAX_ROWS_PER_FILE or number > 1
            path = _new_file(folder, header, number if is_one_of_many else 0, is_closing=is_closing)
            pages = _Pages(db, client, jahr, after, is_closing=is_closing)
            extf.write_buchungsstapel(path, header, pages)
            after = pages.last
            written.append(path)
    return written


class _Pages:
    """Bookings in the order of their ids, read in pages; as bookings never change, the pages fit together."""

    def __init__(self, db: Database, client: Client, jahr: FiscalYear, after: int, *, is_closing: bool) -> None:
        self._db, self._client, self._jahr, self._is_closing = db, client, jahr, is_closing
        self.last = after

    def __iter__(self) -> Iterator[Buchungssatz]:
        left = MAX_ROWS_PER_FILE
        while left:
            rows = self._db.read_now(
                _page, self._client, self._jahr, self.last, min(PAGE, left), is_closing=self._is_closing
            )
            if not rows:
                return
            for row in rows:
                yield _as_buchungssatz(row, self._client.konto_laenge)
            left -= len(rows)
            self.last = rows[-1][0]


def _periods(*, is_closing: bool) -> str:
    return f"periode {'=' if is_closing else '<>'} {CLOSING_PERIOD}"


def _count_after(tx: Tx, client: Client, jahr: FiscalYear, after: int, *, is_closing: bool) -> int:
    row = tx.one(
        f"SELECT COUNT(*) FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ? AND {_periods(is_closing=is_closing)}",
        client.mandant, jahr.start, after,
    )  # fmt: skip
    return int(row[0]) if row else 0


def _page(
    tx: Tx, client: Client, jahr: FiscalYear, after: int, limit: int, *, is_closing: bool
) -> list[tuple[Any, ...]]:
    return tx.all(
        f"SELECT id, {', '.join(_FIELDS)} FROM books_bookings WHERE mandant = ? AND jahr = ? AND id > ?"
        f" AND {_periods(is_closing=is_closing)} ORDER BY id LIMIT ?",
        client.mandant, jahr.start, after, limit,
    )  # fmt: skip


def _as_buchungssatz(row: tuple[Any, ...], laenge: int) -> Buchungssatz:
    _, *values = row
    values[_KONTO] = functional(values[_KONTO], laenge)
    values[_GEGENKONTO] = functional(values[_GEGENKONTO], laenge)
    values[_SOLL] = bool(values[_SOLL])
    values[_GENERALUMKEHR] = bool(values[_GENERALUMKEHR])
    return Buchungssatz(0, *values)


def export_persons(db: Database, client: Client, jahr: FiscalYear, folder: Path, now: int) -> list[Path]:
    rows = db.read_now(persons.listing, client)
    if not rows:
        return []
    header = _header(client, jahr, extf.PERSONENKONTEN, now)
    path = _new_file(folder, header)
    extf.write_personenkonten(path, header, (_as_person(record, row) for _, record, row in rows))
    return [path]


def _as_person(record: dict[str, Any], row: str) -> extf.Personenkonto:
    if row:
        return msgspec.json.decode(row, type=extf.Personenkonto)
    contact = (record.get("kontaktpersonen") or [{}])[0]
    phones = record.get("telefonnummern") or []
    emails = record.get("emailAdressen") or []
    is_company = bool(record.get("firmenname"))
    kinds = {"COMPANY": "2", "CONTACT_PERSON": "1", "UNDEFINED": "0"}
    return extf.Personenkonto(
        line=0,
        konto=record["personenkontoNummer"],
        name="" if is_company else contact.get("nachname") or "",
        vorname="" if is_company else contact.get("vorname") or "",
        firmenname=record.get("firmenname") or "",
        name_ohne_angabe="",
        adressattyp=kinds[record["kontaktTyp"]],
        anrede=contact.get("anrede") or "",
        ust_id=record.get("ustId") or "",
        adressen=_addresses(record.get("adressen") or []),
        telefon=next((phone["nummer"] for phone in phones if phone["typ"] != "FAX"), ""),
        email=emails[0]["email"] if emails else "",
        fax=next((phone["nummer"] for phone in phones if phone["typ"] == "FAX"), ""),
        bankverbindungen=tuple(
            extf.Bankverbindung(
                number, bank["iban"], bank.get("bic") or "", (bank.get("name") or "")[:30], bank["istHauptkonto"]
            )
            for number, bank in enumerate((record.get("bankkonten") or [])[:5], 1)
        ),
        zahlungsbedingung=0,
        kurzbezeichnung="",
        weitere="",
    )


def _addresses(addresses: list[dict[str, Any]]) -> tuple[extf.Adresse, ...]:
    """The format has room for one address for letters and one for invoices."""
    result = []
    for is_invoice in (False, True):
        for item in addresses:
            if (item["typ"] == "BILLING") == is_invoice:
                result.append(
                    extf.Adresse(
                        item["adresszeile"], "", item["postleitzahl"], item["ort"], item["laendercode"],
                        item.get("adresszeile2") or "", is_invoice,
                    )
                )  # fmt: skip
                break
    return tuple(result)


def _header(client: Client, jahr: FiscalYear, category: extf.Category, now: int, *, buchungstyp: int = 1) -> Header:
    berater, mandant = client.client_id.split("-")
    created: datetime = berlin_datetime(now).replace(tzinfo=None)
    return extf.make_header(
        category, erzeugt_am=created, berater=int(berater), mandant=int(mandant), wj_beginn=date.fromisoformat(jahr.start),
        sachkontenlaenge=client.konto_laenge, datum_von=date.fromisoformat(jahr.start), datum_bis=date.fromisoformat(jahr.end),
        bezeichnung="Kontobahn", buchungstyp=buchungstyp, skr=client.kontenrahmen.removeprefix("SKR"),
    )  # fmt: skip


def _new_file(folder: Path, header: Header, number: int = 0, *, is_closing: bool = False) -> Path:
    suffix = ("_Abschluss" if is_closing else "") + (f"_{number}" if number else "")
    path = folder / extf.file_name(header, suffix)
    if path.exists():
        raise SetupError(f"{path} exists already; an export never overwrites a file.")
    return path
